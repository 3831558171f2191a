"""Audit every solver that adds noise itself: a lower bound on epsilon from many runs on two neighbouring data sets.

    python benchmarks/audit.py [--runs 20000] [--epsilon 1.0]

Each solver runs on two data sets that differ in one record, which changes sides, with few others to hide it. The bound
(Clopper-Pearson, confidence 0.999 for each row) must stay below the claim. Then the noise is cut until the exact
privacy curve of these two exceeds three times the claim; the bound must then exceed
the claim, or the audit could not see anything. Mechanisms and releases are audited by `planted_defects.py`.
"""

import argparse
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import optimize

import symdebias as sd
from symdebias.mechanisms import sampling
from symdebias.privacy import analytic_gaussian_epsilon, subsampled_gaussian_guarantee

DELTA, CONFIDENCE, TIMES = 1e-2, 0.999, 3.0
ROWS = np.ones((2, 1))
FIRST, SECOND = (ROWS, np.array([1.0, 1.0])), (ROWS, np.array([1.0, -1.0]))


@dataclass(frozen=True)
class Audited:
    """A solver to run, where its noise is drawn, and the epsilon that is left when only a share of the noise is."""

    fit: Callable[..., sd.Fit]
    draw: str
    epsilon_at: Callable[[float], float]


def audited(epsilon: float) -> dict[str, Audited]:
    """Return the solvers, by name."""
    budget = {"epsilon": epsilon, "adjacency": "replace-one"}
    private = {**budget, "delta": DELTA}
    log, huber = sd.losses.logistic(), sd.losses.huber(0.1)

    def steps(batch_size: int, epochs: int, **options: object) -> Audited:
        fit = functools.partial(
            sd.dp_lssgd, log, **private, clip=0.1, step_size=0.1, batch_size=batch_size, epochs=epochs, **options
        )
        done = fit(*FIRST, random_state=0).diagnostics

        def epsilon_at(share: float) -> float:
            return subsampled_gaussian_guarantee(
                share * done["noise_multiplier"], done["sampling_probability"], done["steps"], DELTA,
                adjacency="replace-one",
            ).epsilon  # fmt: skip

        return Audited(fit, "normal_noise", epsilon_at)

    def shifted(fit: Callable[..., sd.Fit], shift: Callable[[sd.Fit], float]) -> Audited:
        """Audit normal noise on what the changed record moves by a shift."""
        done = fit(*FIRST, random_state=0)
        scale = done.diagnostics["noise_scale"]
        return Audited(fit, "normal_noise", lambda share: analytic_gaussian_epsilon(DELTA, share * scale, shift(done)))

    # Far from its targets the slope of a Huber loss is its threshold: the changed record counts for all that it can.
    # A large penalty keeps theta where that is so.
    far = {"record_radius": 1.0, "radius": 0.2, "target_bounds": (-1, 1)}
    output = functools.partial(sd.output_perturbation, huber, l2=10.0, **far)
    objective = functools.partial(
        sd.objective_perturbation, huber, **private, record_radius=1.0, target_bounds=(-1, 1), penalty=200.0
    )
    return {
        "dp_lssgd, one step": steps(2, 1, smoothing=0.0),
        "dp_lssgd, six sampled steps": steps(1, 3, smoothing=0.0),
        "dp_lssgd, smoothed": steps(2, 1, smoothing=3.0, fit_intercept=True),
        "output, Laplace-type": Audited(
            functools.partial(output, **budget), "radial_noise", lambda share: epsilon / share
        ),
        "output, normal": shifted(functools.partial(output, **private), lambda fit: fit.diagnostics["sensitivity"]),
        "objective": shifted(objective, lambda fit: 2 * fit.diagnostics["slope"]),
        "input, of a contributor": contribution(epsilon),
    }


def contribution(epsilon: float) -> Audited:
    """Audit what one contributor sends, the worst vector or its opposite; nothing is fitted."""
    mechanism = sd.InputPerturbation.from_budget(2, epsilon=epsilon, delta=DELTA, q_bound=1.0, p_bound=0.5)
    ends = dict(zip((1.0, -1.0), mechanism.farthest, strict=True))

    @dataclass(frozen=True)
    class Sent:
        theta: np.ndarray
        guarantee: sd.Guarantee

    def send(X: np.ndarray, y: np.ndarray, random_state: np.random.Generator) -> Sent:
        return Sent(mechanism.privatize(ends[y[1]][None], random_state=random_state), mechanism.guarantee)

    return Audited(
        send,
        "normal_noise",
        lambda share: (
            dataclasses.replace(mechanism, q_scale=share * mechanism.q_scale, p_scale=share * mechanism.p_scale).epsilon
        ),
    )


def share_that_leaves(case: Audited, epsilon: float) -> float:
    """Return the share of the noise with which the exact curve of the two data sets has an epsilon."""
    return float(optimize.brentq(lambda share: case.epsilon_at(share) - epsilon, 0.05, 1.0, xtol=1e-5))


@contextlib.contextmanager
def cut(draw: str, share: float) -> Iterator[None]:
    """Let a sampler draw a share of the noise."""
    original = getattr(sampling, draw)
    setattr(sampling, draw, lambda *arguments: share * original(*arguments))
    try:
        yield
    finally:
        setattr(sampling, draw, original)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20_000, help="of each solver on each data set")
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    print(f"{options.runs:,} runs on each data set, delta {DELTA:g} where there is one, confidence {CONFIDENCE:g}\n")
    print(f"{'solver':<28}{'claimed':>9}{'at least':>10}   noise cut to {'leaves':>10}{'at least':>10}")
    for name, case in audited(options.epsilon).items():

        def fit(
            X: np.ndarray, y: np.ndarray, rng: np.random.Generator, run: Callable[..., sd.Fit] = case.fit
        ) -> sd.Fit:
            return run(X, y, random_state=rng)

        audit = functools.partial(sd.checks.audit, fit, FIRST, SECOND, runs=options.runs, confidence=CONFIDENCE)
        whole = audit(random_state=0)
        claimed = whole.claimed.epsilon
        share = share_that_leaves(case, 1.001 * TIMES * options.epsilon)
        left = case.epsilon_at(share)
        with cut(case.draw, share):
            less = audit(random_state=1)
        verdict = ("" if whole.holds else "  CLAIM REFUTED") + ("  not seen" if less.holds else "")
        print(
            f"{name:<28}{claimed:>9.4g}{whole.sampled_epsilon:>10.4g}{share:>15.3f} {left:>10.4g}"
            f"{less.sampled_epsilon:>10.4g}{verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
