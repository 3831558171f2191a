"""Data of the demonstrations: a synthetic problem, and UCI Adult from a folder of the user's."""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _optional

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

_VARIABLE = "SYMDEBIAS_DATA"
_ADULT_FILES = ("adult.data", "adult.test")
_ADULT_COLUMNS = {"age": 0, "education-num": 4, "hours-per-week": 12, "sex": 9}
_ADULT_FIELDS = 15


@dataclass(frozen=True)
class Dataset:
    """Records with their column names.

    Attributes
    ----------
    X : array of shape (n, p), float64
        The features.
    y : array of shape (n,), float64
        The target, -1 or +1.
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

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Section 6.
    """
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
    where = folder if folder is not None else os.environ.get(_VARIABLE)
    advice = (
        'Get "Adult" from the UCI Machine Learning Repository (https://archive.ics.uci.edu/dataset/2/adult), '
        f"put adult.data and adult.test into a folder, and set {_VARIABLE} to it."
    )
    if where is None:
        raise FileNotFoundError(f"{_VARIABLE} is not set. {advice}")
    rows: list[list[float]] = []
    labels: list[float] = []
    for name in _ADULT_FILES:
        path = Path(where) / name
        zipped = path.with_name(name + ".gz")
        if path.is_file():
            text = path.read_text()
        elif zipped.is_file():
            text = gzip.decompress(zipped.read_bytes()).decode()
        else:
            raise FileNotFoundError(f"there is neither {path} nor {zipped}. {advice}")
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip() and not line.startswith("|"):
                row, label = _adult_record(line, f"{path.name}, line {number}")
                rows.append(row)
                labels.append(label)
    return Dataset(np.array(rows), np.array(labels), tuple(_ADULT_COLUMNS))


def _adult_record(line: str, where: str) -> tuple[list[float], float]:
    fields = [field.strip() for field in line.split(",")]
    income = fields[-1].rstrip(".")
    if len(fields) != _ADULT_FIELDS or income not in ("<=50K", ">50K"):
        raise ValueError(f"{where} is not a record of UCI Adult: it needs {_ADULT_FIELDS} fields, income last.")
    row = []
    for name, position in _ADULT_COLUMNS.items():
        value = fields[position]
        row.append({"Male": 1.0, "Female": -1.0}[value] if name == "sex" else float(value))
    return row, 1.0 if income == ">50K" else -1.0
