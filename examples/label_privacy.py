"""Which label noise is best to train on? Weeks worked in a year, of UCI Census-Income, under label privacy.

    python examples/label_privacy.py [--epsilons 0.5 1 2 4] [--seeds 10] [--picture label_privacy.png]
        [--matrix randomizer_matrix.png] [--quick]

Needs census-income.test in the folder that SYMDEBIAS_DATA names. At each budget every mechanism noises the labels of
four fifths of the records; regressions are trained on them and tested on the true labels of the last fifth. Unbiased
labels are trained on by the exact correction, biased ones as they are. The prior that two of the designs need is
estimated from the labels, for a part of the same budget.

On the whole data (10 seeds, linear model) the optimal unbiased randomizer has the least test error at every budget:
130.8 at epsilon 1, where true labels give 128.9. Its labels are 16 times as noisy there as those of randomized response
on bins, the least noisy of all, which reaches 173.9. Other unbiased labels are better than biased ones too, with an
exception: the debiased randomized response is so noisy over 52 labels that it loses to all biased ones at epsilon 0.5
and to most at 1. The staircase, less noisy than Laplace, is not ahead of it in test error by two standard errors.
"""

import argparse
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import symdebias as sd
from symdebias.interfaces import datasets, plotting
from symdebias.mechanisms import Mechanism

LABELS = np.arange(1.0, 53.0)
ENDS = (float(LABELS[0]), float(LABELS[-1]))
# Public: + L2/2 ||theta||^2, the intercept aside.
L2 = 1e-3
TRUE = "trained on true labels"


@dataclass(frozen=True)
class Model:
    """A loss, and its prediction at a score."""

    loss: sd.Loss
    prediction: Callable[[np.ndarray], np.ndarray]


MODELS = {
    "linear": Model(sd.losses.least_squares(), lambda u: u),
    "Poisson": Model(sd.losses.poisson(), np.exp),
}


@dataclass(frozen=True)
class Contender:
    """A mechanism: what `noise` makes of (labels, epsilon, seed), and what made it."""

    unbiased: bool
    noise: Callable[[np.ndarray, float, int], tuple[np.ndarray, Mechanism]]


def designed(design: Callable[..., sd.LabelRandomizer], *, unbiased: bool) -> Contender:
    """Return a randomizer that is designed for the labels' private prior; both share the budget."""

    def noise(y: np.ndarray, epsilon: float, seed: int) -> tuple[np.ndarray, Mechanism]:
        sent = sd.labels.privatize_labels(y, LABELS, epsilon, design=design, random_state=seed)
        return sent.y, sent.randomizer

    return Contender(unbiased, noise)


def declared(mechanism: Callable[[float], Mechanism], *, unbiased: bool) -> Contender:
    """Return a mechanism that needs to know nothing but the budget."""

    def noise(y: np.ndarray, epsilon: float, seed: int) -> tuple[np.ndarray, Mechanism]:
        made = mechanism(epsilon)
        return made.privatize(y, random_state=seed), made

    return Contender(unbiased, noise)


def laplace(epsilon: float) -> Mechanism:
    return sd.LaplaceMechanism(epsilon, bounds=ENDS)


def staircase(epsilon: float) -> Mechanism:
    return sd.StaircaseMechanism(epsilon, ENDS, gamma="squared")


CONTENDERS = {
    "optimal unbiased": designed(sd.optimal_unbiased_randomizer, unbiased=True),
    "debiased randomized response": declared(
        lambda e: sd.labels.debiased_randomized_response(LABELS, e), unbiased=True
    ),
    "Laplace": declared(laplace, unbiased=True),
    "staircase": declared(staircase, unbiased=True),
    "discrete Laplace": declared(lambda e: sd.DiscreteLaplaceMechanism(e, ENDS), unbiased=True),
    "discrete staircase": declared(lambda e: sd.DiscreteStaircaseMechanism(e, ENDS), unbiased=True),
    "randomized response on bins": designed(sd.labels.randomized_response_on_bins, unbiased=False),
    "randomized response": declared(lambda e: sd.RandomizedResponse(e, tuple(LABELS)), unbiased=False),
    "Laplace, clipped": declared(lambda e: sd.ClippedMechanism(laplace(e), *ENDS), unbiased=False),
    "staircase, clipped": declared(lambda e: sd.ClippedMechanism(staircase(e), *ENDS), unbiased=False),
}


@functools.lru_cache(maxsize=64)
def corrected(model: str, mechanism: Mechanism | None, columns: tuple[str, ...], *, unbiased: bool) -> sd.CorrectedLoss:
    """Return the loss of a model on labels of a mechanism; equal mechanisms share one."""
    release = sd.Release(target=mechanism, noiseless=columns, fit_intercept=True)
    return sd.debias(MODELS[model].loss, release, method="auto" if unbiased else "none")


@dataclass(frozen=True)
class Split:
    """Records to train on and records to test on, the same for everything.

    Attributes
    ----------
    X, y, test_X, test_y : arrays
        True records.
    columns : tuple of str
        The names of the features.
    """

    X: np.ndarray
    y: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray
    columns: tuple[str, ...]

    @classmethod
    def of(cls, data: datasets.Dataset, records: int | None = None) -> "Split":
        """Split records, or some of them, four to one."""
        order = np.random.default_rng(0).permutation(len(data.y))[:records]
        train, test = np.split(order, [4 * len(order) // 5])
        return cls(data.X[train], data.y[train], data.X[test], data.y[test], data.columns)

    def test_error(self, model: str, mechanism: Mechanism | None, y: np.ndarray, *, unbiased: bool = True) -> float:
        """Return the mean squared error on true test labels of a model that is trained on released ones."""
        loss = corrected(model, mechanism, self.columns, unbiased=unbiased)
        with warnings.catch_warnings():
            # That label noise inflates gradients is what the table shows.
            warnings.simplefilter("ignore", sd.VarianceWarning)
            fit = sd.m_estimate(loss, self.X, y, l2=L2)
        if fit.diagnostics["safeguards"]:
            raise RuntimeError(f"a fit on {mechanism} was held by {fit.diagnostics['safeguards']}")
        predicted = MODELS[model].prediction(self.test_X @ fit.theta[:-1] + fit.theta[-1])
        return float(np.mean((predicted - self.test_y) ** 2))


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over the last axis and its standard error."""
    return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


def experiment(split: Split, epsilons: Sequence[float], seeds: int) -> dict[str, dict[str, plotting.LabelCurve]]:
    """Return for every model what each contender costs."""
    found: dict[str, dict[str, plotting.LabelCurve]] = {name: {} for name in MODELS}
    for name, contender in CONTENDERS.items():
        noisy = np.empty((len(epsilons), seeds))
        test = np.empty((len(MODELS), *noisy.shape))
        for i, epsilon in enumerate(epsilons):
            for seed in range(seeds):
                y, mechanism = contender.noise(split.y, epsilon, seed)
                noisy[i, seed] = np.mean((y - split.y) ** 2)
                for m, model in enumerate(MODELS):
                    test[m, i, seed] = split.test_error(model, mechanism, y, unbiased=contender.unbiased)
        for m, model in enumerate(MODELS):
            found[model][name] = plotting.LabelCurve(
                tuple(epsilons), *mean_and_error(noisy), *mean_and_error(test[m]), unbiased=contender.unbiased
            )
    return found


def references(split: Split) -> dict[str, dict[str, float]]:
    """Return the test errors without noise: of the true labels, and of their mean as the only prediction."""
    constant = float(np.mean((split.y.mean() - split.test_y) ** 2))
    return {
        model: {TRUE: split.test_error(model, None, split.y), "the mean of the labels": constant} for model in MODELS
    }


def report(curves: Mapping[str, Mapping[str, plotting.LabelCurve]], without: Mapping[str, Mapping[str, float]]) -> str:
    """Return the tables, and which orders hold."""
    any_model = next(iter(curves.values()))
    epsilons = next(iter(any_model.values())).epsilons
    lines = ["squared error of noised labels, mean over seeds (standard error)", _head(epsilons)]
    lines += [_line(name, curve.noisy, curve.noisy_error, curve.unbiased) for name, curve in any_model.items()]
    for model, rows in curves.items():
        lines += ["", f"squared error on true test labels, {model} model", _head(epsilons)]
        lines += [_line(name, curve.test, curve.test_error, curve.unbiased) for name, curve in rows.items()]
        lines += [f"  {name:<40}{value:.2f}" for name, value in without[model].items()]
        for i, epsilon in enumerate(epsilons):
            lines.append(f"  epsilon {epsilon:g}: {_orders(rows, i)}")
    return "\n".join(lines)


def picture(rows: Mapping[str, plotting.LabelCurve], without: Mapping[str, float]) -> object:
    """Return the figure of one model."""
    others = {name: value for name, value in without.items() if name != TRUE}
    return plotting.label_losses(rows, others, without_noise=without[TRUE])


def _head(epsilons: Sequence[float]) -> str:
    return f"  {'':<31}{'':<9}" + "".join(f"{f'epsilon {epsilon:g}':>22}" for epsilon in epsilons)


def _line(name: str, means: np.ndarray, errors: np.ndarray, unbiased: bool) -> str:
    cells = (f"{f'{mean:.2f} ({error:.2f})':>22}" for mean, error in zip(means, errors, strict=True))
    return f"  {name:<31}{'unbiased' if unbiased else 'biased':<9}" + "".join(cells)


def _orders(rows: Mapping[str, plotting.LabelCurve], i: int) -> str:
    """Say which mechanism is best of its kind, in noise and in test error."""
    kinds = {kind: {n: c for n, c in rows.items() if c.unbiased == kind} for kind in (True, False)}
    quietest = min(rows, key=lambda name: rows[name].noisy[i])
    best = {kind: min(members, key=lambda name: members[name].test[i]) for kind, members in kinds.items()}
    beaten = sum(rows[best[True]].test[i] < curve.test[i] for curve in kinds[False].values())
    worst = max(curve.test[i] for curve in kinds[True].values())
    ahead = sum(worst < curve.test[i] for curve in kinds[False].values())
    return (
        f"least noise {quietest}; best test error of the unbiased {best[True]}, before {beaten} of {len(kinds[False])} "
        f"biased; best of the biased {best[False]}; the worst of the unbiased is before {ahead}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--matrix", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, one budget, two seeds")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epsilons, options.seeds = [1.0], 2
    split = Split.of(datasets.census(), 5_000 if options.quick else None)
    print(f"{len(split.y):,} records to train on, {len(split.test_y):,} to test on, {options.seeds} seeds")
    curves, without = experiment(split, options.epsilons, options.seeds), references(split)
    print(report(curves, without))
    if options.picture is not None:
        plotting.save(picture(curves["linear"], without["linear"]), options.picture)
    if options.matrix is not None:
        sent = sd.labels.privatize_labels(split.y, LABELS, 1.0, random_state=0)
        plotting.save(plotting.randomizer_matrix(sent.randomizer), options.matrix)


if __name__ == "__main__":
    main()
