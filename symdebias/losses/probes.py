"""Scores at which expressions are compared with one another."""

from collections.abc import Iterator, Sequence

import sympy as sp

# Scores of both signs and several sizes.
PROBES = tuple(sp.Rational(text) for text in ("-27/10", "-9/10", "4/10", "13/10", "31/10"))
# Numbers of expressions in elementary functions that agree to so many digits wherever they are looked at are equal.
DIGITS, EQUAL = 30, sp.Float("1e-24", 30)


def points(scores: Sequence[sp.Symbol]) -> Iterator[dict[sp.Symbol, sp.Rational]]:
    """Yield points of some scores: each walks through the probes with its own offset, so that they never move in step.

    Examples
    --------
    >>> u, v = sp.symbols("u v", real=True)
    >>> next(points([u, v]))
    {u: -27/10, v: -9/10}
    """
    for step in range(len(PROBES)):
        yield {score: PROBES[(step * (1 + place) + place) % len(PROBES)] for place, score in enumerate(scores)}
