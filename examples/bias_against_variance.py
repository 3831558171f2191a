"""Which order of the series is best, and what does a surrogate do better? The log loss under Gaussian noise.

    python examples/bias_against_variance.py [--levels 1 4 16] [--n 100000] [--output bias_against_variance.png]

Prints the trade-off at each noise variance s of the score (Figure 3 of Dufraiche et al. 2026, with the variances beside
the biases, and with surrogates), names the best order by bias and by estimated mean squared error, and draws both.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import symdebias as sd
from symdebias.interfaces import plotting


def report(levels: Sequence[float], output: Path | None = None, *, radius: float = 5.0, n: float = 1e5) -> str:
    release = sd.Release(sd.GaussianMechanism.from_scale(1.0))
    corrected = sd.debias(sd.losses.logistic(), release)
    curves = [corrected.tradeoff(radius=radius, score_variance=s, n=n, orders=(0, 1, 2, 3)) for s in levels]
    lines = []
    for curve in curves:
        best = {by: curve.best("series", by=by) for by in ("bias", "error")}
        gain = best["error"].error / curve.best().error
        lines += [str(curve)]
        lines += [f"best order by bias {best['bias'].order}, by error {best['error'].order}; the best surrogate has "]
        lines[-1] += f"1/{gain:.3g} of its error\n"
    if output is not None:
        plotting.save(plotting.bias_against_variance(curves), output)
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", type=float, nargs="+", default=[1.0, 4.0, 16.0])
    parser.add_argument("--n", type=float, default=1e5)
    parser.add_argument("--output", type=Path, default=Path("bias_against_variance.png"))
    arguments = parser.parse_args()
    print(report(arguments.levels, arguments.output, n=arguments.n))
