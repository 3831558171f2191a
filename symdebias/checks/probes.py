"""The questions that an audit puts to a mechanism or a release, each with its answer.

What is left to chance has a rate of false alarms that holds at any number of draws: counts are binomial, bounds those
of Clopper and Pearson, and several of them share the rate. (Tabled laws are right to 2e-5.) A test whose p-value is
small, and not small enough, looks again at four times as many fresh draws, and then at sixteen times as many: the looks
have 1/2, 1/4 and 1/4 of its rate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.checks import noise_laws, streams
from symdebias.checks.binomial import at_least
from symdebias.checks.events import Bound, certified_bound
from symdebias.checks.privacy_loss import composed_loss, log_ratio
from symdebias.checks.result import Probe, delta_limit, epsilon_limit
from symdebias.checks.subjects import Case, MechanismSubject, Part, ReleaseSubject, Subject
from symdebias.mechanisms.base import Noise
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise, SphericalNoise
from symdebias.zonal import ZonalNoise

# Draws of each look in units of the first one, and its share of the rate of false alarms.
LOOKS = ((1, 0.5), (4, 0.25), (16, 0.25))
# A test looks again where its p-value is below this.
SUSPICIOUS = 1e-3
# Probes that are left to chance, which share the rate of false alarms evenly.
CHANCES = 6
_STREAM, _ANYWHERE, _LOW_BITS = 2048, 300, 20_000


@dataclass
class Audit:
    """A subject, what may be drawn of it, and what was drawn."""

    subject: Subject  # What is audited.
    samples: int  # Draws of each of the two inputs in the first look.
    false_alarm: float  # Of each probe.
    random_state: np.random.Generator | None  # For the draws; None draws as users do.
    # The first draws of the two inputs, which several probes look at.
    kept: dict[str, FloatArray] = field(default_factory=dict)

    def draw(self, case: Case, count: int) -> FloatArray:
        """Return draws of a record; the first ones of the two inputs are kept."""
        if case.name in self.kept and len(self.kept[case.name]) == count:
            return self.kept[case.name]
        sent = self.subject.draw(case.raw, count, self.random_state)
        if count == self.samples and any(case is one for one in self.subject.pair):
            self.kept[case.name] = sent
        return sent

    def test(self, p_value: Callable[[int], float], draws: int) -> tuple[bool, float, int]:
        """Return whether a test passes, its last p-value and the draws of its looks."""
        total, found = 0, 1.0
        for times, share in LOOKS:
            found = p_value(times * draws)
            total += times * draws
            # Written so that NaN fails.
            if not found > self.false_alarm * share:
                return False, found, total
            if found > SUSPICIOUS:
                break
        return True, found, total


# ---- exact ---------------------------------------------------------------------------------------------------------


def claim(audit: Audit, *, has_target: bool) -> Probe:
    """Return whether the claim is of the kind that local noise can make, and names what is released as it is.

    `has_target` is whether records of a release have a target.
    """
    subject, claimed = audit.subject, audit.subject.claimed
    faults = []
    if (claimed.model, claimed.adjacency) != ("local", "replace-one"):
        faults.append(f"{claimed.model}, {claimed.adjacency}: noise of one record is local, and a record is replaced")
    if isinstance(subject, ReleaseSubject):
        open_ones = list(subject.release.noiseless)
        if has_target and subject.release.target is None and subject.release.coupling is None:
            open_ones.append("target")
        faults += [
            f"{name} is released as it is, and not named" for name in open_ones if name not in claimed.unprotected
        ]
    return Probe(
        "claim", "model, adjacency, and the columns that are released as they are", not faults,
        "; ".join(faults) or str(claimed), sees="any other kind of claim",
    )  # fmt: skip


def declared_noise(audit: Audit) -> tuple[Probe, float | None, float | None]:
    """Return the exact loss of the two inputs under the declared noise against the claim."""
    subject = audit.subject
    first, second = (case.center for case in subject.pair)
    pairs = [(first[part.place], second[part.place]) for part in subject.parts]
    found = _composed(subject, pairs)
    epsilon, delta = found or (None, None)
    passed, words = _verdict(subject, epsilon, delta)
    probe = Probe(
        "declared noise", "density, matrix or curve of the declared noise at the two inputs", passed, words,
        epsilon, subject.claimed.epsilon if epsilon is not None else None,
        sees="any excess of 1e-9 of epsilon, of 1e-6 of delta" if found else "nothing: no density is known",
    )  # fmt: skip
    return probe, epsilon, delta


def every_pair(audit: Audit) -> Probe:
    """Return the exact loss of the farthest of many records, anywhere inside and outside, as they are clipped."""
    subject = audit.subject
    rows = subject.anywhere(_ANYWHERE, np.random.default_rng(0))
    ends = [case.raw for case in (*subject.pair, *subject.outside)]
    extra = [raw for _, one, other in subject.farther for raw in (one, other)]
    centers = subject.clipped(np.concatenate([rows, np.array([*ends, *extra])]))
    pairs, faults = [], []
    for part in subject.parts:
        own = centers[:, part.place]
        pairs.append(_farthest_of(part.noise, own))
        if isinstance(part.noise, ZonalNoise) and np.linalg.norm(own, axis=1).max() > part.noise.radius * (1 + 1e-9):
            faults.append(f"a vector of {part.name} is clipped to a point outside of the ball")
    found = _composed(subject, pairs)
    epsilon, delta = found or (None, None)
    passed, words = _verdict(subject, epsilon, delta)
    return Probe(
        "every pair of records", f"{len(centers)} records inside, on the edge and outside, as they are clipped",
        passed and not faults, "; ".join(faults) or words, epsilon,
        subject.claimed.epsilon if epsilon is not None else None,
        sees="any two of them that lie too far apart for the noise",
    )  # fmt: skip


def _composed(subject: Subject, pairs: list[tuple[FloatArray, FloatArray]]) -> tuple[float | None, float | None] | None:
    parts = [
        (part.noise, pair, part.mechanism.guarantee or subject.claimed)
        for part, pair in zip(subject.parts, pairs, strict=True)
    ]
    return composed_loss(parts, subject.claimed)


def _verdict(subject: Subject, epsilon: float | None, delta: float | None) -> tuple[bool, str]:
    claimed, words, passed = subject.claimed, [], True
    if epsilon is not None:
        passed &= epsilon <= epsilon_limit(claimed)
        words.append(f"epsilon {epsilon:.6g} of {claimed.epsilon:.6g}")
    if delta is not None:
        passed &= delta <= delta_limit(claimed)
        words.append(f"delta {delta:.6g} of {claimed.delta:.6g} at epsilon {claimed.epsilon:.6g}")
    return passed, ", ".join(words) or "not known exactly"


def _farthest_of(noise: Noise, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the two rows that the noise tells apart best."""
    if isinstance(noise, ClippedNoise):
        noise = noise.noise
    if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
        if noise.covariance is not None:
            deviations = np.sqrt(np.diag(np.array(noise.covariance)))
            scaled = centers / np.where(deviations > 0, deviations, 1.0)
        else:
            scaled = centers
        distances = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    elif isinstance(noise, (SphericalNoise, ZonalNoise)):
        distances = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    else:
        distances = np.abs(centers[:, None] - centers[None]).sum(axis=2)
    first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
    return centers[first], centers[second]


# ---- events --------------------------------------------------------------------------------------------------------


def events(audit: Audit) -> tuple[Probe, float, int]:
    """Return a certified bound on epsilon from the sets of the log ratio of the two inputs."""
    subject = audit.subject
    first, second = subject.pair
    delta, claimed = subject.claimed.delta, subject.claimed.epsilon
    best, total, passed = Bound(0.0, 0.0, 1.0, 1), 0, True
    for times, share in LOOKS:
        count = times * audit.samples
        sent = audit.draw(first, count), audit.draw(second, count)
        total += count
        numbers = _statistics(subject, (first.center, second.center), sent)
        bound = certified_bound(numbers, delta, audit.false_alarm * share)
        if bound.epsilon >= best.epsilon:
            best = bound
        if not bound.epsilon <= claimed:
            passed = False
            break
        if certified_bound(numbers, delta, SUSPICIOUS).epsilon <= claimed:
            break
    sees = best.sees(claimed, delta, audit.false_alarm * LOOKS[0][1] / 4)
    probe = Probe(
        "events of the two inputs",
        "sets {log ratio > t}, t from one half of the draws, certified on the other half", passed,
        f"an event of {best.likely:.3g} against {best.unlikely:.3g} of the draws", best.epsilon, claimed, 2 * total,
        audit.false_alarm, _event_seen(sees),
    )  # fmt: skip
    return probe, best.epsilon, total


def _event_seen(epsilon: float) -> str:
    if not epsilon < 50:
        return "no event of an epsilon below 50: see the law of the noise"
    return f"an event as likely with an epsilon of {epsilon:.4g}"


def neighbours_anywhere(audit: Audit) -> Probe | None:
    """Return certified bounds for other pairs of records: far outside, in corners, along other lines."""
    subject = audit.subject
    if not subject.farther:
        return None
    delta, claimed, count = subject.claimed.delta, subject.claimed.epsilon, max(audit.samples // 4, 1000)
    level = audit.false_alarm / len(subject.farther)
    best, name, total = Bound(0.0, 0.0, 1.0, 1), "", 0
    for pair_name, one, other in subject.farther:
        sent = tuple(subject.draw(raw, count, audit.random_state) for raw in (one, other))
        total += 2 * count
        centers = subject.clipped(np.array([one, other]))
        numbers = _statistics(subject, (centers[0], centers[1]), (sent[0], sent[1]))
        bound = certified_bound(numbers, delta, level)
        if bound.epsilon >= best.epsilon:
            best, name = bound, pair_name
    sees = best.sees(claimed, delta, level / 4)
    return Probe(
        "neighbours anywhere", ", ".join(pair_name for pair_name, _, _ in subject.farther), best.epsilon <= claimed,
        f"{name}: an event of {best.likely:.3g} against {best.unlikely:.3g} of the draws", best.epsilon, claimed,
        total, audit.false_alarm, _event_seen(sees),
    )  # fmt: skip


def _statistics(
    subject: Subject, centers: tuple[FloatArray, FloatArray], sent: tuple[FloatArray, FloatArray]
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the log ratio of the whole record, and the direction that separates the first halves best."""
    ratios = tuple(
        sum(
            log_ratio(part.noise, (centers[0][part.place], centers[1][part.place]), rows[:, part.place])
            for part in subject.parts
        )
        for rows in sent
    )
    axis = separating(*(rows[: len(rows) // 2] for rows in sent))
    return [(np.asarray(ratios[0]), np.asarray(ratios[1])), (sent[0] @ axis, sent[1] @ axis)]


def separating(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the direction in which two samples differ most beside their spread (Fisher's discriminant).

    A coordinate that never varies and differs tells the two apart for certain.
    """
    spread = np.atleast_2d(np.cov(first, rowvar=False) + np.cov(second, rowvar=False))
    apart = second.mean(axis=0) - first.mean(axis=0)
    fixed = (np.ptp(first, axis=0) == 0) & (np.ptp(second, axis=0) == 0) & (first[0] != second[0])
    if fixed.any():
        return np.asarray(np.eye(len(apart))[int(np.argmax(fixed))])
    # Parameters that do not vary, or vary together, do not stand in the way.
    direction: FloatArray = np.linalg.pinv(spread, rcond=1e-8, hermitian=True) @ apart
    return direction if direction.any() else np.ones(len(direction))


# ---- the law -------------------------------------------------------------------------------------------------------


def law(audit: Audit) -> Probe:
    """Return whether what is drawn for the two inputs has the declared law."""
    subject = audit.subject
    passed, p_value, draws, words = _of_cases(audit, subject.pair, audit.samples)
    return Probe(
        "law of the noise", "coordinates, sizes, lengths, cosines and labels against their declared law, by counts",
        passed, words or f"p-value {p_value:.2g}", None, None, draws, audit.false_alarm, _seen(audit, audit.samples),
    )  # fmt: skip


def _of_cases(audit: Audit, cases: tuple[Case, ...], count: int) -> tuple[bool, float, int, str]:
    known = [part for part in audit.subject.parts if noise_laws.known_law(part.noise)]
    worst = [""]

    def p_value(number: int) -> float:
        found = []
        for case in cases:
            sent = audit.draw(case, number)
            if not np.isfinite(sent).all():
                worst[0] = f"{case.name}: numbers that are not finite"
                return 0.0
            for part in known:
                for statistic in noise_laws.statistics(part.noise, case.center[part.place]):
                    one = statistic.p_value(sent[:, part.place])
                    found.append((one, f"{part.name}, {statistic.name}, {case.name}"))
        if not found:
            return 1.0
        least, name = min(found)
        total = noise_laws.combined_p_value([one for one, _ in found])
        worst[0] = f"{name} (p-value {least:.2g})"
        return total

    passed, found, draws = audit.test(p_value, count)
    if not known:
        return True, 1.0, 0, "not tested: the noise states no density"
    return passed, found, draws * len(cases), "" if passed else worst[0]


def _seen(audit: Audit, count: int) -> str:
    words = []
    for part in audit.subject.parts:
        tests = 2 * max(len(audit.subject.parts), 1) * (2 * part.width + 1)
        level = audit.false_alarm * LOOKS[0][1] / tests
        if isinstance(part.noise, (ChannelNoise, ZonalNoise, ClippedNoise)):
            words.append(f"a probability off by {noise_laws.smallest_chance(count, level / 500):.2g}")
        elif (scale := noise_laws.smallest_scale(part.noise, part.width, count, level)) is not None:
            words.append(f"noise x {scale:.3g}")
    return ", ".join(dict.fromkeys(words)) or "nothing: no density is known"


# ---- records outside -----------------------------------------------------------------------------------------------


def records_outside(audit: Audit) -> Probe | None:
    """Return whether records far outside send what records on the edge send, and undeclared labels nothing."""
    subject = audit.subject
    if not subject.outside:
        return _undeclared(subject) if isinstance(subject, MechanismSubject) else None
    faults, count = [], max(audit.samples // 2, 1000)
    clipped = subject.clipped(np.array([case.raw for case in subject.outside]))
    for case, center in zip(subject.outside, clipped, strict=True):
        span = np.abs(subject.pair[0].center - subject.pair[1].center).max()
        if not np.abs(center - case.center).max() <= 1e-9 * span:
            faults.append(f"{case.name}: clipped to a place that is not the edge")
    passed, p_value, draws, words = _of_cases(audit, subject.outside, count)
    return Probe(
        "records outside", "records 1,000 times the width of the bounds away, against the law of those on the edge",
        passed and not faults, "; ".join([*faults, words]).strip("; ") or f"p-value {p_value:.2g}", None, None, draws,
        audit.false_alarm, _shift_seen(audit, count),
    )  # fmt: skip


def _shift_seen(audit: Audit, count: int) -> str:
    subject, words = audit.subject, []
    for part in subject.parts:
        level = audit.false_alarm * LOOKS[0][1] / (2 * len(subject.parts) * (2 * part.width + 1))
        half = np.abs(subject.pair[0].center - subject.pair[1].center)[part.place].max() / 2
        if (shift := noise_laws.smallest_shift(part.noise, count, level)) is not None and half > 0:
            words.append(f"an edge off by {shift / half:.2g} of half the width, when drawn; any when clipped")
        elif isinstance(part.noise, ZonalNoise):
            words.append("any edge that is off, when clipped")
    return ", ".join(dict.fromkeys(words)) or "any edge that is off, when clipped"


def _undeclared(subject: MechanismSubject) -> Probe | None:
    noise = subject.mechanism.noise
    if not isinstance(noise, ChannelNoise):
        return None
    strange = max(map(abs, noise.inputs)) + 1.0
    try:
        subject.mechanism.privatize(np.array([strange]))
        passed, words = False, "an undeclared label was noised"
    except (ValueError, TypeError):
        passed, words = True, "refused"
    return Probe("records outside", "a label that was not declared", passed, words, sees="any that is let through")


# ---- independence --------------------------------------------------------------------------------------------------


def independence(audit: Audit) -> Probe | None:
    """Return whether coordinates and successive records have signs and sizes of their own."""
    subject = audit.subject
    columns = [
        (part, place)
        for part in subject.parts
        if not isinstance(part.noise, (ChannelNoise, ClippedNoise))
        for place in range(part.width)
        # A point of a sphere is as likely as its mirror image across a plane that the record lies in.
        if not (isinstance(part.noise, ZonalNoise) and subject.resting.center[part.place][place] != 0)
    ]
    if not columns:
        return None
    count = max(audit.samples // 2, 1000)
    worst = [""]

    def p_value(number: int) -> float:
        sent = subject.draw(subject.resting.raw, number, audit.random_state)
        signs, small, chances, found = [], [], [], []
        for part, place in columns:
            index = part.place.start + place
            noise = sent[:, index] - subject.resting.center[index]
            name = f"{part.name}, coordinate {place}"
            if np.ptp(noise) == 0:
                same = noise_laws.collision_chance(part.noise, subject.resting.center[part.place])
                found.append((same ** (number - 1), f"{name} never varies"))
            signs.append(np.sign(noise))
            threshold, chance = _middle_size(part, place)
            small.append(np.abs(noise) <= threshold)
            chances.append(chance)
        for i, (part, place) in enumerate(columns):
            name = f"{part.name}, coordinate {place}"
            for words, one, other in _partners(number):
                found.append((_agree(signs[i][one], signs[i][other]), f"{name}: signs of {words}"))
                if (own := chances[i]) is not None:
                    found.append((_match(small[i][one], small[i][other], own, own), f"{name}: sizes of {words}"))
            for j in range(i):
                both = f"{name} and {columns[j][0].name}, coordinate {columns[j][1]}"
                found.append((_agree(signs[i], signs[j]), f"signs of {both}"))
                if own is not None and (its := chances[j]) is not None:
                    found.append((_match(small[i], small[j], own, its), f"sizes of {both}"))
        least, name = min(found)
        worst[0] = f"{name} (p-value {least:.2g})"
        return noise_laws.combined_p_value([one for one, _ in found])

    passed, found, draws = audit.test(p_value, count)
    tests = len(columns) * (6 + len(columns))
    off = 2 * noise_laws.smallest_chance(count, audit.false_alarm * LOOKS[0][1] / tests)
    return Probe(
        "independence", "signs and sizes of coordinates and of successive records", passed,
        worst[0] if not passed else f"p-value {found:.2g}", None, None, draws, audit.false_alarm,
        f"a correlation of signs of {off:.2g}",
    )  # fmt: skip


def _middle_size(part: Part, place: int) -> tuple[float, float | None]:
    """Return a size and the chance of noise of at most that, or None where coordinates share their size."""
    noise = part.noise
    if not isinstance(noise, AdditiveNoise) or not noise_laws.known_law(noise):
        return 0.0, None
    variance = noise.coordinate_variances(part.width)[place]
    if variance == 0:
        return 0.0, None
    known = noise_laws.number_law(noise, variance)
    threshold = float(np.abs(known.thresholds(np.array([0.75]))[0]))
    return threshold, float(known.cdf(np.array([threshold]))[0] - known.cdf(np.array([-threshold]))[0])


def _partners(number: int) -> list[tuple[str, slice, slice]]:
    """Return disjoint pairs of records: next to each other, and half a run apart."""
    even, half = number - number % 2, number // 2
    return [
        ("records 0 and 1, 2 and 3, ...", slice(0, even, 2), slice(1, even, 2)),
        ("records 1 and 2, 3 and 4, ...", slice(1, even - 1, 2), slice(2, even, 2)),
        ("records half a run apart", slice(0, half), slice(half, 2 * half)),
    ]


def _agree(first: FloatArray, second: FloatArray) -> float:
    """Return the p-value of how often two signs agree; noise of 0 has none."""
    product = first * second
    product = product[product != 0]
    return float(noise_laws.binomial_p_values(np.count_nonzero(product > 0), len(product), 0.5))


def _match(first: Any, second: Any, one: float, other: float) -> float:
    """Return the p-value of how often two coins of these chances agree."""
    both = one * other + (1 - one) * (1 - other)
    return float(noise_laws.binomial_p_values(np.count_nonzero(first == second), len(first), both))


# ---- streams -------------------------------------------------------------------------------------------------------


def repeated_streams(audit: Audit) -> Probe:
    """Return whether calls, records, threads and forked processes have random numbers of their own.

    What is drawn is drawn without a seed, as users do.
    """
    subject = audit.subject
    found = streams.collect(lambda: subject.draw(subject.resting.raw, _STREAM, None))
    places = list(found.sent)
    p_values: list[tuple[float, str]] = []
    windows: list[str] = []
    untested = False
    tested = _STREAM
    for part in subject.parts:
        center = subject.resting.center[part.place]
        chance = noise_laws.collision_chance(part.noise, center)
        alike = part.width > 1 and bool(np.all(center == center[0])) and not isinstance(part.noise, ChannelNoise)
        lines = {name: found.sent[name][:, part.place] for name in places}
        for column in range(part.width):
            for i, name in enumerate(places):
                line = lines[name][:, column]
                p_values.append((streams.successive_p_value(line, chance), f"successive records of {part.name}"))
                p_values += [
                    (streams.coincidence_p_value(line, lines[other][:, column], chance), f"{name} and {other}")
                    for other in places[:i]
                ]
                p_values += [
                    (
                        streams.coincidence_p_value(line, lines[name][:, other], chance),
                        f"two coordinates of {part.name}",
                    )
                    for other in range(column if alike else 0)
                ]
        likeliest = chance if chance <= 2.0**-16 else math.sqrt(chance)
        level = audit.false_alarm / 2 / (len(subject.parts) * (part.width + 1))
        length = streams.window_length(_STREAM * len(places) * part.width, likeliest, level)
        if length is None or length > _STREAM // 2:
            untested = True
            continue
        tested = max(tested if tested < _STREAM else 0, length)
        sets = [[lines[name][:, column] for name in places] for column in range(part.width)]
        if alike:
            sets.append([lines[name].ravel() for name in places])
        if any(streams.repeated_windows(own, length) for own in sets):
            windows.append(f"{length} numbers in a row of {part.name} come twice")
    least, name = min(p_values)
    total = noise_laws.combined_p_value([one for one, _ in p_values])
    refuted = [f"{name} agree (p-value {least:.2g})"] if not total > audit.false_alarm / 2 else []
    refuted += windows
    notes = [] if found.forked else ["no forked process answered"]
    notes += ["too few random numbers to look for runs"] if untested else []
    share = _least_share(subject, audit.false_alarm / 2 / len(p_values))
    return Probe(
        "repeated streams", f"without a seed: {', '.join(places)}; successive records; coordinates",
        not refuted, "; ".join(refuted or ["none", *notes]), None, None, _STREAM * len(places), audit.false_alarm,
        f"random numbers used again for {share:.2g} of the records"
        + ("" if untested else f", or for {tested} in a row at any place"),
    )  # fmt: skip


def _least_share(subject: Subject, level: float) -> float:
    """Return the largest share, over the parts, of records that must agree for a coincidence to be seen."""
    worst = 0.0
    for part in subject.parts:
        chance = noise_laws.collision_chance(part.noise, subject.resting.center[part.place])
        counts = np.arange(_STREAM + 1)
        rates = at_least(counts, _STREAM, chance)
        seen = np.flatnonzero(rates <= level)
        least = int(seen[0]) if len(seen) else _STREAM
        # Numbers that are drawn afresh agree by chance, too.
        needed = (least + 1.645 * math.sqrt(least)) / _STREAM
        worst = max(worst, (needed - chance) / (1 - chance) if chance < 1 else 1.0)
    return min(worst, 1.0)


# ---- low bits ------------------------------------------------------------------------------------------------------


def low_bits(audit: Audit) -> Probe | None:
    """Return whether released numbers lie on one grid, whatever the input, so that no bit of them tells it."""
    subject = audit.subject
    parts = [part for part in subject.parts if _on_grid(part)]
    if not parts:
        return None
    count = min(audit.samples, _LOW_BITS)
    sent = [audit.draw(case, audit.samples)[:count] for case in subject.pair]
    faults = []
    for part in parts:
        for column in range(part.width):
            index = part.place.start + column
            if _is_divided(subject, index):
                continue
            numbers = np.concatenate([rows[:, index] for rows in sent])
            if isinstance(part.noise, ClippedNoise):
                numbers = numbers[(numbers > part.noise.low) & (numbers < part.noise.high)]
            if len(numbers) and not _shares_grid(numbers, _additive(part.noise)):
                faults.append(f"{part.name}, coordinate {column}: numbers with bits below the grid of the others")
    return Probe(
        "low bits",
        "the last bits of what is sent for the two inputs",
        not faults,
        "; ".join(faults) or "one grid",
        sees=f"one number in {2 * count:,} that is off the grid of the others",
    )


def _additive(noise: Noise) -> Noise:
    return noise.noise if isinstance(noise, ClippedNoise) else noise


def _on_grid(part: Part) -> bool:
    """Whether a part adds noise; points of a sphere come from bits that are drawn without regard to the record."""
    return isinstance(_additive(part.noise), (AdditiveNoise, SphericalNoise))


def _is_divided(subject: Subject, index: int) -> bool:
    """Whether a column is divided by a number that is no power of two, which rounds it afterwards."""
    if not isinstance(subject, ReleaseSubject) or subject.release.coupling is None:
        return False
    coupling, last = subject.release.coupling, len(subject.resting.center) - 1
    return coupling.has_column and index == last and math.frexp(coupling.scale)[0] != 0.5


def _shares_grid(numbers: FloatArray, noise: Noise) -> bool:
    step = getattr(noise, "step", None)
    if step is not None:
        # One float64 for each point of the declared grid.
        places = np.rint(numbers / step)
        return len(np.unique(numbers)) == len(np.unique(places))
    sizes = np.abs(numbers[numbers != 0])
    if not len(sizes):
        return True
    mantissas, exponents = np.frexp(sizes)
    integers = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.ldexp((integers & -integers).astype(float), exponents - 53)
    # Far from 0 all numbers have the last place of the smallest.
    largest, smallest = float(sizes.max()), float(sizes.min())
    return bool(lowest.min() >= np.spacing(smallest if smallest >= largest / 4 else largest))
