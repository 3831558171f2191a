"""Laplacian smoothing around optimizers of PyTorch: the steps are those of the solvers here, and nothing else changes.

PyTorch is some gigabytes, and no part of the test extra: these tests run where it is installed.
"""

import copy
import pickle
import re
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import symdebias as sd
from symdebias.interfaces.torch import LaplacianSmoothing

ROOT = Path(__file__).parents[2]


def parameters(*shapes, dtype=None, seed=0):
    """Parameters with gradients, both random."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for shape in shapes:
        value, gradient = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
        one = torch.nn.Parameter(value.to(dtype or torch.float64))
        one.grad = gradient.to(one.dtype)
        made.append(one)
    return made


def descent(given, sigma, **options):
    return LaplacianSmoothing(torch.optim.SGD(given, lr=1.0), sigma, **options)


def moves(given, optimizer):
    """What one step takes from each parameter."""
    before = [one.detach().clone() for one in given]
    optimizer.step()
    return [(old - new.detach()).numpy() for old, new in zip(before, given, strict=True)]


@pytest.mark.parametrize("sigma", [1e-3, 1.0, 3.0, 1e4])
@pytest.mark.parametrize("scope", ["tensor", "vector"])
def test_a_step_is_that_of_our_own_smoothing(scope, sigma):
    """Odd and even lengths, one entry, two entries, whose neighbours are each other, and none."""
    given = parameters((7, 11), (), (2,), (1, 1), (0,), (4, 3, 2), (1000,))
    gradients = [one.grad.numpy().copy() for one in given]
    if scope == "tensor":
        smooth = [sd.laplacian_smoothing(one.ravel(), sigma) if one.size else one for one in gradients]
        expected = [one.reshape(gradient.shape) for one, gradient in zip(smooth, gradients, strict=True)]
    else:
        together = sd.laplacian_smoothing(np.concatenate([one.ravel() for one in gradients]), sigma)
        ends = np.cumsum([one.size for one in gradients])[:-1]
        expected = [part.reshape(one.shape) for part, one in zip(np.split(together, ends), gradients, strict=True)]
    found = moves(given, descent(given, sigma, scope=scope))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-14 * np.sqrt(1 + sigma))


def test_the_mean_is_kept_and_gradients_are_given_back():
    given = parameters((40, 5), (9,))
    before = [one.grad for one in given]
    copies = [one.clone() for one in before]
    found = moves(given, descent(given, 30.0))
    for gradient, kept, move, one in zip(before, copies, found, given, strict=True):
        assert one.grad is gradient
        assert torch.equal(gradient, kept)
        assert move.mean() == pytest.approx(float(kept.mean()), abs=1e-14)
        assert move.std() < 0.5 * kept.numpy().std()


def test_gradients_of_any_layout_are_smoothed_in_c_order():
    (one,) = parameters((2, 3, 4, 5))
    plain = one.grad.numpy().copy()
    one.grad = one.grad.to(memory_format=torch.channels_last)
    (move,) = moves([one], descent([one], 2.0))
    np.testing.assert_allclose(move, sd.laplacian_smoothing(plain, 2.0), atol=1e-13)


@pytest.mark.parametrize(("kind", "accuracy"), [("float32", 1e-6), ("bfloat16", 2e-2), ("float16", 2e-3)])
def test_narrow_types_stay_what_they_are(kind, accuracy):
    dtype = getattr(torch, kind)
    (one,) = parameters((6, 50), dtype=dtype)
    gradient, seen = one.grad.double().numpy(), []
    optimizer = descent([one], 3.0)
    optimizer.optimizer.register_step_pre_hook(lambda *_: seen.append(one.grad.clone()))
    optimizer.step()
    assert seen[0].dtype == dtype
    np.testing.assert_allclose(seen[0].double().numpy(), sd.laplacian_smoothing(gradient, 3.0), atol=accuracy)


def trained(wrap, kind="SGD", steps=5, **options):
    """The parameters of a small network after a few steps."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    optimizer = wrap(getattr(torch.optim, kind)(model.parameters(), **options))
    X, y = torch.randn(64, 5), torch.randint(0, 3, (64,))

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(X), y)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return torch.cat([one.detach().ravel() for one in model.parameters()])


KINDS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3},
    "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01, "foreach": False},
    "RMSprop": {"lr": 0.01},
    "LBFGS": {"lr": 0.5, "max_iter": 4},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scope", ["tensor", "vector"])
def test_strength_0_is_the_optimizer_alone(kind, scope):
    bare = trained(lambda one: one, kind, **KINDS[kind])
    assert torch.equal(bare, trained(lambda one: LaplacianSmoothing(one, 0.0, scope=scope), kind, **KINDS[kind]))
    assert not torch.equal(bare, trained(lambda one: LaplacianSmoothing(one, 1.0), kind, **KINDS[kind]))


def test_a_closure_that_is_called_often_is_smoothed_each_time_and_once():
    """LBFGS asks four times in a step; the closure adds up gradients, which must not be those that were smoothed."""
    (one,) = parameters((30,))
    optimizer = LaplacianSmoothing(torch.optim.LBFGS([one], lr=0.1, max_iter=4), 2.0)
    one.grad, seen, raw = None, [], []

    def closure():
        raw.append(0.0 if one.grad is None else one.grad.clone())
        loss = ((one - torch.arange(30.0)) ** 2).sum()
        loss.backward()
        return loss

    inner = optimizer._smoothed
    optimizer._smoothed = lambda: (seen.append(one.grad.clone()) or pair for pair in inner())
    optimizer.step(closure)
    assert len(raw) == len(seen) == 4
    for before, after in zip(raw[1:], seen, strict=False):
        assert torch.equal(before, after)
    assert torch.equal(one.grad, seen[-1])


def test_a_closure_that_fails_leaves_everything_as_it_was():
    given = parameters((12,))
    value, gradient = given[0].detach().clone(), given[0].grad

    def fails():
        raise RuntimeError("no loss")

    with pytest.raises(RuntimeError, match="no loss"):
        descent(given, 1.0).step(fails)
    assert torch.equal(given[0], value)
    assert given[0].grad is gradient


def test_groups_have_strengths_of_their_own():
    first, second, third = parameters((8,), (9,), (10,))
    optimizer = descent([{"params": [first]}, {"params": [second], "smoothing": 0.0}], 3.0)
    optimizer.add_param_group({"params": [third], "smoothing": 1.0})
    assert [group["smoothing"] for group in optimizer.param_groups] == [3.0, 0.0, 1.0]
    gradients = [one.grad.numpy().copy() for one in (first, second, third)]
    found = moves([first, second, third], optimizer)
    for move, gradient, sigma in zip(found, gradients, (3.0, 0.0, 1.0), strict=True):
        np.testing.assert_allclose(move, sd.laplacian_smoothing(gradient, sigma), atol=1e-14)
    optimizer.param_groups[0]["smoothing"] = -1.0
    with pytest.raises(ValueError, match=r"smoothing=-1.0 is .*0 leaves the vector"):
        optimizer.step()
    with pytest.raises(ValueError, match="smoothing=nan"):
        optimizer.add_param_group({"params": parameters((3,)), "smoothing": float("nan")})


def test_the_whole_vector_leaves_out_groups_of_strength_0_and_gradients_that_are_none():
    first, second, third, fourth = parameters((8,), (9,), (10,), (4,))
    groups = [{"params": [first, fourth]}, {"params": [second], "smoothing": 0.0}, {"params": [third]}]
    gradients = [one.grad.numpy().copy() for one in (first, second, third)]
    fourth.grad = None
    found = moves([first, second, third, fourth], descent(groups, 2.0, scope="vector"))
    together = sd.laplacian_smoothing(np.concatenate([gradients[0], gradients[2]]), 2.0)
    expected = [together[:8], gradients[1], together[8:], np.zeros(4)]
    for move, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(move, wanted, atol=1e-14)


def test_the_whole_vector_has_one_strength_and_one_type():
    first, second = parameters((8,), (9,))
    (narrow,) = parameters((3,), dtype=torch.float32)
    strengths = [{"params": [first]}, {"params": [second], "smoothing": 1.0}]
    with pytest.raises(ValueError, match=r"torch.float64 on cpu, 1; torch.float64 on cpu, 2\. Make them alike"):
        descent(strengths, 2.0, scope="vector").step()
    with pytest.raises(ValueError, match=r"torch.float32 on cpu, 2; torch.float64 on cpu, 2\. Make them alike"):
        descent([first, narrow], 2.0, scope="vector").step()


def test_vectors_of_other_lengths_are_smoothed_and_not_kept():
    """A parameter without a gradient shortens the vector."""
    first, second = parameters((8,), (9,))
    optimizer = descent([first, second], 2.0, scope="vector")
    optimizer.step()
    second.grad = None
    (move, still) = moves([first, second], optimizer)
    np.testing.assert_allclose(move, sd.laplacian_smoothing(first.grad.numpy(), 2.0), atol=1e-14)
    assert not still.any()
    assert [size for size, *_ in optimizer._curvatures] == [8]


def test_nothing_to_smooth_is_no_step():
    (one,) = parameters((4,))
    one.grad = None
    for scope in ("tensor", "vector"):
        (move,) = moves([one], descent([one], 2.0, scope=scope))
        assert not move.any()


def test_nan_is_seen_where_it_was_smoothed():
    first, second = parameters((8,), (9,))
    first.grad[3] = float("nan")
    found = moves([first, second], descent([first, second], 1.0))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_sparse_and_complex_gradients_are_refused():
    table = torch.nn.Embedding(10, 3, sparse=True)
    table(torch.tensor([1, 2])).sum().backward()
    before = table.weight.detach().clone()
    with pytest.raises(TypeError, match=r"shape \(10, 3\) is sparse, and smoothing would fill it. Make it dense"):
        descent(table.parameters(), 1.0).step()
    assert torch.equal(table.weight, before)
    moves([table.weight], descent([{"params": table.parameters(), "smoothing": 0.0}], 1.0))
    assert not torch.equal(table.weight, before)
    number = torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    number.grad = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(TypeError, match=r"shape \(3,\) is complex"):
        descent([number], 1.0).step()


def test_what_is_no_optimizer_or_smooths_already_is_refused():
    given = parameters((3,))
    with pytest.raises(TypeError, match="the optimizer is a list, not an optimizer of PyTorch"):
        LaplacianSmoothing(given)
    with pytest.raises(TypeError, match="the optimizer smooths already"):
        LaplacianSmoothing(descent(given, 1.0))


def test_a_state_brings_back_strengths_and_momenta():
    def made(sigma):
        given = parameters((6,), (7,))
        groups = [{"params": given[:1]}, {"params": given[1:], "smoothing": 0.5}]
        return given, LaplacianSmoothing(torch.optim.Adam(groups, lr=0.1), sigma)

    given, optimizer = made(3.0)
    optimizer.step()
    again, other = made(1.0)
    for one, two in zip(again, given, strict=True):
        one.data.copy_(two.data)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert [group["smoothing"] for group in other.param_groups] == [3.0, 0.5]
    for one, two in zip(moves(given, optimizer), moves(again, other), strict=True):
        np.testing.assert_array_equal(one, two)
    # A state without strengths, of the optimizer alone: the constructor's.
    other.load_state_dict(torch.optim.Adam([{"params": again[:1]}, {"params": again[1:]}], lr=0.1).state_dict())
    assert [group["smoothing"] for group in other.param_groups] == [1.0, 1.0]


def test_copies_and_pickles_smooth_too():
    given = parameters((6, 3))
    optimizer = LaplacianSmoothing(torch.optim.SGD(given, lr=0.1, momentum=0.9), 2.0, scope="vector")
    optimizer.step()
    gradient = given[0].grad
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (theirs,) = twin.param_groups[0]["params"]
        assert theirs is not given[0]
        theirs.grad = gradient.clone()
        bare = copy.deepcopy(optimizer)
        (mine,) = bare.param_groups[0]["params"]
        mine.grad = gradient.clone()
        np.testing.assert_array_equal(moves([theirs], twin)[0], moves([mine], bare)[0])
        assert (twin.sigma, twin.scope) == (2.0, "vector")


@pytest.mark.parametrize("kind", ["StepLR", "CosineAnnealingLR", "OneCycleLR", "ReduceLROnPlateau"])
def test_schedulers_take_it_for_an_optimizer(kind):
    options = {
        "StepLR": {"step_size": 1, "gamma": 0.5},
        "CosineAnnealingLR": {"T_max": 4},
        "OneCycleLR": {"max_lr": 1.0, "total_steps": 8},
        "ReduceLROnPlateau": {"patience": 0},
    }[kind]
    rates = []
    for wrap in (lambda one: one, lambda one: LaplacianSmoothing(one, 1.0)):
        given = parameters((5,))
        optimizer = wrap(torch.optim.SGD(given, lr=0.5, momentum=0.9))
        scheduler = getattr(torch.optim.lr_scheduler, kind)(optimizer, **options)
        rates.append([])
        for _ in range(4):
            optimizer.step()
            scheduler.step(*([1.0] if kind == "ReduceLROnPlateau" else []))
            rates[-1].append(optimizer.param_groups[0]["lr"])
    assert rates[0] == rates[1]
    assert len(set(rates[0])) > 1


def test_hooks_are_called_once_and_see_smoothed_gradients():
    (one,) = parameters((20,))
    optimizer, called = descent([one], 5.0), []
    expected = sd.laplacian_smoothing(one.grad.numpy(), 5.0)
    optimizer.register_step_pre_hook(lambda *_: called.append(one.grad.numpy().copy()))
    optimizer.register_step_post_hook(lambda *_: called.append("stepped"))
    optimizer.register_state_dict_pre_hook(lambda *_: called.append("saving"))
    optimizer.register_state_dict_post_hook(lambda *_: called.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: called.append("loading"))
    optimizer.register_load_state_dict_post_hook(lambda *_: called.append("loaded"))
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    np.testing.assert_allclose(called[0], expected, atol=1e-14)
    assert called[1:] == ["stepped", "saving", "saved", "loading", "loaded"]


def test_scaled_gradients_are_unscaled_before_a_fused_step():
    """A fused optimizer would look for the factor in itself, where the scaler has not put it."""
    found = []
    for wrap in (lambda one: one, lambda one: LaplacianSmoothing(one, 0.0)):
        given = parameters((5,), dtype=torch.float32)
        optimizer = wrap(torch.optim.SGD(given, lr=1.0, fused=True))
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer.zero_grad()
        scaler.scale((given[0] * torch.arange(5.0)).sum()).backward()
        before = given[0].detach().clone()
        scaler.step(optimizer)
        found.append((before - given[0].detach()).numpy())
    np.testing.assert_allclose(found[0], np.arange(5.0), atol=1e-6)
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


def test_it_says_what_it_is():
    text = repr(descent(parameters((3,)), 2.0))
    assert text.startswith("LaplacianSmoothing(sigma=2, scope='tensor') of SGD (")


@pytest.mark.needs("opacus")
def test_with_opacus_it_smooths_what_was_noised():
    """The step is that of the noised sum of clipped gradients, smoothed; the same seed gives it without smoothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import opacus

        found = []
        for wrap in (lambda one: one, lambda one: LaplacianSmoothing(one, 3.0)):
            torch.manual_seed(3)
            model = opacus.GradSampleModule(torch.nn.Linear(6, 4, bias=False).double())
            optimizer = opacus.optimizers.DPOptimizer(
                wrap(torch.optim.SGD(model.parameters(), lr=1.0)), noise_multiplier=1.0, max_grad_norm=1.0,
                expected_batch_size=8, generator=torch.Generator().manual_seed(4),
            )  # fmt: skip
            X, y = torch.randn(8, 6, dtype=torch.float64), torch.randint(0, 4, (8,))
            torch.nn.functional.cross_entropy(model(X), y).backward()
            before = next(model.parameters()).detach().clone()
            optimizer.step()
            found.append((before - next(model.parameters()).detach()).numpy())
    np.testing.assert_allclose(found[1], sd.laplacian_smoothing(found[0], 3.0), atol=1e-12)
    with pytest.raises(TypeError, match="DPOptimizer makes its gradients within its steps"):
        LaplacianSmoothing(optimizer, 3.0)


def test_the_code_of_the_page_runs():
    """It is not an executed example there, as PyTorch may not be installed where pages are tested."""
    page = (ROOT / "docs" / "private_training.md").read_text()
    (code,) = re.findall(r"```python\n((?:(?!```).)*LaplacianSmoothing.*?)```", page, re.DOTALL)
    assert ">>>" not in code
    exec(compile(textwrap.dedent(code), "page", "exec"), {})
