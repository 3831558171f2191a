"""Choose a penalty by GridSearchCV from released records alone, and hold the choice against clean records.

    SYMDEBIAS_DATA=folder python examples/grid_search.py [--epsilon 6] [--draws 1] [--seed 0] [--records 32561]

UCI Adult: income above 50,000 from age, years of education, hours, sex and whether a spouse is there. A schema makes
the release for the log loss: one vector of features and label, through a spherical cap, with the whole budget. A
pipeline of scikit-learn is fitted at each penalty and scored by the corrected log loss of the parts that were left out.

The search sees released records and nothing else. Clean records judge it: the log loss on the test set of the model at
each penalty with its standard error, and how far it is above the least, with the standard error of this difference.
Beside the corrected score stands the naive one, which takes released records for true ones.
"""

import argparse
import os
import warnings

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import symdebias as sd
from symdebias.interfaces import datasets

PENALTIES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
PARTS = 5
# Public. A record whose columns lie in [-1, 1] is seldom longer than the norm; longer ones are shortened to it.
SCHEMA = {
    "loss": "logistic",
    "norm": 1.7,
    "columns": {
        "age": {"bounds": [17, 80]},
        "education-num": {"bounds": [1, 16]},
        "hours-per-week": {"bounds": [1, 80]},
        "sex": {"bounds": [-1, 1]},
        "married": {"bounds": [-1, 1]},
    },
    "target": {"name": "income", "categories": ["<=50K", ">50K"]},
}


def released(train: datasets.Dataset, epsilon: float, seed: int | None, records: int | None = None):
    """Return released records of the first file of Adult."""
    rows = np.random.default_rng(0).permutation(len(train.y))[:records]
    table = dict(zip(train.columns, train.X[rows].T, strict=True))
    release = sd.Release.from_schema({**SCHEMA, "epsilon": epsilon})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ClippingWarning)
        X = np.column_stack([table[name] for name in release.columns])
        return release.privatize(X, train.y[rows], random_state=seed)


def naive_score(pipeline: Pipeline, X, y) -> float:
    """Return minus the log loss of released records that are taken for true ones."""
    fit = pipeline[-1].fit_
    columns, _ = fit.corrected.release.columns_of(X, y)
    return -float(np.mean(np.logaddexp(0, -columns @ fit.theta)))


def search(noised) -> GridSearchCV:
    """Return a search over penalties, in which the corrected score decides."""
    model = sd.DebiasedClassifier("logistic", release=noised.release)
    found = GridSearchCV(
        Pipeline([("keep", "passthrough"), ("model", model)]),
        {"model__l2": list(PENALTIES)},
        scoring={"corrected": sd.CorrectedScorer("log_loss"), "naive": naive_score},
        refit="corrected",
        cv=PARTS,
    )
    with warnings.catch_warnings():
        # Where the noise wins in a part the fit is refused, and this penalty is not chosen.
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", "One or more of the test scores are non-finite")
        return found.fit(noised.X, noised.y)


def clean_losses(found: GridSearchCV, noised, test: datasets.Dataset) -> np.ndarray:
    """Return the log losses of clean records under the model at each penalty, a row each; NaN where it is refused."""
    losses = np.full((len(PENALTIES), len(test.y)), np.nan)
    for row, l2 in zip(losses, PENALTIES, strict=True):
        try:
            model = found.estimator.set_params(model__l2=l2).fit(noised.X, noised.y)
        except sd.SymdebiasError:
            continue
        right = (test.y > 0).astype(int)
        row[:] = -np.log(model.predict_proba(test.X)[np.arange(len(right)), right])
    return losses


def report(epsilon: float = 6.0, draws: int = 1, seed: int | None = None, records: int | None = None) -> str:
    """Return the table of the last draw, and one line on the choices in all."""
    train, test = datasets.adult_parts()
    lines, apart = [], []
    for draw in range(draws):
        noised = released(train, epsilon, None if seed is None else seed + draw, records)
        found = search(noised)
        losses = clean_losses(found, noised, test)
        means, errors = losses.mean(axis=1), losses.std(axis=1) / np.sqrt(len(test.y))
        best = int(np.nanargmin(means))
        above = losses - losses[best]
        chosen = PENALTIES.index(found.best_params_["model__l2"])
        apart.append((means[chosen] - means[best], errors[best]))
        if draw < draws - 1:
            continue
        lines = [
            f"{len(noised.X):,} records, {noised.release.guarantee}" if seed is None else
            f"{len(noised.X):,} records at epsilon {epsilon:g}, from a seed and without a guarantee",
            f"{'l2':>8}{'corrected':>12}{'naive':>10}{'clean test':>13}{'(se)':>9}{'above':>9}{'(se)':>9}",
        ]  # fmt: skip
        for index, l2 in enumerate(PENALTIES):
            corrected, naive = (-found.cv_results_[f"mean_test_{name}"][index] for name in ("corrected", "naive"))
            values = (means[index], errors[index], above[index].mean(), above[index].std() / np.sqrt(len(test.y)))
            mark = "  <- chosen" * (index == chosen) + "  <- least on clean records" * (index == best)
            shown = "".join(f"{value:>{width}.4f}" for value, width in zip(values, (13, 9, 9, 9), strict=True))
            lines.append(f"{l2:>8g}{corrected:>12.4f}{naive:>10.4f}{shown}{mark}".replace("nan", "  -"))
    within = sum(difference <= error for difference, error in apart)
    largest = max(difference for difference, _ in apart)
    lines.append(f"{within} of {draws} choices within one standard error of the least; at most {largest:.4f} above it")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=6.0)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument(
        "--seed", type=int, default=None, help="for repeatable examples; without it the noise is private"
    )
    parser.add_argument("--records", type=int, default=None, help="how many of the 32,561 take part")
    options = parser.parse_args()
    if "SYMDEBIAS_DATA" not in os.environ:
        parser.error("set SYMDEBIAS_DATA to the folder of UCI Adult (adult.data and adult.test, or .gz)")
    print(report(options.epsilon, options.draws, options.seed, options.records))


if __name__ == "__main__":
    main()
