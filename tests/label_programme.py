"""The published linear programme of unbiased label randomizers, and what is promised of any design, for tests."""

import math
from fractions import Fraction

import numpy as np
import scipy.sparse
from scipy.optimize import linprog


def mesh(labels, epsilon, count):
    """The mesh between the outputs of the ends under debiased randomized response at the budget itself."""
    gain, k = math.expm1(epsilon), len(labels)
    ends = [((gain + k) * end - labels.sum()) / gain for end in (labels[0], labels[-1])]
    return np.linspace(*ends, count)


def pairwise_optimum(labels, prior, epsilon, outputs, loss):
    """The linear programme as published, a row for each pair of labels and each output, by HiGHS."""
    k, m = len(labels), len(outputs)
    cost = (prior[:, None] * loss(outputs[None, :], labels[:, None])).ravel()
    index = np.arange(k * m).reshape(k, m)
    rows = [(index[a], index[b]) for a in range(k) for b in range(k) if a != b]
    below = scipy.sparse.lil_matrix((len(rows) * m, k * m))
    for number, (one, other) in enumerate(rows):
        below[number * m + np.arange(m), one] = 1.0
        below[number * m + np.arange(m), other] = -math.exp(epsilon)
    sums = scipy.sparse.kron(scipy.sparse.eye(k), np.ones((1, m)))
    means = scipy.sparse.kron(scipy.sparse.eye(k), outputs[None, :])
    found = linprog(
        cost, A_ub=below.tocsr(), b_ub=np.zeros(len(rows) * m), A_eq=scipy.sparse.vstack([sums, means]),
        b_eq=np.concatenate([np.ones(k), labels]), method="highs",
    )  # fmt: skip
    assert found.status == 0
    return found.fun


def assert_promises(randomizer, *, gap=1e-8):
    """Check everything that is promised of a design, in exact arithmetic, by another way than the library does."""
    epsilon, labels = randomizer.epsilon, randomizer.labels
    columns = list(zip(*(tuple(map(Fraction, row)) for row in randomizer.matrix), strict=True))
    assert all(sum(map(Fraction, row)) == 1 for row in randomizer.matrix)
    # exp by its series, rounded down: a sum of positive terms that was cut off
    limit, term = Fraction(0), Fraction(1)
    for n in range(1, 200):
        limit += term
        term = term * Fraction(epsilon) / n
    assert epsilon <= 40
    assert all(max(column) <= limit * min(column) for column in columns)
    span = Fraction(labels[-1]) - Fraction(labels[0])
    for row, label in zip(randomizer.matrix, labels, strict=True):
        mean = sum(Fraction(p) * Fraction(t) for p, t in zip(row, randomizer.outputs, strict=True))
        assert abs(mean - Fraction(label)) <= span * Fraction(1, 10**12)
    assert len(randomizer.outputs) <= 2 * len(labels)
    assert randomizer.lower_bound <= randomizer.noisy_label_loss
    assert randomizer.optimality_gap <= gap * randomizer.noisy_label_loss
