"""A fit as a file that needs no trust: JSON and arrays in one archive, written whole and read without running anything.

The archive is an ``.npz``: ``fit.json`` beside one ``.npy`` for each array. It is uncompressed, so that no small file
grows large. The loss is text in the language of `symdebias.losses.parsing`, the release its card. Dataclasses are
written field by field, and read back against the types that their fields declare.
"""

import functools
import io
import json
import math
import os
import re
import struct
import types
import typing
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import sympy as sp

from symdebias import _files
from symdebias._domains import first_unseen, seen
from symdebias.corrected import CorrectedLoss
from symdebias.derivation import Quadrature, Series, Surrogate, method_of
from symdebias.driver import check_fit
from symdebias.exceptions import FormatError, SymdebiasError
from symdebias.losses import Loss, parsing
from symdebias.mechanisms import KINDS, Mechanism
from symdebias.mechanisms.base import card_of, mechanism_of
from symdebias.release import Release
from symdebias.release.card import refuse_constant, without_repeats
from symdebias.solvers.step_sizes import StepSize
from symdebias.transforms.polynomial import HIGHEST_DEGREE
from symdebias.transforms.surrogate import Design

FORMAT = "symdebias-fit-1"
_DOCUMENT = "fit.json"
_LONGEST_DOCUMENT = 30_000_000
_LARGEST_FILE = 2**31
_MOST_MEMBERS = 10_000
_DEEPEST = 30
_MOST_WAVES = 64
_MOST_TARGET_VALUES = 10_000
# Of float64, integers and truth values; nothing that holds Python objects.
_KINDS_OF_ARRAYS = "fiub"
# What NumPy writes before an array; read by its form, where NumPy evaluates a literal.
_HEADER = re.compile(
    r"\{'descr': '([<|][fiub][0-9]{1,2})', 'fortran_order': False, 'shape': \(([0-9, ]{0,300})\), \} *\n"
)
_MEMBER = re.compile(r"[A-Za-z0-9_.\-]{1,200}\.npy")
_SYMBOL = re.compile(r"[\w\\{}^.~+\- ]{1,100}")
_SCALAR = re.compile(r"float(16|32|64)|u?int(8|16|32|64)|bool")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


# What reading a file of another form may raise.
DAMAGED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError, OSError,
    RecursionError, SymdebiasError, TypeError, ValueError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile,
)  # fmt: skip


class _Unsavable(ValueError):
    """Something that the format has no words for."""


# ---- the two ways ----------------------------------------------------------------------------------------


def save(fit: Any, path: str | os.PathLike[str]) -> None:
    """Write a fit; see `symdebias.Fit.save`."""
    if fit.own_guarantee is not None and "seconds" in fit.diagnostics:
        # Of all that such a fit holds no guarantee covers how long it took, which grows with the number of records.
        fit = replace(fit, diagnostics={**fit.diagnostics, "seconds": math.nan})
    try:
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        coder = Coder(type(fit), arrays)
        document = {
            "format": FORMAT,
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
        text = json.dumps(document, indent=1, allow_nan=False)
        if len(text) > _LONGEST_DOCUMENT:
            raise _Unsavable(f"its description has {len(text):,} characters")
    except ValueError as error:
        raise ValueError(
            f"this fit cannot be saved as JSON and arrays: {str(error).rstrip('.')}. Pickle it, for readers who trust "
            "you."
        ) from None
    write(path, _DOCUMENT, text, arrays)


def write(path: str | os.PathLike[str], document: str, text: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write a document under its name, and arrays, as one archive that appears whole."""
    members = {document: text.encode()}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
        members[f"{name}.npy"] = stream.getvalue()
    _files.write_whole(path, functools.partial(_archive, members=members))


def load(kind: type, path: str | os.PathLike[str]) -> Any:
    """Read a fit; see `symdebias.Fit.load`."""
    place = Path(path)
    if place.exists() and not place.is_file():
        # A pipe would be waited for.
        raise FormatError(f"{seen(place.name, 80)} is no file. Ask for the file that fit.save() wrote.")
    with place.open("rb") as stream:
        try:
            return _fit_of(kind, *read(stream, _DOCUMENT))
        except DAMAGED as error:
            reason = seen(f"{error}".rstrip(".") or type(error).__name__, 300)
            raise FormatError(
                f"{seen(place.name, 80)} is not a fit of the format {FORMAT}, or is damaged: {reason}. Ask for the "
                "file that fit.save() wrote."
            ) from None


def _archive(stream: BinaryIO, members: Mapping[str, bytes]) -> None:
    archive = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED)
    try:
        for name, content in members.items():
            # Without the time, so that equal fits are equal files.
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.close()
    except BaseException:
        # Closing an archive within a member raises a ValueError, which would hide what stopped it (Ctrl-C).
        archive.fp = None
        raise


def _members(stream: Any, document: str) -> dict[str, bytes]:
    """Return the members of an archive, a document and arrays, each checked against its checksum."""
    if stream.read(4) != b"PK\x03\x04":
        raise ValueError("it does not begin as an archive does")
    whole = stream.seek(0, os.SEEK_END)
    if whole > _LARGEST_FILE:
        raise ValueError(f"it has {whole:,} bytes, and may have {_LARGEST_FILE:,}")
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
        if len(entries) > _MOST_MEMBERS:
            raise ValueError(f"it has {len(entries):,} members, and may have {_MOST_MEMBERS:,}")
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"its member {entry.filename!r:.80} is compressed")
        # Members that lie in one another make much of a small file.
        if sum(entry.file_size for entry in entries) > whole:
            raise ValueError("its members are larger together than the file")
        for entry in entries:
            name = entry.filename
            if name in members:
                raise ValueError(f"its member {name!r:.80} stands twice")
            if name != document and not _MEMBER.fullmatch(name):
                raise ValueError(f"it has the member {name!r:.80}")
            if name == document and entry.file_size > _LONGEST_DOCUMENT:
                raise ValueError(f"its description has {entry.file_size:,} characters")
            members[name] = archive.read(entry)
    if document not in members:
        raise ValueError(f"it has no {document}")
    return members


def read(stream: Any, document: str) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """Return what `write` wrote: the document as JSON has it, and the arrays."""
    members = _members(stream, document)
    text = members.pop(document).decode("ascii")
    found = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=without_repeats)
    return found, {name.removesuffix(".npy"): _array(content, name) for name, content in members.items()}


def _fit_of(kind: type, document: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        version = document.get("format") if isinstance(document, dict) else None
        raise ValueError(f"its format is {version!r:.60}, which another version of symdebias writes, or none")
    _exactly(document, {"format", "loss", "release", "correction", "fit"}, "the description")
    coder = Coder(kind, arrays)
    correction = document["correction"]
    _exactly(correction, {"method", "order", "nodes", "design", "reason"}, "the correction")
    # All that is cheap to check comes before anything is derived.
    declared = {"corrected": None, **_fields_of(kind, document["fit"], coder, but="corrected")}
    design = _design(coder.decoded(correction["design"]))
    if coder.unread:
        raise ValueError(f"it has the array {min(coder.unread)}, which nothing refers to")
    loss = _loss(document["loss"])
    release = Release.from_json(json.dumps(document["release"]))
    declared["corrected"] = _corrected(loss, release, correction, design)
    declared["theta"].setflags(write=False)
    fit = kind(**declared)
    _check_fields(fit)
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
    names = parsing.names_in_text([symbol.name for symbol in symbols])
    return {"expression": parsing.write(loss.expression, dict(zip(symbols, names, strict=True))), **document}


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
    names = parsing.names_in_text([symbol.name for symbol in symbols])
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


def _correction_document(corrected: CorrectedLoss, coder: "Coder") -> dict[str, Any]:
    return {
        "method": corrected.method,
        "order": corrected.approach.order if isinstance(corrected.approach, Series) else None,
        "nodes": corrected.approach.nodes if isinstance(corrected.approach, Quadrature) else None,
        "reason": corrected.reason,
        "design": coder.encoded(corrected.design, "design"),
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
    if design is not None and len(design.surrogates) != len(
        CorrectedLoss(loss, release, Surrogate()).surrogate_parts.replaced
    ):
        raise ValueError("its design does not have one surrogate for each part of the loss")
    return CorrectedLoss(loss, release, method_of(method, order=order, nodes=nodes, design=design), reason=reason)


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
        curving = inference.curving
        if curving is not None and (
            curving.shape != (size, 2) or not np.isfinite(curving).all() or not (curving[:, 1] >= 0).all()
        ):
            raise ValueError(f"what it says of uncertain curvatures is no array of ({size}, 2) numbers")
        levelling = inference.levelling
        if levelling is not None and (
            levelling.shape != (size, 2) or not np.isfinite(levelling).all() or not (levelling >= 0).all()
        ):
            raise ValueError(f"what it says of scores that level off is no array of ({size}, 2) numbers from 0 on")
        freedom = inference.degrees_of_freedom
        if freedom is not None and (np.shape(freedom) not in ((), (size,)) or not np.all(np.asarray(freedom) > 0)):
            raise ValueError(f"its degrees of freedom are neither one number nor {size} above 0")


# ---- values ----------------------------------------------------------------------------------------------


class Coder:
    """Values as JSON, with their arrays beside; what JSON has no words for is an object with one entry that names it.

    Attributes
    ----------
    arrays : dict from str to array
        Written or read; `unread` has the names of those that were not asked for yet.
    """

    def __init__(self, kind: type, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.classes = {known.__name__: known for known in _classes(kind)}
        self.arrays = arrays
        self.unread = set(arrays)

    def encoded(self, value: Any, place: str, depth: int = 0) -> Any:
        """Return a value, whose place is named where it cannot be written, as JSON has it."""
        if depth > _DEEPEST:
            raise _Unsavable(f"{place} is nested more than {_DEEPEST} deep")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return {"array": self._keep(value, place)}
        if isinstance(value, np.generic):
            if not _SCALAR.fullmatch(value.dtype.name):
                raise _Unsavable(f"{place} is a number of {value.dtype}")
            return {"scalar": value.dtype.name, "value": self.encoded(value.item(), place)}
        if type(value) is list:
            return [self.encoded(part, f"{place}.{index}", depth + 1) for index, part in enumerate(value)]
        if type(value) is tuple:
            parts = [self.encoded(part, f"{place}.{index}", depth + 1) for index, part in enumerate(value)]
            return {"tuple": parts}
        if isinstance(value, Mapping):
            if not all(type(key) is str for key in value):
                raise _Unsavable(f"{place} has a key that is no text")
            return {"map": {key: self.encoded(part, f"{place}.{key}", depth + 1) for key, part in value.items()}}
        if isinstance(value, Mechanism) and KINDS.get(value.kind) is type(value):
            return {"mechanism": card_of(value)}
        kind = self.classes.get(type(value).__name__)
        if kind is type(value):
            names = [field.name for field in fields(kind) if field.init]
            inside = {name: self.encoded(getattr(value, name), f"{place}.{name}", depth + 1) for name in names}
            return {"object": kind.__name__, "fields": inside}
        raise _Unsavable(f"{place} is a {type(value).__name__}")

    def _keep(self, array: np.ndarray[Any, Any], place: str) -> str:
        if array.dtype.kind not in _KINDS_OF_ARRAYS:
            raise _Unsavable(f"{place} is an array of {array.dtype}")
        name = re.sub(r"[^A-Za-z0-9_.\-]", "_", place)[:150]
        if name in self.arrays:
            name = f"{name}-{len(self.arrays)}"
        self.arrays[name] = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C")
        return name

    def decoded(self, value: Any, depth: int = 0) -> Any:
        """Return what was encoded."""
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        if isinstance(value, list):
            return [self.decoded(part, depth + 1) for part in value]
        if not isinstance(value, dict):
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("it has a number beyond float64")
            # A terminal obeys some, and others turn the direction of what is read.
            if isinstance(value, str) and (unseen := first_unseen(value, allowed="\n\t")):
                raise ValueError(f"it has a text with the character U+{ord(unseen):04X}")
            return value
        match value:
            case {"float": str(word)} if len(value) == 1:
                return _SPECIAL[word]
            case {"array": str(name)} if len(value) == 1:
                return self._take(name)
            case {"scalar": str(name), "value": number} if len(value) == 2 and _SCALAR.fullmatch(name):
                return np.dtype(name).type(self.decoded(number, depth + 1))
            case {"tuple": list(parts)} if len(value) == 1:
                return tuple(self.decoded(part, depth + 1) for part in parts)
            case {"map": dict(parts)} if len(value) == 1:
                return {key: self.decoded(part, depth + 1) for key, part in parts.items()}
            case {"mechanism": dict(card)} if len(value) == 1:
                return mechanism_of(card)
            case {"object": str(name), "fields": dict(parts)} if len(value) == 2:
                if name not in self.classes:
                    raise ValueError(f"it has an object of the kind {name!r:.60}")
                return self.classes[name](**_fields_of(self.classes[name], parts, self, depth=depth + 1))
        raise ValueError(f"it has an object with the entries {', '.join(map(repr, value))!s:.100}")

    def _take(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self.unread:
            raise ValueError(f"the array {name!r:.80} is missing, or referred to twice")
        self.unread.discard(name)
        return self.arrays[name]


def _fields_of(kind: type, parts: Any, coder: Coder, *, but: str = "", depth: int = 0) -> dict[str, Any]:
    """Return the fields of a dataclass, each checked against its declared type."""
    if not isinstance(parts, dict):
        raise ValueError(f"the fields of {kind.__name__} are no object")
    hints = typing.get_type_hints(kind)
    known = {field.name: field for field in fields(kind) if field.init and field.name != but}
    if not set(parts) <= set(known):
        raise ValueError(f"{kind.__name__} has no field {min(set(parts) - set(known))!r:.60}")
    for name, field in known.items():
        if name not in parts and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"the field {name} of {kind.__name__} is missing")
    values = {name: coder.decoded(part, depth + 1) for name, part in parts.items()}
    for name, value in values.items():
        if not _is_of(value, hints[name]):
            raise ValueError(f"the field {name} of {kind.__name__} is a {type(value).__name__}")
    return values


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(value, option) for option in arguments)
    if origin is np.ndarray:
        (kind,) = typing.get_args(arguments[1]) or (Any,)
        return isinstance(value, np.ndarray) and (kind is Any or value.dtype == np.dtype(kind))
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_is_of(part, arguments[0]) for part in value)
        return len(value) == len(arguments) and all(map(_is_of, value, arguments))
    if origin is typing.Literal:
        return value in arguments
    if origin in (Mapping, dict):
        return isinstance(value, Mapping) and all(_is_of(part, arguments[1]) for part in value.values())
    if origin in (Sequence, list):
        return isinstance(value, (list, tuple)) and all(_is_of(part, arguments[0]) for part in value)
    if hint is float:
        return isinstance(value, (float, int, np.floating)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _classes(kind: type) -> set[type]:
    """Return the dataclasses that a fit may hold: those that the fields of a fit or a design declare, and theirs.

    Diagnostics of a descent have its rule of step sizes.
    """
    known: set[type] = set()
    waiting: list[Any] = [
        Design,
        StepSize,
        *(hint for name, hint in typing.get_type_hints(kind).items() if name != "corrected"),
    ]
    while waiting:
        hint = waiting.pop()
        waiting += [argument for argument in typing.get_args(hint) if argument is not Ellipsis]
        if isinstance(hint, type) and is_dataclass(hint) and hint not in known:
            known.add(hint)
            waiting += typing.get_type_hints(hint).values()
    return known


def _array(content: bytes, name: str) -> np.ndarray[Any, Any]:
    """Return the array of a member; its header has the form that NumPy writes, and says no more than is there."""
    if content[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError(f"its member {name} is no array, or of another version")
    start = 10 + int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content[10:start].decode("ascii"))
    if header is None:
        raise ValueError(f"its member {name} is no array of numbers in the order of C")
    dtype, rest = np.dtype(header[1]), content[start:]
    shape = tuple(int(length) for length in header[2].split(",") if length.strip())
    if math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError(f"its member {name} has the shape {shape} and {len(rest):,} bytes")
    return np.frombuffer(rest, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=True)


def _exactly(document: Any, keys: set[str], what: str) -> None:
    if not isinstance(document, dict) or set(document) != keys:
        raise ValueError(f"{what} must have exactly the entries {', '.join(sorted(keys))}")
