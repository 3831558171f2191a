"""What the error of an estimated noise variance does to a fit.

A root theta of the mean corrected gradient G(theta, V) = 0 depends on the noise covariance V. Where that is an
estimate, independent of the records' own noise, it adds d Var(V) d' to the covariance of theta, with d = -H^-1 dG/dV
the derivative of the root, found by differences of G in V.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.exceptions import InferenceError
from symdebias.mechanisms import GaussianMechanism, Mechanism
from symdebias.noise import symmetric_root
from symdebias.records import Records
from symdebias.release import Release
from symdebias.release.remaking import remade

# By which share of it the noise is moved for a difference: the gradient is smooth in it.
_STEP = 1e-4
# No more than this where steps are of the size of what an estimate is off.
_LARGEST_STEP = 0.3


@dataclass(frozen=True)
class Added:
    """What the estimate of one mechanism's noise adds."""

    covariance: FloatArray  # Of shape (Q, Q): to the covariance of theta.
    degrees_of_freedom: float  # Those of the estimate.


@dataclass(frozen=True)
class GradientSlope:
    """How the mean corrected gradient goes with an estimate of noise, in one direction."""

    place: int  # The number of the group whose noise it is; -1 for the target.
    slope: FloatArray  # Of shape (Q,): by the share that the noise is moved by.
    variance: float  # Of what the estimate is off in this direction, as a share of it.
    degrees_of_freedom: float  # Those of the estimate.


def of_estimated_noise(records: Records, theta: FloatArray, hessian: FloatArray) -> list[Added]:
    """Return what the estimates of noise in a release add to the covariance of theta, one for each mechanism.

    The Hessian H is the mean one with the penalty. Noise scales of the records' own are taken as known multiples of the
    estimated ones.

    Raises
    ------
    InferenceError
        There are too few degrees of freedom.

    Notes
    -----
    V is L (I + Z) L' for the estimate L L' of k columns with f degrees of freedom. The entries Z_ij have the variances
    2 f^2/((f - k - 1)^2 (f - k - 3)) on the diagonal and f^2/((f - k)(f - k - 1)(f - k - 3)) off it, those of the
    inverse Wishart law that normal errors leave for V; for large f they are the 2/f and 1/f of the estimate about V.
    Small estimates of the noise go with small slopes, so that the latter alone would cover less often. Columns of a
    diagonal V are estimated by themselves.

    References
    ----------
    Carroll, Ruppert, Stefanski & Crainiceanu 2006 (Measurement Error in Nonlinear Models), Appendix A.6 (stacked
    estimating equations); Gelman et al. 2013 (Bayesian Data Analysis), Appendix A (inverse Wishart).
    """
    found: dict[int, Added] = {}
    for one in gradient_slopes(records, theta):
        before = found.get(one.place)
        whole = np.zeros((len(theta), len(theta))) if before is None else before.covariance
        move = np.linalg.solve(hessian, one.slope)
        found[one.place] = Added(whole + one.variance * np.multiply.outer(move, move), one.degrees_of_freedom)
    return list(found.values())


def gradient_slopes(records: Records, theta: FloatArray) -> Iterator[GradientSlope]:
    """Yield how the mean corrected gradient at theta goes with each estimate of noise, one direction after another.

    Raises
    ------
    InferenceError
        There are too few degrees of freedom.
    """
    if not records.correction.method.corrects:
        return
    for place, mechanism in _estimated(records.correction.release):
        freedom = mechanism.degrees_of_freedom
        assert freedom is not None
        for direction, variance in _directions(mechanism):
            up, down = (_moved(records, place, mechanism, direction, sign * _STEP) for sign in (1, -1))
            slope = (up.mean_gradient(theta) - down.mean_gradient(theta)) / (2 * _STEP)
            yield GradientSlope(place, slope, variance, freedom)


@dataclass(frozen=True)
class Moved:
    """A release whose estimated noise is a little more and a little less than the estimate, in one direction."""

    more: Release
    less: Release
    step: float  # By which share of the estimate.
    variance: float  # Of what the estimate is off in this direction, as a share of it.
    degrees_of_freedom: float  # Those of the estimate.

    def slope(self, function: Callable[[Release], FloatArray]) -> FloatArray:
        """Return the derivative of a function of a release by the share that the noise is moved by."""
        return (function(self.more) - function(self.less)) / (2 * self.step)


def moved_releases(release: Release) -> Iterator[Moved]:
    """Yield a release with its estimates of noise moved, one direction after another.

    Steps are of the size of what estimates are off, so that what jumps a little as the noise changes, as a surrogate
    does whose number of waves changes, has a slope over that range.

    Raises
    ------
    InferenceError
        There are too few degrees of freedom, or the release has features and target in one vector.
    """
    for place, mechanism in _estimated(release):
        if release.coupling is not None:
            raise InferenceError(
                "noise that was estimated, of features and target in one vector, has no standard errors. Release them "
                "apart."
            )
        assert mechanism.degrees_of_freedom is not None
        for direction, variance in _directions(mechanism):
            step = min(max(np.sqrt(variance) / 2, _STEP), _LARGEST_STEP)
            more, less = (_with(release, place, mechanism.moved(direction, by)) for by in (step, -step))
            yield Moved(more, less, step, variance, mechanism.degrees_of_freedom)


def added_variances(release: Release, function: Callable[[Release], FloatArray]) -> Iterator[tuple[FloatArray, float]]:
    """Yield what each estimate of noise in a release adds to the variances of a function of it, and how sure it is.

    Parameters
    ----------
    release : Release
        The release.
    function : callable
        Returns numbers under a release with other noise.
    """
    for one in moved_releases(release):
        yield one.slope(function) ** 2 * one.variance, one.degrees_of_freedom


def estimated_anew(release: Release, rng: np.random.Generator) -> Release:
    """Return a release whose estimates of noise are others, as if the noise were what the present ones say.

    Under normal errors they have the law of Wishart about it, with their degrees of freedom; columns of a diagonal
    covariance are estimated by themselves.

    Raises
    ------
    InferenceError
        A covariance has too few degrees of freedom.
    """
    for place, mechanism in _estimated(release):
        freedom = mechanism.degrees_of_freedom
        assert freedom is not None
        if mechanism.covariance is None:
            estimate: float | FloatArray = mechanism.scale * np.sqrt(rng.chisquare(freedom) / freedom)
        elif mechanism.is_correlated:
            # Bartlett's decomposition, of a matrix that is singular where there are fewer degrees than columns.
            _variances(mechanism)
            root = symmetric_root(np.array(mechanism.covariance))
            inner = np.tril(rng.normal(size=root.shape), -1)
            inner += np.diag(np.sqrt(rng.chisquare(freedom - np.arange(len(root)))))
            moved = root @ inner
            estimate = moved @ moved.T / freedom
        else:
            variances = np.diag(mechanism.covariance)
            estimate = np.diag(variances * rng.chisquare(freedom, size=len(variances)) / freedom)
        other = GaussianMechanism.from_estimate(estimate, freedom, radius=mechanism.radius)
        release = _with(release, place, other)
    return release


def is_estimated(release: Release) -> bool:
    """Whether the noise of a column, or of the target, was estimated."""
    return any(True for _ in _estimated(release))


def _estimated(release: Release) -> Iterator[tuple[int, GaussianMechanism]]:
    """Yield mechanisms of estimated noise with the number of their group; -1 for the target's."""
    for place, mechanism in (*enumerate(one for _, one in release.groups), (-1, release.target)):
        if isinstance(mechanism, GaussianMechanism) and mechanism.degrees_of_freedom is not None:
            yield place, mechanism


def _variances(mechanism: GaussianMechanism) -> tuple[float, float]:
    """Return the variances of entries of Z on the diagonal and off it."""
    freedom, width = mechanism.degrees_of_freedom, mechanism.width if mechanism.is_correlated else 1
    assert freedom is not None
    assert width is not None
    left = freedom - width - 3
    if not left > 0:
        raise InferenceError(
            f"the noise was estimated with {freedom:.3g} degrees of freedom, and more than {width + 3} are needed to "
            "tell how far it is off. Measure more records twice, or validate more."
        )
    return 2 * freedom**2 / ((left + 2) ** 2 * left), freedom**2 / ((left + 3) * (left + 2) * left)


def _directions(mechanism: GaussianMechanism) -> list[tuple[tuple[int, int], float]]:
    """Return the entries of Z, each with its variance."""
    width, (on, off) = mechanism.width or 1, _variances(mechanism)
    return [
        ((i, j), on if i == j else off)
        for i in range(width)
        for j in range(i, width)
        if i == j or mechanism.is_correlated
    ]


def _moved(
    records: Records, place: int, mechanism: GaussianMechanism, direction: tuple[int, int], by: float
) -> Records:
    """Return the records under a correction for noise that is moved in one direction."""
    correction = records.correction
    if records.scales is not None and place >= 0:
        columns, _ = correction.release.placed(correction.columns)[place]
        if mechanism.covariance is not None:
            columns = slice(columns.start + direction[0], columns.start + direction[0] + 1)
        return records.noisier(columns, np.sqrt(1 + by))
    release = _with(correction.release, place, mechanism.moved(direction, by))
    other = replace(correction, release=release)
    if other.program == correction.program:
        # The same code, told of other noise.
        vars(other)["kernels"] = correction.kernels
    return records.under(other)


def _with(release: Release, place: int, mechanism: Mechanism) -> Release:
    """Return a release with another mechanism in one place."""
    groups = [(names, mechanism if index == place else one) for index, (names, one) in enumerate(release.groups)]
    by_names: dict[str | tuple[str, ...], Mechanism] = {names: one for names, one in groups if names is not None}
    unnamed = groups[0][1] if groups and groups[0][0] is None else None
    return remade(release, by_names or unnamed, **({"target": mechanism} if place < 0 else {}))
