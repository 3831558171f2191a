"""Time an epoch of private training beside NumPy and Opacus.

    python benchmarks/dp_lssgd.py [--records 8000] [--columns 784] [--epochs 3] [--repeats 5] [--processor-time]

Softmax regression of 10 classes with an intercept, batches of 128 by Poisson sampling, clipped gradients of single
records and normal noise. `sd.dp_lssgd` without and with smoothing (its own clock: calibration and compilation are done
before), a vectorised NumPy loop of the same algorithm, and Opacus where it is installed, in float32: as documented;
with its optimiser alone on batches that are indexed at once; and so with ghost clipping. NumPy clips by norms of slopes
times norms of rows, so that it never has a gradient of a single record, and smooths by the Fourier transform.

One thread each, in turns, the best of the repeats. Two limits are timed with them: to read the data once, and to draw
the noise of an epoch. ``--processor-time`` counts the seconds that the one thread had a processor, for a machine that
others use too.
"""

import argparse
import importlib.util
import platform
import time
import warnings
from collections.abc import Callable
from unittest import mock

import numpy as np
import scipy.fft
from threadpoolctl import threadpool_limits

import symdebias as sd
from symdebias.mechanisms import batches, sampling

CLASSES, BATCH, STEP, CLIP, SIGMA = 10, 128, 0.1, 1.0, 3.0
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one"}
OURS = "symdebias, sigma 0"
Clock = Callable[[], float]


def problem(records: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(records, columns)) / np.sqrt(columns)
    return X, rng.integers(0, CLASSES, records).astype(float)


def ours(X: np.ndarray, y: np.ndarray, sigma: float, epochs: int) -> sd.Fit:
    return sd.dp_lssgd(
        sd.losses.softmax(CLASSES), X, y, **BUDGET, smoothing=sigma, clip=CLIP, epochs=epochs, batch_size=BATCH,
        step_size=STEP, fit_intercept=True, random_state=0,
    )  # fmt: skip


def numpy_loop(
    X: np.ndarray, y: np.ndarray, sigma: float, scale: float, probability: float, source: sampling.Source, most: int
) -> Callable[[int, np.ndarray], np.ndarray]:
    """Return a function that takes so many steps from a start, with records and noise of the same source."""
    rows = np.column_stack([X, np.ones(len(X))])
    norms, labels = np.linalg.norm(rows, axis=1), y.astype(int)
    length = CLASSES * rows.shape[1]
    spectrum = 1 + 4 * sigma * np.sin(np.pi * np.arange(length // 2 + 1) / length) ** 2

    def run(steps: int, theta: np.ndarray) -> np.ndarray:
        theta = theta.copy()
        for lower in range(0, steps, most):
            count = min(most, steps - lower)
            drawn, ends = batches.poisson_samples(len(X), probability, count, source)
            noise = sampling.normal_noise(scale, (count, length), source)
            for t in range(count):
                chosen = drawn[ends[t - 1] if t else 0 : ends[t]]
                batch = rows[chosen]
                scores = batch @ theta.T
                slopes = np.exp(scores - scores.max(axis=1, keepdims=True))
                slopes /= slopes.sum(axis=1, keepdims=True)
                slopes[np.arange(len(chosen)), labels[chosen]] -= 1
                sizes = norms[chosen] * np.sqrt((slopes * slopes).sum(axis=1))
                slopes *= np.minimum(1.0, CLIP / sizes)[:, None]
                gradient = ((slopes.T @ batch).ravel() + noise[t]) / BATCH
                if sigma:
                    gradient = scipy.fft.irfft(scipy.fft.rfft(gradient) / spectrum, length)
                theta -= STEP * gradient.reshape(theta.shape)
        return theta

    return run


def same_algorithm() -> None:
    """Hold the NumPy loop against `sd.dp_lssgd` on the same random numbers."""
    X, y = problem(1024, 64)
    for sigma in (0.0, SIGMA):
        fit = ours(X, y, sigma, 1)
        scale = fit.diagnostics["noise_multiplier"] * CLIP
        run = numpy_loop(X, y, sigma, scale, BATCH / 1024, sampling.source(0), 1000)
        # Ours rounds each gradient to 2^-20 of the clip, and calibrates the noise to that.
        np.testing.assert_allclose(fit.theta, run(fit.diagnostics["steps"], np.zeros((CLASSES, 65))), atol=1e-6)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def opacus_peers(X: np.ndarray, y: np.ndarray, multiplier: float, epochs: int) -> dict[str, Clock]:
    """Return clocks of Opacus, in the forms that it has."""
    import torch
    from opacus import GradSampleModule, PrivacyEngine
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    torch.set_num_threads(1)
    inputs, labels = torch.from_numpy(X).float(), torch.from_numpy(y).long()
    records, probability = len(X), BATCH / len(X)
    steps = round(epochs / probability)
    bounds = {"noise_multiplier": multiplier, "max_grad_norm": CLIP}

    def plain() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = torch.nn.Linear(X.shape[1], CLASSES)
        return model, torch.optim.SGD(model.parameters(), lr=STEP)

    def documented() -> float:
        model, optimizer = plain()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=BATCH)
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, **bounds
        )
        criterion = torch.nn.CrossEntropyLoss()

        def train() -> None:
            for _ in range(epochs):
                for batch, target in loader:
                    optimizer.zero_grad()
                    criterion(model(batch), target).backward()
                    optimizer.step()

        return timed(train)

    def indexed(ghost: bool) -> float:
        model, optimizer = plain()
        kind = {"expected_batch_size": BATCH, "loss_reduction": "mean", **bounds}
        criterion = torch.nn.CrossEntropyLoss()
        if ghost:
            model = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP, use_ghost_clipping=True)
            optimizer = DPOptimizerFastGradientClipping(optimizer, **kind)
            criterion = DPLossFastGradientClipping(model, optimizer, torch.nn.CrossEntropyLoss(reduction="mean"))
        else:
            model = GradSampleModule(model)
            optimizer = DPOptimizer(optimizer, **kind)

        def train() -> None:
            for _ in range(steps):
                chosen = torch.nonzero(torch.rand(records) < probability)[:, 0]
                optimizer.zero_grad()
                criterion(model(inputs[chosen]), labels[chosen]).backward()
                optimizer.step()

        return timed(train)

    return {
        "Opacus, as documented": documented,
        "Opacus, batches indexed": lambda: indexed(False),
        "Opacus, indexed, ghost clipping": lambda: indexed(True),
    }


def measure(records: int, columns: int, epochs: int, repeats: int) -> dict[str, float]:
    """Return the seconds per epoch of each."""
    X, y = problem(records, columns)
    first = ours(X, y, 0.0, epochs)
    scale = first.diagnostics["noise_multiplier"] * CLIP
    steps, length = first.diagnostics["steps"], first.theta.size
    source, zeros = sampling.source(0), np.zeros_like(first.theta)
    most = max(1, 2**18 // length)
    loops = {sigma: numpy_loop(X, y, sigma, scale, BATCH / records, source, most) for sigma in (0.0, SIGMA)}

    def noise() -> None:
        for _ in range(0, steps, most):
            sampling.normal_noise(scale, (most, length), source)

    clocks: dict[str, Clock] = {
        OURS: lambda: ours(X, y, 0.0, epochs).diagnostics["seconds"],
        "symdebias, sigma 3": lambda: ours(X, y, SIGMA, epochs).diagnostics["seconds"],
        "NumPy, sigma 0": lambda: timed(lambda: loops[0.0](steps, zeros)),
        "NumPy, sigma 3": lambda: timed(lambda: loops[SIGMA](steps, zeros)),
        "read the data (X.sum())": lambda: timed(lambda: [X.sum() for _ in range(epochs)]),
        "draw the noise": lambda: timed(noise),
    }
    if importlib.util.find_spec("opacus") is not None:
        clocks |= opacus_peers(X, y, scale / CLIP, epochs)
    times = {name: float("inf") for name in clocks}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # PyTorch's and Opacus's, about their own internals
        for _ in range(repeats):
            for name, clock in clocks.items():
                times[name] = min(times[name], clock() / epochs)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=8000)
    parser.add_argument("--columns", type=int, default=784)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    same_algorithm()
    # The solver takes its own time by this function too.
    with mock.patch.object(time, "perf_counter", time.process_time if options.processor_time else time.perf_counter):
        found = measure(options.records, options.columns, options.epochs, options.repeats)
    print(
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}; n = {options.records:,}, "
        f"d = {CLASSES * (options.columns + 1):,}, batches of {BATCH}"
    )
    print(f"{'':<34}{'ms per epoch':>14}{'epochs per s':>14}{'times ours':>12}")
    for name, seconds in found.items():
        print(f"{name:<34}{1e3 * seconds:>14.2f}{1 / seconds:>14.1f}{seconds / found[OURS]:>12.2f}")
    if not any("Opacus" in name for name in found):
        print("Opacus is not installed")


if __name__ == "__main__":
    main()
