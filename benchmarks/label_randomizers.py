"""The time of the optimal unbiased randomizer beside that of the published linear programme.

``python benchmarks/label_randomizers.py`` prints, for 52 labels on meshes of outputs and over all numbers, the time of
`optimal_unbiased_randomizer` (search, certificate, exact grid and verification) and that of the published programme,
which has a row for each pair of labels and each output, by the same HiGHS in the same run, given up after --limit
seconds; then budgets and priors; then 401 labels. The gap is certified: (loss - lower bound)/loss.
"""

import argparse
import math
import time

import numpy as np
import scipy.sparse
from scipy.optimize import linprog

import symdebias as sd


def skewed(count):
    """Return a prior that falls by e^-8 and has zeros."""
    prior = np.exp(-8 * np.arange(count) / count)
    prior[count // 5 : count // 4] = 0
    return prior / prior.sum()


def mesh(labels, epsilon, count):
    gain = math.expm1(epsilon)
    ends = [((gain + len(labels)) * end - labels.sum()) / gain for end in (labels[0], labels[-1])]
    return np.linspace(*ends, count)


def pairwise(labels, prior, epsilon, outputs, limit):
    """Return the optimum of the published programme and the seconds that it took, or None beyond the limit."""
    start = time.perf_counter()
    k, m = len(labels), len(outputs)
    one, other = np.nonzero(~np.eye(k, dtype=bool))
    rows = np.arange(len(one) * m)
    places = [(index[:, None] * m + np.arange(m)).ravel() for index in (one, other)]
    below = scipy.sparse.csr_matrix(
        (np.repeat([1.0, -math.exp(epsilon)], len(rows)), (np.tile(rows, 2), np.concatenate(places))),
        shape=(len(rows), k * m),
    )
    sums = scipy.sparse.kron(scipy.sparse.eye(k), np.ones((1, m)))
    means = scipy.sparse.kron(scipy.sparse.eye(k), outputs[None, :])
    found = linprog(
        (prior[:, None] * (outputs - labels[:, None]) ** 2).ravel(),
        A_ub=below,
        b_ub=np.zeros(len(rows)),
        A_eq=scipy.sparse.vstack([sums, means]).tocsr(),
        b_eq=np.concatenate([np.ones(k), labels]),
        method="highs",
        options={"time_limit": limit},
    )
    return (found.fun if found.status == 0 else None), time.perf_counter() - start


def ours(labels, prior, epsilon, outputs, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        best = sd.optimal_unbiased_randomizer(labels, prior, epsilon, outputs=outputs)
        times.append(time.perf_counter() - start)
    return best, min(times)


def line(name, best, seconds, rest=""):
    gap = best.optimality_gap / best.noisy_label_loss
    print(
        f"{name:34s} {best.noisy_label_loss:16.5f} {gap:9.1e} {len(best.outputs):5d} {seconds:8.3f} s {rest}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for the published programme")
    parser.add_argument("--many", type=int, default=401, help="the larger number of labels")
    arguments = parser.parse_args()
    sd.optimal_unbiased_randomizer(np.arange(3), np.full(3, 1 / 3), 1.0)  # imports and first calls
    print(f"{'':34s} {'loss':>16s} {'gap':>9s} {'out':>5s} {'ours':>10s}   published programme")
    labels, uniform = np.arange(1.0, 53.0), np.full(52, 1 / 52)
    for count in (52, 416, 1664, None):
        outputs = None if count is None else mesh(labels, 1.0, count)
        best, seconds = ours(labels, uniform, 1.0, outputs, 3)
        rest = ""
        if outputs is not None:
            value, published = pairwise(labels, uniform, 1.0, outputs, arguments.limit)
            rest = f"more than {published:.0f} s" if value is None else f"{published:.2f} s, {value:.5f}"
            rest += f": {published / seconds:.0f} times"
        line(f"52 labels, {'all numbers' if count is None else f'mesh {count}'}", best, seconds, rest)
    for name, prior in (("uniform", np.full(52, 1 / 52)), ("skewed", skewed(52))):
        for epsilon in (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0):
            for count in (None, 416):
                outputs = None if count is None else mesh(labels, epsilon, count)
                best, seconds = ours(labels, prior, epsilon, outputs, 1)
                line(f"  {name}, epsilon {epsilon:g}, {'all' if count is None else f'mesh {count}'}", best, seconds)
    labels = np.arange(float(arguments.many))
    for epsilon in (0.05, 1.0, 8.0):
        prior = np.full(len(labels), 1 / len(labels))
        for count in (4 * arguments.many if arguments.many == 401 else None, None):
            if count is not None and epsilon == 8.0:
                continue
            outputs = None if count is None else mesh(labels, epsilon, count)
            best, seconds = ours(labels, prior, epsilon, outputs, 1)
            name = "all numbers" if count is None else f"mesh {count}"
            line(f"{len(labels)} labels, epsilon {epsilon:g}, {name}", best, seconds)


if __name__ == "__main__":
    main()
