"""Data of the demonstrations: a synthetic problem, and UCI Adult and Census-Income from a folder of the user's."""

import contextlib
import gzip
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from symdebias import _optional
from symdebias._arrays import FloatArray
from symdebias._domains import Integer

_VARIABLE = "SYMDEBIAS_DATA"
_ADULT_FILES = ("adult.data", "adult.test")
_ADULT_COLUMNS = {"age": 0, "education-num": 4, "hours-per-week": 12, "sex": 9}
_ADULT_FIELDS = 15
_MARITAL = 5
_MARRIED = ("Married-civ-spouse", "Married-AF-spouse")

_CENSUS_FILE = "census-income.test"
_CENSUS_FIELDS = 42
_AGE, _EDUCATION, _WAGE, _SEX, _GAINS, _LOSSES, _DIVIDENDS, _EMPLOYER, _WEEKS, _YEAR, _INCOME = (
    0, 4, 5, 12, 16, 17, 18, 30, 39, 40, 41,
)  # fmt: skip
_INCOMES = {"- 50000.": -1.0, "50000+.": 1.0}
_SEXES = {"Male": 1.0, "Female": -1.0}
# The levels of the survey's own list, in their order.
_EDUCATIONS = (
    "Children",
    "Less than 1st grade",
    "1st 2nd 3rd or 4th grade",
    "5th or 6th grade",
    "7th and 8th grade",
    "9th grade",
    "10th grade",
    "11th grade",
    "12th grade no diploma",
    "High school graduate",
    "Some college but no degree",
    "Associates degree-occup /vocational",
    "Associates degree-academic program",
    "Bachelors degree(BA AB BS)",
    "Masters degree(MA MS MEng MEd MSW MBA)",
    "Prof school degree (MD DDS DVM LLB JD)",
    "Doctorate degree(PhD EdD)",
)
# Amounts of money end here in the survey; it is coded as 1.
_MOST_MONEY = 99_999.0
# The slope of work against age changes with the ends of education and of working life.
_AGE_KNOTS = (0.2, 0.25, 0.6, 0.65)
# Categories with a 0/1 column each, by the position of their field; one of every field is left out.
_CENSUS_CATEGORIES: dict[int, tuple[str, ...]] = {
    1: (
        "Private",
        "Self-employed-not incorporated",
        "Self-employed-incorporated",
        "Local government",
        "State government",
        "Federal government",
        "Without pay",
        "Never worked",
    ),
    6: ("High school", "College or university"),
    7: (
        "Married-civilian spouse present",
        "Married-A F spouse present",
        "Married-spouse absent",
        "Divorced",
        "Separated",
        "Widowed",
    ),
    15: (
        "Full-time schedules",
        "PT for econ reasons usually FT",
        "PT for econ reasons usually PT",
        "PT for non-econ reasons usually FT",
        "Unemployed full-time",
        "Unemployed part- time",
        "Not in labor force",
    ),
}


@dataclass(frozen=True)
class Dataset:
    """Records with their column names.

    Attributes
    ----------
    X : array of shape (n, p), float64
        The features.
    y : array of shape (n,), float64
        The target: -1 or +1, or weeks.
    columns : tuple of str
        The names of the columns of X.
    """

    X: FloatArray
    y: FloatArray
    columns: tuple[str, ...]


def synthetic(columns: int, records: int = 1_000_000, *, random_state: int = 0) -> Dataset:
    """Return scikit-learn's ``make_classification`` problem, scaled to [-1, 1]^p.

    Parameters
    ----------
    columns : int
        The number p of columns, all informative; at least 2.
    records : int
        The number n of records.
    random_state : int
        Seed of the problem.

    Returns
    -------
    Dataset
        The records, in random order.

    Raises
    ------
    MissingDependencyError
        scikit-learn is not installed.
    TypeError, ValueError
        A number is no integer, or too small.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Section 6.
    """
    columns, records = Integer(2).check("columns", columns), Integer(2).check("records", records)
    datasets = _optional.require("sklearn.datasets", extra="sklearn")
    X, labels = datasets.make_classification(
        n_samples=records, n_features=columns, n_informative=columns, n_redundant=0, random_state=random_state
    )
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = 2 * (X - low) / (high - low) - 1
    return Dataset(scaled, 2.0 * labels - 1, tuple(f"x{index}" for index in range(columns)))


def adult(folder: str | Path | None = None) -> Dataset:
    """Read UCI Adult: age, education-num, hours-per-week and sex; income above 50,000 as +1.

    Parameters
    ----------
    folder : str or Path, optional
        Where ``adult.data`` and ``adult.test`` are, as such or with ``.gz``; by default the folder that the
        environment variable ``SYMDEBIAS_DATA`` names.

    Returns
    -------
    Dataset
        The 48,842 records of both files in the order of the files; sex is -1 (female) or +1 (male), the other
        columns are in their own units.

    Raises
    ------
    FileNotFoundError
        The files are not there; the message says where to get them.
    ValueError
        A line is not of the files' form.
    """
    train, test = adult_parts(folder)
    X, y = np.concatenate([train.X, test.X]), np.concatenate([train.y, test.y])
    return Dataset(X[:, : len(_ADULT_COLUMNS)], y, tuple(_ADULT_COLUMNS))


def adult_parts(folder: str | Path | None = None) -> tuple[Dataset, Dataset]:
    """Read UCI Adult as its two files: the columns of `adult`, and whether a spouse is there.

    Parameters
    ----------
    folder : str or Path, optional
        As for `adult`.

    Returns
    -------
    train, test : Dataset
        The 32,561 records of ``adult.data`` and the 16,281 of ``adult.test``; the column ``"married"`` is +1 for the
        words Married-civ-spouse and Married-AF-spouse, and -1 for all other ones.

    Raises
    ------
    FileNotFoundError, ValueError
        As for `adult`.
    """
    parts: dict[str, list[tuple[list[float], float]]] = {name: [] for name in _ADULT_FILES}
    for line, where in _lines(folder, _ADULT_FILES, "Adult", "2/adult"):
        parts[where.split(",")[0]].append(_adult_record(line, where))
    columns = (*_ADULT_COLUMNS, "married")
    train, test = (
        Dataset(
            np.array([row for row, _ in records]).reshape(len(records), len(columns)),
            np.array([label for _, label in records]),
            columns,
        )
        for records in parts.values()
    )
    return train, test


def census(folder: str | Path | None = None) -> Dataset:
    """Read the test part of UCI Census-Income (KDD): weeks worked in a year, of those who worked, and 38 features.

    Parameters
    ----------
    folder : str or Path, optional
        Where ``census-income.test`` is, as such or with ``.gz``; by default the folder that the environment variable
        ``SYMDEBIAS_DATA`` names.

    Returns
    -------
    Dataset
        The 51,873 records with at least one week, in the order of the file; y is the number of weeks, 1 to 52.

    Raises
    ------
    FileNotFoundError
        The file is not there; the message says where to get it.
    ValueError
        A line is not of the file's form.

    Notes
    -----
    The coding is fixed and public, and all features lie in [-1, 1]: age a as a, a^2 and max(0, a - k) for k = .2, .25,
    .6, .65, in centuries; education as its place in the survey's list of 17 levels, over 16; wage per hour, capital
    gains, capital losses and dividends as log(1 + amount)/log(100,000), the survey's amounts ending at 99,999; the size
    of the employer as its code over 6; the year as 1 for 1995; sex and income class as -1 or +1; and a column of 0 and
    1 for each class of worker, enrolment, marital status and kind of employment but one.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Section 5, on the label; the coding is ours.
    """
    lines = _lines(folder, (_CENSUS_FILE,), "Census-Income (KDD)", "117/census+income+kdd")
    worked = [fields for fields in (_census_fields(*line) for line in lines) if float(fields[_WEEKS]) > 0]
    rows, weeks = [_census_row(fields) for fields in worked], [float(fields[_WEEKS]) for fields in worked]
    columns = (
        "age", "age^2", *(f"age>{knot:g}" for knot in _AGE_KNOTS), "education", "wage", "gains", "losses", "dividends",
        "employer", "year", "sex", "income", *(name for names in _CENSUS_CATEGORIES.values() for name in names),
    )  # fmt: skip
    return Dataset(np.array(rows).reshape(len(rows), len(columns)), np.array(weeks), columns)


def _lines(folder: str | Path | None, names: Sequence[str], title: str, address: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of files of records, each with its place, which a message may name."""
    where = folder if folder is not None else os.environ.get(_VARIABLE)
    advice = (
        f'Get "{title}" from the UCI Machine Learning Repository (https://archive.ics.uci.edu/dataset/{address}), put '
        f"{' and '.join(names)} into a folder, and set {_VARIABLE} to it."
    )
    if where is None:
        raise FileNotFoundError(f"{_VARIABLE} is not set. {advice}")
    for path in (Path(where) / name for name in names):
        zipped = path.with_name(path.name + ".gz")
        if path.is_file():
            text = path.read_text()
        elif zipped.is_file():
            text = gzip.decompress(zipped.read_bytes()).decode()
        else:
            raise FileNotFoundError(f"there is neither {path} nor {zipped}. {advice}")
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip() and not line.startswith("|"):
                yield line, f"{path.name}, line {number}"


def _census_fields(line: str, where: str) -> list[str]:
    """Return the fields of a line, after refusing what no coding is known of."""
    fields = [field.strip() for field in line.split(",")]
    known = len(fields) == _CENSUS_FIELDS and fields[_INCOME] in _INCOMES
    if not (known and fields[_SEX] in _SEXES and fields[_EDUCATION] in _EDUCATIONS and fields[_YEAR] in ("94", "95")):
        raise ValueError(
            f"{where} is not a record of UCI Census-Income (KDD): it needs {_CENSUS_FIELDS} fields, with the survey's "
            "words for education, sex, year and income. Take the file as it was published."
        )
    for place in (_AGE, _WAGE, _GAINS, _LOSSES, _DIVIDENDS, _EMPLOYER, _WEEKS):
        _number(fields[place], where)
    return fields


def _census_row(fields: list[str]) -> list[float]:
    age = float(fields[_AGE]) / 100
    money = [
        math.log1p(min(float(fields[place]), _MOST_MONEY)) / math.log1p(_MOST_MONEY)
        for place in (_WAGE, _GAINS, _LOSSES, _DIVIDENDS)
    ]
    return [
        age,
        age**2,
        *(max(0.0, age - knot) for knot in _AGE_KNOTS),
        _EDUCATIONS.index(fields[_EDUCATION]) / (len(_EDUCATIONS) - 1),
        *money,
        float(fields[_EMPLOYER]) / 6,
        float(fields[_YEAR]) - 94,
        _SEXES[fields[_SEX]],
        _INCOMES[fields[_INCOME]],
        *(float(fields[place] == name) for place, names in _CENSUS_CATEGORIES.items() for name in names),
    ]


def _number(text: str, where: str) -> float:
    """Return a number, or refuse without what stands there: the text of an error of `float` would show it."""
    number = math.nan
    with contextlib.suppress(ValueError):
        number = float(text)
    if not 0 <= number < math.inf:
        raise ValueError(f"{where} has something else where a number of zero or more is due. Correct the file.")
    return number


def _adult_record(line: str, where: str) -> tuple[list[float], float]:
    fields = [field.strip() for field in line.split(",")]
    income = fields[-1].rstrip(".")
    if len(fields) != _ADULT_FIELDS or income not in ("<=50K", ">50K"):
        raise ValueError(
            f"{where} is not a record of UCI Adult: it needs {_ADULT_FIELDS} fields, income last. "
            "Take the file as it was published."
        )
    row = []
    for name, position in _ADULT_COLUMNS.items():
        value = fields[position]
        if name == "sex" and value not in _SEXES:
            raise ValueError(f"{where} is not a record of UCI Adult: sex is Male or Female. Correct the file.")
        row.append(_SEXES[value] if name == "sex" else _number(value, where))
    row.append(1.0 if fields[_MARITAL] in _MARRIED else -1.0)
    return row, 1.0 if income == ">50K" else -1.0
