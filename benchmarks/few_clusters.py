"""Do 95% intervals cover where clusters are few and unequal? Exponential loss, exact under Gaussian noise.

    python benchmarks/few_clusters.py [--draws 2000]

A record has two features, one that varies within clusters (intraclass correlation 0.2) and one that hardly does (0.8),
and an intercept; noise of standard deviation 0.5 on both features. Labels are logistic in twice the score and, where
`effect` is not 0, a normal effect of the cluster of that standard deviation; the optimum is then that of the mean over
effects, by quadrature. Sizes of clusters are equal, or grow like exp(g k/G) over clusters k = 1 to G: with g = 2 the
largest is seven times the smallest, with g = 4 fifty times. "one" has one cluster with 55% of the records, "three" a
second column that is 1 in three clusters and 0 elsewhere, without noise. Columns: coverage of theta +- 1.96 standard
errors of the plain sandwich with the factor G/(G - 1), and of `confidence_interval`, for the three parameters, in
percent; mean lengths of these intervals beside those of Student's t with G - 1 degrees of freedom; how often
the Wald test of the true parameters, all three together, rejects at 5% ("-" where clusters so few and unequal do not
allow the test); and the fits that were refused.
"""

import argparse
import contextlib
import warnings

import numpy as np
from scipy import optimize
from scipy.special import expit, stdtrit

import symdebias as sd
from symdebias.exceptions import InferenceError, SymdebiasError

NOISE = 0.5
THETA = np.array([0.5, -0.3])
CASES = [
    (clusters, 50 * clusters, growth, effect)
    for clusters in (6, 12, 20, 40)
    for growth in (0.0, 2.0, 4.0)
    for effect in (0.0, 0.7)
] + [
    (9, 450, "one", 0.0),
    (9, 450, "one", 0.3),
    (9, 450, "one", 0.7),
    (12, 600, "three", 0.7),
    (40, 2000, "three", 0.7),
]


def optimum(effect):
    """Return the minimiser of E exp(-y u), by quadrature over the score and the effect."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    length = np.linalg.norm(THETA)
    chance = expit(2 * length * nodes[:, None] + effect * nodes[None, :]) @ weights

    def slope(size):
        return float(weights @ (nodes * ((1 - chance) * np.exp(size * nodes) - chance * np.exp(-size * nodes))))

    return np.append(optimize.brentq(slope, 0.01, 3.0) * THETA / length, 0.0)


def truth_of_three(effect, share):
    """Return the minimiser where the second column is 1 for a share of the records, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    x, b = np.meshgrid(nodes, [0.0, 1.0], indexing="ij")
    chances = np.multiply.outer(weights, [1 - share, share])
    scores = 2 * (THETA[0] * x + THETA[1] * b)
    chance = expit(scores[..., None] + effect * nodes) @ weights

    def risk(theta):
        u = theta[0] * x + theta[1] * b + theta[2]
        return float(np.sum(chances * (chance * np.exp(-u) + (1 - chance) * np.exp(u))))

    return optimize.minimize(risk, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x


def sizes(clusters, records, growth):
    if growth == "one":
        return np.array([int(0.55 * records)] + [int(0.45 * records / (clusters - 1))] * (clusters - 1))
    if growth == "three":
        growth = 0.0
    shares = np.exp(growth * np.arange(clusters) / clusters)
    return np.floor(records * shares / shares.sum()).astype(int)


def draw(rng, counts, effect, *, having=0):
    """Return noised features, labels and clusters; the second column is that of so many clusters, if any."""
    codes = np.repeat(np.arange(len(counts)), counts)
    X = np.empty((len(codes), 2))
    for column, share in enumerate((0.2, 0.8)):
        own, common = rng.normal(size=len(codes)), rng.normal(size=len(counts))
        X[:, column] = np.sqrt(share) * common[codes] + np.sqrt(1 - share) * own
    if having:
        X[:, 1] = codes < having
    scores = 2 * X @ THETA + effect * rng.normal(size=len(counts))[codes]
    y = np.where(rng.random(len(codes)) < expit(scores), 1.0, -1.0)
    noised = X + NOISE * rng.normal(size=X.shape)
    if having:
        noised[:, 1] = X[:, 1]
    return noised, y, codes


def plain(theta, X, y, codes, noise):
    """Return standard errors of the sandwich with the factor G/(G - 1), by hand."""
    rows = np.column_stack([X, np.ones(len(X))])
    moved = y[:, None] * rows + noise @ theta
    weights = np.exp(-y * (rows @ theta) - theta @ noise @ theta / 2)
    hessian = (moved * weights[:, None]).T @ moved - weights.sum() * noise
    count = codes.max() + 1
    sums = np.stack([np.bincount(codes, column) for column in (moved * weights[:, None]).T], axis=1)
    bread = np.linalg.inv(hessian)
    return np.sqrt(np.diag(bread @ sums.T @ sums @ bread) * count / (count - 1))


def coverage(clusters, records, growth, effect, draws, seed=0):
    """Return coverage of plain and stated intervals, lengths beside G - 1, each of shape (3,), and two rates.

    They are those of rejections and of refusals.
    """
    rng, having = np.random.default_rng(seed), 3 * (growth == "three")
    error = sd.GaussianMechanism.from_scale(NOISE)
    features = {("x0",): error} if having else {("x0", "x1"): error}
    release = sd.Release(features=features, noiseless=("x1",) if having else (), fit_intercept=True)
    noise = np.diag([NOISE**2, 0.0 if having else NOISE**2, 0.0])
    corrected = sd.debias(sd.losses.exponential(), release)
    counts = sizes(clusters, records, growth)
    truth = truth_of_three(effect, having / clusters) if having else optimum(effect)
    covered, reached, rejected, tested, fitted = np.zeros((2, 3)), np.zeros((2, 3)), 0, 0, 0
    for _ in range(draws):
        X, y, codes = draw(rng, counts, effect, having=having)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sd.VarianceWarning)
                fit = sd.m_estimate(corrected, X, y, clusters=codes)
            low, high = fit.confidence_interval().T
        except SymdebiasError:
            continue
        fitted += 1
        with contextlib.suppress(InferenceError):
            rejected += fit.wald_test(np.eye(3), truth).pvalue < 0.05
            tested += 1
        reached += [high - low, 2 * stdtrit(clusters - 1, 0.975) * fit.standard_errors]
        covered[0] += np.abs(fit.theta - truth) <= 1.96 * plain(fit.theta, X, y, codes, noise)
        covered[1] += (low <= truth) & (truth <= high)
    return *(covered / fitted), reached[0] / reached[1], rejected / tested if tested else None, 1 - fitted / draws


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    draws = parser.parse_args().draws
    print(
        f"{'clusters':>8}{'g':>6}{'effect':>8}{'plain, normal':>22}{'stated':>22}{'length':>22}"
        f"{'Wald':>8}{'refused':>9}"
    )
    for clusters, records, growth, effect in CASES:
        before, after, lengths, rejected, refused = coverage(clusters, records, growth, effect, draws)
        print(
            f"{clusters:>8}{growth:>6}{effect:>8g}"
            f"{''.join(f'{100 * share:>7.1f}' for share in before):>22}"
            f"{''.join(f'{100 * share:>7.1f}' for share in after):>22}"
            f"{''.join(f'{share:>7.2f}' for share in lengths):>22}"
            f"{'-' if rejected is None else f'{100 * rejected:.1f}':>8}{100 * refused:>9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
