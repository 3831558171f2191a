"""The command that predicts: a saved fit, a table of true records, and a file of what the fit says of each."""

import argparse
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _columns, _files
from symdebias._columns import Table
from symdebias._domains import OPEN_UNIT, seen
from symdebias.exceptions import InferenceError
from symdebias.interfaces.cli import show
from symdebias.interfaces.cli.known_term import KnownTerm
from symdebias.interfaces.cli.labels import labels_of_fit
from symdebias.release.categories import spelled
from symdebias.release.collecting import columns_read
from symdebias.release.folder import MANIFEST
from symdebias.release.groups import labels_of
from symdebias.release.schema import Column, Schema
from symdebias.solvers import Fit
from symdebias.solvers.predictions import Predictor

_PREDICTION, _LOW, _HIGH = "prediction", "low", "high"
_KIND = _files.Kind("a file of predictions", rb"prediction[,\r\n]", (".csv",))


def predict(options: argparse.Namespace) -> None:
    """Write what a saved fit predicts for the records of a table."""
    OPEN_UNIT.check("--level", options.level)
    _files.require_place(options.out, _KIND)
    found = Fit.load(options.fit)
    place = Path(options.table)
    if any((folder / MANIFEST).is_file() for folder in (place, place.parent)):
        warnings.warn(
            f"{seen(str(place), 200)} has released records: what is predicted for a record with noise, and in units "
            "of the release, belongs to nobody. Predict for true records, in the units of the table.",
            stacklevel=2,
        )
    known = KnownTerm.of_fit(options, found)
    schema = None if options.schema is None else Schema(options.schema)
    columns = _columns_of(found, schema)
    wanted = columns if known is None else [*columns, Column(known.column, None, None, public=True)]
    table = columns_read(wanted, options.table, () if schema is None else schema.missing)
    offset = None if known is None else known.offset_of(table[known.column])
    X = Table({column.name: table[column.name] for column in columns})
    labels = labels_of_fit(found) if schema is None or schema.labels is None else schema.labels
    said = _predictions(found, X, offset, options.level, labels)
    text = io.StringIO(newline="")
    _columns.write_text(text, list(said), (map(spelled, values) for values in said.values()))
    _files.write_whole(options.out, lambda stream: stream.write(text.getvalue().encode()), _KIND)
    options.written = f"{len(X):,} predictions are in {options.out}"
    if options.json:
        show({"file": str(options.out), "records": len(X), "columns": list(said)})
        return
    print(f"{len(X):,} predictions in {options.out}, in the order of the table: {', '.join(said)}")


def _columns_of(found: Fit, schema: Schema | None) -> list[Column]:
    """Return the columns of true records: as a schema declares them, or as the release of the fit does.

    Raises
    ------
    ValueError
        The release has no names, or the schema does not have all columns.
    """
    release = found.corrected.release
    if release.columns is None:
        raise ValueError(
            "the columns of this fit have no names. Fit released records with named columns, or predict in Python."
        )
    names = release.categories.collected(release.columns)
    if schema is not None:
        declared = {column.name: column for column in schema.columns}
        missing = [name for name in names if name not in declared]
        if missing:
            raise ValueError(
                f"the schema has no column {', '.join(missing)}, which the fit has. Name the schema of its release."
            )
        return [declared[name] for name in names]
    categories = dict(release.categories.labels) | labels_of(release.groups, "range")
    return [Column(name, None, categories.get(name), public=True) for name in names]


def _predictions(found: Fit, X: Table, offset: Any, level: float, labels: tuple[Any, Any] | None) -> dict[str, Any]:
    """Return columns of what is predicted: label or number, the chances of labels, and the ends of intervals."""
    predictor = Predictor.of(found)
    own = predictor.classes.tolist() if predictor.predicts == "label" else []
    if own and labels is not None and {float(one) for one in own if not isinstance(one, str)} == {-1.0, 1.0}:
        names = [spelled(labels[0] if one < 0 else labels[1]) for one in own]
    else:
        names = [spelled(one) for one in own]
    predicted = found.predict(X, offset=offset)
    if names:
        predicted = [names[own.index(one)] for one in np.asarray(predicted).tolist()]
    said: dict[str, Any] = {_PREDICTION: predicted}
    try:
        if names:
            chances = found.predict_proba(X, offset=offset)
            said |= {f"chance of {name}": chances[:, place] for place, name in enumerate(names)}
        ends = found.predict_interval(X, level=level, offset=offset)
    except (ValueError, InferenceError) as error:
        warnings.warn(f"there are no {'chances' if len(said) == 1 and names else 'intervals'}: {error}", stacklevel=2)
        return said
    if ends.ndim == 2:
        which = f" of the chance of {names[-1]}" if names else ""
        return said | {_LOW + which: ends[:, 0], _HIGH + which: ends[:, 1]}
    for place, name in enumerate(names):
        said[f"{_LOW} of the chance of {name}"] = ends[:, place, 0]
        said[f"{_HIGH} of the chance of {name}"] = ends[:, place, 1]
    return said
