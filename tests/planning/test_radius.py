"""The private pilot of a radius: unbiased shares, the choice, the guarantee, bad input."""

import contextlib
import math

import numpy as np
import pytest

import symdebias as sd
from symdebias.exceptions import InferenceError
from symdebias.planning import RadiusPilot

RADII = (0.5, 1.0, 2.0)


def vectors(n, seed=0):
    """Norms that are uniform on (0, 1.25)."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(n, 3))
    return directions * (1.25 * rng.random(n) / np.linalg.norm(directions, axis=1))[:, None]


def test_shares_are_unbiased_in_every_report():
    """The mean over the channel of what a report says, to rounding, at norms on and between the candidates."""
    pilot = RadiusPilot(1.0, RADII)
    matrix = np.array(pilot.mechanism.noise.matrix)
    said = np.array([pilot.outside([code]) for code in range(4)])
    for norm, beyond in ((0.2, (0, 0, 0)), (0.5, (0, 0, 0)), (0.50001, (1, 0, 0)), (1.5, (1, 1, 0)), (9.0, (1, 1, 1))):
        code = int(np.searchsorted(RADII, norm))
        np.testing.assert_allclose(matrix[code] @ said, beyond, atol=1e-12)
    X = np.array([[0.5, 0.0], [0.0, 0.6], [3.0, 4.0]])
    sure = RadiusPilot(60.0, RADII)
    np.testing.assert_array_equal(sure.privatize(X, random_state=0), [0.0, 1.0, 3.0])


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_shares_of_many_reports(epsilon):
    """Within five standard errors (false alarm 6e-7 each): a share that is off by .03 is seen at epsilon 3."""
    n = 60_000
    pilot = RadiusPilot(epsilon, RADII)
    found = pilot.outside(pilot.privatize(vectors(n), random_state=1))
    weights = pilot.mechanism.noise.exact_weights("the report")
    assert np.all(np.abs(found - [0.6, 0.2, 0.0]) < 5 * np.abs(weights).max() / math.sqrt(n))


def test_the_least_radius_that_holds_nearly_all():
    pilot = RadiusPilot(3.0, RADII)
    reports = pilot.privatize(vectors(40_000), random_state=2)
    assert pilot.choose(reports, share=0.25) == 1.0
    assert pilot.choose(reports, share=0.05) == 2.0
    # Few reports do not tell.
    with pytest.raises(InferenceError, match=r"may be beyond the largest candidate, 2, and at most 0\.01 are allowed"):
        pilot.choose(reports[:50], share=0.01)
    with pytest.raises(InferenceError, match=r"may be beyond the largest candidate, 0\.5"):
        RadiusPilot(3.0, (0.5,)).choose(np.ones(1000))


def test_many_candidates_do_not_make_the_choice_less_sure():
    """.102 are beyond each of 8 candidates and .1 are allowed: of 300 choices 15 are wrong at the level .95.

    A number of 35 or more has a probability of 3e-6; the least candidate that passes by itself is wrong 52 times.
    """
    pilot, rng = RadiusPilot(1.0, tuple(1 + 0.01 * np.arange(8))), np.random.default_rng(0)
    chosen = 0
    for _ in range(300):
        reports = pilot.mechanism.privatize(8.0 * (rng.random(5_000) < 0.102), random_state=rng)
        with contextlib.suppress(InferenceError):
            pilot.choose(reports, share=0.1)
            chosen += 1
    assert chosen < 35


def test_the_guarantee_is_that_of_randomized_response():
    pilot = RadiusPilot(2.0, RADII)
    assert (pilot.guarantee.epsilon, pilot.guarantee.delta) == (2.0, 0.0)
    matrix = np.array(pilot.mechanism.noise.matrix)
    assert matrix.max() / matrix.min() == pytest.approx(math.exp(2.0), rel=1e-12)
    assert RadiusPilot(2, (1, 2)) == RadiusPilot(2.0, (1.0, 2.0))


@pytest.mark.parametrize(
    ("epsilon", "radii", "error", "message"),
    [
        (0.0, RADII, ValueError, "epsilon"),
        (1.0, (), ValueError, "at least one"),
        (1.0, (1.0, 1.0), ValueError, "increasing"),
        (1.0, (2.0, 1.0), ValueError, "increasing"),
        (1.0, (0.0, 1.0), ValueError, "radii"),
        (1.0, (1.0, math.inf), ValueError, "radii"),
        (1.0, 1.0, TypeError, "no list of numbers"),
        (1.0, ("a",), TypeError, "radii"),
    ],
)
def test_bad_pilots(epsilon, radii, error, message):
    with pytest.raises(error, match=message):
        RadiusPilot(epsilon, radii)


def test_bad_data():
    pilot = RadiusPilot(1.0, RADII)
    for reports in ([0.0, 4.0], [0.5], [], [[0.0]], [-1.0]):
        with pytest.raises(ValueError, match=r"whole numbers from 0 to 3|at least one entry"):
            pilot.choose(reports)
    with pytest.raises(ValueError, match=r"NaN|finite"):
        pilot.privatize([[math.nan, 1.0]])
    for options in ({"share": 0.0}, {"confidence": 1.0}):
        with pytest.raises(ValueError, match=r"share|confidence"):
            pilot.choose([0.0, 0.0], **options)
    assert sd.planning.RadiusPilot is RadiusPilot


def test_few_reports_do_not_say_that_nothing_lies_beyond():
    """Of 20 exact reports with none beyond, up to 1 - 0.05^(1/20) = 14% may be, and of 300 up to 1%."""
    pilot = RadiusPilot(epsilon=700.0, radii=(0.5, 1.0))
    reports = np.zeros(20)
    with pytest.raises(InferenceError, match=r"^0\.139 of the vectors"):
        pilot.choose(reports, share=0.13)
    assert pilot.choose(reports, share=0.14) == 0.5
    assert pilot.choose(np.zeros(300), share=0.01) == 0.5
    with pytest.raises(InferenceError, match=r"^1 of the vectors"):
        pilot.choose(np.full(20, 2.0), share=0.5)
