"""Our samplers against OpenDP's, and the two-sample test against what it should see."""

import importlib
import math

import numpy as np
import pytest

import symdebias as sd
from symdebias.checks import oracle
from symdebias.exceptions import MissingDependencyError
from symdebias.mechanisms import rounded, sampling

DRAWS = {"discrete_laplace": rounded.discrete_laplace, "discrete_gaussian": rounded.normal}


@pytest.mark.needs("opendp")
@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("scale", [8.0, 37.5, 2.0**20])
def test_our_draws_are_those_of_opendp(law, scale):
    """10,000 of each at a level of 1e-6: a scale wrong by a quarter would be seen."""
    found = sd.checks.compare_with_opendp(law, scale, samples=10_000)
    assert found.holds, found


@pytest.mark.in_turn
@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize(("factor", "shift"), [(1.1, 0.0), (0.9, 0.0), (1.0, 0.1)])
def test_what_the_comparison_sees_and_what_it_lets_pass(law, factor, shift):
    """20 comparisons of 50,000 samples with each planted defect: none is missed, and no sound one is refuted."""
    source, scale, count = sampling.source(None), 50.0, 50_000
    for _ in range(20):
        sound, other = (DRAWS[law](scale, (count,), source) for _ in range(2))
        assert oracle.compared(law, scale, sound, other).holds
        wrong = DRAWS[law](factor * scale, (count,), source) + round(shift * scale)
        assert not oracle.compared(law, scale, sound, wrong).holds


def test_the_false_alarm_rate_of_the_comparison():
    """400 sound comparisons: their p values are uniform, to a Kolmogorov-Smirnov distance of .13 (level 1e-6)."""
    source = sampling.source(None)
    samples = [[rounded.discrete_laplace(20.0, (5000,), source) for _ in range(2)] for _ in range(400)]
    found = sorted(oracle.compared("discrete_laplace", 20.0, *pair).pvalue for pair in samples)
    distance = np.max(np.abs(np.array(found) - np.arange(400) / 400))
    assert distance < math.sqrt(math.log(2 / 1e-6) / 800)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("laplace", 10.0), "law='laplace' is not known"),
        ((None, 10.0), "law=None is not known"),
        (("discrete_laplace", 1.0), "scale=1.0 is too small"),
        (("discrete_gaussian", math.nan), "scale=nan"),
        (("discrete_gaussian", "8"), "scale"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sd.checks.compare_with_opendp(*arguments)
    with pytest.raises((ValueError, TypeError), match="samples"):
        sd.checks.compare_with_opendp("discrete_laplace", 10.0, samples=100)


def test_the_missing_package_is_named(monkeypatch):
    def missing(module):
        raise ImportError(module)

    draws = sd.checks.opendp_draws
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingDependencyError, match=r'opendp.* pip install "symdebias\[opendp\]"'):
        draws("discrete_laplace", 10.0, 5)
