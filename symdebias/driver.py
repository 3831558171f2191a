"""Debias a loss under a release: check that they fit, choose a method, and say why."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy as sp

from symdebias._domains import COUNT, NON_NEGATIVE, POSITIVE, RADIUS, Integer, check_choice, shown
from symdebias._limits import derivation_limits
from symdebias.assessment import gradient_inflation, reference_variance, series_biases
from symdebias.codegen.printer import require_printable
from symdebias.corrected import CorrectedLoss
from symdebias.correction import Correction, columns_to_show
from symdebias.derivation import (
    Exact,
    Method,
    Problem,
    Series,
    Surrogate,
    in_columns,
    is_affine,
    method_of,
    on_labels,
)
from symdebias.exceptions import DerivationLimitError, NoExactCorrectionError, SymdebiasError
from symdebias.losses import Loss, logistic
from symdebias.losses.loss import require_loss, without_target_alone
from symdebias.losses.shifts import ignores_shifts
from symdebias.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism, LaplaceMechanism, Mechanism
from symdebias.mechanisms.ranges import Labels
from symdebias.noise import AdditiveNoise, ChannelNoise, CoordinateNoise
from symdebias.release import Release
from symdebias.release.groups import undoable
from symdebias.release.required import require_release

# Characters of a formula or of labels in a message; longer ones are named.
_LONGEST_SHOWN = 100
METHODS = ("auto", "exact", "surrogate", "quadrature", "series", "none")

# An exact correction whose gradients have more than so many times the mean square of the uncorrected ones, at
# a score with noise of variance 4, is passed over by method="auto" for a surrogate.
_REASONABLE_INFLATION = 100.0
# Of more columns whose noise is not normal so many are tried first, and half as many more each time.
_FIRST_TRIED = 8
# Noise that a proposal is tried with; whether there is a correction does not depend on its size, conditions aside.
_SCALE_OF_A_PROPOSAL = 0.1


def debias(
    loss: Loss,
    release: Release,
    *,
    method: str = "auto",
    order: int | None = None,
    nodes: int | None = None,
    radius: float | None = None,
    score_variance: float | None = None,
    n: float | None = None,
) -> CorrectedLoss:
    """Derive the loss whose mean on released records is the declared loss on the true ones.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    release : Release
        How the records were noised.
    method : {"auto", "exact", "surrogate", "quadrature", "series", "none"}
        ``"exact"`` inverts the noise in closed form. ``"surrogate"`` replaces the loss by a quadratic and waves, which
        have an exact inverse; its bias is the distance between the two, whatever the noise. ``"quadrature"`` inverts
        normal noise of an entire loss by quadrature in the complex plane. ``"series"`` cuts the inverse off at `order`
        and is biased unless the series ends before. ``"none"`` leaves the loss as it is, for true records or for
        comparison; under a loss of a continuous target what a channel sends is then a number like any other, and
        columns of a spherical cap are divided by its gain, as released ones: take a release without the cap for true
        ones.
        ``"auto"`` is exact where that exists with a reasonable variance, and otherwise a surrogate; a
        series is never chosen by itself. Where a channel hides the loss of the target, the surrogate is the nearest
        loss in its range, whose bias is measured by the certificate.
    order : int, optional
        The order K >= 1 of ``"series"``, where it is required.
    nodes : int, optional
        The number of nodes of ``"quadrature"``, 2 to 128; 32 by default.
    radius : float, optional
        For a surrogate: the bound on the score (on the residual, for a residual loss) within which it stands for the
        loss, positive.
    score_variance : float, optional
        For a surrogate: the noise variance s = theta'D theta of the score that it is tuned for, non-negative.
    n : float, optional
        For a surrogate: the sample size that bias and variance are balanced for, at least 1.

    Returns
    -------
    CorrectedLoss
        The corrected loss, its gradient and its certificate. Its `reason` says why its method was chosen. A surrogate
        without `radius`, `score_variance` and `n` is unresolved: a solver fills them in from a pilot estimate.

    Raises
    ------
    NoExactCorrectionError
        The loss has no correction under this noise, and the message lists each method with its reason; or a margin or
        joint release hides what the loss needs, and the message names losses that it answers.
    ValueError
        The loss and the release do not fit: other target values, text as categories for a continuous target, an
        intercept for a free-form loss.

    Notes
    -----
    In the score, with s = theta'D theta the noise variance of u, the corrected loss is
    G = W_s^-1 F and its gradient x~ W^-1[F_u] - D theta W^-1[F_uu].

    A channel of numbers on the target makes a loss of a continuous target one of these numbers. Where the gradient of
    the loss is linear in the target (Poisson, least squares), any unbiased estimate of the label makes it exact: the
    released number itself where it has the label as mean, and otherwise the weights of least variance under the
    channel's prior. The part without parameters is undone where it is in the range of the channel; where it is not,
    `CorrectedLoss.loss_offset` says by how much the loss is off, which moves neither gradients nor differences between
    parameters. Other losses are a weighted sum over the labels, where the rank of the channel allows it.

    ``"auto"`` passes over an exact correction where, at a score with noise of variance 4 to which all columns give the
    same share (so that units do not matter), it inflates the mean square of the slopes more than a hundredfold: the log
    loss under Laplace noise on many columns. Where columns share spherical noise that is looked at with a variance of
    16: the log loss is corrected exactly on up to 5 columns, or 4 that are padded. Of more than 8 columns with noise of
    their own that is not normal, 8, 12, 18, ... are looked at first: what is too much for them is for more.

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Theorem 5.2 and eq. (16); Stefanski 1989; Nakamura 1990; van Rooyen &
    Williamson 2018 and Badanidiyuru et al. 2023 (arXiv 2312.05659), for channels of labels.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
    >>> sd.debias(sd.losses.squared_margin(), release).expression
    -s/2 + u**2/2 - u*y + 1/2
    >>> surrogate = sd.debias(sd.losses.logistic(), release, radius=3.0, score_variance=1.0, n=100_000)
    >>> surrogate.method, surrogate.certify(theta_radius=2.0).loss_bias < 1e-5
    ('surrogate', True)
    """
    require_loss(loss)
    require_release(release)
    check_choice("method", method, METHODS)
    if method == "series" and order is None:
        raise ValueError('method="series" needs order=, the number of corrections K >= 1 (often 1 to 3).')
    if method != "series" and order is not None:
        raise ValueError(
            f'order={shown(order)} belongs to method="series"; method={shown(method)} has none. Leave it out.'
        )
    if method != "quadrature" and nodes is not None:
        raise ValueError(f'nodes={shown(nodes)} belongs to method="quadrature"; method={shown(method)} takes none.')
    order = None if order is None else Integer(1, 100).check("order", order)
    settings = _settings(method, radius=radius, score_variance=score_variance, n=n)
    loss = _fitted(loss, release, method)
    if method == "auto":
        return _automatic(loss, release, settings)
    if method == "surrogate":
        return _with_settings(CorrectedLoss(loss, release, Surrogate(), reason="surrogate: asked for"), settings)
    if method == "exact":
        return _exactly(loss, release)
    if method == "quadrature":
        nodes = COUNT.check("nodes", 32 if nodes is None else nodes)
        if not 2 <= nodes <= 128:
            raise ValueError(
                f"nodes={nodes} is out of range. A rule has 2 to 128 nodes; 32 suit noise variances up to 16."
            )
    return CorrectedLoss(loss, release, method_of(method, order=order, nodes=nodes), reason=f"{method}: asked for")


def _fitted(loss: Loss, release: Release, method: str) -> Loss:
    """Return a loss on the labels of a release, where they fit each other and there is a gradient to train on."""
    require_printable(loss.expression)
    if method != "none":
        _require_gradient(loss)
    loss = on_labels(loss, release, as_released=method == "none")
    check_fit(loss, release, method)
    return loss


def corrected_by(loss: Loss, release: Release, approach: Method) -> CorrectedLoss:
    """Return the correction by one method, for callers that try several: a refusal proposes nothing.

    Raises
    ------
    NoExactCorrectionError
        The method refuses.
    ValueError
        The loss and the release do not fit.
    """
    return CorrectedLoss(_fitted(loss, release, approach.name), release, approach, reason=f"{approach.name}: asked for")


def _exactly(loss: Loss, release: Release) -> CorrectedLoss:
    try:
        return CorrectedLoss(loss, release, Exact(), reason="exact: asked for")
    except NoExactCorrectionError as error:
        refusal = error
    message = f"{refusal} {_spoken(_remedies(loss, release, tried=('exact',)))}"
    if isinstance(refusal, DerivationLimitError):
        raise DerivationLimitError(message, by_time=refusal.by_time) from None
    raise NoExactCorrectionError(message) from None


# What a refusal may propose: every proposal was tried on this loss and this release.
_OTHER_NOISE: dict[str, Callable[[float], Mechanism]] = {
    "a LaplaceMechanism": LaplaceMechanism.from_scale,
    "a DiscreteLaplaceMechanism": DiscreteLaplaceMechanism.from_scale,
    "a GaussianMechanism": GaussianMechanism.from_scale,
}
# A proposal that takes longer to derive is none.
_SECONDS_OF_A_PROPOSAL = 3.0


def _remedies(loss: Loss, release: Release, *, tried: Sequence[str]) -> list[str]:
    """Return what helps where methods refuse: other methods, then other noise for which there is an exact correction.

    Each is derived before it is proposed.
    """
    found = []
    values = loss.target_values or ()
    # Under a multinomial logit model one label against another has its parameters.
    if len(loss.scores) == len(values) > 1 and ignores_shifts(loss):
        pair = None
        with contextlib.suppress(ValueError):  # labels that conditions do not find
            pair = logistic().against(values[0], values[-1], of=values)
        if pair is not None and _works(pair, release, Surrogate()):
            of = f"({', '.join(f'{value:g}' for value in values)})"
            of = of if len(of) <= _LONGEST_SHOWN else "loss.target_values"
            found.append(
                f"fit each label against one of them by symdebias.losses.logistic().against(label, baseline, of={of})"
            )
    shorter, left_out = without_target_alone(loss)
    if left_out != 0 and any(_works(shorter, release, one) for one in (Exact(), Surrogate())):
        found.append(f"leave out {left_out}, which depends on the target alone: fits are the same without it")
    if "surrogate" not in tried and _works(loss, release, Surrogate()):
        found.append('pass method="surrogate", a surrogate with a stated bias')
    elif _works(loss, release, Series(2)):
        found.append('pass method="series", order=2 and read its bias off corrected.certificate')
    for what, mechanism in _OTHER_NOISE.items():
        for where, other in _with_noise(release, mechanism):
            if other != release and _works(loss, other, Exact()):
                found.append(f"release {where} with {what}")
                break
    return found


def _works(loss: Loss, release: Release, approach: Method) -> bool:
    try:
        with derivation_limits(seconds=_SECONDS_OF_A_PROPOSAL):
            approach.derive(_problem(loss, release))
    except (SymdebiasError, ValueError, TypeError):
        return False
    return True


def _problem(loss: Loss, release: Release) -> Problem:
    shown = Correction.of(loss, release, Exact(), columns_to_show(loss, release))
    return Problem(shown.loss, shown.release, shown.columns)


def _with_noise(release: Release, mechanism: Callable[[float], Mechanism]) -> Iterator[tuple[str, Release]]:
    """Yield releases with another mechanism for the additive noise of the features, of the target, and of both."""
    if release.coupling is not None:
        yield from _with_noise_of_vectors(release, mechanism)
        return
    if isinstance(release.target_noise, CoordinateNoise):
        return  # columns of a vector have the noise of that
    features = {names: part for names, part in release.groups if not isinstance(part.noise, ChannelNoise)}
    target = release.target if isinstance(release.target_noise, AdditiveNoise) else None
    for where, of_features, of_target in (
        ("the features", True, False),
        ("the target", False, True),
        ("features and target", True, True),
    ):
        if (of_features and not features) or (of_target and target is None):
            continue
        groups: dict[Any, Mechanism] = {}
        for names, part in release.groups:
            if not (of_features and names in features):
                groups[names] = part
                continue
            # What goes together under one mechanism may go column by column under another.
            scale = _SCALE_OF_A_PROPOSAL
            groups |= {None: mechanism(scale)} if names is None else {(name,): mechanism(scale) for name in names}
        parts: Any = groups.get(None) if None in groups else groups or None
        noise_of_target = mechanism(_SCALE_OF_A_PROPOSAL) if of_target else release.target
        yield (
            where,
            Release(parts, noise_of_target, noiseless=release.noiseless, fit_intercept=release.fit_intercept),
        )


def _with_noise_of_vectors(release: Release, mechanism: Callable[[float], Mechanism]) -> Iterator[tuple[str, Release]]:
    ((names, _),) = release.groups
    assert release.coupling is not None
    other = mechanism(_SCALE_OF_A_PROPOSAL)
    parts: Any = other if names is None else {names: other}
    try:
        yield "the vector", Release(parts, fit_intercept=release.fit_intercept, **release.coupling.arguments)
    except ValueError:
        return  # it does not noise vectors


def _spoken(remedies: Sequence[str]) -> str:
    if not remedies:
        return "Declare another loss: entire and of moderate growth for Gaussian noise, smooth for Laplace noise."
    text = "; or ".join(remedies)
    return f"{text[0].upper()}{text[1:]}."


def _settings(method: str, **given: float | None) -> dict[str, float]:
    """Return the three numbers that resolve a surrogate, or none of them."""
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        return {}
    if method not in ("auto", "surrogate"):
        raise ValueError(f'{next(iter(named))} belongs to method="surrogate"; method={shown(method)} takes none.')
    if len(named) < 3:
        missing = ", ".join(name for name in given if name not in named)
        raise ValueError(
            f"a surrogate is designed for radius, score_variance and n together; {missing} is missing. Give all three, "
            "or none: a solver then fills them in from a pilot estimate."
        )
    domains = {"radius": RADIUS, "score_variance": NON_NEGATIVE, "n": POSITIVE}
    checked = {name: domains[name].check(name, value) for name, value in named.items()}
    if not checked["n"] >= 1:
        raise ValueError(f"n={shown(named['n'])} is no sample size. Give the number of records, at least 1.")
    return checked


def _automatic(loss: Loss, release: Release, settings: dict[str, float]) -> CorrectedLoss:
    try:
        exact, inflation = _of_few_columns(loss, release, settings)
        is_whole = exact is None
        if exact is None:
            exact = CorrectedLoss(loss, release, Exact(), reason="exact: the noise is undone in closed form")
            inflation = _inflation(exact, settings)
    except NoExactCorrectionError as refusal:
        if isinstance(refusal, DerivationLimitError) and refusal.by_time:
            raise
        reason = str(refusal)
    else:
        if is_whole and inflation <= _REASONABLE_INFLATION:
            return exact
        if math.isnan(inflation):
            # What is unbiased is not given up for a price that nobody knows.
            reason = "exact: what it costs is not known, as noise of the release states neither a density nor moments"
            return CorrectedLoss(loss, release, Exact(), reason=f"{reason} (give AdditiveNoise its density)")
        correction = exact.at(columns_to_show(loss, exact.release))
        variance, no_variance = reference_variance(correction), correction.derivation.no_variance
        level = "this noise" if settings else f"a score with noise of variance {variance:g}"
        alone = "" if is_whole else f" from {exact.release.number_of_columns} columns alone"
        reason = (
            f"the exact correction makes the mean square of the slopes {_much(inflation)} times that of the "
            f"uncorrected ones at {level}{alone}"
            if not no_variance
            else f"by the exact correction {no_variance}"
        )
        try:
            CorrectedLoss(loss, release, Surrogate())
        except NoExactCorrectionError:
            return CorrectedLoss(loss, release, Exact(), reason=f"exact: there is no surrogate, though {reason}")
    try:
        return _with_settings(CorrectedLoss(loss, release, Surrogate(), reason=f"surrogate: {reason}"), settings)
    except NoExactCorrectionError as error:
        raise NoExactCorrectionError(_no_method(loss, release, reason, str(error))) from None


def _inflation(exact: CorrectedLoss, settings: dict[str, float]) -> float:
    """Return what `gradient_inflation` says of an exact correction.

    Raises
    ------
    NoExactCorrectionError
        There is none.
    """
    correction = exact.at(columns_to_show(exact.declared, exact.release))
    return gradient_inflation(correction, settings.get("radius"), settings.get("score_variance"))


def _of_few_columns(loss: Loss, release: Release, settings: dict[str, float]) -> tuple[CorrectedLoss | None, float]:
    """Return an exact correction for a few of many columns that inflates slopes too much, or None, and by how much.

    Each column with noise of its own that is not normal adds two to the order of the operator that undoes the noise,
    and derivatives of a high order take long. With the variance of the score in equal shares the operator multiplies
    the wave w by more, the more columns there are: by (1 + s w^2/(2 m))^m for m columns of Laplace noise. So few of
    them tell what more would be passed over for.
    """
    if len(loss.scores) != 1 or release.columns is None or release.coupling is not None:
        return None, 1.0
    design = release.design(len(release.columns))
    noises = {one.column: one.own_noise for one in design.linear if one.noise is not None}
    own = {name: mechanism for names, mechanism in release.groups for name in names or ()}
    noised = {name: own[name] for place, name in enumerate(release.columns) if place in noises and name in own}
    # Noise of another kind would have its share of the variance, or another price.
    if design.categorical or len(noised) < len(noises):
        return None, 1.0
    if any(noise is None or noise.inverse_polynomial is None for noise in noises.values()):
        return None, 1.0
    count = _FIRST_TRIED
    while count < len(noised):
        part = Release(dict(list(noised.items())[:count]), release.target, fit_intercept=release.fit_intercept)
        try:
            exact = CorrectedLoss(loss, part, Exact())
            inflation = _inflation(exact, settings)
        except NoExactCorrectionError as refusal:
            if isinstance(refusal, DerivationLimitError) and refusal.by_time:
                raise
            raise NoExactCorrectionError(f"{refusal} (That is of {count} of the {len(noised)} columns.)") from None
        # It is infinite where single parameters are too long, as more columns have shorter ones.
        if _REASONABLE_INFLATION < inflation < math.inf:
            return exact, inflation
        count += count // 2
    return None, 1.0


def _with_settings(corrected: CorrectedLoss, settings: dict[str, float]) -> CorrectedLoss:
    return corrected if corrected.is_resolved or not settings else corrected.resolve(**settings)


def _much(inflation: float) -> str:
    return f"{inflation:.3g}" if math.isfinite(inflation) else "infinitely many"


def _no_method(loss: Loss, release: Release, exact: str, surrogate: str) -> str:
    """List the methods with the reason of each, and what was found to help."""
    series = Series(1).refusal(_problem(loss, release))
    if series is None:
        series = "never chosen by itself: give order= to accept its bias"
        biases = series_biases(loss) if len(loss.scores) > 1 else ()
        if biases:
            told = ", ".join(f"{bias:.2g} at order {order}" for order, bias in enumerate(biases, start=1))
            series += f" ({told} for scores up to 2 with noise of variance 1 each)"
    written = str(loss.expression)
    if len(written) > _LONGEST_SHOWN:
        count = len(loss.scores)
        written = f"{loss.name or 'this loss'} of {'one score' if count == 1 else f'{count} scores'}"
    return (
        f"No method corrects {written} under this release:\n"
        f"  exact      {exact}\n  surrogate  {surrogate}\n  series     {series}\n"
        f"{_spoken(_remedies(loss, release, tried=('exact', 'surrogate')))}"
    )


def _require_gradient(loss: Loss) -> None:
    found = loss.jump
    if found is not None:
        symbol, place = found
        raise NoExactCorrectionError(
            f"{loss.expression} jumps at {symbol} = {place:g}: its gradient says nothing of the jump, and "
            "nothing can be trained on it. Train on a continuous loss, such as the logistic or the hinge loss, and ask "
            'for the accuracy with symdebias.evaluation.evaluate(..., metric="accuracy").'
        )
    # What other functions jump by has a derivative of 0.
    steps = loss.expression.has(sp.sign, sp.Heaviside)
    for symbol in (*loss.scores, *loss.parameters) if steps else ():
        if sp.diff(loss.expression, symbol).has(sp.DiracDelta):
            raise NoExactCorrectionError(
                f"{loss.expression} jumps in {symbol}: its gradient says nothing of the jump, and nothing can be "
                "trained on it. Train on a continuous loss, and write kinks with Abs, Max, Min or Piecewise."
            )


def _same_labels(loss: Loss, release: Release, noise: ChannelNoise) -> str:
    """Return what to do about labels of a release that are not those of a loss."""
    assert loss.target_values is not None
    labels = release.target.range if release.target is not None else None
    stand = ""
    if isinstance(labels, Labels) and labels.is_text:
        pairs = [f"{text} is {code:g}" for text, code in zip(labels.values, labels.numbers, strict=True)]
        stand = f"Its labels are texts, counted from 0: {', '.join(pairs[:8])}{', ...' if len(pairs) > 8 else ''}. "
    if len(loss.target_values) == len(noise.inputs):
        return (
            f"{stand}Use loss.recoded({tuple(sorted(noise.inputs))}), the same loss in these numbers; "
            "DebiasedClassifier and symdebias.fit do it by themselves. Or declare the same values on both."
        )
    several = f" Labels of {len(noise.inputs)} kinds are for symdebias.losses.softmax({len(noise.inputs)})."
    return f"{stand}Declare the same values on both.{several if len(noise.inputs) > 2 else ''}"


def check_fit(loss: Loss, release: Release, method: str) -> None:
    """Raise ValueError where a loss and a release do not fit each other: their target values, columns, intercept."""
    if release.coupling is not None:
        in_columns(loss, release)
        return
    for _, mechanism in release.groups:
        undoable(mechanism.noise)
    as_released = method == "none" and (release.clips_target or loss.target_values is None)
    noise = None if as_released else release.target_noise
    if isinstance(noise, ChannelNoise):
        assert loss.target_values is not None
        if tuple(sorted(noise.inputs)) != loss.target_values:
            raise ValueError(
                f"the loss has the target values {_listed(loss.target_values)} and the release "
                f"{_listed(noise.inputs)}. {_same_labels(loss, release, noise)}"
            )
    several = loss.target_values is not None and len(loss.target_values) > 2
    if isinstance(noise, AdditiveNoise) and several and not is_affine(loss.expression, loss.target):
        raise ValueError(
            "additive noise on a target with more than two declared values is not corrected. Leave "
            "target_values out, which treats the target as continuous."
        )
    if not loss.scores:
        if release.fit_intercept:
            raise ValueError(
                "a free-form loss names its own parameters, so fit_intercept=True has no place. Name an "
                "intercept among the parameters and set fit_intercept=False."
            )
        names = tuple(symbol.name for symbol in loss.features)
        if release.columns is not None and len(release.columns) != len(names):
            raise ValueError(
                f"the loss has the features {', '.join(names)} and the release the columns "
                f"{', '.join(release.columns)}. Name the same columns in both, in the same order."
            )
        # Arrays come without names of their own, and get these.
        by_position = tuple(f"x{index}" for index in range(len(names)))
        if release.columns not in (None, names, by_position):
            raise ValueError(
                f"the features of the loss ({', '.join(names)}) and the columns of the release "
                f"({', '.join(release.columns or ())}) differ. Use the same names in the same order."
            )


def _listed(values: tuple[float, ...]) -> str:
    return "{" + ", ".join(f"{value:g}" for value in values) + "}"
