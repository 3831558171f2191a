"""The privacy of normal noise in an objective: its calibration where the shift moves with the output.

A record's gradient at the output shifts the noise that explains the output. The shift depends on the output and so on
the noise itself, so that the curve of the Gaussian mechanism, whose shift is fixed, does not apply as it stands.
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from symdebias._domains import DELTA, RADIUS, SCALE, Interval, check_choice
from symdebias.exceptions import PrivacyError
from symdebias.privacy import precise
from symdebias.privacy.guarantee import ADJACENCIES
from symdebias.privacy.precise import normal_cdf, rounded_up
from symdebias.privacy.search import least_epsilon

_EPSILON = Interval(0.0, 700.0, "both", "Give what is left of the budget for the noise.")

_FAR = 1e5

Slopes = tuple[tuple[float, float], ...]


def objective_noise_delta(
    epsilon: float, scale: float, slopes: Sequence[tuple[float, float]], *, adjacency: str
) -> float:
    """Bound the delta of normal noise whose shift is chosen with the noise in sight, rounded up.

    Parameters
    ----------
    epsilon : float
        In [0, 700].
    scale : float
        The noise's standard deviation, in [1e-100, 1e120].
    slopes : sequence of pairs of float
        For each kind of record (a value of the target, say) the least and the largest c of its gradient c x/||x||,
        times the norm of x: a number up to 0 and a number from 0 on, not both 0.
    adjacency : {"replace-one", "add-remove"}
        What may differ between neighbours.

    Returns
    -------
    float
        An upper bound on E max(0, 1 - e^epsilon phi(b + d(b))/phi(b)), b the noise and phi its density, over all
        functions d that a record, or two exchanged ones, can shift it by; at most 1.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    In units of the scale, log phi(b)/phi(b + d) = b'd + ||d||^2/2 =: A(d), which is convex in d: on a polytope its
    largest value is at a vertex, and vertices do not depend on b. For a fixed v, E max(0, 1 - e^(epsilon - A(v)))
    is the curve of the Gaussian mechanism, G(||v||) = Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s),
    s = ||v||, and a maximum is at most the sum.

    Add or remove: d lies on a segment from -p e to q e, and with t = b'e normal the expectation is

        Q(L) - e^epsilon Q(L + q),  L = max(epsilon/q - q/2, (p - q)/2),

    plus the same with p and q exchanged, Q the normal tail: exact. For slopes of one sign it is G(q), for p = q up to
    twice that.

    Replace: d = c x - c'x' with c and c' in the ranges of their records. The vertices are those of a parallelogram; at
    most one of its diagonals is longer than sqrt(c^2 + c'^2), which gives a sum of G over the four. And in
    the plane of x and x' the noise has a length r with Rayleigh's law, and A <= r s + s^2/2, s the largest ||d||: with
    r_0 = max(0, epsilon/s - s/2)

        e^(-r_0^2/2) - e^epsilon (e^(-(r_0 + s)^2/2) - s sqrt(2 pi) Q(r_0 + s)).

    The smaller one of both bounds is returned, for the worst pair of kinds.

    References
    ----------
    Balle & Wang 2018, Theorem 8, for G; Kifer, Smith & Thakurta 2012, Theorem 2, for the mechanism; Redberg, Koskela &
    Wang 2023 (arXiv 2401.00583), for its privacy curve under add or remove.

    Examples
    --------
    >>> objective_noise_delta(1.0, 5.0, [(0.0, 1.0)], adjacency="add-remove") < 1e-7
    True
    """
    epsilon, scale = _EPSILON.check("epsilon", epsilon), SCALE.check("scale", scale)
    mp = precise.context()
    return min(1.0, rounded_up(mp, _delta(mp, mp.mpf(epsilon), mp.mpf(scale), *_checked(slopes, adjacency))))


def objective_noise_scale(
    epsilon: float, delta: float, slopes: Sequence[tuple[float, float]], *, adjacency: str
) -> float:
    """Return the least noise scale at which `objective_noise_delta` is at most delta.

    Parameters
    ----------
    epsilon : float
        In [0, 700].
    delta : float
        In (0, 1).
    slopes, adjacency
        As for `objective_noise_delta`.

    Returns
    -------
    float
        The least float64 that keeps delta; the next one below does not.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Examples
    --------
    >>> round(objective_noise_scale(1.0, 1e-5, [(0.0, 1.0)], adjacency="add-remove"), 6)
    3.730632
    """
    epsilon, delta = _EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    return _least_scale(epsilon, delta, *_checked(slopes, adjacency))


def objective_noise_epsilon(
    delta: float, scale: float, slopes: Sequence[tuple[float, float]], *, adjacency: str
) -> float:
    """Return the least epsilon at which `objective_noise_delta` is at most delta.

    Parameters
    ----------
    delta : float
        In (0, 1).
    scale, slopes, adjacency
        As for `objective_noise_delta`.

    Returns
    -------
    float
        Within 1e-12 of the least, and never below it.

    Raises
    ------
    PrivacyError
        It is above 700.
    ValueError, TypeError
        An argument is outside its range.

    Examples
    --------
    >>> round(objective_noise_epsilon(1e-5, 3.730632, [(0.0, 1.0)], adjacency="add-remove"), 6)
    1.0
    """
    delta, scale = DELTA.check("delta", delta), SCALE.check("scale", scale)
    checked = _checked(slopes, adjacency)
    mp = precise.context()

    def kept(epsilon: float) -> bool:
        return bool(_delta(mp, mp.mpf(epsilon), mp.mpf(scale), *checked) <= delta)

    found = least_epsilon(kept, precision=1e-12, largest=2 * _EPSILON.high)
    if not found < math.inf:
        raise PrivacyError(
            f"noise of the scale {scale:g} has no epsilon up to {_EPSILON.high:g} at delta={delta:g}. Use more noise."
        )
    return found


def _checked(slopes: Sequence[tuple[float, float]], adjacency: str) -> tuple[Slopes, str]:
    check_choice("adjacency", adjacency, ADJACENCIES)
    checked = []
    for low, high in slopes:
        if not (low <= 0 <= high):
            raise ValueError(f"the slopes ({low:g}, {high:g}) leave out 0. Widen the range to it: rows may be shorter.")
        RADIUS.check("the largest slope", max(-low, high))
        checked.append((float(low), float(high)))
    if not checked:
        raise ValueError("slopes has no pairs. Give one for each kind of record.")
    return tuple(checked), adjacency


@functools.lru_cache(maxsize=256)
def _least_scale(epsilon: float, delta: float, slopes: Slopes, adjacency: str) -> float:
    mp = precise.context()

    def kept(scale: float) -> bool:
        return bool(_delta(mp, mp.mpf(epsilon), mp.mpf(scale), slopes, adjacency) <= delta)

    high = max(max(-low, high) for low, high in slopes)
    while not kept(high):
        high *= 2
        SCALE.check("the noise scale that this budget needs", high)
    low = high / 2
    while kept(low):
        low, high = low / 2, low
    while math.nextafter(low, math.inf) < high:
        middle = low + (high - low) / 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


def _delta(mp: Any, epsilon: Any, scale: Any, slopes: Slopes, adjacency: str) -> Any:
    kinds = [(-mp.mpf(low) / scale, mp.mpf(high) / scale) for low, high in slopes]
    if adjacency == "add-remove":
        return max(_on_segment(mp, epsilon, *kind) for kind in kinds)
    pairs = itertools.combinations_with_replacement(kinds, 2)
    return max(min(_on_vertices(mp, epsilon, *pair), _in_plane(mp, epsilon, *map(max, pair))) for pair in pairs)


def _on_segment(mp: Any, epsilon: Any, down: Any, up: Any) -> Any:
    """Return the exact expectation for shifts between -down and up along one direction."""
    return sum(
        _beyond(mp, epsilon, max(epsilon / way - way / 2, (other - way) / 2), way)
        for way, other in ((up, down), (down, up))
        if way > 0
    )


def _on_vertices(mp: Any, epsilon: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> Any:
    """Return the sum over the vertices c x - c'x' of a parallelogram, for the worst angle between x and x'."""
    ends = [(mp.mpf(c), mp.mpf(k)) for c in (-first[0], first[1]) for k in (-second[0], second[1])]
    totals = []
    for longer in (1, -1):
        # Where x and x' are at an acute angle, c x - c'x' is long for c and c' of opposite signs, and short otherwise.
        norms = Counter(abs(c) + abs(k) if c * k * longer <= 0 else mp.hypot(c, k) for c, k in ends)
        totals.append(sum(times * _gaussian(mp, epsilon, norm) for norm, times in norms.items() if norm > 0))
    return max(totals)


def _in_plane(mp: Any, epsilon: Any, first: Any, second: Any) -> Any:
    """Return the bound by the length of the noise in a plane, for shifts up to the sum of two lengths."""
    s = first + second
    r = max(epsilon / s - s / 2, mp.mpf(0))
    if r + s > _FAR:
        return mp.exp(-(min(r, _FAR) ** 2) / 2)
    shifted = mp.exp(-((r + s) ** 2) / 2) - s * mp.sqrt(2 * mp.pi) * _tail(mp, r + s)
    return mp.exp(-(r**2) / 2) - mp.exp(epsilon) * shifted


def _gaussian(mp: Any, epsilon: Any, s: Any) -> Any:
    """Return the delta of the Gaussian mechanism for a shift of s standard deviations."""
    return _beyond(mp, epsilon, epsilon / s - s / 2, s)


def _beyond(mp: Any, epsilon: Any, start: Any, s: Any) -> Any:
    """Return the integral of phi(t) - e^epsilon phi(t + s) from a start on, rounded up in the last digits."""
    return _tail(mp, start) - (0 if start + s > _FAR else mp.exp(epsilon) * _tail(mp, start + s))


def _tail(mp: Any, x: Any) -> Any:
    # Further out it is smaller than any float64, and mpmath's integers would be too long.
    return normal_cdf(mp, -max(min(x, _FAR), -_FAR))
