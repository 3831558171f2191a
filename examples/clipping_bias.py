"""What clipping does to a fit: a bias that no correction undoes.

    python examples/clipping_bias.py [--records 200000]

A release clips records to its declared radius, and then adds noise. The correction undoes the noise. It cannot undo
the clipping, because the released records do not say which of them were clipped, or how far. A linear regression on two
normal features shows it, at a fixed privacy budget: the corrected fit agrees with the fit on clipped records without
noise, and both are away from the true parameters by more, the more records are clipped. A larger radius clips less and
needs more noise: the last column has the root mean squared error that both make together.
"""

import argparse
import math
import warnings
from dataclasses import dataclass

import numpy as np

import symdebias as sd

THETA = np.array([1.0, -0.5])
RADII = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)


@dataclass(frozen=True)
class Row:
    """One radius.

    Attributes
    ----------
    radius : float
        The declared bound on the norm of a record.
    share : float
        Of records beyond it.
    noise : float
        The standard deviation of the noise that the budget needs.
    clipped : array of shape (2,)
        The fit on clipped records without noise.
    corrected : array of shape (2,)
        The corrected fit on clipped and noised records.
    errors : array of shape (2,)
        Its standard errors.
    """

    radius: float
    share: float
    noise: float
    clipped: np.ndarray
    corrected: np.ndarray
    errors: np.ndarray


def rows(n: int, seed: int = 0) -> list[Row]:
    """Return a row for each radius, all from the same true records."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X @ THETA + 0.5 * rng.normal(size=n)
    norms = np.linalg.norm(X, axis=1)
    found = []
    for radius in RADII:
        mechanism = sd.GaussianMechanism(epsilon=6.0, delta=1e-5, radius=radius)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sd.ClippingWarning)  # it is what is shown
            noised = sd.Release(mechanism).privatize(X, y, random_state=rng)
        inside = X * np.minimum(1, radius / norms)[:, None]
        fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
        clipped = np.linalg.lstsq(inside, y, rcond=None)[0]
        share = float(np.mean(norms > radius))
        found.append(Row(radius, share, mechanism.scale, clipped, fit.theta, fit.standard_errors))
    return found


def report(table: list[Row]) -> str:
    """Return the table."""
    lines = [
        f"true parameters {THETA[0]:g} and {THETA[1]:g}; first parameter (standard error)",
        f"{'radius':>7}{'clipped':>9}{'noise sd':>10}{'clipped, no noise':>19}{'corrected':>18}{'bias':>8}{'rmse':>8}",
    ]
    for row in table:
        off = row.clipped - THETA
        rmse = math.sqrt(off @ off + row.errors @ row.errors)
        lines.append(
            f"{row.radius:>7g}{row.share:>9.2%}{row.noise:>10.3g}{row.clipped[0]:>19.3f}"
            f"{row.corrected[0]:>10.3f} ({row.errors[0]:.3f}){off[0]:>8.3f}{rmse:>8.3f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    print(report(rows(parser.parse_args().records)))


if __name__ == "__main__":
    main()
