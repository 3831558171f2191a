"""How long does M-estimation take? As a multiple of reading the data once, beside fits of uncorrected models.

    python benchmarks/m_estimation.py [--n 1000000] [--columns 10] [--repeats 5]

`m_estimate` on released records: exponential loss with l2, log loss by surrogate, least squares and Poisson regression,
and log loss and probit where labels alone are noised, each with its covariance. Beside them scikit-learn's
LogisticRegression (lbfgs, default settings but no penalty; no covariance) and statsmodels' Logit (Newton, with
covariance) on the records of the log loss by surrogate. These fit the uncorrected model: the same work, and a wrong
answer, whose distance from the true parameters is in the last column beside ours. The best of the repeats, methods
taking turns; `m_estimate` takes all cores.
"""

import argparse
import math
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import symdebias as sd

NOISE, LABEL_BUDGET = 0.5, 2.0


def problems(n: int, columns: int) -> tuple[np.ndarray, dict[str, tuple[sd.CorrectedLoss, Any, Any, float]]]:
    """Return the true parameters, and for each loss the corrected loss, released records and l2."""
    rng = np.random.default_rng(0)
    theta = np.resize([1.0, -1.0, 0.5, -0.5], columns) / math.sqrt(columns / 4)
    X = rng.uniform(-1, 1, (n, columns))
    score = X @ theta
    labels = np.where(rng.random(n) < expit(score), 1.0, -1.0)
    features = sd.GaussianMechanism.from_scale(NOISE)
    noised_labels = sd.Release(features, sd.RandomizedResponse(epsilon=LABEL_BUDGET))
    noised_features = sd.Release(features)
    of_labels = noised_labels.privatize(X, labels, random_state=1)
    of_values = noised_features.privatize(X, score + rng.normal(size=n), random_state=2)
    labels_alone = sd.Release(target=noised_labels.target)
    of_true_features = labels_alone.privatize(X, labels, random_state=4)
    of_counts = noised_features.privatize(X, rng.poisson(np.exp(score)).astype(float), random_state=3)
    return theta, {
        "exponential, l2 1": (sd.debias(sd.losses.exponential(), noised_labels), of_labels.X, of_labels.y, 1.0),
        "log loss, surrogate": (sd.debias(sd.losses.logistic(), noised_labels), of_labels.X, of_labels.y, 0.0),
        "least squares": (sd.debias(sd.losses.least_squares(), noised_features), of_values.X, of_values.y, 0.0),
        "log loss, noised labels": (sd.debias(sd.losses.logistic(), labels_alone), X, of_true_features.y, 0.0),
        "probit, noised labels": (sd.debias(sd.losses.probit(), labels_alone), X, of_true_features.y, 0.0),
        "Poisson": (sd.debias(sd.losses.poisson(), noised_features), of_counts.X, of_counts.y, 0.0),
    }


def measure(n: int, columns: int, repeats: int) -> str:
    """Return the table."""
    theta, table = problems(n, columns)
    steps: dict[str, int] = {}
    far: dict[str, float] = {}

    def ours(name: str) -> None:
        corrected, X, y, l2 = table[name]
        fit = sd.m_estimate(corrected, X, y, l2=l2)
        steps[name], far[name] = fit.diagnostics["steps"], float(np.linalg.norm(fit.theta - theta))

    _, X, y, _ = table["log loss, surrogate"]

    def scikit_learn() -> None:
        found = LogisticRegression(C=math.inf, fit_intercept=False).fit(X, y)
        steps["LogisticRegression"] = int(found.n_iter_[0])
        far["LogisticRegression"] = float(np.linalg.norm(found.coef_[0] - theta))

    reading = "read the data once, X.sum()"
    methods: dict[str, Callable[[], object]] = {reading: X.sum}
    methods |= {f"m_estimate: {name}": lambda name=name: ours(name) for name in table}
    methods["LogisticRegression"] = scikit_learn
    try:
        import statsmodels.api
    except ImportError:
        pass
    else:

        def logit() -> None:
            found = statsmodels.api.Logit((y + 1) / 2, X).fit(disp=0)
            found.cov_params()
            steps["Logit"] = found.mle_retvals["iterations"]
            far["Logit"] = float(np.linalg.norm(found.params - theta))

        methods["Logit"] = logit
    for method in methods.values():
        method()  # compiles, and warms the caches
    best = dict.fromkeys(methods, math.inf)
    for _ in range(repeats):
        for name, method in methods.items():
            began = time.perf_counter()
            method()
            best[name] = min(best[name], time.perf_counter() - began)
    other = {
        "LogisticRegression": "scikit-learn LogisticRegression, uncorrected",
        "Logit": "statsmodels Logit, uncorrected",
    }
    lines = [
        f"{platform.machine()}, Python {platform.python_version()}, n = {n:,}, {columns} columns, best of {repeats}",
        f"{'':<46}{'ms':>9}{'readings':>10}{'ours':>7}{'steps':>7}{'||theta - true||':>18}",
    ]
    for name, seconds in best.items():
        short = name.removeprefix("m_estimate: ")
        ratio = seconds / best["m_estimate: log loss, surrogate"]
        line = f"{other.get(name, name):<46}{1e3 * seconds:>9.1f}{seconds / best[reading]:>10.1f}"
        line += f"{ratio:>7.2f}" if short not in table else f"{'':>7}"
        if short in steps:
            # Under a penalty the true parameters are not the optimum.
            distance = f"{far[short]:>18.4f}" if short not in table or not table[short][3] else f"{'-':>18}"
            line += f"{steps[short]:>7}{distance}"
        lines.append(line)
    lines.append(
        "readings: time over that of reading the data once; ours: time over that of the log loss by m_estimate"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(measure(options.n, options.columns, options.repeats))


if __name__ == "__main__":
    main()
