"""Methods side by side on the same released records: those of the literature and the corrected fit."""

import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias._domains import NON_NEGATIVE, check_choice, check_flag, kind_or_value
from symdebias._randomness import generator, spawn
from symdebias.driver import debias
from symdebias.exceptions import InferenceError, SymdebiasError, VarianceWarning
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.coefficients import Coefficients
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.conditional_score import conditional_score
from symdebias.solvers.literature.equations import numbers_of
from symdebias.solvers.literature.monte_carlo_score import monte_carlo_score
from symdebias.solvers.literature.naive import naive
from symdebias.solvers.literature.regression_calibration import regression_calibration
from symdebias.solvers.literature.simex import simex
from symdebias.solvers.m_estimation import m_estimate

METHODS = ("naive", "regression_calibration", "simex", "conditional_score", "monte_carlo_score", "corrected")
# The length of a refusal in a table; the whole of it is on the row.
_SHORT = 110


@dataclass(frozen=True, eq=False)
class ComparisonRow:
    """One method of a comparison.

    Attributes
    ----------
    method : str
        Its name.
    theta : array of shape (q,) or (K, q), float64, or None
        The parameters; None where the method refused.
    standard_errors : array of the shape of theta, or None
        Where the method has them.
    distance : float or None
        The Euclidean distance to the true parameters, where these were given.
    seconds : float
        Time, compilation included.
    refusal : str or None
        Why the method refused.
    notes : tuple of str
        What to know of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(X, X[:, 0], random_state=1)
    >>> found = sd.literature.compare_methods(
    ...     sd.losses.least_squares(), noised.release, noised.X, noised.y, methods=("naive",)
    ... )
    >>> (row,) = found.rows
    >>> row.method, row.refusal, row.theta.shape
    ('naive', None, (1,))
    """

    method: str
    theta: FloatArray | None
    standard_errors: FloatArray | None
    distance: float | None
    seconds: float
    refusal: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def _cells(self) -> list[str]:
        """The parameters as a table shows them, with standard errors where there are any."""
        if self.theta is None:
            return []
        errors = [None] * self.theta.size if self.standard_errors is None else list(self.standard_errors.ravel())
        return [
            f"{value:.4g}" + ("" if error is None else f" ({error:.2g})")
            for value, error in zip(self.theta.ravel(), errors, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side; printed as a table.

    Attributes
    ----------
    rows : tuple of ComparisonRow
        One for each method, in the order asked for.
    names : tuple of str
        Names of the parameters of one score.
    records : int
        The number of records.
    true_theta : array of shape (q,) or (K, q), float64, or None
        The true parameters, where they were given.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(X, X[:, 0], random_state=1)
    >>> found = sd.literature.compare_methods(
    ...     sd.losses.least_squares(), noised.release, noised.X, noised.y, methods=("naive", "corrected")
    ... )
    >>> bool(found["naive"].theta[0] < found["corrected"].theta[0])
    True
    """

    rows: tuple[ComparisonRow, ...]
    names: tuple[str, ...]
    records: int
    true_theta: FloatArray | None = None

    def __getitem__(self, method: str) -> ComparisonRow:
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(f"{method!r:.60} was not compared. The rows are {', '.join(row.method for row in self.rows)}.")

    def __str__(self) -> str:
        truth = self.true_theta
        known = [theta for theta in (truth, *(row.theta for row in self.rows)) if theta is not None]
        names = _entry_names(self.names, known[0]) if known else []
        width = max(8, *(len(row.method) for row in self.rows))
        shown = {row.method: row._cells for row in self.rows}
        longest = max((len(text) for cells in shown.values() for text in cells), default=0)
        cell = max(17, 1 + longest, 2 + max((len(name) for name in names), default=0))
        distance = "" if truth is None else f"{'distance':>11}"
        lines = [
            f"{self.records:,} records; theta (standard error)",
            f"{'':<{width}}" + "".join(f"{name:>{cell}}" for name in names) + distance + f"{'seconds':>10}",
        ]
        if truth is not None:
            lines.append((f"{'true':<{width}}" + "".join(f"{f'{v:.4g}':>{cell}}" for v in truth.ravel())).rstrip())
        notes = []
        for row in self.rows:
            if row.theta is None:
                lines.append(f"{row.method:<{width}}  refused: {textwrap.shorten(str(row.refusal), _SHORT)}")
                continue
            away = "" if row.distance is None else f"{row.distance:>11.3g}"
            lines.append(
                f"{row.method:<{width}}"
                + "".join(f"{text:>{cell}}" for text in shown[row.method])
                + away
                + f"{row.seconds:>10.2g}"
            )
            notes += [f"{row.method}: {note}" for note in row.notes]
        return "\n".join([*lines, *notes])


def compare_methods(
    loss: Loss,
    release: Release,
    X: Any,
    y: Any,
    *,
    methods: Sequence[str] = METHODS,
    l2: float = 0.0,
    true_theta: ArrayLike | None = None,
    original_units: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> Comparison:
    """Fit the same released records by several methods.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`.
    methods : sequence of str
        Which, in the order of the rows: ``"naive"``, ``"regression_calibration"``, ``"simex"``,
        ``"conditional_score"``, ``"monte_carlo_score"``, and ``"corrected"``, which is
        ``m_estimate(debias(loss, release), X, y)``.
    true_theta : array of shape (q,) or (K, q), optional
        The true parameters, in a simulation: each row then has its distance to them.
    original_units : bool
        Whether parameters, the true ones too, are in the units of the columns before the release's center and scale, as
        `Fit.coefficients` has them.
    random_state : int, numpy.random.Generator or None
        For the methods that draw; each has a generator of its own, so that the choice of `methods` does not change it.

    Returns
    -------
    Comparison
        A row for each method. One that refuses has the reason in its row: the loss or the noise is none of its kind, or
        it found no root.

    Raises
    ------
    ValueError, TypeError
        An argument or the data do not fit, or there are no original units. That is no refusal.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(20_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(x, 2 * x[:, 0], random_state=1)
    >>> found = sd.literature.compare_methods(
    ...     sd.losses.least_squares(), noised.release, noised.X, noised.y,
    ...     methods=("naive", "regression_calibration"), true_theta=[2.0],
    ... )
    >>> found["naive"].distance > 0.9, found["regression_calibration"].distance < 0.1
    (True, True)
    """
    original_units = check_flag("original_units", original_units)
    wanted = _checked_methods(methods)
    l2 = NON_NEGATIVE.check("l2", l2)
    plain = debias(loss, release, method="none").named_by(X)
    release = plain.release
    # Records that do not fit are errors, whatever methods say of them.
    records = numbers_of(plain, X, y)
    correction = records.correction
    truth = None
    if true_theta is not None:
        truth = correction.shaped(correction.flat(true_theta).copy())
        truth.setflags(write=False)
    generators = dict(zip(METHODS, spawn(generator(random_state), len(METHODS)), strict=True))
    calls: dict[str, Callable[[], Fit]] = {
        "naive": lambda: naive(loss, release, X, y, l2=l2),
        "regression_calibration": lambda: regression_calibration(loss, release, X, y, l2=l2),
        "simex": lambda: simex(loss, release, X, y, l2=l2, random_state=generators["simex"]),
        "conditional_score": lambda: conditional_score(loss, release, X, y, l2=l2),
        "monte_carlo_score": lambda: monte_carlo_score(
            loss, release, X, y, l2=l2, random_state=generators["monte_carlo_score"]
        ),
        "corrected": lambda: m_estimate(debias(loss, release), X, y, l2=l2),
    }
    rows = tuple(_timed_row(method, calls[method], truth, original_units) for method in wanted)
    names = correction.design.parameters if loss.scores else plain.parameter_names
    return Comparison(rows, names, len(records), truth)


def _checked_methods(methods: Sequence[str]) -> tuple[str, ...]:
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise TypeError(
            f"methods must be a sequence of names; got {kind_or_value(methods)}. Pass a tuple such as ('naive',)."
        )
    for method in methods:
        check_choice("methods", method, METHODS)
    if not methods or len(set(methods)) < len(methods):
        raise ValueError(f"methods={tuple(methods)!r:.100} is empty or repeats a name. Name each method once.")
    return tuple(methods)


def _timed_row(method: str, call: Callable[[], Fit], truth: FloatArray | None, original_units: bool) -> ComparisonRow:
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", VarianceWarning)
            fit = call()
    except SymdebiasError as refusal:
        return ComparisonRow(method, None, None, None, time.perf_counter() - began, str(refusal))
    seconds = time.perf_counter() - began
    # What held a corrected fit at its end is not the data's choice: a reader of the table must see it.
    notes = [*fit.notes, *fit.diagnostics.get("safeguards", ()), *(str(warning.message) for warning in caught)]
    theta = fit.coefficients if original_units else fit.theta
    errors = None
    try:
        # Errors of a fit that has none are refused with the reason.
        errors = fit.standard_errors
        known = Coefficients.of(fit, 0.95, original_units=original_units).inference
        if original_units and known is not None:
            errors = known.standard_errors().reshape(theta.shape)
    except InferenceError as reason:
        notes.append(str(reason))
    distance = None if truth is None else float(np.linalg.norm(theta - truth))
    return ComparisonRow(method, theta, errors, distance, seconds, None, tuple(notes))


def _entry_names(names: tuple[str, ...], theta: FloatArray) -> list[str]:
    if theta.ndim == 1:
        return list(names)
    return [f"{score}: {name}" for score in range(len(theta)) for name in names]
