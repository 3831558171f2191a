"""Compare Laplace noise and the log loss with Gaussian noise and the exponential loss, at the same epsilon.

    python examples/pure_or_approximate.py [--records 1000000] [--draws 20]

The log loss has no exact correction under Gaussian noise; under Laplace noise it has, and the guarantee is pure
(delta 0). Both models are trained on the paper's problem (two columns, epsilon 2 in all: half on the features, half on
the label); the table shows the excess of the regularised risk of each in its own loss, its mean over the draws of the
noise with its standard error, and how often the model's sign agrees with the label.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

import symdebias as sd
from symdebias.interfaces import datasets

L2, EPSILON, DELTA = 5.0, 2.0, 1e-5


@dataclass(frozen=True)
class Contender:
    """A release and a loss that are trained together."""

    name: str
    release: sd.Release
    loss: sd.Loss


def contenders(columns: int) -> list[Contender]:
    """Return the two of the question, and the uncorrected log loss beside them."""
    label = sd.RandomizedResponse(epsilon=EPSILON / 2)
    ball = sd.GaussianMechanism(epsilon=EPSILON / 2, delta=DELTA, radius=np.sqrt(columns))
    # [-1, 1]^p lies in the L1 ball of radius p.
    pure = sd.LaplaceMechanism(epsilon=EPSILON / 2, radius=float(columns))
    return [
        Contender("exponential loss, Gaussian", sd.Release(ball, label), sd.losses.exponential()),
        Contender("log loss, Laplace", sd.Release(pure, label), sd.losses.logistic()),
    ]


def report(records: int, draws: int, columns: int = 2) -> str:
    """Return the table."""
    data = datasets.synthetic(columns, records)
    names = [f"x{j}" for j in range(columns)]
    lines = [f"n = {records:,}, p = {columns}, epsilon = {EPSILON:g}, {draws} draws"]
    lines.append(f"  {'':<30}{'excess risk':>14}{'+-':>11}{'uncorrected':>14}{'+-':>11}{'agreement':>11}")
    for contender in contenders(columns):
        release = contender.release.bind(names)
        plain = sd.debias(contender.loss, release, method="none")
        corrected = sd.debias(contender.loss, release)

        def risk(theta: np.ndarray, plain: sd.CorrectedLoss = plain) -> float:
            return plain.mean_loss(theta, data.X, data.y) + L2 / 2 * float(theta @ theta)

        best = minimize(risk, np.zeros(columns), method="BFGS", options={"gtol": 1e-9}).x
        least = risk(best)
        excess, uncorrected, agreement = [], [], []
        for draw in range(draws):
            noised = release.privatize(data.X, data.y, random_state=draw)
            options = {"step_size": 1e-4, "l2": L2, "random_state": draw}
            fit = sd.sgd(corrected, noised.X, noised.y, **options)
            naive = sd.sgd(plain, noised.X, noised.y, **options)
            excess.append(risk(fit.theta) - least)
            uncorrected.append(risk(naive.theta) - least)
            agreement.append(np.mean(np.sign(data.X @ fit.theta) == data.y))
        error = np.sqrt(draws)
        lines.append(
            f"  {contender.name:<30}{np.mean(excess):>14.2e}{np.std(excess, ddof=1) / error:>11.1e}"
            f"{np.mean(uncorrected):>14.2e}{np.std(uncorrected, ddof=1) / error:>11.1e}{np.mean(agreement):>11.4f}"
        )
        lines.append(f"    {release.guarantee}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    print(report(options.records, options.draws))


if __name__ == "__main__":
    main()
