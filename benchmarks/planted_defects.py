"""Plant defects that others have shipped into mechanisms and releases, one by one, and audit each.

    python benchmarks/planted_defects.py [--samples 100000] [--clean 200]

The same audit, `sd.checks.check_guarantee` as it is by default, then runs on sound mechanisms and releases, where its
rate of false alarms is 1e-6 each.
"""

import argparse
import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

import symdebias as sd
from symdebias.mechanisms import sampling
from symdebias.mechanisms.cap_law import CapLaw
from symdebias.mechanisms.ranges import Ball
from symdebias.release.coupling import Coupling

Subject = sd.mechanisms.Mechanism | sd.Release


def drawing(
    sound: sd.mechanisms.Mechanism, draw: Callable[..., Any] | None = None, **members: Any
) -> sd.mechanisms.Mechanism:
    """Return a mechanism with another draw and other members, declared as the sound one.

    Parameters
    ----------
    sound : Mechanism
        What it is declared as.
    draw : callable, optional
        ``draw(values, noise_of, source)``: `noise_of` takes values and a source and returns sound noise for them.
    **members
        Properties and methods that are replaced.
    """
    kind = type(sound)

    def noise_of(values: np.ndarray, source: sampling.Source) -> np.ndarray:
        return kind._add_noise(found, values, source) - values

    def add_noise(self: Any, values: np.ndarray, source: sampling.Source) -> np.ndarray:
        return draw(values, noise_of, source)

    if draw is not None:
        members["_add_noise"] = add_noise
    made = type(f"Defect{kind.__name__}", (kind,), {"kind": "defect", **members})
    found = object.__new__(made)
    found._declare(**{name: value for name, value in vars(sound).items() if name in kind.__dataclass_fields__})
    return found


def on_grid(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return a sum on a coarse common grid, so that a defect is not seen by its low bits."""
    step = 2.0**-16
    return step * (np.rint(values / step) + np.rint(noise / step))


def scaled(sound: sd.mechanisms.Mechanism, factor: float) -> sd.mechanisms.Mechanism:
    """Return the mechanism with a factor on its noise, on a grid."""
    return drawing(sound, lambda values, noise_of, source: on_grid(values, factor * noise_of(values, source)))


def declared(sound: sd.mechanisms.Mechanism, **values: Any) -> sd.mechanisms.Mechanism:
    """Return the mechanism with other fields, as a wrong calibration makes them."""
    found = drawing(sound)
    found._declare(**values)
    return found


def claiming(sound: sd.mechanisms.Mechanism, guarantee: sd.Guarantee) -> sd.mechanisms.Mechanism:
    """Return the mechanism with another claim."""
    return drawing(sound, guarantee=guarantee)


def clipping(sound: sd.mechanisms.Mechanism, clip: Callable[..., Any]) -> sd.mechanisms.Mechanism:
    """Return the mechanism with another clipping; what is noised lies on a grid."""

    class Range(Ball):
        def clip(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return clip(np.array(values)), np.zeros(len(values), dtype=bool)

    return drawing(
        sound,
        lambda values, noise_of, source: on_grid(values, noise_of(np.zeros_like(values), source)),
        range=Range(getattr(sound, "radius", None) or 1.0, order=getattr(sound.range, "order", 2)),
    )


GAUSSIAN = sd.GaussianMechanism(1.0, 1e-5, 1.0)
LAPLACE = sd.LaplaceMechanism(1.0, bounds=(-1.0, 1.0))
L1 = sd.LaplaceMechanism(1.0, radius=1.0)
SPHERICAL = sd.SphericalLaplaceMechanism(1.0, 1.0)
DISCRETE = sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 1))
STAIRCASE = sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0))
COIN = sd.RandomizedResponse(1.0)
FOUR = sd.RandomizedResponse(1.0, ("n", "e", "s", "w"))
LABELS = sd.labels.debiased_randomized_response(labels=(0, 1, 2), epsilon=1.0)
CAP = sd.SphericalCapMechanism(2.0, 1.0)
INPUT = sd.InputPerturbation.from_budget(2, epsilon=1.0, delta=1e-5, q_bound=1.0, p_bound=0.5)

_MODULE_GENERATOR = np.random.default_rng()
_POOL = GAUSSIAN.privatize(np.zeros((1000, 3)))


def _without_some(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    noise = noise_of(values, source)
    noise[np.random.default_rng().random(len(noise)) < 0.01] = 0.0
    return values + noise


def _last_without(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    noise = noise_of(values, source)
    noise[:, -1] = 0.0
    return values + noise


def _in_all_columns(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return on_grid(values, np.repeat(noise_of(np.zeros_like(values[:, :1]), source), values.shape[1], axis=1))


def _of_all_rows(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return on_grid(values, np.repeat(noise_of(np.zeros_like(values[:1]), source), len(values), axis=0))


def _of_two_rows(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    half = noise_of(np.zeros_like(values[: (len(values) + 1) // 2]), source)
    return on_grid(values, np.repeat(half, 2, axis=0)[: len(values)])


def _mirrored(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    half = np.repeat(noise_of(np.zeros_like(values[: (len(values) + 1) // 2]), source), 2, axis=0)
    half[1::2] *= -1
    return on_grid(values, half[: len(values)])


def _from_a_pool(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    start = int(np.random.default_rng().integers(len(_POOL)))
    return on_grid(values, np.take(_POOL, start + np.arange(len(values)), axis=0, mode="wrap"))


def _truncated(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    noise = noise_of(values, source)
    return values + np.clip(noise, -8.0, 8.0)


def _smaller_for_some(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    noise = noise_of(np.zeros_like(values), source)
    return on_grid(values, np.where(values > 0, 0.9, 1.0) * noise)


def _one_sided(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return values + np.abs(noise_of(values, source))


def _zero_twice(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    rng = np.random.default_rng()
    sizes = rng.geometric(-math.expm1(-1.0), size=values.shape) - 1
    return values + np.where(rng.random(values.shape) < 0.5, -sizes, sizes)


def _reseeded(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return values + noise_of(values, sampling.source(7, "hardened"))


def _shared_after_fork(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return values + noise_of(values, sampling.Source(_MODULE_GENERATOR, seeded=True, hardened=True))


def _other_law(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    # Of the same variance, with ends.
    return on_grid(values, math.sqrt(6) * LAPLACE.scale * np.random.default_rng().uniform(-1, 1, values.shape))


def _plain(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return values + GAUSSIAN.scale * np.random.default_rng().standard_normal(values.shape)


def _plain_laplace(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return values + np.random.default_rng().laplace(scale=LAPLACE.scale, size=values.shape)


def _single(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    return values / 3 + (values - values / 3) + noise_of(np.zeros_like(values), source).astype(np.float32) / 3.0 * 3.0


def _kept_with(probability: float) -> Callable[..., np.ndarray]:
    return lambda values, noise_of, source: np.where(
        np.random.default_rng().random(len(values)) < probability, values, -values
    )


def _four_with_two(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    # The coin of two labels, and one of the other three.
    rng = np.random.default_rng()
    kept = rng.random(len(values)) < math.e / (1 + math.e)
    return np.where(kept, values, (values + rng.integers(1, 4, len(values))) % 4)


def _moved_chance(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    matrix = np.array(LABELS.noise.matrix)
    matrix[0, :2] += np.array([0.02, -0.02])
    places = sampling.categories(matrix, LABELS.range.codes(values), source)
    return np.array(LABELS.noise.outputs)[places]


def _cap_of(law: CapLaw) -> Callable[..., np.ndarray]:
    def draw(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
        other = sd.SphericalCapMechanism(law.epsilon, 1.0, gamma=law.gamma)
        return other._add_noise(values, source)

    return draw


def _swapped(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    noise = noise_of(values, source)
    return values + np.concatenate([noise[:, 2:], noise[:, :2]], axis=1)


def _hashed(values: np.ndarray, noise_of: Callable[..., np.ndarray], source: sampling.Source) -> np.ndarray:
    _, first, back = np.unique(values, return_index=True, return_inverse=True)
    return values + noise_of(values[first], source)[back.ravel()].reshape(values.shape)


class RawTarget(sd.Release):
    """Sends the target as it is."""

    def privatize(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Return noised records with the true target."""
        noised = super().privatize(X, y, **options)
        object.__setattr__(noised, "y", np.array(y, dtype=float))
        return noised


class SharedNoise(sd.Release):
    """Adds the noise of the first column to the target, too."""

    def privatize(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Return noised records."""
        noised = super().privatize(X, y, **options)
        inside = np.clip(X, -1, 1)[:, 0]
        object.__setattr__(noised, "y", np.clip(y, -1, 1) + noised.X[:, 0] - inside)
        return noised


class LargestBudget(sd.Release):
    """Claims the largest budget of its parts, not their sum."""

    @property
    def guarantee(self) -> sd.Guarantee:
        """The wrong claim."""
        return sd.Guarantee(1.0, 0.0)


class SilentColumn(sd.Release):
    """Does not name the column that it releases as it is."""

    @property
    def guarantee(self) -> sd.Guarantee:
        """The wrong claim."""
        return sd.Guarantee(1.0, 0.0)


class LetsThrough(sd.RandomizedResponse):
    """Takes any label for the first one."""

    kind = "lets through"

    def clip(self, values: Any) -> Any:
        """Return labels, strange ones as the first."""
        return super().clip(np.where(np.isin(values, self.noise.inputs), values, self.noise.inputs[0]))


def _radius_of_features() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(Coupling, "released", lambda self, mechanism: mechanism)


def _l_infinity(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -1.0, 1.0)


def _twice(values: np.ndarray) -> np.ndarray:
    return Ball(2.0).clip(values)[0]


NOTHING = contextlib.nullcontext
TWO = {"x": LAPLACE}
# What is planted, by name: the subject, and what is patched while it is audited.
DEFECTS: dict[str, tuple[Callable[[], Subject], Callable[[], contextlib.AbstractContextManager[Any]]]] = {
    **{
        f"{name}, noise x {factor:g}": ((lambda sound=sound, factor=factor: scaled(sound, factor)), NOTHING)
        for name, sound in {"Gaussian": GAUSSIAN, "Laplace": LAPLACE, "spherical Laplace": SPHERICAL}.items()
        for factor in (0.5, 0.6, 0.8)
    },
    "Gaussian, noise x .95": (lambda: scaled(GAUSSIAN, 0.95), NOTHING),
    "Gaussian, sensitivity halved": (lambda: declared(GAUSSIAN, scale=GAUSSIAN.scale / 2), NOTHING),
    "Laplace, sensitivity halved": (lambda: declared(LAPLACE, scale=LAPLACE.scale / 2), NOTHING),
    "L1 ball, sensitivity of one coordinate": (lambda: declared(L1, scale=L1.scale / 2), NOTHING),
    "spherical Laplace, calibrated to adding a record": (
        lambda: declared(SPHERICAL, scale=SPHERICAL.scale / 2), NOTHING,
    ),
    "Gaussian, claimed for added records": (
        lambda: claiming(GAUSSIAN, sd.Guarantee(1.0, 1e-5, "central", "add-remove")), NOTHING,
    ),
    "Gaussian, classical calibration at epsilon 20": (
        lambda: declared(
            sd.GaussianMechanism(20.0, 1e-5, 1.0), scale=2 * math.sqrt(2 * math.log(1.25 / 1e-5)) / 20.0
        ),
        NOTHING,
    ),
    "Gaussian, delta claimed a tenth": (lambda: claiming(GAUSSIAN, sd.Guarantee(1.0, 1e-6)), NOTHING),
    "coin, epsilon claimed half": (lambda: claiming(COIN, sd.Guarantee(0.5, 0.0)), NOTHING),
    "coin that keeps .75 for .731": (lambda: drawing(COIN, _kept_with(0.75)), NOTHING),
    "four labels by the coin of two": (lambda: drawing(FOUR, _four_with_two), NOTHING),
    "label randomizer, a chance moved by .02": (lambda: drawing(LABELS, _moved_chance), NOTHING),
    "undeclared labels let through": (lambda: LetsThrough(1.0), NOTHING),
    "seed reused by every call": (lambda: drawing(GAUSSIAN, _reseeded), NOTHING),
    "coin, seed reused by every call": (lambda: drawing(COIN, lambda values, _, source: (
        type(COIN)._add_noise(COIN, values, sampling.source(7, "hardened")))), NOTHING),
    "generator shared after a fork": (lambda: drawing(GAUSSIAN, _shared_after_fork), NOTHING),
    "noise from a pool of 1,000 rows": (lambda: drawing(GAUSSIAN, _from_a_pool), NOTHING),
    "one noise for all records": (lambda: drawing(GAUSSIAN, _of_all_rows), NOTHING),
    "one noise for two records": (lambda: drawing(GAUSSIAN, _of_two_rows), NOTHING),
    "noise and its mirror image for two records": (lambda: drawing(GAUSSIAN, _mirrored), NOTHING),
    "one noise for all columns": (lambda: drawing(GAUSSIAN, _in_all_columns), NOTHING),
    "noise by the value of the record": (lambda: drawing(LAPLACE, _hashed), NOTHING),
    "no clipping of vectors": (lambda: clipping(GAUSSIAN, lambda values: values), NOTHING),
    "no clipping of numbers": (lambda: clipping(LAPLACE, lambda values: values), NOTHING),
    "clipping at twice the radius": (lambda: clipping(GAUSSIAN, _twice), NOTHING),
    "clipping by coordinates for the norm": (lambda: clipping(GAUSSIAN, _l_infinity), NOTHING),
    "clipping computed and not used": (
        lambda: drawing(
            GAUSSIAN, privatize=lambda self, values, **options: values + GAUSSIAN.privatize(0.0 * values)
        ),
        NOTHING,
    ),
    "last coordinate without noise": (lambda: drawing(GAUSSIAN, _last_without), NOTHING),
    "no noise for 1 record of 100": (lambda: drawing(GAUSSIAN, _without_some), NOTHING),
    "less noise for positive values": (lambda: drawing(LAPLACE, _smaller_for_some), NOTHING),
    "Laplace noise cut off at 4 b": (lambda: drawing(LAPLACE, _truncated), NOTHING),
    "uniform noise of the same variance": (lambda: drawing(LAPLACE, _other_law), NOTHING),
    "plain normal noise": (lambda: drawing(GAUSSIAN, _plain), NOTHING),
    "plain Laplace noise": (lambda: drawing(LAPLACE, _plain_laplace), NOTHING),
    "noise in single precision": (lambda: drawing(GAUSSIAN, _single), NOTHING),
    "discrete Laplace, one-sided": (lambda: drawing(DISCRETE, _one_sided), NOTHING),
    "discrete Laplace, zero twice": (lambda: drawing(DISCRETE, _zero_twice), NOTHING),
    "staircase, gamma of .3": (
        lambda: drawing(STAIRCASE, lambda values, _, source: (
            type(STAIRCASE)._add_noise(sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0), gamma=0.3), values, source)
        )), NOTHING,
    ),
    "cap, gamma x 1.1": (lambda: drawing(CAP, _cap_of(CapLaw(2.0, 1.1 * CAP.rim(3)))), NOTHING),
    "cap, epsilon x 1.2": (lambda: drawing(CAP, _cap_of(CapLaw(2.4))), NOTHING),
    "input perturbation, scales swapped": (lambda: drawing(INPUT, _swapped), NOTHING),
    "margin release, calibrated without the label": (
        lambda: sd.Release(sd.GaussianMechanism(2.0, 1e-5, 1.0), "margin", fit_intercept=True), _radius_of_features,
    ),
    "release, target sent as it is": (lambda: RawTarget(TWO, sd.LaplaceMechanism(1.0, bounds=(-1, 1))), NOTHING),
    "release, columns share their noise": (lambda: SharedNoise(TWO, sd.LaplaceMechanism(1.0, bounds=(-1, 1))), NOTHING),
    "release, budgets not added": (lambda: LargestBudget(TWO, COIN), NOTHING),
    "release, a raw column not named": (lambda: SilentColumn({"x": LAPLACE}, noiseless=("z",)), NOTHING),
}  # fmt: skip

SOUND: dict[str, Subject] = {
    "Gaussian": GAUSSIAN, "Gaussian, epsilon 5": sd.GaussianMechanism(5.0, 1e-8, 2.0), "Laplace": LAPLACE,
    "Laplace, epsilon .1": sd.LaplaceMechanism(0.1, bounds=(0, 10)), "L1 ball": L1, "spherical Laplace": SPHERICAL,
    "spherical Laplace, padded": sd.SphericalLaplaceMechanism(2.0, 0.5, padded=True), "discrete Laplace": DISCRETE,
    "discrete Laplace, tenths": sd.DiscreteLaplaceMechanism(0.3, bounds=(-1, 2), step=0.1), "staircase": STAIRCASE,
    "discrete staircase": sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 10)), "coin": COIN, "four labels": FOUR,
    "label randomizer": LABELS, "input perturbation": INPUT,
    "clipped Laplace": sd.ClippedMechanism(sd.LaplaceMechanism(1.0, bounds=(0, 1)), 0, 1), "cap": CAP,
    "columns and a label": sd.Release({("a", "b"): GAUSSIAN, "c": LAPLACE, "d": FOUR}, COIN, noiseless=("year",)),
    "margin": sd.Release(sd.GaussianMechanism(2.0, 1e-5, 1.0), "margin", fit_intercept=True),
    "joint": sd.Release(L1, "joint", target_bounds=(-2, 5)),
}  # fmt: skip


@contextlib.contextmanager
def planted(name: str) -> Iterator[Subject]:
    """Give the subject with a defect."""
    make, patched = DEFECTS[name]
    subject = make()
    with patched():
        yield subject


def main() -> None:
    """Print what the audit says of each defect, and how often it refutes what is sound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000, help="of each input in the first look")
    parser.add_argument("--clean", type=int, default=200, help="audits of sound mechanisms and releases")
    parser.add_argument("--only", default="", help="defects whose name has this in it")
    options = parser.parse_args()
    names = [name for name in DEFECTS if options.only in name]
    caught = 0
    print(f"{'planted defect':<50}{'':>8}  refuted by")
    for name in names:
        with planted(name) as subject:
            check = sd.checks.check_guarantee(subject, samples=options.samples)
        caught += not check.holds
        print(f"{name:<50}{'caught' if not check.holds else 'MISSED':>8}  {', '.join(check.refuted_by)}", flush=True)
    print(f"\n{caught} of {len(names)} planted defects caught\n")
    alarms: Counter[str] = Counter()
    began = time.process_time()
    for turn in range(options.clean):
        name = list(SOUND)[turn % len(SOUND)]
        check = sd.checks.check_guarantee(SOUND[name], samples=options.samples)
        if not check.holds:
            alarms[f"{name}: {', '.join(check.refuted_by)}"] += 1
    if options.clean:
        each = (time.process_time() - began) / options.clean
        print(
            f"{alarms.total()} false alarms in {options.clean} audits of {len(SOUND)} sound ones, {each:.1f} s each "
            f"(rate below 1e-6 for each){''.join(f'{chr(10)}  {name}' for name in alarms)}"
        )


if __name__ == "__main__":
    main()
