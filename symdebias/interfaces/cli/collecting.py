"""The command that noises a table as a schema says."""

import argparse
import warnings

from symdebias import _files
from symdebias._domains import EPSILON
from symdebias.exceptions import PrivacyError
from symdebias.interfaces.cli import doubt_delta, show, tell
from symdebias.privacy import Guarantee, Ledger
from symdebias.privacy.ledger import keeps, populations, unnamed
from symdebias.release import Release, Schema


def privatize(options: argparse.Namespace) -> None:
    """Noise the records of a CSV file, and write them in another order, with their card, to a new folder."""
    schema = Schema(options.schema)
    release = Release.from_schema(schema)
    # All that may be refused is, before the ledger counts.
    _files.require_free(options.out)
    tell(f"reading {options.table}")
    X, y = schema.collect(options.table)
    doubt_delta(schema.delta, len(X))
    if options.total is not None and options.outside == "refuse":
        # A declared total stands: records that are refused are so before it is.
        release.privatize(X, y, random_state=0, outside="refuse")
    noised = release.privatize(
        X, y, random_state=options.seed, outside=options.outside, ledger=_ledger(options, release)
    )
    # The order of a table may tell what noise is to hide. Noise from a seed hides nothing, and is to come out again.
    if not (options.keep_order or noised.seeded):
        noised = noised.shuffled()
    name = None if schema.target is None else schema.target.name
    noised.save(options.out, format=options.format, target_name=name, labels=schema.labels)
    counted = "" if options.ledger is None else f", and the ledger {options.ledger} counts them"
    options.written = f"{len(noised.X):,} released records with their card are in {options.out}{counted}"
    guarantee = None if noised.seeded else noised.guarantee
    if options.json:
        answer = {
            "folder": str(options.out),
            "records": len(noised.X),
            "seeded": noised.seeded,
            "epsilon": None if guarantee is None else guarantee.epsilon,
            "delta": None if guarantee is None else guarantee.delta,
            "unprotected": None if guarantee is None else list(guarantee.unprotected),
        }
        show(answer)
        return
    print(f"{len(noised.X):,} released records with their card in {options.out}")
    print("no guarantee: the noise came from a seed" if guarantee is None else guarantee)


def _ledger(options: argparse.Namespace, release: Release) -> Ledger | None:
    if options.ledger is None:
        if options.population is not None or options.total is not None or options.others:
            raise ValueError(
                "--population, --total and --others belong to --ledger. Give the file of the ledger, or leave them out."
            )
        return None
    if options.population is None:
        raise ValueError("--ledger counts what is released about a population. Give its name by --population.")
    if options.seed is not None:
        raise PrivacyError(
            "a ledger counts noise of fresh entropy, and --seed asks for a seed, whose noise carries no guarantee. "
            "Leave out --seed, or --ledger for an example."
        )
    total = None
    if options.total is not None:
        if len(options.total) > 2:
            raise ValueError("--total has more than two numbers. Give EPSILON or EPSILON,DELTA, as 10,1e-5.")
        epsilon, *delta = options.total
        # A total never grows again.
        EPSILON.check("--total", epsilon)
        total = Guarantee(epsilon, delta[0] if delta else 0.0)
        if release.guarantee is not None and not keeps(release.guarantee, total):
            raise PrivacyError(
                f"this release is epsilon {release.guarantee.epsilon:.6g}, delta {release.guarantee.delta:.6g}, more "
                f"than the total of --total {epsilon:g},{total.delta:g}. Nothing was released, and no total declared. "
                "Give a larger total, or release with more noise."
            )
        _require_named(options, total)
    elif not options.ledger.exists():
        raise ValueError(
            f"there is no ledger at {options.ledger}. Name the one there is, or begin it by --total EPSILON,DELTA."
        )
    elif options.population not in (known := populations(options.ledger)):
        raise PrivacyError(
            f"the ledger {options.ledger} has no total for --population {options.population!r}, but for "
            f"{', '.join(map(repr, known)) or 'none'}. Correct the name, or declare a total by --total EPSILON,DELTA."
        )
    begins = not options.ledger.exists()
    ledger = Ledger(options.ledger, options.population, total=total, others=options.others)
    if begins:
        warnings.warn(
            f"there was no ledger at {options.ledger}, and a new one was begun there. If {options.population!r} has "
            "one elsewhere, what was spent there does not count here: delete the new file, and correct the name.",
            stacklevel=2,
        )
    return ledger


def _require_named(options: argparse.Namespace, total: Guarantee) -> None:
    """Refuse to begin a population beside others that were not named, as `Ledger` does."""
    if not options.ledger.exists():
        return
    if missing := unnamed(options.ledger, options.population, total, options.others):
        raise PrivacyError(
            f"the ledger {options.ledger} has no total for --population {options.population!r}, but for "
            f"{', '.join(map(repr, missing))}. A known name that is mistyped would begin a second budget for the same "
            "people: correct it, or name those there are by --others where they are other people."
        )
