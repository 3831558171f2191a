"""A fit as a file that needs no trust.

It is an archive of `symdebias.solvers.archive` whose document has the loss as text in the language of
`symdebias.losses.words`, the release as its card, and all else as `symdebias.solvers.coder` writes it.
"""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias import _files
from symdebias._domains import seen
from symdebias.assessment import Certificate
from symdebias.corrected import CorrectedLoss
from symdebias.derivation import TAKEN_APART, Quadrature, Series, Surrogate, SurrogateParts, method_of
from symdebias.driver import check_fit
from symdebias.exceptions import FormatError
from symdebias.losses import Loss, parsing, writing
from symdebias.losses.words import names_in_text
from symdebias.release import Release
from symdebias.release.card import require_readable
from symdebias.solvers import archive
from symdebias.solvers.coder import Coder, UnsavableError, fields_of
from symdebias.transforms.polynomial import HIGHEST_DEGREE
from symdebias.transforms.surrogate import ROUNDING, Design, Part

# The second has a certificate besides.
FORMATS = ("symdebias-fit-1", "symdebias-fit-2")
_DOCUMENT = "fit.json"
SAVED_FIT = _files.Kind.of_archive("a saved fit", _DOCUMENT)
_MOST_WAVES = 64
# At how many scores surrogates are held against a loss, and by how much a search for the largest error may miss it.
_LOOKED_AT, _SEARCHED = 65, 0.05
_LONGEST_CERTIFICATE = 10_000
_MOST_TARGET_VALUES = 10_000
_SYMBOL = re.compile(r"[\w\\{}^.~+\- ]{1,100}")


class _Outdated(ValueError):
    """A fit was saved by a version that meant something else by what it wrote."""


# ---- the two ways ----------------------------------------------------------------------------------------


def save(fit: Any, path: str | os.PathLike[str]) -> None:
    """Write a fit; see `symdebias.Fit.save`."""
    if fit.own_guarantee is not None and "seconds" in fit.diagnostics:
        # Of all that such a fit holds no guarantee covers how long it took, which grows with the number of records.
        fit = replace(fit, diagnostics={**fit.diagnostics, "seconds": math.nan})
    try:
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        coder = Coder(type(fit), arrays)
        require_readable(fit.corrected.release.groups, fit.corrected.release.target)
        document = {
            "format": FORMATS[fit.known_certificate is not None],
            "loss": _loss_document(fit.corrected.declared),
            "release": json.loads(fit.corrected.release.to_json()),
            "correction": _correction_document(fit.corrected, coder),
            "fit": {
                field.name: coder.encoded(getattr(fit, field.name), field.name)
                for field in fields(fit)
                if field.name != "corrected"
            },
        }
        _check_fields(fit)
        if fit.known_certificate is not None:
            document["certificate"] = coder.encoded(fit.known_certificate, "certificate")
        text = json.dumps(document, indent=1, allow_nan=False)
        if len(text) > archive.LONGEST_DOCUMENT:
            raise UnsavableError(f"its description has {len(text):,} characters")
    except ValueError as error:
        raise ValueError(
            f"this fit cannot be saved as JSON and arrays: {str(error).rstrip('.')}. Pickle it, for readers who trust "
            "you."
        ) from None
    archive.write(path, _DOCUMENT, text, arrays, SAVED_FIT)


def load(kind: type, path: str | os.PathLike[str]) -> Any:
    """Read a fit; see `symdebias.Fit.load`."""
    place = _files.path_of(path)
    if not place.exists():
        raise FileNotFoundError(f"{seen(str(place), 200)} is not there. Name the file that fit.save() wrote.")
    if not place.is_file():
        # A pipe would be waited for.
        raise FormatError(f"{seen(place.name, 80)} is no file. Ask for the file that fit.save() wrote.")
    with place.open("rb") as stream:
        try:
            return _fit_of(kind, *archive.read(stream, _DOCUMENT))
        except _Outdated as error:
            raise FormatError(
                f"{seen(place.name, 80)} is of an earlier version of symdebias, {error}. Fit again."
            ) from None
        except archive.DAMAGED as error:
            reason = seen(f"{error}".rstrip(".") or type(error).__name__, 300)
            raise FormatError(
                f"{seen(place.name, 80)} is not a fit of the formats {' and '.join(FORMATS)}, or is damaged: {reason}. "
                "Ask for the file that fit.save() wrote."
            ) from None


def _fit_of(kind: type, document: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if not isinstance(document, dict) or document.get("format") not in FORMATS:
        version = document.get("format") if isinstance(document, dict) else None
        raise ValueError(f"its format is {version!r:.60}, which another version of symdebias writes, or none")
    has_certificate = document["format"] == FORMATS[1]
    more = {"certificate"} if has_certificate else set()
    _exactly(document, {"format", "loss", "release", "correction", "fit"} | more, "the description")
    coder = Coder(kind, arrays)
    correction = document["correction"]
    entries = {"method", "order", "nodes", "design", "reason"}
    _exactly(correction, entries | ({"parts"} if "parts" in correction else set()), "the correction")
    # All that is cheap to check comes before anything is derived.
    declared = {"corrected": None, **fields_of(kind, document["fit"], coder, but="corrected")}
    design = _design(coder.decoded(correction["design"]))
    certificate = coder.decoded(document["certificate"]) if has_certificate else None
    if coder.unread:
        raise ValueError(f"it has the array {min(coder.unread)}, which nothing refers to")
    loss = _loss(document["loss"])
    release = Release.from_json(json.dumps(document["release"]))
    declared["corrected"] = _corrected(loss, release, correction, design)
    declared["theta"].setflags(write=False)
    fit = kind(**declared)
    _check_fields(fit)
    if has_certificate:
        _check_certificate(certificate, fit)
        fit.corrected.keep_certificate(certificate, **fit.certified_domain)
    return fit


# ---- the loss and its correction -------------------------------------------------------------------------


def _loss_document(loss: Loss) -> dict[str, Any]:
    document: dict[str, Any] = {
        "scores": [symbol.name for symbol in loss.scores],
        "features": [symbol.name for symbol in loss.features],
        "parameters": [symbol.name for symbol in loss.parameters],
        "target": loss.target.name,
        "target_values": None if loss.target_values is None else list(loss.target_values),
        "name": loss.name,
    }
    symbols = _symbols(document)
    names = names_in_text([symbol.name for symbol in symbols])
    return {"expression": writing.write(loss.expression, dict(zip(symbols, names, strict=True))), **document}


def _symbols(document: Mapping[str, Any]) -> list[sp.Symbol]:
    """Return the symbols of a loss: scores, features, parameters and the target last."""
    names: list[Any] = []
    for key in ("scores", "features", "parameters"):
        if not isinstance(document[key], list):
            raise ValueError(f"the {key} of its loss are no list")
        names += document[key]
    names.append(document["target"])
    for name in names:
        if not isinstance(name, str) or not _SYMBOL.fullmatch(name):
            raise ValueError(
                f"the loss has a symbol called {name!r:.60}; names have letters, digits and _ \\ {{ }} ^ . ~ + -"
            )
    return [sp.Symbol(name, real=True) for name in names]


def _loss(document: Any) -> Loss:
    keys = {"expression", "scores", "features", "parameters", "target", "target_values", "name"}
    _exactly(document, keys, "the loss")
    symbols = _symbols(document)
    names = names_in_text([symbol.name for symbol in symbols])
    values, name = document["target_values"], document["name"]
    if values is not None and not (isinstance(values, list) and len(values) <= _MOST_TARGET_VALUES):
        raise ValueError("the target values of its loss are no list")
    if name is not None and not (isinstance(name, str) and len(name) <= 1_000):
        raise ValueError("the name of its loss is no text")
    expression = parsing.read(document["expression"], dict(zip(names, symbols, strict=True)))
    *others, target = symbols
    options: dict[str, Any] = {"target": target, "target_values": values, "name": name}
    count = len(document["scores"])
    if count:
        if len(others) > count:
            raise ValueError("its loss has scores and features")
        return Loss(expression, score=others, **options)
    middle = len(document["features"])
    return Loss.of_features(expression, features=others[:middle], parameters=others[middle:], **options)


def _correction_document(corrected: CorrectedLoss, coder: Coder) -> dict[str, Any]:
    return {
        "method": corrected.method,
        "order": corrected.approach.order if isinstance(corrected.approach, Series) else None,
        "nodes": corrected.approach.nodes if isinstance(corrected.approach, Quadrature) else None,
        "reason": corrected.reason,
        "design": coder.encoded(corrected.design, "design"),
        "parts": TAKEN_APART,
    }


def _design(design: Any) -> Design | None:
    if design is None:
        return None
    if not isinstance(design, Design):
        raise ValueError("its design is none of surrogates")
    waves = {(part.frequency, len(part.polynomial), len(part.cosines), len(part.sines)) for part in design.surrogates}
    numbers = [design.radius, design.score_variance, design.records]
    for part in design.surrogates:
        numbers += [part.frequency, *part.polynomial, *part.cosines, *part.sines]
    if len(waves) > 1 or any(part.frequency <= 0 for part in design.surrogates):
        raise ValueError("its surrogates do not share their frequencies")
    if not all(map(math.isfinite, numbers)) or math.isnan(design.bias) or math.isnan(design.slope_bias):
        raise ValueError("a number of its surrogates is not finite")
    if not (design.radius > 0 and design.score_variance >= 0 and design.records >= 1):
        raise ValueError("its surrogates are for no range, noise variance and sample size")
    for _, powers, cosines, sines in waves:
        if cosines != sines or cosines > _MOST_WAVES:
            raise ValueError(f"its surrogates have {cosines} and {sines} waves")
        if not 3 <= powers <= (3 if cosines else HIGHEST_DEGREE + 1):
            raise ValueError(f"its surrogates have {powers} powers beside {cosines} waves")
    return design


def _corrected(loss: Loss, release: Release, correction: Mapping[str, Any], design: Design | None) -> CorrectedLoss:
    method, order, nodes, reason = (correction[key] for key in ("method", "order", "nodes", "reason"))
    if method not in ("exact", "surrogate", "quadrature", "series", "none") or not isinstance(reason, str):
        raise ValueError(f"its method is {method!r:.60}")
    for name, value, wanted, most in (("order", order, "series", 64), ("nodes", nodes, "quadrature", 128)):
        if (value is not None) != (method == wanted) or (
            value is not None and not (type(value) is int and 1 <= value <= most)
        ):
            raise ValueError(f"its {name} is {value!r:.60}")
    if design is not None and method != "surrogate":
        raise ValueError(f"its method {method} has no design")
    check_fit(loss, release, method)
    if design is not None:
        found = CorrectedLoss(loss, release, Surrogate()).surrogate_parts
        _require_known_parts(loss, found, correction.get("parts", 1))
        _check_parts(design, [part.numbers for part in found.replaced])
    return CorrectedLoss(loss, release, method_of(method, order=order, nodes=nodes, design=design), reason=reason)


def _require_known_parts(loss: Loss, parts: SurrogateParts, way: Any) -> None:
    """Raise where surrogates stand for parts of a loss that was taken apart in another way than it is now."""
    if type(way) is not int or not 1 <= way <= TAKEN_APART:
        raise ValueError(f"its loss is taken apart in the way {way!r:.60}, which is none that is known")
    # Labels about 0, without a channel that knows classes, are taken apart as they were.
    values = loss.target_values
    if (
        way < TAKEN_APART
        and values is not None
        and (parts.labelled.by_class or (len(values) == 2 and sum(values) != 0))
    ):
        raise _Outdated("which took losses of such labels apart otherwise: its surrogates would mean other functions")


def _check_parts(design: Design, parts: Sequence[Part]) -> None:
    """Check that surrogates are those of the parts of a loss: as near to them as the design says."""
    if len(design.surrogates) != len(parts):
        raise ValueError("its design does not have one surrogate for each part of the loss")
    grid = design.radius * np.linspace(-1, 1, _LOOKED_AT)
    for found, part in zip(design.surrogates, parts, strict=True):
        error = np.abs(found.slope(grid) - part.slope(grid)).max()
        if not error <= (1 + _SEARCHED) * design.slope_bias + ROUNDING * found.size(design.radius):
            raise ValueError("its surrogates do not stand for the parts of its loss")


def _check_certificate(certificate: Any, fit: Any) -> None:
    """Check that a certificate is of this fit; what it says of its bias is measured where it is asked for again."""
    if not isinstance(certificate, Certificate):
        raise ValueError("its certificate is none")
    corrected, radius = fit.corrected, fit.certified_domain["theta_radius"]
    if (certificate.method, certificate.exact) != (corrected.method, corrected.is_exact):
        raise ValueError("its certificate is of another correction")
    # The norm of theta may differ in its last digits from machine to machine.
    if not math.isclose(certificate.theta_radius, radius, rel_tol=1e-9):
        raise ValueError(f"its certificate is for ||theta|| up to {certificate.theta_radius:.6g}, and not {radius:.6g}")
    biases = (certificate.loss_bias, certificate.gradient_bias)
    if not all(bias >= 0 for bias in biases) or certificate.cut not in ("", "score", "residual"):
        raise ValueError("its certificate has a negative bias, or a range of nothing that is known")
    try:
        scales = min(certificate.loss_scale, certificate.gradient_scale)
        limits = min(certificate.variance_limit, certificate.finite_variance_limit, certificate.reach_limit)
        told = str(certificate) if scales >= 1 and limits >= 0 else ""
    except (ArithmeticError, ValueError):
        told = ""
    if not told:
        raise ValueError("its certificate has numbers that no certificate has")
    if len(told) > _LONGEST_CERTIFICATE:
        raise ValueError(f"its certificate takes {len(told):,} characters to tell")


def _check_fields(fit: Any) -> None:
    """Check shapes and numbers of a fit, written or read, against its loss and release."""
    theta, corrected = fit.theta, fit.corrected
    loss, release = corrected.declared, corrected.release
    if theta.dtype != np.float64 or theta.ndim != (2 if len(loss.scores) > 1 else 1) or not np.isfinite(theta).all():
        raise ValueError("theta is no array of finite float64 in the shape of its loss")
    if len(loss.scores) > 1 and len(theta) != len(loss.scores):
        raise ValueError(f"theta has {len(theta)} rows for {len(loss.scores)} scores")
    if not loss.scores or release.columns is not None:
        names = corrected.parameter_names
        if theta.shape[-1] != len(names):
            raise ValueError(f"theta has {theta.shape[-1]} parameters, and the release and the loss {len(names)}")
    elif theta.shape[-1] < 1 + len(release.noiseless) + release.fit_intercept:
        raise ValueError(f"theta has {theta.shape[-1]} parameters, fewer than the release")
    history, inference = fit.history, fit.inference
    count = (len(history.steps),)
    if (history.steps.shape, history.records.shape) != (count, count) or history.theta.shape != (*count, *theta.shape):
        raise ValueError("the arrays of its history differ in length or shape")
    if inference is not None:
        size, covariance = theta.size, inference.covariance
        if covariance is not None:
            if covariance.shape != (size, size) or not np.isfinite(covariance).all():
                raise ValueError(f"its covariance is no array of ({size}, {size}) finite numbers")
            if not (np.diag(covariance) >= 0).all():
                raise ValueError("its covariance has a negative variance")
        bias = inference.bias
        if bias is not None and (bias.shape != (size,) or not (bias >= 0).all()):
            raise ValueError(f"its bound on the bias is no array of {size} numbers from 0 on")
        factors = inference.bias_factors
        if factors is not None and (
            factors.ndim != 3 or not len(factors) or factors.shape[1] != size or not np.isfinite(factors).all()
        ):
            raise ValueError(f"the factors of its bound on the bias are no array of (m, {size}, r) finite numbers")
        if inference.has_bias and factors is None and inference.levelling is not None:
            raise _Outdated(
                "and what that says of scores that level off under a bias would make intervals here too short"
            )
        curving = inference.curving
        if curving is not None and (
            curving.shape != (size, 2) or not np.isfinite(curving).all() or not (curving[:, 1] >= 0).all()
        ):
            raise ValueError(f"what it says of uncertain curvatures is no array of ({size}, 2) numbers")
        for what, sides in (("scores that level off", inference.levelling), ("skewness", inference.skewness)):
            if sides is not None and (
                sides.shape != (size, 2) or not np.isfinite(sides).all() or not (sides >= 0).all()
            ):
                raise ValueError(f"what it says of {what} is no array of ({size}, 2) numbers from 0 on")
        if inference.outward is not None and not 0 <= inference.outward < math.inf:
            raise ValueError("what it says of longer parameters is no statistic from 0 on")
        if inference.intercepts is not None and inference.intercepts.shape != (size,):
            raise ValueError(f"what it says of intercepts is no array of ({size},) truth values")
        freedom = inference.degrees_of_freedom
        if freedom is not None and (np.shape(freedom) not in ((), (size,)) or not np.all(np.asarray(freedom) > 0)):
            raise ValueError(f"its degrees of freedom are neither one number nor {size} above 0")


def _exactly(document: Any, keys: set[str], what: str) -> None:
    if not isinstance(document, dict) or set(document) != keys:
        raise ValueError(f"{what} must have exactly the entries {', '.join(sorted(keys))}")
