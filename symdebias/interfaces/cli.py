"""The command ``symdebias``."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from symdebias.exceptions import SymdebiasError
from symdebias.interfaces import demo, plotting


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the command; those of the process by default.

    Returns
    -------
    int
        0 on success, 1 where the job failed; argparse exits with 2 on a mistyped command.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (SymdebiasError, ValueError, OSError) as error:
        print(f"symdebias: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="symdebias", description="Fit models honestly to data that was released with noise."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    shown = commands.add_parser(
        "demo",
        help="train on noised records with and without correction, and draw the risks",
        description="Train three models: by SGD on true records, by SGD on noised records, and by IWP-SGD on "
        "the same noised records; print their risks on the true records and draw the curves.",
    )
    shown.add_argument(
        "--data",
        choices=("synthetic", "adult"),
        default="synthetic",
        help="synthetic problems of 1,000,000 records, or UCI Adult from the folder SYMDEBIAS_DATA",
    )
    shown.add_argument(
        "--output", type=Path, default=None, help="the PNG file to write (default: symdebias-demo-DATA.png)"
    )
    shown.add_argument("--seed", type=int, default=0, help="seed of noise and order (default: 0)")
    shown.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> None:
    output = options.output or Path(f"symdebias-demo-{options.data}.png")
    if not output.parent.is_dir():
        raise ValueError(f"the folder {output.parent} of --output does not exist. Make it, or name another file.")
    began = time.perf_counter()
    outcomes = []
    for make in demo.problems(options.data):
        outcome = demo.run(make(), random_state=options.seed, progress=sys.stderr.isatty())
        outcomes.append(outcome)
        print(demo.table(outcome))
        print()
    plotting.save(plotting.excess_risk(outcomes), output)
    print(f"curves in {output}; {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    sys.exit(main())
