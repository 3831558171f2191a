"""Does IWP-SGD go to the true minimiser? Many draws of the noise, and the risk of the mean model.

    python examples/mean_model.py [--data synthetic synthetic-10 adult] [--draws 20]

The mean of the models over independent draws of noise and order averages the noise away and leaves the bias. Its
excess risk on the true records is compared with what unbiased models of the same spread would have,
H/2 : Cov/draws, whose Monte-Carlo error is stated; Hotelling's test says how probable the distance of the mean model
from the minimiser is if there were no bias. (Figure 1 of Dufraiche et al. 2026, averaged.)
"""

import argparse

import numpy as np
from scipy import stats

from symdebias.interfaces import demo


def mean_model_report(problem: demo.Problem, draws: int) -> str:
    optimum = problem.optimum()
    least = problem.risk(optimum)
    hessian = problem.uncorrected.mean_hessian(optimum, problem.X, problem.y) + problem.l2 * np.eye(len(optimum))
    thetas: dict[str, list[np.ndarray]] = {curve: [] for curve in demo.CURVES}
    for draw in range(draws):
        for curve, fit in zip(demo.CURVES, problem.fits(draw), strict=True):
            thetas[curve].append(fit.theta)
    lines = [f"{problem.name}, n = {len(problem.y):,}, {draws} draws (least true risk {least:.6f})"]
    lines.append(f"  {'':<26}{'excess of one':>15}{'of the mean':>14}{'if unbiased':>14}{'+-':>10}{'z':>8}{'p':>10}")
    for curve in demo.CURVES[1:]:
        models = np.stack(thetas[curve])
        mean, p = models.mean(axis=0), models.shape[1]
        single = np.mean([problem.risk(theta) - least for theta in models])
        excess = problem.risk(mean) - least
        # For normal models the excess of their mean is a weighted sum of p squared normals.
        spread = np.linalg.eigvals(hessian @ np.cov(models.T) / draws).real
        expected, error = spread.sum() / 2, np.sqrt((spread**2).sum() / 2)
        distance = mean - optimum
        hotelling = draws * distance @ np.linalg.solve(np.cov(models.T), distance)
        chance = stats.f.sf(hotelling * (draws - p) / (p * (draws - 1)), p, draws - p)
        lines.append(
            f"  {curve:<26}{single:>15.2e}{excess:>14.2e}{expected:>14.2e}{error:>10.1e}"
            f"{(excess - expected) / error:>8.1f}{chance:>10.2g}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=demo.PROBLEMS, default=["synthetic", "synthetic-10"])
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    for name in options.data:
        print(mean_model_report(demo.PROBLEMS[name](), options.draws), flush=True)


if __name__ == "__main__":
    main()
