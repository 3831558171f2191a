"""Release a table with columns of categories in one vector, beside a mechanism for each column.

    python examples/one_vector.py [--records 1000000] [--draws 10] [--epsilon 6]

Two numbers, a place of four categories and a sex of two predict a label by a linear score, in the squared margin loss,
whose correction is exact under every mechanism here. All releases spend the same epsilon with delta = 0:

    one vector     the numbers and the indicators of the categories, times the label, with the label's own column: by a
                   spherical cap, and by spherical Laplace noise. Indicators are centred at public numbers, which makes
                   the ball smaller: at 1/3 for the place, at 1/2 for the sex.
    per column     Laplace noise on each number, randomized response on each column of categories and on the label:
                   epsilon in equal parts, and in the parts that `best_split` finds best for this population.

The table has the root mean square distance of each coefficient from that of the same fit to the true records, over the
draws of the noise, and below it the mean standard error that the fits state.
"""

import argparse
import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy.special import expit

import symdebias as sd
from symdebias.planning import Population, best_split

CATEGORIES = {"place": ("n", "e", "s", "w"), "sex": ("f", "m")}
CENTER = {"place": 1 / 3, "sex": 1 / 2}
# The numbers lie in [-1, 1]. A place has the squared norm (2/3)^2 + 2/9 = 2/3 or, the first one, 3/9; a sex has 1/4.
RADIUS = math.sqrt(2 + 2 / 3 + 1 / 4)
LOSS = sd.losses.squared_margin()
PARTS = 5
RELEASES = (
    "one vector, spherical cap",
    "one vector, spherical Laplace",
    "per column, equal parts",
    "per column, best parts",
)


def population(records: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return records of the known model: a table, and labels -1 and +1."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.uniform(-1, 1, records),
            "hours": rng.uniform(-1, 1, records),
            "place": rng.choice(CATEGORIES["place"], records, p=(0.4, 0.3, 0.2, 0.1)),
            "sex": rng.choice(CATEGORIES["sex"], records),
        }
    )
    places = table["place"].map({"n": 0.0, "e": 0.5, "s": -0.5, "w": 1.0}).to_numpy()
    score = table["age"] - 0.5 * table["hours"] + places + 0.5 * (table["sex"] == "m") - 0.2
    return table, np.where(rng.random(records) < expit(score.to_numpy()), 1.0, -1.0)


def one_vector(mechanism: sd.mechanisms.Mechanism) -> sd.Release:
    """Return the release of the vector of a record times its label, with the label itself for the intercept."""
    return sd.Release(mechanism, target="margin", fit_intercept=True, categories=CATEGORIES, center=CENTER)


def per_column(parts: Sequence[float]) -> sd.Release:
    """Return the release with a mechanism for each column, and a part of the budget for each."""
    age, hours, place, sex, label = parts
    return sd.Release(
        {
            "age": sd.LaplaceMechanism(epsilon=age, bounds=(-1, 1)),
            "hours": sd.LaplaceMechanism(epsilon=hours, bounds=(-1, 1)),
            "place": sd.RandomizedResponse(epsilon=place, categories=CATEGORIES["place"]),
            "sex": sd.RandomizedResponse(epsilon=sex, categories=CATEGORIES["sex"]),
        },
        sd.RandomizedResponse(epsilon=label),
        fit_intercept=True,
    )


def split(epsilon: float, records: int, size: int = 5000) -> tuple[float, ...]:
    """Return the parts of the budget with the smallest mean square error, by a population of the known model."""
    table, y = population(size, seed=1)
    codes = {name: table[name].map({value: k for k, value in enumerate(CATEGORIES[name])}) for name in CATEGORIES}
    X = table.assign(**codes).to_numpy(dtype=float)
    return best_split(
        LOSS, per_column, Population(X, y), epsilon=epsilon, n=records, parts=PARTS, criterion="mean"
    ).budgets


def report(
    records: int,
    draws: int,
    epsilon: float,
    parts_of: Callable[[float, int], tuple[float, ...]] = split,
    names: tuple[str, ...] = RELEASES,
) -> str:
    """Return the table of the releases with these names."""
    table, y = population(records)
    true = sd.Release(fit_intercept=True, categories=CATEGORIES).privatize(table, y)
    fitted = sd.m_estimate(sd.debias(LOSS, true.release, method="none"), true.X, true.y)
    slopes = len(fitted.names) - 1
    parts = parts_of(epsilon, records)
    releases = zip(RELEASES, (
        one_vector(sd.SphericalCapMechanism(epsilon=epsilon, radius=RADIUS)),
        one_vector(sd.SphericalLaplaceMechanism(epsilon=epsilon, radius=RADIUS)),
        per_column((epsilon / PARTS,) * PARTS),
        per_column(parts),
    ), strict=True)  # fmt: skip
    lines = [
        f"n = {records:,}, epsilon = {epsilon:g}, {draws} draws; radius {RADIUS:.3g}; best parts "
        + ", ".join(f"{part:.2f}" for part in parts),
        f"  {'':<32}" + "".join(f"{name:>10}" for name in fitted.names[:slopes]) + f"{'lost':>6}",
    ]
    for name, release in releases:
        if name not in names:
            continue
        away, stated = [], []
        for draw in range(draws):
            # Seeds apart from that of the population: an equal one would draw the same numbers again as noise.
            noised = release.privatize(table, y, random_state=1000 + draw)
            try:
                fit = sd.m_estimate(sd.debias(LOSS, noised.release), noised.X, noised.y)
            except sd.DivergenceError:
                continue
            # Slopes alone: the centres move the intercept, whose coefficient has no standard error of its own here.
            places = [fit.names.index(parameter) for parameter in fitted.names[:slopes]]
            away.append(fit.coefficients[places] - fitted.coefficients[:slopes])
            stated.append(fit.standard_errors[places])
        found = np.sqrt(np.mean(np.square(away), axis=0)) if away else np.full(slopes, np.nan)
        errors = np.mean(stated, axis=0) if stated else np.full(slopes, np.nan)
        lines.append(f"  {name:<32}" + "".join(f"{one:>10.2g}" for one in found) + f"{draws - len(away):>6}")
        lines.append(f"  {'  stated':<32}" + "".join(f"{one:>10.2g}" for one in errors))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=6.0)
    options = parser.parse_args()
    print(report(options.records, options.draws, options.epsilon))


if __name__ == "__main__":
    main()
