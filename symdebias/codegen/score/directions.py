"""Directions in which scores grow together: what counts of their parameters against the tails of noise.

The noise e of the columns is Theta e in the scores, and an exponential exp(w.u) of the loss is multiplied by
exp(w.Theta e). For Laplace noise of the scales b_j that has the mean prod_j 1/(1 - (b_j w.Theta_j)^2), which exists
where b_j |w.Theta_j| < 1 for all columns j, and its square has one where 2 b_j |w.Theta_j| < 1; for spherical noise the
norm of w.Theta over the columns takes the place of the parameter of one. The correction, a differential operator
with constant coefficients, has the exponentials of the loss. So the largest b_j |w.Theta_j| over exponentials and
columns decides: the square of a sum has a mean where those of its terms have, by Cauchy and Schwarz, and the term that
grows fastest along a column is not undone by others, but for some that tie with it. Powers before exponentials change
nothing. A score that stands in no exponential counts for nothing.

References
----------
Kotz, Kozubowski & Podgorski (2001), The Laplace Distribution and Generalizations, section 2.1.2, for the means.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray

# The weights of scores in a sum of them.
_Form = tuple[float, ...]


@dataclass(frozen=True)
class Directions:
    """Sums of scores by terms of a bound: what counts of a term is the sum of the sizes of its forms."""

    terms: tuple[tuple[_Form, ...], ...]  # For each term its forms, of one weight per score; the largest weight is 1.

    @classmethod
    def of_all(cls, scores: int) -> "Directions":
        """Return one term of all scores, each by itself: whatever combines them is no larger."""
        return cls((tuple(tuple(map(float, row)) for row in np.eye(scores)),))

    @classmethod
    def of_terms(cls, terms: Iterable[tuple[_Form, _Form]]) -> "Directions":
        """Return the directions of exponentials exp(w.u + r.|u|), of which (w, r) are given.

        Of one score, and of one form up to a factor, the largest is kept.
        """
        found: dict[tuple[_Form, ...], float] = {}
        for weights, widths in terms:
            rows = np.array([weights, *np.diag(widths)])
            rows = rows[np.any(rows != 0, axis=1)]
            if not len(rows):
                continue
            # Their signs do not count: noise is symmetric.
            rows = rows * np.sign(rows[np.arange(len(rows)), np.argmax(rows != 0, axis=1)])[:, None] + 0.0
            size = float(np.abs(rows).sum(axis=0).max())
            key = tuple(tuple(map(float, row)) for row in rows / size)
            found[key] = max(found.get(key, 0.0), size)
        if not found or len(next(iter(found))[0]) == 1:
            return cls.of_all(1)
        largest = max(found.values())
        return cls(
            tuple(
                tuple(tuple(weight * (size / largest) for weight in form) for form in forms)
                for forms, size in found.items()
            )
        )

    @property
    def length(self) -> float:
        """How far parameters of norm 1 get: the largest norm of the weights of a term, in sizes summed over forms."""
        return max(float(np.linalg.norm(np.abs(forms).sum(axis=0))) for forms in self.terms)

    def of(self, rows: FloatArray) -> list[FloatArray]:
        """Return the forms of each term in the parameters, from one row per score, shape (forms, q)."""
        return [np.array(forms) @ rows for forms in self.terms]

    def texts(self, theta: Callable[[int], str]) -> list[list[str]]:
        """Return the forms of each term as text, from the text of the parameter of a score."""
        return [[_text(form, theta) for form in forms] for forms in self.terms]


def _text(form: _Form, theta: Callable[[int], str]) -> str:
    parts = [theta(k) if weight == 1 else f"{weight!r}*{theta(k)}" for k, weight in enumerate(form) if weight != 0]
    return " + ".join(parts)
