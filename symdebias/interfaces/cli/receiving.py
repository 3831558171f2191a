"""The command that puts a table which another program noised into a folder, with the card of its noise."""

import argparse
import warnings

from symdebias import _files
from symdebias.interfaces.cli import show, tell
from symdebias.interfaces.cli.doubts import doubts_of
from symdebias.release import NoiseDescription
from symdebias.release.wording import noise_in_words


def receive(options: argparse.Namespace) -> None:
    """Read noised records as a description says, and write them with their card to a new folder."""
    description = NoiseDescription(options.noise)
    _files.require_free(options.out)
    tell(f"reading {options.table}")
    noised = description.read(options.table)
    doubts = doubts_of(noised)
    if doubts:
        warnings.warn(
            f"the records do not fit the noise that {options.noise} describes: {doubts}. The noise is another one, or "
            "they were changed after it, and a fit that undoes it is wrong. Correct the description, or ask for the "
            "records as they were noised; in Python sd.checks.check_records has the figures. Where records have noise "
            "scales of their own, fits by --noise-scale take these in place of the one described.",
            stacklevel=2,
        )
    noised.save(options.out, format=options.format)
    options.written = f"{len(noised.X):,} records with the card of their noise are in {options.out}"
    guarantee = noised.guarantee
    if options.json:
        answer = {
            "folder": str(options.out),
            "records": len(noised.X),
            "columns": list(noised.X.columns),
            "target": None if noised.y is None else noised.target_name,
            "epsilon": None if guarantee is None else guarantee.epsilon,
            "delta": None if guarantee is None else guarantee.delta,
            "records_fit_card": not doubts,
        }
        show(answer)
        return
    print(f"{len(noised.X):,} records with the card of their noise in {options.out}")
    said = noise_in_words(noised.release)
    # The target stands last.
    for names, noise in said if noised.y is not None else said[:-1]:
        print(f"{names}: {noise}")
    if guarantee is not None:
        print(guarantee)
