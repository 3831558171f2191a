"""How far releases are from what any release can do, and what would and would not help.

    python benchmarks/limits.py [--part bound variances kinks radius rounds cube softmax] [--columns 2 10]
        [--records 200000] [--draws 4] [--starts 20] [--first 0.5] [--library]

*bound*: lower bounds on the excess risk under pure local differential privacy, beside the sandwich limits of margin
releases, at the benchmark problems of Dufraiche et al. 2026. docs/limits.md has their derivation. *variances*: what
each mechanism adds to a column, from formulas. *kinks*: hinge and squared hinge in margin releases. *radius*: the log
loss with a smaller ball, and with one so small that records are clipped. *rounds*: the price of a gradient released at
parameters that are known already, and two rounds: half of the people release margins, the other half gradients at the
estimate from the first. *cube*: additive noise that is made for the cube [-1, 1]^p. *softmax*: three classes in one
vector.

Excess risks are means over the draws of the noise, with their standard errors, on records that stay the same.
"""

import argparse
import contextlib
import functools
import itertools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.special import softmax as special_softmax
from scipy.stats import qmc

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


def excess_of_bias(risk: Risk, corrected: sd.CorrectedLoss) -> float:
    """Return the excess risk of the parameters that a surrogate's mean over true records is least at.

    A corrected surrogate has this mean at every theta, so that a fit to endless records has these parameters. NaN where
    a polynomial falls without end and no minimum is near the best parameters.
    """
    if corrected.method != "surrogate":
        return 0.0
    parts, design = corrected.surrogate_parts, corrected.design
    assert design is not None

    def risk_of_surrogate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = parts.errors(design, risk.Z @ theta, risk.ones)
        plain = risk.plain.mean_gradient(theta, risk.Z, risk.ones) + risk.l2 * theta
        return risk(theta) + float(value.mean()), plain + risk.Z.T @ slope / len(slope)

    with np.errstate(over="ignore", invalid="ignore"):
        found = minimize(risk_of_surrogate, risk.best, method="BFGS", jac=True, options={"gtol": 1e-8})
    return risk(found.x) - risk.least if np.abs(found.jac).max() < 1e-5 else math.nan


def simulated(risk: Risk, loss: sd.Loss, release: sd.Release, draws: int, *, of_bias: bool = False) -> str:
    """Return a line: the mean excess risk of fits, its error, fits lost, the surrogate, its stated bias and seconds.

    With `of_bias` the last figure is the mean excess risk of the fits' surrogates without noise.
    """
    corrected = sd.debias(loss, release)
    excess, lost, method, degree, bias, seconds = [], 0, corrected.method, "", math.nan, 0.0
    noiseless = []
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
        if of_bias:
            noiseless.append(excess_of_bias(risk, fit.corrected))
    if not excess:
        return f"{'-':>11}{'-':>10}{lost:>6}  {method}"
    error = np.std(excess, ddof=1) / math.sqrt(len(excess)) if len(excess) > 1 else math.nan
    return (
        f"{np.mean(excess):>11.2e}{error:>10.1e}{lost:>6}{method:>11}{degree:>7}{bias:>10.1e}"
        f"{seconds / len(excess):>9.2f}"
    ) + (f"{np.mean(noiseless):>10.1e}" if of_bias else "")


HEAD = f"{'excess':>11}{'+-':>10}{'lost':>6}{'method':>11}{'degree':>7}{'bias':>10}{'seconds':>9}"


def kinks(options: argparse.Namespace) -> None:
    print(f"kinked losses in margin releases, l2 .1, n = {options.records:,}, {options.draws} draws, R = sqrt(p)")
    print(f"{'p':>3}{'epsilon':>9}{'loss':>15}  {'release':<19}" + HEAD + f"{'of bias':>10}")
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
                    f"{columns:>3}{epsilon:>9g}{name:>15}  {title:<19}"
                    + simulated(risk, loss, release, options.draws, of_bias=True),
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


def two_rounds(options: argparse.Namespace) -> None:
    """Print the excess risk of two rounds, simulated, beside that of margins of all people.

    The people of the second round, half of all by default, release the gradient at the estimate of the first, through a
    cap of the radius that bounds it for every record of the ball; one Newton step with the Hessian of the first round
    follows. *Averaged* is the mean of both estimates with the weights that the formulas say are best. *Of bias* is the
    excess risk of the first surrogate of margins without noise.
    """
    print(
        f"two rounds, log loss, n = {options.records:,}, {options.first:.0%} in the first, {options.draws} draws; "
        "formulas beside"
    )
    print(
        f"{'p':>3}{'epsilon':>9}{'l2':>7}{'margins':>10}{'+-':>9}{'formula':>10}{'of bias':>10}{'lost':>6}"
        f"{'second':>10}{'+-':>9}{'formula':>10}{'averaged':>10}{'+-':>9}{'lost':>6}"
    )
    loss, slope = sd.losses.logistic(), LOSSES["logistic"][0]
    for columns in options.columns:
        epsilon, Z, ball = BUDGETS[columns], margins(columns, options.records), math.sqrt(columns)
        cap = sd.SphericalCapMechanism(epsilon, ball)
        release = sd.Release({tuple(f"x{j}" for j in range(columns)): cap}, target="margin")
        corrected, ones = sd.debias(loss, release), np.ones(len(Z))
        for l2 in (0.1, 0.01) if columns == 2 else (0.1,):
            risk, study, first = Risk(loss, Z, l2), Study(Z, "logistic", l2), round(options.first * len(Z))
            theta, hessian, _ = study.solve()
            margin = promised(study, cap, len(Z))
            rho = ball * float(expit(ball * np.linalg.norm(theta)))
            gradient = added(slope(Z @ theta)[:, None] * Z, rho, epsilon, np.linalg.inv(hessian)) / (len(Z) - first)
            before = promised(study, cap, first)
            weight, bias = before / (before + gradient), math.nan
            single, second, averaged = [], [], []
            for draw in range(options.draws):
                try:
                    noised = release.privatize(Z, ones, random_state=3 * draw)
                    fit = sd.m_estimate(corrected, noised.X, noised.y, l2=l2)
                    single.append(risk(fit.theta) - risk.least)
                    bias = excess_of_bias(risk, fit.corrected) if math.isnan(bias) else bias
                except sd.SymdebiasError:
                    pass
                try:
                    noised = release.privatize(Z[:first], ones[:first], random_state=3 * draw + 1)
                    fit = sd.m_estimate(corrected, noised.X, noised.y, l2=l2)
                except sd.SymdebiasError:
                    continue
                bend = fit.corrected.mean_hessian(fit.theta, noised.X, noised.y) + l2 * np.eye(columns)
                if not np.linalg.eigvalsh(bend)[0] > 0:
                    continue
                told = told_gradient(fit.theta, Z[first:], ball, epsilon, 3 * draw + 2) + l2 * fit.theta
                moved = fit.theta - np.linalg.solve(bend, told)
                second.append(risk(moved) - risk.least)
                averaged.append(risk(weight * moved + (1 - weight) * fit.theta) - risk.least)
            print(
                f"{columns:>3}{epsilon:>9g}{l2:>7g}{shown(single)}{margin:>10.2e}{bias:>10.1e}"
                f"{options.draws - len(single):>6}{shown(second)}{gradient:>10.2e}{shown(averaged)}"
                f"{options.draws - len(second):>6}",
                flush=True,
            )


def told_gradient(theta: np.ndarray, Z: np.ndarray, ball: float, epsilon: float, seed: int) -> np.ndarray:
    """Return the mean gradient of the log loss at theta as a cap tells it: unbiased, private for each row of Z.

    |z| expit(|z||theta|) bounds the gradient of a record z and rises in |z|, so that the radius of the ball gives the
    public bound rho of all: nothing is clipped.
    """
    rho = ball * float(expit(ball * np.linalg.norm(theta)))
    mechanism = sd.SphericalCapMechanism(epsilon, rho)
    sent = mechanism.privatize(LOSSES["logistic"][0](Z @ theta)[:, None] * Z, random_state=seed)
    found: np.ndarray = sent.mean(axis=0) / mechanism.noise_on(Z.shape[1]).gain
    return found


def shown(excess: list[float]) -> str:
    """Return the mean and its error as columns of a line."""
    if not excess:
        return f"{'-':>10}{'-':>9}"
    error = np.std(excess, ddof=1) / math.sqrt(len(excess)) if len(excess) > 1 else math.nan
    return f"{np.mean(excess):>10.2e}{error:>9.1e}"


def added(vectors: np.ndarray, rho: float, epsilon: float, weight: np.ndarray) -> float:
    """Return half the weighted trace of what a cap of radius rho adds to the covariance of vectors."""
    columns = vectors.shape[1]
    _, one, two = sd.SphericalCapMechanism(epsilon, rho).law.factors(columns + 1, 2)
    squares, unit = vectors.T @ vectors / len(vectors), np.eye(columns) / (columns + 1)
    sent = rho**2 / one**2 * (two * (squares / rho**2 - unit) + unit)
    return float(np.trace(weight @ (sent - squares))) / 2


@dataclass(frozen=True)
class CubeMechanism:
    """The K-norm mechanism of the cube [-1, 1]^p (Hardt & Talwar 2010): pure privacy, replace-one.

    Its noise has a density in proportion to exp(-epsilon |v|/2) in the largest absolute coordinate |v|, in which two
    records of the cube differ by 2 at most. It is uniform on a cube of a half width r that has the Gamma distribution
    of the shape p + 1 and the scale b = 2/epsilon: the integral of (2r)^-p r^p e^(-r/b) over r > |v| is in proportion
    to e^(-|v|/b). A coordinate has the variance E r^2/3 = (p + 1)(p + 2) b^2/3, and no two are correlated.
    """

    epsilon: float

    def variance(self, columns: int) -> float:
        """Return the variance of a coordinate."""
        return 4 * (columns + 1) * (columns + 2) / (3 * self.epsilon**2)

    def privatize(self, Z: np.ndarray, random_state: int) -> np.ndarray:
        """Return Z with noise, its rows clipped to the cube; for simulations."""
        rng = np.random.default_rng(random_state)
        rows, columns = Z.shape
        width = rng.gamma(columns + 1, 2 / self.epsilon, rows)
        noised: np.ndarray = np.clip(Z, -1, 1) + width[:, None] * rng.uniform(-1, 1, Z.shape)
        return noised


def cube(options: argparse.Namespace) -> None:
    """Print the excess risk of the squared margin loss by corrected moments, for noise of the cube and others.

    Its parameters are (E zz' + l2)^-1 E z. *Predicted* is the sandwich of these moments, from the first draw; the last
    column is the variance of the cube's noise as it is drawn, over the formula.
    """
    print(f"squared margin loss, n = {options.records:,}, {options.draws} draws, by corrected moments")
    print(
        f"{'p':>3}{'epsilon':>9}{'l2':>6}  {'release':<19}{'excess':>10}{'+-':>9}{'lost':>6}{'predicted':>11}  variance"
    )
    for columns, epsilon, l2 in itertools.product(options.columns, (2.0, 5.0), (0.1, 1.0)):
        Z, ball = margins(columns, options.records), math.sqrt(columns)
        mean, hessian = Z.mean(axis=0), Z.T @ Z / len(Z) + l2 * np.eye(columns)
        best = np.linalg.solve(hessian, mean)
        ways: dict[str, tuple[CubeMechanism | sd.mechanisms.Mechanism, float, float]] = {
            "cube": (CubeMechanism(epsilon), CubeMechanism(epsilon).variance(columns), 1.0)
        }
        for name, make in MARGINS.items():
            mechanism = make(epsilon, ball)
            noise = mechanism.noise_on(columns)
            ways[name] = (mechanism, noise.variance, noise.gain if name == "cap" else 1.0)
        laplace = sd.LaplaceMechanism(epsilon, radius=float(columns))
        ways["Laplace"] = (laplace, laplace.noise.variance, 1.0)
        for name, (mechanism, variance, gain) in ways.items():
            excess, predicted, seen = [], math.nan, 0.0
            for draw in range(options.draws):
                sent = np.asarray(mechanism.privatize(Z, random_state=draw)) / gain
                if not draw:
                    # Of the noise alone: gradients of released records, less those of the true ones.
                    influence = sent * (sent @ best)[:, None] - variance * best - sent
                    true = Z * (Z @ best - 1)[:, None]
                    spread = np.cov(influence, rowvar=False) - np.cov(true, rowvar=False)
                    predicted = float(np.trace(np.linalg.solve(hessian, spread))) / 2 / len(Z)
                seen += float(np.mean((sent - Z) ** 2)) / variance / options.draws
                told = sent.T @ sent / len(sent) + (l2 - variance) * np.eye(columns)
                if not np.linalg.eigvalsh(told)[0] > 0:
                    continue
                off = np.linalg.solve(told, sent.mean(axis=0)) - best
                excess.append(float(off @ hessian @ off) / 2)
            lost, ratio = options.draws - len(excess), f"{seen:>10.3f}" if name == "cube" else ""
            print(
                f"{columns:>3}{epsilon:>9g}{l2:>6g}  {name:<19}{shown(excess)}{lost:>6}{predicted:>11.2e}{ratio}",
                flush=True,
            )


# ---- three classes -----------------------------------------------------------------------------------------------

CLASSES, SOFTMAX_L2 = 3, 0.01
# What is tensored with x: an indicator of the class, or a vertex of a simplex, one dimension less, whose rows have the
# norm 1 and the product -1/(K - 1). For two classes the simplex is y = -1, 1 and its vector the margin yx.
CODES: dict[str, np.ndarray] = {
    "indicator": np.eye(CLASSES),
    "simplex": np.array([[1.0, 0.0], [-0.5, math.sqrt(0.75)], [-0.5, -math.sqrt(0.75)]]),
}


@dataclass(frozen=True)
class Moments:
    """What is known of records: E 1[y = k]x - E x/K as rows, shape (K, p), E xx', and E x, or 0 where it is hidden."""

    contrast: np.ndarray
    square: np.ndarray
    mean: np.ndarray

    def boehning(self) -> np.ndarray:
        """Return the parameters at which the quadratic bound of the log loss at scores of 0 is least.

        Boehning 1992: the Hessian of log sum exp u is at most B = (I - 11'/K)/2.
        """
        bound = (np.eye(CLASSES) - 1 / CLASSES) / 2
        matrix = np.kron(bound, self.square) + SOFTMAX_L2 * np.eye(self.contrast.size)
        if not np.linalg.eigvalsh(matrix)[0] > 0:
            raise np.linalg.LinAlgError
        return np.linalg.solve(matrix, self.contrast.ravel()).reshape(self.contrast.shape)

    def normal(self) -> np.ndarray:
        """Return the parameters for normal features of these moments.

        They are those of the quadratic surrogate whose slope is the least-squares line of the slope of log sum exp over
        normal scores: E p(u)x' = E p E x' + A Theta (E xx' - E x E x') with A the coefficients of that line.
        """
        covariance = self.square - np.multiply.outer(self.mean, self.mean)
        points = self.mean + normal_points(len(self.mean)) @ np.linalg.cholesky(covariance).T
        return best_softmax(points, self.contrast)


@functools.lru_cache
def normal_points(columns: int, size: int = 4096) -> np.ndarray:
    """Return points that spread as standard normal ones do, with the mean 0 and the covariance I exactly."""
    half = qmc.MultivariateNormalQMC(np.zeros(columns), seed=0).random(size // 2)
    points = np.vstack([half, -half])
    points: np.ndarray = points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / size)).T
    return points


def best_softmax(X: np.ndarray, contrast: np.ndarray) -> np.ndarray:
    """Return where mean(log sum exp u - mean u) - <Theta, contrast> + l2/2 |Theta|^2 is least, u = Theta x."""
    theta, columns = np.zeros(contrast.shape), X.shape[1]
    for _ in range(50):
        chances = special_softmax(X @ theta.T, axis=1)
        gradient = (chances - 1 / CLASSES).T @ X / len(X) - contrast + SOFTMAX_L2 * theta
        hessian = SOFTMAX_L2 * np.eye(theta.size)
        for j, k in itertools.product(range(CLASSES), repeat=2):
            weight = chances[:, j] * ((j == k) - chances[:, k])
            block = slice(j * columns, (j + 1) * columns), slice(k * columns, (k + 1) * columns)
            hessian[block] += (X.T * weight) @ X / len(X)
        step = np.linalg.solve(hessian, gradient.ravel()).reshape(theta.shape)
        theta = theta - step
        if np.abs(step).max() < 1e-12:
            return theta
    raise np.linalg.LinAlgError


def class_moments(X: np.ndarray, weights: np.ndarray, variance: float) -> Moments:
    """Return the moments from vectors with noise of a variance, and unbiased indicators of the class, shape (n, K)."""
    by_class, mean = weights.T @ X / len(X), X.mean(axis=0)
    return Moments(by_class - mean / CLASSES, X.T @ X / len(X) - variance * np.eye(X.shape[1]), mean)


def tensor_moments(sent: np.ndarray, code: np.ndarray, variance: float) -> Moments:
    """Return the moments from estimates of code_y (x) x, shape (n, q p).

    zz' is (code_y code_y') (x) xx', and code_y has the norm 1: the sum of the q diagonal blocks is xx', with q times
    the noise. Of the simplex the rows C have CC' = (K I - 11')/(K - 1), so that (K - 1)/K C E z is the contrast; E x is
    hidden, as a margin hides it.
    """
    q = code.shape[1]
    blocks = sent.reshape(len(sent), q, -1)
    p = blocks.shape[2]
    square = np.einsum("nbi,nbj->ij", blocks, blocks, optimize=True) / len(sent) - q * variance * np.eye(p)
    means = blocks.mean(axis=0)
    if q == CLASSES:
        return Moments(means - means.mean(axis=0), square, means.sum(axis=0))
    return Moments((CLASSES - 1) / CLASSES * code @ means, square, np.zeros(p))


def softmax_problem(records: int) -> tuple[np.ndarray, np.ndarray]:
    """Return records in [-1, 1]^4 and classes 0, 1, 2: two uniform columns, a skewed one and a sign."""
    rng = np.random.default_rng(17)
    sign = np.where(rng.random(records) < 0.3, 1.0, -1.0)
    X = np.column_stack([rng.uniform(-1, 1, (records, 2)), 2 * rng.beta(2, 5, records) - 1, sign])
    theta = np.array([[2.0, -1.0, 1.0, 0.0], [-1.0, 1.5, 0.0, 0.5], [-1.0, -0.5, -1.0, -0.5]])
    chances = special_softmax(X @ theta.T, axis=1).cumsum(axis=1)
    return X, np.sum(rng.random(records)[:, None] > chances[:, :-1], axis=1)


def softmax(options: argparse.Namespace) -> None:
    """Print the excess risk of softmax from one vector code_y (x) x, and from x and y with parts of the budget."""
    X, y = softmax_problem(options.records)
    columns = X.shape[1]
    ball, indicators = math.sqrt(columns), np.eye(CLASSES)[y]

    def risk(theta: np.ndarray) -> float:
        u = X @ theta.T
        return float(np.mean(logsumexp(u, axis=1) - u[np.arange(len(u)), y])) + SOFTMAX_L2 / 2 * float(np.sum(theta**2))

    true = class_moments(X, indicators, 0.0)
    best = best_softmax(X, true.contrast)
    least = risk(best)
    hidden = Moments(true.contrast, true.square, np.zeros(columns))
    print(f"softmax, {CLASSES} classes, p {columns}, l2 {SOFTMAX_L2:g}, n = {len(X):,}, {options.draws} draws")
    print(
        f"parameters of norm {np.linalg.norm(best):.2f}; those of zero have the excess risk {math.log(3) - least:.2e}"
    )
    print("excess risk of surrogates on true records, without noise:")
    for name, moments in (("indicator", true), ("simplex", hidden)):
        print(f"  {name:<11} normal {risk(moments.normal()) - least:.2e}, bound {risk(moments.boehning()) - least:.2e}")
    print(f"{'epsilon':>7}  {'release':<38}{'fit':<9}{'excess':>10}{'+-':>9}{'lost':>6}")
    for epsilon in (2.0, 4.0, 8.0):
        ways: dict[str, Callable[[int], Moments]] = {}
        for code_name, code in CODES.items():
            for name in ("cap", "spherical Laplace"):
                mechanism = MARGINS[name](epsilon, ball)
                ways[f"{code_name} (x) x, {name}"] = functools.partial(from_tensor, X, code[y], code, mechanism)
        for name, share in (("cap", 0.5), ("cap", 0.65), ("spherical Laplace", 0.5), ("Gaussian", 0.5)):
            mechanism = MARGINS[name](epsilon * share, ball)
            title = f"x and y, {name}, {share:.0%} on x"
            ways[title] = functools.partial(from_parts, X, y, mechanism, epsilon * (1 - share))
        for title, told in ways.items():
            found = [told(draw) for draw in range(options.draws)]
            for fit in ("normal", "boehning"):
                excess = []
                for moments in found:
                    with contextlib.suppress(np.linalg.LinAlgError):
                        excess.append(risk(getattr(moments, fit)()) - least)
                print(f"{epsilon:>7g}  {title:<38}{fit:<9}{shown(excess)}{options.draws - len(excess):>6}", flush=True)
    if options.library:
        for epsilon in (2.0, 4.0, 8.0):
            library(X, y, epsilon, options.draws, lambda theta: risk(theta) - least)


def library(X: np.ndarray, y: np.ndarray, epsilon: float, draws: int, excess_of: Callable[[np.ndarray], float]) -> None:
    """Print the excess risk of the library's softmax, x and y released with half of the budget each."""
    loss, names, ball = sd.losses.softmax(CLASSES), tuple(f"x{j}" for j in range(X.shape[1])), math.sqrt(X.shape[1])
    half = epsilon / 2
    ways: dict[str, tuple[sd.mechanisms.Mechanism, dict[str, object]]] = {
        "cap": (sd.SphericalCapMechanism(half, ball), {}),
        "sph. Laplace, padded": (sd.SphericalLaplaceMechanism(half, ball, padded=True), {}),
        "Laplace": (sd.LaplaceMechanism(half, radius=ball**2), {}),
        "Gaussian, series": (sd.GaussianMechanism(half, DELTA, ball), {"method": "series", "order": 2}),
    }
    for name, (mechanism, how) in ways.items():
        release = sd.Release({names: mechanism}, sd.RandomizedResponse(epsilon=half, categories=tuple(range(CLASSES))))
        excess, reason, began = [], "", time.perf_counter()
        with sd.derivation_limits(seconds=900.0):
            try:
                corrected = sd.debias(loss, release, **how)
                for draw in range(draws):
                    noised = release.privatize(X, y, random_state=draw)
                    with contextlib.suppress(sd.SymdebiasError):
                        excess.append(excess_of(sd.m_estimate(corrected, noised.X, noised.y, l2=SOFTMAX_L2).theta))
            except sd.SymdebiasError as error:
                reason = f"  refused: {type(error).__name__}"
        lost, seconds = draws - len(excess), time.perf_counter() - began
        print(
            f"{epsilon:>7g}  {'x and y, ' + name:<38}{'library':<9}{shown(excess)}{lost:>6}{seconds:>8.0f} s{reason}",
            flush=True,
        )


def from_tensor(
    X: np.ndarray, codes: np.ndarray, code: np.ndarray, mechanism: sd.mechanisms.Mechanism, draw: int
) -> Moments:
    """Return the moments from code_y (x) x, released with the whole budget."""
    z = (codes[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    noise = mechanism.noise_on(z.shape[1])
    sent = np.asarray(mechanism.privatize(z, random_state=draw)) / getattr(noise, "gain", 1.0)
    return tensor_moments(sent, code, noise.variance)


def from_parts(X: np.ndarray, y: np.ndarray, mechanism: sd.mechanisms.Mechanism, epsilon: float, draw: int) -> Moments:
    """Return the moments from x and, by randomized response, y, released apart."""
    noise = mechanism.noise_on(X.shape[1])
    sent = np.asarray(mechanism.privatize(X, random_state=draw)) / getattr(noise, "gain", 1.0)
    rng = np.random.default_rng([draw, 1])
    other = 1 / (math.exp(epsilon) + CLASSES - 1)
    # Keep y, or draw any class: a class that is not y has the chance `other`.
    answer = np.where(rng.random(len(y)) < CLASSES * other, rng.integers(0, CLASSES, len(y)), y)
    weights = (np.eye(CLASSES)[answer] - other) / (1 - CLASSES * other)
    return class_moments(sent, weights, noise.variance)


def both_rounds(options: argparse.Namespace) -> None:
    rounds(options)
    print()
    two_rounds(options)


PARTS = {
    "bound": bounds,
    "variances": variances,
    "kinks": kinks,
    "radius": radius_of_the_ball,
    "rounds": both_rounds,
    "cube": cube,
    "softmax": softmax,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--columns", type=int, nargs="+", choices=BUDGETS, default=list(BUDGETS))
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--starts", type=int, default=20, help="directions that the search for a half-space begins in")
    parser.add_argument("--first", type=float, default=0.5, help="the share of the people of the first of two rounds")
    parser.add_argument(
        "--library", action="store_true", help="the library's softmax as well, whose derivation takes minutes"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", sd.exceptions.ClippingWarning)
    for part in options.part:
        PARTS[part](options)
        print()


if __name__ == "__main__":
    main()
