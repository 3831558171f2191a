"""Formulas such as ``y ~ age + C(region)`` for released tables, by the library formulaic (extra ``formulas``).

A column with noise stands in a formula by itself, as it was released: the correction is one for a score that is linear
in it. Columns without noise may be transformed, expanded and multiplied with one another as formulaic knows how to.
"""

import ast
import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from symdebias import _arrays, _optional
from symdebias._arrays import FloatArray
from symdebias._columns import Table
from symdebias._domains import check_choice, shown
from symdebias._rows import Rows
from symdebias.driver import debias
from symdebias.interfaces.coding import in_labels, labels_of, loss_by_name
from symdebias.losses import Loss
from symdebias.losses.offsets import has_rate
from symdebias.mechanisms import Mechanism
from symdebias.mechanisms.base import ChannelMechanism
from symdebias.release import Noised, Release
from symdebias.release.categories import spelled
from symdebias.release.choosing import with_target
from symdebias.release.columns import as_json
from symdebias.release.gathering import gathered_columns, gathered_release
from symdebias.release.groups import labels_of as labels_of_groups
from symdebias.release.groups import labels_of_target
from symdebias.release.required import require_release, required_columns
from symdebias.solvers import Fit, m_estimate, sgd
from symdebias.solvers.offsets import as_offset

_SOLVERS: Mapping[str, Any] = {"m_estimate": m_estimate, "sgd": sgd}
# What a formula may call, of what formulaic offers.
_CALLS = frozenset("C I log log2 log10 exp exp2 exp10 center scale poly bs cr cc cs".split())
_LEARNED = frozenset("C center scale poly bs cr cc cs".split())
_LONGEST = 10_000
_BY_BLOCKS = (
    "these records are read by blocks, and a formula takes a table in memory. Load them without in_memory=False, or "
    "read them as a data frame; symdebias.m_estimate takes blocks, of the columns as they are."
)
_COLOURS = re.compile("\x1b\\[[0-9;]*m|[⧛⧚]")
# A point that is no part of a number or a name, and a power of a name, which formulaic takes for the name.
_ALL_COLUMNS = re.compile(r"(?<![\w.])\.(?![\w.])")
_POWER_OF_A_NAME = re.compile(r"(?P<name>[^\W\d]\w*)\s*(?:\^|\*\*)\s*(?P<power>\d+)")
# An offset that is taken out of the terms, in which it is not: formulaic does nothing then.
_LESS_OFFSET = re.compile(r"-\s*offset\(")
_TIMES_NOTHING = re.compile(r"(?<![\w.])0(\.0*)?\s*[*:/](?!\*)|(?<!\*)[*:/]\s*0(\.0*)?(?![\w.])")
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow,
    ast.UAdd, ast.USub, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.Load, ast.List, ast.Tuple, ast.Attribute,
)  # fmt: skip


class Formula:
    """A formula over the columns of a release: what is fitted, as a release of its own with its records.

    Parameters
    ----------
    formula : str
        ``target ~ terms``, in the language of the library formulaic (Wilkinson's). It has an intercept unless it says
        ``- 1``.
    data : table or Noised
        The released columns and the target, by name, with one row per record; or what `Release.privatize` returned,
        whose target has the name of the column that was given, or ``target``.
    release : Release, optional
        How they were noised, with names for the columns; that of a `Noised` by default. Columns that the formula leaves
        out are left out; of those that one mechanism noises together all are named, or none. The target may be a column
        with noise of its own: one of several outcomes, of which others may stand on the right; see
        `Noised.with_target`. A column of declared categories without noise stands in the formula by its own name, also
        where records have its indicators.

    Attributes
    ----------
    text : str
        The formula.
    release : Release
        That of the columns of the formula; those without noise by formulaic's names, such as ``C(region)[T.south]``.
    X : table of shape (n, p)
        The records' columns, of pandas.
    y : column of shape (n,)
        The target.
    offset : array of shape (n,), float64, or None
        The sum of the terms ``offset(...)``, known terms of the score that have no parameter.

    Raises
    ------
    ValueError, TypeError
        The formula is none, names no column of the release, or transforms or multiplies one that has noise; or the data
        do not fit.
    MissingDependencyError
        formulaic is not installed.

    Examples
    --------
    >>> import numpy as np, pandas as pd, symdebias as sd
    >>> table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "region": ["n", "s", "n"], "pay": [1.0, 2.0, 4.0]})
    >>> release = sd.Release({"age": sd.GaussianMechanism.from_scale(0.1)}, noiseless=("region",))
    >>> sd.Formula("log(pay) ~ age + C(region)", table, release).release.columns
    ('age', 'C(region)[T.s]')
    """

    def __init__(self, formula: str, data: Any, release: Release | None = None) -> None:
        self._formulaic = _optional.require("formulaic", extra="formulas")
        if not isinstance(formula, str) or len(formula) > _LONGEST:
            got = f"{len(formula):,}" if isinstance(formula, str) else type(formula).__name__
            raise TypeError(
                f"a formula is text of at most {_LONGEST:,} characters; got {got}. Write it as "
                '"y ~ age + C(region)", before the table and the release.'
            )
        if release is None:
            if not isinstance(data, Noised):
                raise TypeError(
                    "release was not given, and a table alone does not say how its columns were noised. Pass "
                    "release=noised.release, or the Noised itself in place of the table."
                )
            release = data.release
        require_release(release)
        self.text, self._declared, release = formula, release, gathered_release(release)
        self._given = release
        self._noised = _noised_columns(release)
        target, terms = self._parsed()
        outcome = str(target)
        if outcome in (release.columns or ()):
            # One of several outcomes that were released as columns.
            self._given = with_target(release, outcome)
            self._noised.pop(outcome, None)
        table = self._table(data)
        # Of the first records, as whose categories those of others are read.
        self._whole = _whole_types(table)
        self._known = [term for term in terms if _is_offset(term)]
        terms = [term for term in terms if term not in self._known]
        self.offset = self.offsets(table)
        names = [self._checked(term) for term in terms]
        self._plain = [name for name in names if name is not None]
        rest = [term for term, name in zip(terms, names, strict=True) if name is None]
        intercept = any(str(term) == "1" for term in terms)
        for term in terms:
            self._require_columns(table, {name for factor in term.factors for name in _variables(factor)}, term)
        made = self._made(rest, table)
        self._spec, self._needed = made.model_spec, _named(rest)
        expanded = [name for name in made.columns if name != "Intercept"]
        if not (expanded or self._plain):
            raise ValueError(f"{self.text!r:.200} names no column. Name one on the right.")
        self._require_unmoved(rest, expanded)
        for term in rest:
            if len(term.factors) > 1 and any(factor.eval_method.value == "literal" for factor in term.factors):
                raise ValueError(
                    f"{term} is a column times a number under the name of the column, whose coefficient it has not. "
                    f"Write the column as it is, or the product as I({str(term).replace(':', ' * ')})."
                )
        self.release = self._release_of(expanded, intercept)
        self.X = self._joined(table, made)
        self.y = self._target_of(target, table)

    def columns(self, data: Any) -> Any:
        """Return the columns of the formula for other records, as `Fit.predict` takes them.

        Parameters
        ----------
        data : table
            The columns that the formula names; the target is not needed.

        Returns
        -------
        table of shape (m, p)
            Of pandas. Knots, means and categories are those of the first records.

        Raises
        ------
        ValueError, TypeError
            A column is missing, or has a category that the first records do not have.
        """
        table = self._table(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                made = self._computed(self._spec, table[self._needed])
            except Exception as error:
                # What formulaic says may show values of records.
                raise ValueError(
                    f"these records do not fit the formula {self.text!r:.200} ({type(error).__name__}): a column or a "
                    "value is missing, or a category that the first records do not have. Pass such columns as they had."
                ) from None
        return self._joined(table, made)

    def offsets(self, data: Any) -> FloatArray | None:
        """Return the offset of other records, as `Fit.predict` takes it.

        Parameters
        ----------
        data : table
            The columns that the terms ``offset(...)`` name.

        Returns
        -------
        array of shape (m,), float64, or None
            None for a formula without an offset.

        Raises
        ------
        ValueError, TypeError
            A column is missing, or the offset is not finite.
        """
        table, total = self._table(data), None
        for term in self._known:
            (factor,) = term.factors
            named = _variables(factor, more=frozenset({"offset"}))
            unknown = sorted(named - set(self._given.noiseless))
            if unknown or not named:
                raise ValueError(
                    f"{term} names {', '.join(unknown) or 'no column'}, and an offset is a known function of columns "
                    f"without noise; these are {', '.join(self._given.noiseless) or 'none'}. List its columns in "
                    "noiseless."
                )
            moved = sorted(named & _moved_by(self._given))
            if moved:
                raise ValueError(
                    f"{term} names {', '.join(moved)}, which was centred or scaled by the release. Leave it out of "
                    "center= and scale=, or pass the offset itself as offset=."
                )
            learned = sorted(_calls(factor) & _LEARNED)
            if learned:
                raise ValueError(
                    f"{term} calls {', '.join(learned)}, which learns from all records. An offset is known of each by "
                    "itself: compute the column before."
                )
            self._require_columns(table, named, term)
            inside = ast.unparse(ast.parse(factor.expr, mode="eval").body.args[0])
            found = self._made(list(self._formulaic.Formula(f"I({inside}) - 1")), table)
            if found.shape[1] != 1:
                raise ValueError(f"{term} makes {found.shape[1]} columns. An offset is one number for each record.")
            own = as_offset(found.iloc[:, 0].to_numpy(dtype=float), len(table))
            total = own if total is None else total + own
        return total

    def _table(self, data: Any) -> Any:
        """Return data as a table of pandas, with columns of public categories in the place of their indicators."""
        table = _table(data)
        made = {}
        for name, texts in gathered_columns(self._declared, table).items():
            known = map(spelled, dict(self._declared.categories.labels)[name].values)
            pandas = _optional.require("pandas", extra="formulas")
            # In the order that they were declared in, the first of which stands in the intercept.
            made[name] = pandas.Categorical(texts, categories=list(known))
        return table.assign(**made) if made else table

    # ---- reading -----------------------------------------------------------------------------------------

    def _parsed(self) -> tuple[Any, list[Any]]:
        """Return the term of the target and those of the score."""
        outside = _outside_calls(self.text)
        if _ALL_COLUMNS.search(outside):
            raise ValueError(
                f"{self.text!r:.200} is no formula: a point does not stand for all columns here, of which some may be "
                f"outcomes. Name those of the score: {' + '.join(self._given.columns or ()):.300}."
            )
        if _LESS_OFFSET.search(outside):
            raise ValueError(
                f"{self.text!r:.200} takes an offset out of the score, in which it is not. Write offset(-name) for one "
                "that is subtracted."
            )
        if _TIMES_NOTHING.search(outside):
            raise ValueError(
                f"{self.text!r:.200} is no formula: a number does not multiply a column here. Leave out columns that "
                "have no part."
            )
        power = _POWER_OF_A_NAME.search(outside)
        if power:
            name = power["name"]
            raise ValueError(
                f"{power[0]} is {name} itself in a formula, where a power is one of sums: (a + b)**2. Write "
                f"I({name}**{power['power']}) for a power of a column without noise, and {name} for the column."
            )
        try:
            parsed = self._formulaic.Formula(self.text)
        except Exception as error:
            raise ValueError(
                f"{self.text!r:.200} is no formula: {_said(error)} Write it as 'y ~ age + C(region)'.{self._quoted()}"
            ) from None
        sides: list[Any] = [getattr(parsed, side, None) for side in ("lhs", "rhs")]
        if any(not isinstance(side, self._formulaic.formula.SimpleFormula) for side in sides) or len(sides[0]) != 1:
            raise ValueError(
                f"{self.text!r:.200} does not have one target and one score. Write it as 'y ~ age + C(region)'."
            )
        return next(iter(sides[0])), list(sides[1])

    def _quoted(self) -> str:
        """Return how to write a column of the text whose name a formula would take apart; empty where there is none."""
        bare = re.sub(r"`[^`]*`", "", self.text)
        odd = (name for name in self._given.columns or () if not name.isidentifier() and name in bare)
        return next((f" A name with spaces or signs stands between backquotes: `{name}`." for name in odd), "")

    def _checked(self, term: Any) -> str | None:
        """Return the name of a column with noise that stands by itself, or None for a term without noise."""
        known = set(self._given.columns or ())
        found: set[str] = set()
        for factor in term.factors:
            found |= _variables(factor)
        unknown = sorted(found - known)
        if unknown:
            raise ValueError(
                f"{term} names {', '.join(unknown)}, which the release does not have; its columns are "
                f"{', '.join(self._given.columns or ())}. List columns without noise in noiseless.{self._quoted()}"
            )
        noised = sorted(found & self._noised.keys())
        if not noised:
            return None
        (name, *_), whole = noised, str(term)
        is_category = isinstance(self._noised[name], ChannelMechanism)
        if len(term.factors) == 1 and (_is_name(term.factors[0], name) or (is_category and whole == f"C({name})")):
            return name
        if len(term.factors) > 1:
            why = (
                "a product with a column that has noise has noise of its own, which the release does not describe"
                if len(noised) == 1
                else "a product of two columns with noise has noise that depends on both"
            )
            remedy = "Fit groups of records apart, or declare the product in a loss with Loss.of_features"
        else:
            why = f"it transforms {name} after its noise, whose mean is then not that of the true column"
            remedy = (
                f"Use {name} as it is, release the transformed column, or declare it in a loss with Loss.of_features"
            )
        raise ValueError(f"{whole} is refused: {why}. {remedy}.")

    def _require_columns(self, table: Any, names: set[str], term: Any) -> None:
        for name in sorted(names):
            if name not in table.columns:
                raise ValueError(f"{term} needs the column {name}, which the data do not have. Pass released records.")

    def _require_unmoved(self, terms: list[Any], expanded: list[str]) -> None:
        """Refuse terms that make of a centred or scaled column anything but that column.

        A prediction centres and scales true columns after the formula has made them.
        """
        for term in terms:
            names = {name for factor in term.factors for name in _variables(factor)}
            if len(term.factors) == 1 and term.factors[0].expr in names & set(expanded):
                continue
            moved = sorted(names & _moved_by(self._given))
            if moved:
                raise ValueError(
                    f"{', '.join(moved)} was centred or scaled by the release, and {term} transforms it. Use it as it "
                    "is, or leave it out of center= and scale=."
                )

    def _made(self, terms: list[Any], table: Any) -> Any:
        """Return formulaic's matrix of terms without noise."""
        named = table[_named(terms)]
        try:
            with warnings.catch_warnings():
                # Of categories that are no levels, which would pass for the first one.
                warnings.simplefilter(
                    "error", _optional.require("formulaic.errors", extra="formulas").DataMismatchWarning
                )
                return self._computed(self._formulaic.Formula(terms), named)
        except Exception as error:
            text = " + ".join(map(str, terms))
            raise ValueError(
                f"{text!r:.200} cannot be computed ({type(error).__name__}): a value is missing, a category is not "
                "among the levels that are named, or a function does not take the values of its column. Remove or "
                "impute what is missing."
            ) from None

    def _computed(self, formula: Any, table: Any) -> Any:
        """Return the matrix of a formula of formulaic, or of what an earlier one has learned, of columns that it names.

        Whole numbers and truth values are real numbers in it: of their own types products go beyond the largest number
        in silence, and a sum of truth values is one. ``C`` takes them as what they are, for the names of categories.
        """
        whole, contrasts = self._whole, _optional.require("formulaic.transforms", extra="formulas").TRANSFORMS["C"]

        def C(data: Any, *args: Any, **options: Any) -> Any:
            own = whole.get(str(getattr(data, "name", "")))
            # What is missing is refused below.
            with np.errstate(invalid="ignore"):
                if own is not None and np.array_equal(data, np.asarray(data).astype(own)):
                    data = data.astype(own)
            return contrasts(data, *args, **options)

        return formula.get_model_matrix(_as_real(table), context={"C": C}, na_action="raise")

    def _target_of(self, term: Any, table: Any) -> Any:
        if len(term.factors) != 1:
            raise ValueError(f"{term} is no target. A target is one column, or a function of one without noise.")
        (factor,) = term.factors
        names = _variables(factor)
        inside = sorted(names & set(self._given.columns or ()))
        if inside:
            raise ValueError(
                f"{', '.join(inside)} is a feature of the release, and stands on the left. Name the target."
            )
        missing = sorted(names - set(table.columns))
        if missing or not names:
            raise ValueError(
                f"the data do not have the target {', '.join(missing) or str(term)}. Name a column of them."
            )
        if len(names) == 1 and _is_name(factor, next(iter(names))):
            return table[next(iter(names))]
        if self._given.target is not None:
            raise ValueError(
                f"{term} would transform the target, which has noise: the mean over it is not that of the true target. "
                "Use the target as it is, or release the transformed one."
            )
        made = self._made([term], table)
        if made.shape[1] != 1:
            raise ValueError(f"{term} makes {made.shape[1]} columns of the target. Name one column of numbers.")
        return made.iloc[:, 0]

    # ---- making ------------------------------------------------------------------------------------------

    def _release_of(self, expanded: list[str], intercept: bool) -> Release:
        """Return the release of the columns of the formula."""
        given = self._given
        features: dict[str | tuple[str, ...], Mechanism] = {}
        for named, mechanism in given.groups:
            names = named or ()
            left = [name for name in names if name not in self._plain]
            if left and len(left) < len(names):
                raise ValueError(
                    f"{', '.join(names)} are noised together, and the formula leaves {', '.join(left)} out. Name "
                    "all of them, or none."
                )
            if not left:
                features[names] = mechanism
        kept = {*self._plain, *expanded}
        return Release(
            features or None,
            given.target,
            noiseless=tuple(expanded),
            fit_intercept=intercept,
            center={name: value for name, value in as_pairs(given.center) if name in kept},
            scale={name: value for name, value in as_pairs(given.scale) if name in kept},
        )

    def _joined(self, table: Any, made: Any) -> Any:
        """Return the columns with noise beside those that formulaic has made, in the order of the release."""
        missing = [name for name in self._plain if name not in table.columns]
        if missing:
            raise ValueError(f"the data do not have the columns {', '.join(missing)}, which the formula names.")
        joined = {name: table[name] if name in self._plain else made[name] for name in self.release.columns or ()}
        return _optional.require("pandas", extra="formulas").DataFrame(joined)


def fit(
    formula: str,
    data: Any,
    release: Release | None = None,
    *,
    loss: str | Loss = "least_squares",
    method: str = "auto",
    solver: str = "m_estimate",
    exposure: Any = None,
    **options: Any,
) -> Fit:
    """Fit a formula to released records.

    Parameters
    ----------
    formula, data, release
        As for `Formula`.
    loss : str or Loss
        A name in `symdebias.losses`, or a loss of one or several scores.
    method : str
        As for `debias`.
    solver : {"m_estimate", "sgd"}
        The solver.
    exposure : str or array of shape (n,), optional
        How much each count was observed of, such as years or people: positive numbers, or the name of a column without
        noise. Its logarithm is an offset; for losses whose mean is exp(score).
    **options
        What the solver takes besides, such as ``l2``, ``clusters``, ``offset`` or ``noise_scale`` of shape (n,). An
        offset is added to that of terms ``offset(...)`` of the formula.

    Returns
    -------
    Fit
        Its parameters have the names of the formula. It predicts for ``Formula(...).columns(table)``.

    Raises
    ------
    ValueError, TypeError
        As for `Formula`, `debias` and the solver.

    Examples
    --------
    >>> import numpy as np, pandas as pd, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> age, region = rng.normal(size=2_000), rng.choice(["n", "e", "s"], 2_000)
    >>> table = pd.DataFrame({"age": age, "region": region, "y": age + (region == "s") + 0.1 * rng.normal(size=2_000)})
    >>> release = sd.Release({"age": sd.GaussianMechanism.from_scale(0.5)}, noiseless=("region",))
    >>> table["age"] += 0.5 * rng.normal(size=2_000)                        # the error of the measurement
    >>> found = sd.fit("y ~ age + C(region)", table, release)
    >>> found.names, bool(np.all(np.abs(found.theta - [1, 0, 1, 0]) < 4 * found.standard_errors))
    (('age', 'C(region)[T.n]', 'C(region)[T.s]', 'intercept'), True)
    """
    check_choice("solver", solver, _SOLVERS)
    made = Formula(formula, data, release)
    if isinstance(loss, str):
        # Of the formula's release: its target may have been a column of the one given.
        labels = labels_of(made.release)
        loss = loss_by_name(loss, None if labels is None else len(labels))
    _require_loss_of_labels(loss, made.release)
    if not isinstance(loss, Loss) or not loss.scores:
        raise TypeError(f"a formula is a score; got the loss {shown(loss, 60)}. Pass a name or a Loss of a score.")
    if loss.target_values is not None:
        # Labels in the words of the release, such as "no" and "yes".
        loss = in_labels(loss, labels_of(made.release))
    known = [made.offset, options.pop("offset", None)]
    if exposure is not None:
        known.append(_logarithm_of(exposure, loss, data, data.release if release is None else release))
    terms = [as_offset(one, len(made.X)) for one in known if one is not None]
    if terms:
        options["offset"] = sum(terms)
    found: Fit = _SOLVERS[solver](debias(loss, made.release, method=method), made.X, made.y, **options)
    return found


def _require_loss_of_labels(loss: Any, release: Release) -> None:
    """Raise ValueError where the labels of a release are texts, and a loss is one of a number."""
    if not isinstance(loss, Loss) or loss.target_values is not None or release.target is None:
        return
    labels = labels_of_target(release.target, "range") if release.coupling is None else None
    if labels is not None and labels.is_text:
        named = "logistic" if len(labels.values) == 2 else "softmax"
        raise ValueError(
            f"the target is one of the labels {', '.join(map(str, labels.values))}, and {loss.name or loss.expression} "
            f'is a loss of a number. Pass loss="{named}".'
        )


def _logarithm_of(exposure: Any, loss: Loss, data: Any, release: Release) -> FloatArray:
    """Return the logarithm of an exposure, shape (n,)."""
    if not has_rate(loss):
        raise ValueError(
            f"exposure= multiplies the mean exp(score) of a count, and {loss.expression} predicts another mean. Use a "
            'loss of counts, such as "poisson", or pass what is known of the score as offset=.'
        )
    if isinstance(exposure, str):
        table = _table(data)
        if exposure not in release.noiseless or exposure not in table.columns:
            raise ValueError(
                f"exposure={shown(exposure, 60)} is no column without noise of these data; those are "
                f"{', '.join(release.noiseless) or 'none'}. List it in noiseless, or pass its numbers."
            )
        if exposure in _moved_by(release):
            raise ValueError(
                f"exposure={shown(exposure, 60)} was centred or scaled by the release. Leave it out of center= and "
                "scale=, or pass its numbers in their own units."
            )
        exposure = table[exposure]
    found = _arrays.real_array(exposure, "exposure")
    if found.ndim != 1 or not np.all(found > 0):
        raise ValueError("exposure must be one positive number per record. Leave out records that were not observed.")
    return np.asarray(np.log(found))


def as_pairs(numbers: Any) -> list[tuple[str, float]]:
    """Return public numbers by name, of a release that names its columns."""
    return list(dict(as_json(numbers)).items())


def _moved_by(release: Release) -> set[str]:
    """Return the columns that a release centres or scales."""
    return {name for name, _ in (*as_pairs(release.center), *as_pairs(release.scale))}


def _noised_columns(release: Release) -> dict[str, Mechanism]:
    """Return the columns with noise, by name, of a release that a formula can be about."""
    if release.coupling is not None:
        raise ValueError(
            f'target="{release.coupling.kind}" releases features and target in one vector for one kind of loss, and a '
            "formula cannot choose among its columns. Fit it with debias and m_estimate."
        )
    if release.categories:
        raise ValueError(
            f"the release has categories= that are noised as numbers ({', '.join(release.categories.as_json())}), and "
            "their indicator columns have no place in a formula. Fit it with debias and m_estimate."
        )
    required_columns(release)
    return {name: mechanism for names, mechanism in release.groups for name in names or ()}


def _table(data: Any) -> Any:
    """Return data as a table of pandas."""
    pandas = _optional.require("pandas", extra="formulas")
    if isinstance(data, Noised):
        return _joined_with_target(data, pandas)
    if isinstance(data, Rows):
        raise TypeError(_BY_BLOCKS)
    if not _arrays.is_table(data):
        raise TypeError(f"data must be a table with named columns; got {type(data).__name__}. Pass a data frame.")
    _arrays.column_names(data)
    return _as_pandas(data, pandas)


def _as_pandas(table: Any, pandas: Any) -> Any:
    """Return a table as one of pandas: also those of folders and schemas."""
    if isinstance(table, pandas.DataFrame):
        return table
    return pandas.DataFrame(table.to_dict()) if isinstance(table, Table) else _arrays.frame(table).to_pandas()


def _joined_with_target(noised: Noised, pandas: Any) -> Any:
    """Return noised records as one table, whose target has each of the names that it may be asked for by."""
    X, names = noised.X, noised.release.columns
    if isinstance(X, Rows):
        raise TypeError(_BY_BLOCKS)
    if not _arrays.is_table(X):
        if any(one.is_text for one in labels_of_groups(noised.release.groups, "sent").values()):
            raise TypeError(
                "these records are an array, whose columns of categories hold codes, and a formula takes tables. "
                "Release a table."
            )
        X = pandas.DataFrame(_arrays.real_array(X, "X"), columns=list(names or ()))
    else:
        X = _as_pandas(X, pandas)
    if noised.y is None:
        return X
    own = {noised.target_name, getattr(noised.y, "name", None)} - {None, *X.columns}
    # As an array: a column would be matched by row labels.
    return X.assign(**{str(name): np.asarray(noised.y) for name in own})


def _whole_types(table: Any) -> dict[str, Any]:
    """Return the types of the columns of whole numbers and of truth values, by name."""
    types = _optional.require("pandas", extra="formulas").api.types
    found: dict[str, Any] = {}
    for name, dtype in table.dtypes.items():
        if isinstance(dtype, types.CategoricalDtype):
            continue
        if types.is_bool_dtype(dtype):
            found[str(name)] = np.bool_
        elif types.is_integer_dtype(dtype):
            found[str(name)] = np.int64
    return found


def _as_real(table: Any) -> Any:
    """Return a table whose numbers and truth values are float64, NaN where missing, and whose texts are objects."""
    pandas = _optional.require("pandas", extra="formulas")
    types = pandas.api.types
    made = {}
    for name, column in table.items():
        dtype = column.dtype
        if isinstance(dtype, types.CategoricalDtype) or types.is_complex_dtype(dtype):
            continue
        if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            made[name] = pandas.Series(numbers, index=column.index, name=name)
        elif types.is_string_dtype(dtype):
            made[name] = column.astype(object)
    return table.assign(**made)


def _is_name(factor: Any, name: str) -> bool:
    return bool(factor.eval_method.value == "lookup" and factor.expr == name)


def _is_offset(term: Any) -> bool:
    """Return whether a term is ``offset(...)`` by itself.

    Raises
    ------
    ValueError
        It is multiplied with something, is of more or less than one part, or names a column whose name is no word.
    """
    texts = [str(factor.expr).replace(" ", "") for factor in term.factors]
    if not any(text.startswith("offset(") for text in texts):
        return False
    body = _tree(term.factors[0]).body if len(texts) == 1 else None
    if not (isinstance(body, ast.Call) and len(body.args) == 1 and not body.keywords):
        raise ValueError(f"{term} is no offset: it stands by itself, as in 'y ~ x + offset(log(years))'.")
    return True


def _variables(factor: Any, more: frozenset[str] = frozenset()) -> set[str]:
    """Return the columns that a factor names, which may call `more` than others.

    Raises
    ------
    ValueError
        It is more than arithmetic and the functions that are allowed.
    """
    if factor.eval_method.value == "literal":
        return set()
    if factor.eval_method.value == "lookup":
        return {factor.expr}
    nodes = list(ast.walk(_tree(factor)))
    called = _calls(factor)
    for node in nodes:
        is_contrast = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "contr"
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Attribute) and not is_contrast):
            known = sorted(set(filter(None, map(_attribute_called, nodes))) & _CALLS)
            instead = f" Write {', '.join(f'{name}(...)' for name in known)}, without the name of a module." * bool(
                known
            )
            raise ValueError(
                f"{shown(factor.expr, 100)} is more than a function of columns.{instead} A formula may call "
                f"{', '.join(sorted(_CALLS))}: compute other columns before."
            )
    if called - _CALLS - more:
        raise ValueError(
            f"{shown(factor.expr, 100)} calls {', '.join(sorted(called - _CALLS - more))}. A formula may call "
            f"{', '.join(sorted(_CALLS))}: compute other columns before."
        )
    # By place, and not by name: a column may be called as a function is.
    others = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    others |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in others}


def _named(terms: list[Any]) -> list[str]:
    """Return the columns that terms name, which are all that formulaic is to see: another would hide a function.

    Raises
    ------
    ValueError
        A column is called as a function is that they call.
    """
    factors = [factor for term in terms for factor in term.factors]
    named = {name for factor in factors for name in _variables(factor)}
    called = {name for factor in factors if factor.eval_method.value == "python" for name in _calls(factor)}
    both = sorted(named & called)
    if both:
        raise ValueError(
            f"{both[0]} is a column and a function in {' + '.join(map(str, terms))!r:.200}, and a name in a formula is "
            "one of them. Give the column another name in the table and in the release."
        )
    return sorted(named)


def _calls(factor: Any) -> set[str]:
    """Return the names of the functions that a factor calls."""
    nodes = ast.walk(_tree(factor))
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _tree(factor: Any) -> ast.Expression:
    """Return the expression of a factor.

    Raises
    ------
    ValueError
        It is none, as where it names a column whose name is no word.
    """
    try:
        found: ast.Expression = ast.parse(factor.expr, mode="eval")
    except SyntaxError:
        raise ValueError(
            f"{shown(factor.expr, 100)} is no function of columns. Rename columns whose names are no words, or let "
            "them stand by themselves."
        ) from None
    return found


def _attribute_called(node: ast.AST) -> str | None:
    """Return log where a node calls what belongs to a name, as np.log(x) does."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None


def _outside_calls(text: str) -> str:
    """Return a formula without what stands in calls, braces and backquotes.

    Examples
    --------
    >>> _outside_calls("pay ~ log((age + 1)**2) + (year + {age*2})**2 + `a.b`")
    'pay ~ log() + (year + {})**2 + ``'
    """
    kept: list[str] = []
    closers: list[str] = []  # What ends each part that is left out.
    for place, char in enumerate(text):
        if closers and char == closers[-1]:
            closers.pop()
        elif closers and char == "(":
            closers.append(")")
            continue
        if not closers:
            kept.append(char)
            is_call = char == "(" and re.match(r"\w", text[place - 1 : place])
            if is_call or char in "{`":
                closers.append({"(": ")", "{": "}", "`": "`"}[char])
    return "".join(kept)


def _said(error: BaseException) -> str:
    """Return what formulaic says, on one line, without its colours."""
    text = " ".join(_COLOURS.sub("", str(error)).split())
    return f"{text[:300].rstrip('.') or type(error).__name__}."
