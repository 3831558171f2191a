"""Losses of many classes: each label is one branch, and costs as much as a loss of one."""

import pytest
import sympy as sp

import symdebias as sd
from symdebias.losses import finiteness
from symdebias.losses import loss as declaring

U, V, Y = sp.symbols("u v y", real=True)


def test_labels_are_not_compared_at_every_probe_nor_looked_at_for_jumps(monkeypatch):
    compared, jumps, equal = [], [], sp.core.relational.is_eq
    monkeypatch.setattr(sp.core.relational, "is_eq", lambda *sides: compared.append(sides) or equal(*sides))
    monkeypatch.setattr(declaring, "jump", lambda *asked: jumps.append(asked))
    loss = sd.losses.softmax(31)  # of no other test: what was declared is remembered
    assert len(compared) < 31**2
    assert loss.jump is None
    assert not jumps


@pytest.mark.parametrize("value", [0.0, 1.0, 2.5, -1.0])
@pytest.mark.parametrize("number", [0, 1, sp.Rational(5, 2), sp.Float(1.0), -1, V])
def test_deciding_conditions_on_the_label_changes_no_value(value, number):
    loss = sp.Piecewise((U**2, sp.Eq(Y, number)), (sp.exp(U) * Y, U > Y), (sp.cos(U), True))
    branch = declaring._at_label(loss, Y, value)
    for point in ({U: sp.Float(0.3), V: sp.Float(2.5)}, {U: sp.Float(-3.1), V: sp.Float(0.7)}):
        at = {**point, Y: sp.Float(value)}
        assert branch.xreplace(at) == loss.xreplace(at)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (sp.log(U), "is not a finite real number at u = -"),
        (sp.exp(sp.exp(sp.exp(3 * U))), "beyond the numbers of float64"),
        (1 / (U - 3), "no finite value at u = 3, y = 2"),
    ],
)
def test_a_label_whose_branch_is_not_finite_is_refused(part, message):
    written = sp.Piecewise((U**2, sp.Eq(Y, 0)), (U, sp.Eq(Y, 1)), (part, True))
    with pytest.raises(ValueError, match=message):
        sd.Loss(written, score=U, target=Y, target_values=(0, 1, 2))


def test_a_jump_of_one_label_is_found():
    written = sp.Piecewise((U**2, sp.Eq(Y, 0)), (U, sp.Eq(Y, 1)), (sp.Heaviside(U - 2), True))
    loss = sd.Loss(written, score=U, target=Y, target_values=(0, 1, 2))
    assert loss.jump == (U, 2.0)
    assert not finiteness.may_jump(declaring._at_label(loss.expression, loss.target, 0.0))
    with pytest.raises(sd.NoExactCorrectionError, match="jumps at u = 2"):
        sd.debias(loss, sd.Release(target=sd.RandomizedResponse(1.0, categories=(0, 1, 2))))


@pytest.mark.in_turn
def test_a_refusal_names_a_long_loss_and_does_not_send_in_a_circle():
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.1))
    with pytest.raises(sd.NoExactCorrectionError) as raised:
        sd.debias(sd.losses.softmax(40), release)
    said = str(raised.value)
    assert said.startswith("No method corrects softmax of 40 scores under this release:\n")
    assert "of=loss.target_values" in said
    assert 'Use method="series"' not in said
    assert max(map(len, said.splitlines())) < 500
