"""Time a training pass per record, beside its peers and beside reading the data once.

    python benchmarks/sgd_kernel.py [--records 1000000] [--repeats 5] [--columns 2 10 50]

One pass of IWP-SGD on the exponential loss, batch 128, against ``X.sum()`` (the data read once), scikit-learn's
SGDClassifier (default settings, one pass; the plain log-loss-like hinge, no correction), a vectorised NumPy loop
of the same algorithm, and two in PyTorch where it is installed: the same loop, its gradient derived by hand, and
what its users write, the corrected loss with ``loss.backward()`` and ``torch.optim.SGD``. The best of the repeats, in
nanoseconds per record of processor time; all of them on one thread.
"""

import argparse
import importlib.util
import platform
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import SGDClassifier

import symdebias as sd

BATCH, L2, STEP = 128, 5.0, 1e-4


def numpy_loop(X, y, variance, gain):
    """Algorithm 1 on the exponential loss, a batch at a time."""
    theta = np.zeros(X.shape[1])
    for start in range(0, len(X), BATCH):
        rows, labels = X[start : start + BATCH], y[start : start + BATCH]
        damping = np.exp(-variance * (theta @ theta) / 2)
        up = np.exp(rows @ theta)
        first, second = (1 - gain * labels) / 2 * up, (1 + gain * labels) / 2 / up
        slope, curvature = damping * (first - second), damping * (first + second).mean()
        theta = theta - STEP * (slope @ rows / len(rows) - curvature * variance * theta + L2 * theta)
    return theta


def torch_loop(X, y, variance, gain):
    """Run the same in PyTorch."""
    import torch

    torch.set_num_threads(1)
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    theta = torch.zeros(X.shape[1], dtype=torch.float64)
    for start in range(0, len(X), BATCH):
        rows, labels = X[start : start + BATCH], y[start : start + BATCH]
        damping = torch.exp(-variance * (theta @ theta) / 2)
        up = torch.exp(rows @ theta)
        first, second = (1 - gain * labels) / 2 * up, (1 + gain * labels) / 2 / up
        slope, curvature = damping * (first - second), damping * (first + second).mean()
        theta = theta - STEP * (slope @ rows / len(rows) - curvature * variance * theta + L2 * theta)
    return theta.numpy()


def torch_backward_loop(X, y, variance, gain):
    """Run the corrected loss through PyTorch's derivatives and its optimizer, on batches sliced from tensors."""
    import torch

    torch.set_num_threads(1)
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    theta = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=STEP, weight_decay=L2)
    for start in range(0, len(X), BATCH):
        rows, labels = X[start : start + BATCH], y[start : start + BATCH]
        score, damping = rows @ theta, torch.exp(-variance * (theta @ theta) / 2)
        losses = (1 - gain * labels) / 2 * torch.exp(score) + (1 + gain * labels) / 2 * torch.exp(-score)
        optimizer.zero_grad()
        (damping * losses.mean()).backward()
        optimizer.step()
    return theta.detach().numpy()


def best(function: Callable[[], object], repeats: int, records: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times) / records * 1e9


def measure(p: int, n: int, repeats: int) -> dict[str, float]:
    """Return nanoseconds per record of every peer at p columns."""
    rng = np.random.default_rng(p)
    X, y = rng.normal(size=(n, p)), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5), target=sd.RandomizedResponse(epsilon=1.0))
    corrected = sd.debias(sd.losses.exponential(), release)
    variance, gain = 0.25, release.target.gain

    def fit(order: str) -> np.ndarray:
        options = {"step_size": STEP, "batch_size": BATCH, "l2": L2, "order": order, "random_state": 0}
        return sd.sgd(corrected, X, y, **options).theta

    peers: dict[str, Callable[[], object]] = {
        "read the data once (X.sum())": X.sum,
        "symdebias, order given": lambda: fit("given"),
        "symdebias, order shuffled": lambda: fit("shuffled"),
        "NumPy loop": lambda: numpy_loop(X, y, variance, gain),
    }
    if importlib.util.find_spec("torch") is not None:
        peers["PyTorch loop"] = lambda: torch_loop(X, y, variance, gain)
        peers["PyTorch loop, loss.backward()"] = lambda: torch_backward_loop(X, y, variance, gain)
    # The loops of the same algorithm must agree before they are compared.
    for name, function in peers.items():
        if "loop" in name:
            np.testing.assert_allclose(fit("given"), function(), rtol=1e-6, atol=1e-9)
    found = {name: best(function, repeats, n) for name, function in peers.items()}
    classifier = SGDClassifier(max_iter=1, tol=None, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one pass has not converged: that is what is asked for
        found["SGDClassifier, one pass"] = best(lambda: classifier.fit(X, y), 2, n)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--columns", type=int, nargs="+", default=[2, 10, 50])
    options = parser.parse_args()
    sizes = options.columns
    found = [measure(p, options.records, options.repeats) for p in sizes]
    print(f"{platform.machine()}, Python {platform.python_version()}, n = {options.records:,}")
    print(f"{'ns per record':<42}" + "".join(f"{f'p = {p}':>12}" for p in sizes))
    for name in found[0]:
        print(f"{name:<42}" + "".join(f"{column[name]:>12.2f}" for column in found))
    print("\ntimes ours")
    for order in ("given", "shuffled"):
        for name in found[0]:
            if not name.startswith("symdebias"):
                ratios = (column[name] / column[f"symdebias, order {order}"] for column in found)
                print(f"{name + ' / ' + order:<42}" + "".join(f"{ratio:>12.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
