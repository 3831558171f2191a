"""How far releases are from what any release can do, and what would and would not help.

    python benchmarks/limits.py [--part bound variances kinks radius rounds] [--columns 2 10]
        [--records 200000] [--draws 4] [--starts 20]

*bound*: lower bounds on the excess risk under pure local differential privacy, beside the sandwich limits of margin
releases, at the benchmark problems of Dufraiche et al. 2026. docs/limits.md has their derivation. *variances*: what
each mechanism adds to a column, from formulas. *kinks*: hinge and squared hinge in margin releases. *radius*: the log
loss with a smaller ball, and with one so small that records are clipped. *rounds*: the price of a gradient released at
parameters that are known already.

Excess risks are means over the draws of the noise, with their standard errors, on records that stay the same.
"""

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import symdebias as sd
from symdebias.interfaces import demo

DELTA = 1e-5
# Budgets of the benchmark problems, of the kinked losses and of the ball, by columns.
BUDGETS, KINKED, BALL = {2: 2.0, 10: 5.0}, {2: 4.0, 10: 5.0}, {2: 4.0, 10: 4.0}
# Slope and curvature of a margin loss in its score.
LOSSES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "exponential": (lambda u: -np.exp(-u), lambda u: np.exp(-u)),
    "logistic": (lambda u: -expit(-u), lambda u: expit(u) * expit(-u)),
}
MARGINS: dict[str, Callable[[float, float], sd.mechanisms.Mechanism]] = {
    "cap": sd.SphericalCapMechanism,
    "spherical Laplace": sd.SphericalLaplaceMechanism,
    "Gaussian": lambda epsilon, radius: sd.GaussianMechanism(epsilon, DELTA, radius),
}


def chi_square_limit(epsilon: float) -> float:
    """Return the most that tr(I^-1 J) can be: I the information of a record, J that of a release of it.

    The density r of a record given what is sent, over that of a record, has the mean 1 and values in [a, a e^epsilon].
    So its variance is at most (1 - a)(a e^epsilon - 1), and that at most sinh(epsilon/2)^2.
    """
    return math.sinh(epsilon / 2) ** 2


def sphere_limit(epsilon: float, columns: int) -> float:
    """Return the least n E|error|^2/p of a mean of vectors on the sphere of radius sqrt(p), about the uniform law.

    No release tells more of the mean than the best cap of the sphere itself, without the lift.
    """
    if columns == 1:
        return 1 / math.tanh(epsilon / 2) ** 2
    return 1 / float(sd.SphericalCapMechanism(epsilon, 1.0).law.factors(columns, 1)[1]) ** 2


def steepest(vectors: np.ndarray, epsilon: float, starts: int, seed: int = 0) -> float:
    """Return the largest |E[r h]|^2 of centred rows h over r with the mean 1 and values in some [a, a e^epsilon].

    In a direction u the best r is large in a half-space {u'h >= t}. Half-space and direction are improved in turns,
    from many directions; the largest value that any of them reaches is returned.
    """
    n, p = vectors.shape
    gain = math.expm1(epsilon)
    over = gain / (n + gain * np.arange(1, n + 1))
    first = np.vstack([np.eye(p), -np.eye(p), np.random.default_rng(seed).standard_normal((starts, p))])
    best = 0.0
    for direction in first:
        before, value = 0.0, 1e-300
        while value > before * (1 + 1e-9):
            before = value
            scores = vectors @ direction
            order = np.argsort(-scores)
            last = int(np.argmax(over * np.cumsum(scores[order])))
            mean = over[last] * vectors[order[: last + 1]].sum(axis=0)
            value = float(np.linalg.norm(mean))
            direction = mean / value
        best = max(best, value)
    return best**2


@dataclass(frozen=True)
class Study:
    """A penalised margin loss on true margins: its minimum, and the gradients there."""

    Z: np.ndarray
    loss: str
    l2: float

    def solve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the best parameters, the Hessian and the gradients of all records."""
        slope, curvature = LOSSES[self.loss]
        theta = np.zeros(self.Z.shape[1])
        for _ in range(50):
            u = self.Z @ theta
            gradients = slope(u)[:, None] * self.Z + self.l2 * theta
            hessian = (self.Z.T * curvature(u)) @ self.Z / len(u) + self.l2 * np.eye(len(theta))
            theta = theta - np.linalg.solve(hessian, gradients.mean(axis=0))
        return theta, hessian, gradients

    def bound(self, epsilon: float, starts: int, rows: int = 20_000) -> tuple[float, float]:
        """Return n times the excess risk: from true records, and the lower bound on what a release adds to it."""
        _, hessian, gradients = self.solve()
        roots, axes = np.linalg.eigh(hessian)
        chosen = np.random.default_rng(0).choice(len(gradients), min(rows, len(gradients)), replace=False)
        influence = gradients[chosen] @ (axes / np.sqrt(roots))
        influence -= influence.mean(axis=0)
        spread, axes = np.linalg.eigh(influence.T @ influence / len(influence))
        limit, found = chi_square_limit(epsilon), [float(spread.sum())]
        for power in (0.0, 0.25, 0.5, 0.75, 1.0):
            weighed = influence @ (axes * spread ** (-power / 2))
            most = steepest(weighed, epsilon, starts)
            if power == 1.0:
                most = min(most, limit)
            found.append(float(np.sum(spread ** (1 - power / 2))) ** 2 / most)
        return found[0] / 2, (max(found) - found[0]) / 2


def promised(study: Study, mechanism: sd.mechanisms.Mechanism, records: float) -> float:
    """Return what the sandwich says that a margin release adds to the excess risk of true records."""
    names = tuple(f"x{j}" for j in range(study.Z.shape[1]))
    population = sd.planning.Population(study.Z[:100_000], np.ones(len(study.Z[:100_000])))
    loss = getattr(sd.losses, study.loss)()
    try:
        noised, true = (
            sd.planning.expected_fit(loss, release, population, n=records, l2=study.l2).excess_risk
            for release in (sd.Release({names: mechanism}, target="margin"), sd.Release().bind(names))
        )
        return noised - true
    except sd.SymdebiasError:
        return math.nan


def margins(columns: int, records: int) -> np.ndarray:
    """Return y x of the synthetic problem."""
    problem = demo.synthetic_problem(columns, 1.0, records=records)
    rows: np.ndarray = problem.X * problem.y[:, None]
    return rows


def cube_limit(epsilon: float, columns: int, starts: int) -> float:
    """Return the least n E|error|^2/p of a mean of independent signs, about the uniform law on the cube's corners."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=columns)))
    return columns / steepest(corners, epsilon, starts)


def bounds(options: argparse.Namespace) -> None:
    print("worst case, R = sqrt(p): n times what noise adds to the squared error of a mean, per column")
    print(f"{'p':>3}{'epsilon':>9}{'any, ball':>11}{'any, cube':>11}{'chi-square':>12}{'cap':>8}{'sph. Laplace':>14}")
    for columns in options.columns:
        epsilon, ball = BUDGETS[columns], math.sqrt(columns)
        least = columns / min(chi_square_limit(epsilon), columns) - 1
        cap, laplace = (MARGINS[name](epsilon, ball).noise_on(columns).variance for name in list(MARGINS)[:2])
        print(
            f"{columns:>3}{epsilon:>9g}{sphere_limit(epsilon, columns) - 1:>11.3f}"
            f"{cube_limit(epsilon, columns, options.starts) - 1:>11.3f}{least:>12.3f}{cap:>8.3f}{laplace:>14.3f}"
        )
    print("\nexcess risk at n = 1,000,000 at the benchmark's records, what noise adds to that of true records")
    print(
        f"{'p':>3}{'epsilon':>9}{'loss':>13}{'l2':>7}{'true':>10}{'bound':>10}{'cap':>10}{'over bound':>12}"
        f"{'sph. Laplace':>14}{'Gaussian':>10}"
    )
    for columns in options.columns:
        epsilon, Z = BUDGETS[columns], margins(columns, options.records)
        for loss, l2 in (("exponential", 5.0), ("logistic", 5.0), ("logistic", 0.1), ("logistic", 0.01)):
            study = Study(Z, loss, l2)
            true, least = (one / 1e6 for one in study.bound(epsilon, options.starts))
            noise = [promised(study, make(epsilon, math.sqrt(columns)), 1e6) for make in MARGINS.values()]
            print(
                f"{columns:>3}{epsilon:>9g}{loss:>13}{l2:>7g}{true:>10.1e}{least:>10.1e}{noise[0]:>10.1e}"
                f"{noise[0] / least:>12.1f}{noise[1]:>14.1e}{noise[2]:>10.1e}",
                flush=True,
            )


def variances(options: argparse.Namespace) -> None:
    print("variance that noise adds to a column, records in [-1, 1]^p: R = sqrt(p); * the least")
    ways: dict[str, Callable[[float, int], float]] = {
        "cap": lambda epsilon, p: sd.SphericalCapMechanism(epsilon, math.sqrt(p)).noise_on(p).variance,
        "sph. Laplace": lambda epsilon, p: sd.SphericalLaplaceMechanism(epsilon, math.sqrt(p)).noise_on(p).variance,
        "cube": lambda epsilon, p: 4 * (p + 1) * (p + 2) / (3 * epsilon**2),
        "Laplace": lambda epsilon, p: sd.LaplaceMechanism(epsilon, radius=float(p)).noise.variance,
        "Gaussian": lambda epsilon, p: sd.GaussianMechanism(epsilon, DELTA, math.sqrt(p)).noise_on(p).variance,
        "limit": lambda epsilon, p: sphere_limit(epsilon, p) - 1,
    }
    print(f"{'p':>3}{'epsilon':>9}" + "".join(f"{name:>14}" for name in ways))
    for p in (1, 2, 5, 10, 20, 50):
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            found = [way(epsilon, p) for way in ways.values()]
            least = min(found[:-1])
            cells = (f"{one:.3g}{'*' if one == least else ' '}" for one in found)
            print(f"{p:>3}{epsilon:>9g}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


class Risk:
    """The penalised risk of a loss on true margins, and its minimum."""

    def __init__(self, loss: sd.Loss, Z: np.ndarray, l2: float) -> None:
        names = tuple(f"x{j}" for j in range(Z.shape[1]))
        self.plain = sd.debias(loss, sd.Release().bind(names))
        self.Z, self.ones, self.l2 = Z, np.ones(len(Z)), l2
        best = minimize(
            self, np.zeros(len(names)), method="BFGS", options={"gtol": 1e-7},
            jac=lambda theta: self.plain.mean_gradient(theta, Z, self.ones) + l2 * theta,
        )  # fmt: skip
        self.best, self.least = best.x, best.fun

    def __call__(self, theta: np.ndarray) -> float:
        """Return the risk at theta."""
        return float(self.plain.mean_loss(theta, self.Z, self.ones)) + self.l2 / 2 * float(theta @ theta)


def simulated(risk: Risk, loss: sd.Loss, release: sd.Release, draws: int) -> str:
    """Return a line: the mean excess risk of fits, its error, fits lost, the surrogate, its stated bias and seconds."""
    corrected = sd.debias(loss, release)
    excess, lost, method, degree, bias, seconds = [], 0, corrected.method, "", math.nan, 0.0
    for draw in range(draws):
        noised = release.privatize(risk.Z, risk.ones, random_state=draw)
        began = time.perf_counter()
        try:
            fit = sd.m_estimate(corrected, noised.X, noised.y, l2=risk.l2)
        except sd.SymdebiasError:
            lost += 1
            continue
        seconds += time.perf_counter() - began
        excess.append(risk(fit.theta) - risk.least)
        design = getattr(fit.corrected, "design", None)
        degree = str(design.degree) if design is not None else ""
        bias = float(fit.corrected.certificate.gradient_bias) if method == "surrogate" else 0.0
    if not excess:
        return f"{'-':>11}{'-':>10}{lost:>6}  {method}"
    error = np.std(excess, ddof=1) / math.sqrt(len(excess)) if len(excess) > 1 else math.nan
    return (
        f"{np.mean(excess):>11.2e}{error:>10.1e}{lost:>6}{method:>11}{degree:>7}{bias:>10.1e}"
        f"{seconds / len(excess):>9.2f}"
    )


HEAD = f"{'excess':>11}{'+-':>10}{'lost':>6}{'method':>11}{'degree':>7}{'bias':>10}{'seconds':>9}"


def kinks(options: argparse.Namespace) -> None:
    print(f"kinked losses in margin releases, l2 .1, n = {options.records:,}, {options.draws} draws, R = sqrt(p)")
    print(f"{'p':>3}{'epsilon':>9}{'loss':>15}  {'release':<19}" + HEAD)
    for columns in options.columns:
        epsilon, Z, radius = KINKED[columns], margins(columns, options.records), math.sqrt(columns)
        names = tuple(f"x{j}" for j in range(columns))
        releases = {name: sd.Release({names: make(epsilon, radius)}, target="margin") for name, make in MARGINS.items()}
        releases["split, Gaussian"] = sd.Release(
            {names: sd.GaussianMechanism(epsilon / 2, DELTA, radius)}, sd.RandomizedResponse(epsilon=epsilon / 2)
        )
        for name in ("hinge", "squared_hinge"):
            loss = getattr(sd.losses, name)()
            risk = Risk(loss, Z, 0.1)
            for title, release in releases.items():
                print(
                    f"{columns:>3}{epsilon:>9g}{name:>15}  {title:<19}" + simulated(risk, loss, release, options.draws),
                    flush=True,
                )


def radius_of_the_ball(options: argparse.Namespace) -> None:
    print(f"log loss through a cap, epsilon 4, l2 .01, n = {options.records:,}, {options.draws} draws: the radius")
    print(f"{'p':>3}{'radius':>8}{'/sqrt(p)':>9}{'clipped':>9}{'predicted':>11}" + HEAD)
    loss = sd.losses.logistic()
    for columns in options.columns:
        epsilon, Z = BALL[columns], margins(columns, options.records)
        norms, names = np.linalg.norm(Z, axis=1), tuple(f"x{j}" for j in range(columns))
        risk, study = Risk(loss, Z, 0.01), Study(Z, "logistic", 0.01)
        largest = float(norms.max())
        radii = [math.sqrt(columns), *(largest * share for share in (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2))]
        for radius in radii:
            mechanism = sd.SphericalCapMechanism(epsilon, radius)
            release = sd.Release({names: mechanism}, target="margin")
            print(
                f"{columns:>3}{radius:>8.3f}{radius / math.sqrt(columns):>9.2f}{np.mean(norms > radius):>9.4f}"
                f"{promised(study, mechanism, options.records) if radius >= largest else math.nan:>11.2e}"
                + simulated(risk, loss, release, options.draws),
                flush=True,
            )


def rounds(options: argparse.Namespace) -> None:
    """Print the price of releasing gradients at known parameters.

    What is sent is a gradient g through the cap of radius rho, divided by lambda_1. With M = E gg' its covariance is
    rho^2/lambda_1^2 (lambda_2 (M/rho^2 - I/D) + I/D) - E g E g'.
    """
    print("what noise adds at n = 1,000,000: margins through a cap, against gradients at the best parameters")
    print(f"{'p':>3}{'epsilon':>9}{'l2':>7}{'margins':>11}{'gradients':>11}{'ratio':>8}{'whitened':>11}{'bound':>10}")
    for columns in options.columns:
        epsilon, Z, ball = BUDGETS[columns], margins(columns, options.records), math.sqrt(columns)
        for l2 in (5.0, 0.1, 0.01):
            study = Study(Z, "logistic", l2)
            theta, hessian, _ = study.solve()
            slopes = LOSSES["logistic"][0](Z @ theta)[:, None] * Z
            known = float(np.linalg.norm(theta))
            # The public bound: |z| expit(|z||theta|) rises in |z| up to the radius of the ball.
            rho = ball * float(expit(ball * known))
            plain = added(slopes, rho, epsilon, np.linalg.inv(hessian))
            roots, axes = np.linalg.eigh(hessian)
            # H^-1/2 lengthens vectors by at most 1/sqrt of the least root.
            white = added(slopes @ (axes / np.sqrt(roots)), rho / math.sqrt(roots[0]), epsilon, np.eye(columns))
            base = promised(study, sd.SphericalCapMechanism(epsilon, ball), 1e6)
            least = study.bound(epsilon, options.starts)[1] / 1e6
            print(
                f"{columns:>3}{epsilon:>9g}{l2:>7g}{base:>11.2e}{plain / 1e6:>11.2e}{base / plain * 1e6:>8.2f}"
                f"{white / 1e6:>11.2e}{least:>10.1e}",
                flush=True,
            )


def added(vectors: np.ndarray, rho: float, epsilon: float, weight: np.ndarray) -> float:
    """Return half the weighted trace of what a cap of radius rho adds to the covariance of vectors."""
    columns = vectors.shape[1]
    _, one, two = sd.SphericalCapMechanism(epsilon, rho).law.factors(columns + 1, 2)
    squares, unit = vectors.T @ vectors / len(vectors), np.eye(columns) / (columns + 1)
    sent = rho**2 / one**2 * (two * (squares / rho**2 - unit) + unit)
    return float(np.trace(weight @ (sent - squares))) / 2


PARTS = {"bound": bounds, "variances": variances, "kinks": kinks, "radius": radius_of_the_ball, "rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--columns", type=int, nargs="+", choices=BUDGETS, default=list(BUDGETS))
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--starts", type=int, default=20, help="directions that the search for a half-space begins in")
    options = parser.parse_args()
    warnings.simplefilter("ignore", sd.exceptions.ClippingWarning)
    for part in options.part:
        PARTS[part](options)
        print()


if __name__ == "__main__":
    main()
