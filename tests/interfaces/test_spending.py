"""One budget, spent in three ways: what each costs, what it gives, and how it is drawn."""

import math

import numpy as np
import pytest

from symdebias.interfaces import demo, plotting, spending

pytestmark = pytest.mark.newest


@pytest.fixture(scope="module")
def problem():
    return demo.synthetic_problem(2, 2.0, records=200_000)


@pytest.fixture(scope="module")
def spendings(problem):
    return spending.compare(problem, draws=6)


def test_every_way_spends_the_same_budget(problem):
    """Unless it is the published one, whose noise is a formula: 2 R sqrt(2 ln(1.25/delta))/(epsilon/2) = 13.70318."""
    assert (problem.epsilon, problem.radius) == (2.0, math.sqrt(2))
    recipe = spending.published_release(problem)
    assert recipe.groups[0][1].scale == pytest.approx(13.703179, rel=1e-6)
    assert recipe.target.guarantee.epsilon == 1.0
    assert recipe.guarantee is None or recipe.guarantee.epsilon == math.inf
    designed = [spending.designed_release(problem, mechanism) for mechanism in spending.DESIGNED.values()]
    for release in (spending.split_release(problem, 0.55), *designed):
        assert release.guarantee.epsilon == pytest.approx(2.0, rel=1e-12)
        assert release.guarantee.epsilon <= 2.0
        assert release.guarantee.delta == 0.0
        # The ball holds the cube that the records fill.
        assert release.groups[0][1].radius == problem.radius


@pytest.mark.in_turn
def test_each_way_is_better_than_the_one_before(spendings):
    """Ratios of 8 and more are expected, and means of 6 draws are right to a factor of 3 at worst."""
    recipe, split, *designed = spendings
    assert len(designed) == len(spending.DESIGNED)
    for before, after in ((recipe, split), *((split, one) for one in designed)):
        assert after.excess.mean() < before.excess.mean() / 2
        assert after.limit < before.limit / 4
    assert all(way.excess.min() >= 0 for way in spendings)


def test_m_estimation_is_at_its_limit(spendings):
    """The sum of 12 squared normals over its mean lies in (1/8, 4) but for 2e-6."""
    for way in spendings[1:]:
        assert 1 / 8 < way.excess.mean() / way.limit < 4


def test_the_table_states_gains_and_limits(spendings):
    lines = spending.table(spendings).splitlines()
    assert len(lines) == len(spendings) + 3
    gain = spendings[0].excess.mean() / spendings[2].excess.mean()
    assert f"{gain:.0f}   epsilon 2 on y x" in lines[3]
    assert f"{spendings[2].limit:.1e}" in lines[3]


@pytest.mark.filterwarnings("ignore:training has not arrived")
def test_the_picture_shows_draws_means_and_limits(problem, spendings):
    figure = plotting.excess_risk(demo.run(problem, record=5), spendings)
    left, right = figure.axes
    assert len(left.lines) == len(demo.CURVES)
    assert left.get_yscale() == "log"
    assert left.get_ylim() == right.get_ylim()
    for place, way in enumerate(spendings):
        np.testing.assert_array_equal(right.lines[place].get_ydata(), way.excess)
        assert np.abs(right.lines[place].get_xdata() - place).max() < 0.5
    levels = [collection.get_segments()[0][0, 1] for collection in right.collections]
    assert levels == [level for way in spendings for level in (way.excess.mean(), way.limit)]
    assert [tick.get_text().split("\n")[0] for tick in right.get_xticklabels()] == [
        "paper's recipe,", "best split,", *["designed:"] * len(spending.DESIGNED),
    ]  # fmt: skip
