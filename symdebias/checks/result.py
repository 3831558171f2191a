"""What a check of a guarantee answers: a verdict, and for each probe what it tested, found and would have seen."""

from dataclasses import dataclass
from typing import Any

from symdebias.privacy import Guarantee

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Probe:
    """One question that was put to a mechanism, and its answer.

    Attributes
    ----------
    name : str
        Its name.
    tested : str
        What was tested.
    passed : bool
        False where the answer refutes the guarantee.
    found : str
        What was found.
    epsilon : float or None
        The lower bound on epsilon at the claimed delta that was found, certified at the rate of false alarms, or exact.
    claimed : float or None
        The epsilon that it stands against.
    draws : int
        How many records were drawn.
    false_alarm : float
        A sound mechanism is refuted with at most this probability; 0 where nothing is left to chance.
    sees : str
        The smallest defect that is seen with a probability of about .95.

    Examples
    --------
    >>> import symdebias as sd
    >>> probe = sd.checks.check_guarantee(sd.RandomizedResponse(epsilon=1.0), samples=20_000).probes[0]
    >>> probe.passed, probe.false_alarm < 1e-6
    (True, True)
    """

    name: str
    tested: str
    passed: bool
    found: str
    epsilon: float | None = None
    claimed: float | None = None
    draws: int = 0
    false_alarm: float = 0.0
    sees: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the attributes as JSON values; an infinite bound is text."""
        numbers = {name: _as_json(getattr(self, name)) for name in ("epsilon", "claimed")}
        return {**vars(self), **numbers}

    def __str__(self) -> str:
        bound = ""
        if self.epsilon is not None and self.claimed is not None:
            bound = f"epsilon at least {self.epsilon:.4g} of {self.claimed:.4g}; "
        rate = f"{self.draws:,} draws, false alarms below {self.false_alarm:.2g}" if self.draws else "exact"
        return f"{'passed ' if self.passed else 'REFUTED'} {self.name}: {bound}{self.found} ({rate}; sees {self.sees})"


@dataclass(frozen=True)
class GuaranteeCheck:
    """The answer of `check_guarantee` or `audit`.

    Attributes
    ----------
    claimed : Guarantee
        What the mechanism, the release or the solver claims.
    exact_epsilon : float or None
        The largest log ratio of densities or probabilities of the two inputs, for a claim with delta = 0; infinite
        where one of them rules the other out.
    exact_delta : float or None
        The exact delta at the claimed epsilon.
    sampled_epsilon : float or None
        A lower bound on epsilon (at the claimed delta) from samples of the two inputs.
    confidence : float
        The probability that a sound mechanism passes all that is left to chance, and that all bounds are right.
    samples : int
        How many values were drawn of each of the two inputs.
    probes : tuple of Probe
        What was asked, one by one; empty for solvers.

    Examples
    --------
    >>> import symdebias as sd
    >>> found = sd.checks.check_guarantee(sd.RandomizedResponse(epsilon=1.0), samples=20_000)
    >>> found.holds, found.refuted_by
    (True, ())
    """

    claimed: Guarantee
    exact_epsilon: float | None
    exact_delta: float | None
    sampled_epsilon: float | None
    confidence: float
    samples: int
    probes: tuple[Probe, ...] = ()

    @property
    def holds(self) -> bool:
        """False where an exact privacy loss or a lower bound on epsilon exceeds the claim, or a probe refutes it."""
        claimed = self.claimed
        checks = [
            (self.exact_epsilon, epsilon_limit(claimed)),
            (self.exact_delta, delta_limit(claimed)),
            (self.sampled_epsilon, claimed.epsilon),
        ]
        # Written so that NaN does not hold.
        return all(measured is None or measured <= limit for measured, limit in checks) and all(
            probe.passed for probe in self.probes
        )

    @property
    def refuted_by(self) -> tuple[str, ...]:
        """The names of the probes that refute the guarantee."""
        return tuple(probe.name for probe in self.probes if not probe.passed)

    def __str__(self) -> str:
        lines = [f"{'holds' if self.holds else 'REFUTED'}: {self.claimed}"]
        if self.exact_epsilon is not None:
            lines.append(f"  exact epsilon of the two inputs  {self.exact_epsilon:.6g}")
        if self.exact_delta is not None:
            lines.append(f"  exact delta at that epsilon      {self.exact_delta:.6g}")
        if self.sampled_epsilon is not None:
            lines.append(
                f"  epsilon is at least              {self.sampled_epsilon:.6g} "
                f"({self.samples:,} samples of each input, confidence {self.confidence:g})"
            )
        lines += [
            f"  {probe.name:<32} {'passed' if probe.passed else f'REFUTED: {probe.found}'}" for probe in self.probes
        ]
        return "\n".join(lines)

    def table(self) -> str:
        """Return all that the probes say, a few lines for each."""
        lines = [f"{'holds' if self.holds else 'REFUTED'}: {self.claimed}"]
        for probe in self.probes:
            lines.append(f"\n{probe.name}: {'passed' if probe.passed else 'REFUTED'}")
            lines.append(f"  tested       {probe.tested}")
            lines.append(f"  found        {probe.found}")
            if probe.epsilon is not None and probe.claimed is not None:
                lines.append(f"  epsilon      at least {probe.epsilon:.6g}, claimed {probe.claimed:.6g}")
            chance = f"{probe.draws:,}, false alarms below {probe.false_alarm:.2g}" if probe.draws else "none: exact"
            lines.append(f"  draws        {chance}")
            lines.append(f"  would see    {probe.sees}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return verdict, claim, bounds and probes as JSON values."""
        return {
            "holds": self.holds,
            "claimed": str(self.claimed),
            "exact_epsilon": _as_json(self.exact_epsilon),
            "exact_delta": _as_json(self.exact_delta),
            "sampled_epsilon": _as_json(self.sampled_epsilon),
            "confidence": self.confidence,
            "samples": self.samples,
            "probes": [probe.as_json() for probe in self.probes],
        }


def epsilon_limit(claimed: Guarantee) -> float:
    """Return the claimed epsilon with what arithmetic may be off by."""
    return claimed.epsilon * (1 + _ROUNDING) + _ROUNDING


def delta_limit(claimed: Guarantee) -> float:
    """Return the claimed delta with what arithmetic may be off by."""
    return claimed.delta * (1 + 1e-6) + 1e-12


def _as_json(value: float | None) -> float | str | None:
    return value if value is None or abs(value) < float("inf") else str(value)
