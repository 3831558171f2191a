"""Check the guarantee of a mechanism or a release: exactly from what is declared, and by what is sent."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from symdebias._domains import Integer, check_choice, check_flag
from symdebias._progress import progress_bar
from symdebias._randomness import generator
from symdebias.checks import probes
from symdebias.checks.auditing import CONFIDENCE
from symdebias.checks.result import GuaranteeCheck, Probe
from symdebias.checks.subjects import subject_of
from symdebias.exceptions import PrivacyError
from symdebias.mechanisms import Mechanism
from symdebias.mechanisms.making import kind_of
from symdebias.release import Release

_METHODS = ("auto", "exact", "samples")
# The probes of what is sent, after that of events, in the order in which they draw.
_DRAWN = (
    probes.neighbours_anywhere, probes.law, probes.records_outside, probes.independence, probes.repeated_streams,
    probes.low_bits,
)  # fmt: skip


def check_guarantee(
    mechanism: Mechanism | Release,
    *,
    values: Sequence[Any] | None = None,
    samples: int = 100_000,
    confidence: float = 1 - 1e-6,
    method: str = "auto",
    has_target: bool = True,
    random_state: int | np.random.Generator | None = None,
    progress: bool = False,
) -> GuaranteeCheck:
    """Audit the local guarantee of a mechanism or a release: what is declared, what is sent, and how it is drawn.

    Parameters
    ----------
    mechanism : Mechanism or Release
        Any mechanism with a guarantee, of one's own too; or a release, with all its columns and its target, as it
        clips, joins and noises them.
    values : pair, optional
        The two inputs of a mechanism: numbers, or vectors of shape (k,). By default its pair ``farthest`` (in three
        columns where it takes any number of them), or the two inputs of its channel that differ most.
    samples : int
        Values drawn of each of the two inputs in the first look, at least 1,000; half of them choose an event and the
        other half test it. Probes whose answer is in doubt look again.
    confidence : float
        The probability that nothing sound is refuted and that all bounds are right, in (0.5, 1).
    method : {"auto", "exact", "samples"}
        ``"exact"`` asks the declared noise and the clipping, and needs a channel or a density; ``"samples"`` asks what
        is sent; ``"auto"`` does both.
    has_target : bool
        Whether records of a release have a target, which stands among what is not protected where it has no mechanism.
    random_state : int, numpy.random.Generator or None
        For the draws, which are hardened. None draws as `privatize` does without a seed. The probe for repeated
        streams always does.
    progress : bool
        Show a progress bar of the probes (needs the extra ``progress``).

    Returns
    -------
    GuaranteeCheck
        With ``holds``, and ``probes``: what each tested and found, its certified bound on epsilon, its draws, its rate
        of false alarms and the smallest defect that it sees. ``table()`` shows them.

    Raises
    ------
    PrivacyError
        There is no claim.
    ValueError, TypeError
        An argument is outside its range, or the inputs are not known.

    Notes
    -----
    The probes are

    * *claim*: local, replace-one, and every column that is released as it is is named;
    * *declared noise*: the exact loss of the two inputs;
    * *every pair of records*: the exact loss of the farthest of many records, as they are clipped;
    * *events of the two inputs*: sets of the log ratio, the best ones by Neyman and Pearson, chosen on half of the
      draws and certified on the other half by Clopper and Pearson's bounds, log((p - delta)/q);
    * *neighbours anywhere*: the same for records far outside and in corners;
    * *law of the noise*: counts against the declared law. At a small delta no event shows that a fifth of the noise is
      missing, and this does;
    * *records outside*: the law of those on the edge; undeclared labels are refused;
    * *independence*: signs and sizes of coordinates, of columns and of successive records;
    * *repeated streams*: two calls, two threads, a forked process, successive records, runs at any place;
    * *low bits*: all numbers on one grid.

    Six of them are left to chance and share 1 - ``confidence`` evenly. A probe whose p-value is below .001 and above
    its rate looks again at four and then at sixteen times as many fresh draws; the looks have a half, a quarter and a
    quarter of its rate, so that the sum stays what is stated.

    An audit can refute a guarantee and not prove it.

    References
    ----------
    Dwork & Roth 2014, Definition 2.4; Balle & Wang 2018, Theorem 5 (delta as an integral); Bichsel, Steffen,
    Bogunovic & Vechev 2021 (events by thresholds); Clopper & Pearson 1934; Mironov 2012 (low bits).

    Examples
    --------
    >>> import symdebias as sd
    >>> check = check_guarantee(sd.LaplaceMechanism(epsilon=1.0, bounds=(0, 1)), random_state=0)
    >>> check.holds, round(check.exact_epsilon, 6), check.sampled_epsilon > 0.8
    (True, 1.0, True)
    """
    has_target = check_flag("has_target", has_target)
    progress = check_flag("progress", progress)
    if not isinstance(mechanism, (Mechanism, Release)):
        raise TypeError(
            f"mechanism must be a symdebias Mechanism or Release; got {kind_of(mechanism)}. Pass one, such as "
            "symdebias.LaplaceMechanism(epsilon=1.0, bounds=(0, 1))."
        )
    check_choice("method", method, _METHODS)
    count = Integer(1000, 10**9).check("samples", samples)
    share = CONFIDENCE.check("confidence", confidence)
    rng = None if random_state is None else generator(random_state)
    claimed = mechanism.guarantee
    if isinstance(mechanism, Release) and not has_target:
        claimed = mechanism.guarantee_of(has_target=False)
    if claimed is None:
        raise PrivacyError(
            f"{mechanism!r} makes no privacy claim, so that there is nothing to check. Declare it with a budget."
        )
    subject = subject_of(mechanism, claimed, values)
    audit = probes.Audit(subject, count, (1 - share) / probes.CHANCES, rng)
    found: list[Probe | None] = [probes.claim(audit, has_target=has_target)]
    exact_epsilon = exact_delta = sampled = None
    drawn = 0
    number = 1 + 2 * (method != "samples") + (1 + len(_DRAWN)) * (method != "exact")
    with progress_bar(progress, number, "probe") as advance:
        advance(1)
        if method != "samples":
            probe, exact_epsilon, exact_delta = probes.declared_noise(audit)
            if exact_epsilon is None and exact_delta is None and method == "exact":
                raise ValueError(
                    "the noise has neither a matrix nor a density of one number, so that nothing is known exactly. "
                    'Give AdditiveNoise its density, or pass method="samples".'
                )
            found += [probe, probes.every_pair(audit)]
            advance(2)
        if method != "exact":
            probe, sampled, drawn = probes.events(audit)
            found.append(probe)
            advance(1)
            for probed in _DRAWN:
                found.append(probed(audit))
                advance(1)
    answered = tuple(probe for probe in found if probe is not None)
    return GuaranteeCheck(claimed, exact_epsilon, exact_delta, sampled, share, drawn, answered)
