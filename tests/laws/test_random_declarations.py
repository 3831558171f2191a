"""What holds for every loss, release and record that a strategy draws; the oracle is a dense scan of scores."""

import warnings

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import U, Y, entire_terms, expressions, records, releases

import symdebias as sd
from symdebias.losses import parsing, writing
from symdebias.losses.admission import require_admitted

# The clock of a busy machine decides nothing.
relaxed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
SCORES = np.linspace(-1.5, 1.5, 61)


@pytest.mark.in_turn
@relaxed
@given(expressions())
def test_a_loss_of_the_grammar_is_admitted_and_the_same_from_text(expression):
    require_admitted(expression)
    loss = sd.Loss(expression, score=U, target=Y)
    try:
        text = writing.write(loss.expression, {loss.scores[0]: "u", loss.target: "y"})
    except ValueError:
        # Of more than 2,000 characters or 400 nodes, or with an exponent above 12.
        return
    assert parsing.read(text, {"u": loss.scores[0], "y": loss.target}) == loss.expression


@pytest.mark.in_turn
@relaxed
@given(expressions(entire_terms()), st.floats(0.1, 0.7), st.sampled_from([-1.0, 0.5, 1.0]))
def test_exact_corrections_have_the_loss_as_their_mean_at_every_score(expression, scale, target):
    loss = sd.Loss(expression, score=U, target=Y)
    corrected = sd.debias(loss, sd.Release(features=sd.GaussianMechanism.from_scale(scale)), method="exact")
    assert corrected.is_exact
    (variance,) = {*corrected.expression.free_symbols} - {U, Y} or {sp.Symbol("s")}
    evaluate = sp.lambdify([U, Y, variance], corrected.expression, ["scipy", "numpy"])
    truth = sp.lambdify([U, Y], loss.expression, ["scipy", "numpy"])
    released = SCORES[:, None] + scale * NODES
    values = np.broadcast_to(evaluate(released, target, scale**2), released.shape)
    wanted = np.broadcast_to(truth(SCORES, target), SCORES.shape)
    sizes = 1 + np.abs(values) @ WEIGHTS
    assert np.abs(values @ WEIGHTS - wanted).max() <= 1e-10 * sizes.max()


def test_the_oracle_sees_a_wrong_correction():
    values = (SCORES[:, None] + 0.5 * NODES) ** 4 @ WEIGHTS
    assert np.abs(values - SCORES**4).max() > 0.1


@relaxed
@given(releases())
def test_a_release_is_the_same_from_its_card(release):
    text = release.to_json()
    again = sd.Release.from_json(text)
    assert again == release
    assert again.to_json() == text
    assert again.guarantee == release.guarantee


@pytest.mark.in_turn
@relaxed
@given(releases().flatmap(lambda release: st.tuples(st.just(release), records(release))))
def test_records_are_released_in_their_shape_and_nothing_else_changes(drawn):
    release, (X, y) = drawn
    before = X.copy(), y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ClippingWarning)
        noised = release.privatize(X, y, random_state=0)
    assert noised.X.shape == X.shape
    assert noised.y.shape == y.shape
    assert np.isfinite(noised.X).all()
    for place, name in enumerate(release.columns):
        if name in release.noiseless:
            np.testing.assert_array_equal(noised.X[:, place], X[:, place])
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize("character", ["\u202e", "\x00"])
def test_what_strategies_leave_out_is_refused(character):
    with pytest.raises(ValueError, match="not seen"):
        sd.Release(features={f"a{character}": sd.LaplaceMechanism.from_scale(1.0)})
