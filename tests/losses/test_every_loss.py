"""What holds for every loss of the catalogue: values, text, convexity, slopes, kernels, corrections."""

import copy
import pickle

import mpmath
import numpy as np
import pytest
import sympy as sp
from instances import ARGUMENTS, LOSSES, NON_NEGATIVE, NOT_CONVEX, Y

import symdebias as sd
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import parsing, writing

every = pytest.mark.parametrize("name", LOSSES)
# Known to be corrected exactly under normal noise.
EXACT = ("exponential", "squared_margin", "least_squares", "poisson")


def targets(loss):
    low = 0.0 if loss.name in NON_NEGATIVE else -1.0
    return loss.target_values or (low, 0.3, 2.0)


@every
def test_losses_are_documented_values(name):
    loss = LOSSES[name]
    function = getattr(sd.losses, name)
    assert "References" in function.__doc__
    assert "Examples" in function.__doc__
    assert loss.name == name
    for again in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), function(*ARGUMENTS.get(name, ()))):
        assert again == loss
        assert hash(again) == hash(loss)
    assert [other for other in LOSSES.values() if other == loss] == [loss]


@every
def test_losses_are_equal_after_writing_and_reading(name):
    loss = LOSSES[name]
    names = {symbol: symbol.name for symbol in (*loss.scores, loss.target)}
    text = writing.write(loss.expression, names)
    assert parsing.read(text, {name: symbol for symbol, name in names.items()}) == loss.expression


@every
def test_losses_are_convex_in_each_score(name):
    loss, bent = LOSSES[name], []
    for score in loss.scores:
        others = {other: 0.3 * k for k, other in enumerate(loss.scores) if other != score}
        value = sp.lambdify((score, Y), loss.expression.subs(others), "numpy")
        for target in targets(loss):
            values = np.array([float(value(u, target)) for u in np.linspace(-3, 3, 61)])
            bent.append(np.diff(values, 2).min() < -1e-12)
    assert any(bent) == (name in NOT_CONVEX)


@pytest.mark.in_turn
@every
def test_values_and_slopes_to_the_last_digits(name):
    """The form that kernels compute, against 400 digits, at scores where the written form overflows or cancels."""
    loss = LOSSES[name]
    first, *rest = loss.scores
    others = {other: sp.Rational(k, 3) for k, other in enumerate(rest, start=1)}
    scores = np.array([-35.0, -18.0, -3.0, -1e-3, 0.25, 2.0, 20.0, 35.0])
    written = stable.rewrite(loss.expression)
    for expression, exactly in (
        (written, loss.expression), (sp.diff(written, first), sp.diff(loss.expression, first))
    ):  # fmt: skip
        one = expression.subs(others)
        found = numeric(one, (first, Y))
        for target in targets(loss):
            values = np.broadcast_to(found(scores, np.full(len(scores), target)), scores.shape)
            exact = sp.lambdify((first, Y), exactly.subs(others), "mpmath")
            with mpmath.workdps(400):
                wanted = np.array([float(exact(mpmath.mpf(u), mpmath.mpf(target))) for u in scores])
            np.testing.assert_allclose(values, wanted, rtol=1e-10, atol=1e-14, err_msg=f"{one} at y = {target}")


@pytest.mark.in_turn
@every
def test_losses_are_corrected_or_say_why_not(name):
    loss = LOSSES[name]
    target = sd.RandomizedResponse(epsilon=1.0) if loss.target_values == (-1.0, 1.0) else None
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.3), target=target)
    if len(loss.scores) > 1:
        with pytest.raises(NoExactCorrectionError, match="no closed form"):
            sd.debias(loss, release)
        return
    corrected = sd.debias(loss, release, radius=2.0, score_variance=0.1, n=1e5)
    if corrected.is_exact:
        assert corrected.certificate.loss_bias < 1e-9
    else:
        assert name not in EXACT
        with pytest.raises(NoExactCorrectionError, match="no closed form"):
            sd.debias(loss, release, method="exact")
        assert corrected.method == "surrogate"
        assert corrected.certificate.loss_bias < 0.1
