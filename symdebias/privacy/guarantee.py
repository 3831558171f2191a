"""A guarantee of differential privacy as a value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from symdebias import _markup
from symdebias._domains import Interval, check_choice

MODELS = ("local", "central")
ADJACENCIES = ("replace-one", "add-remove")

# What is to be said of a guarantee where the noise is that of floating-point arithmetic.
PLAIN = "plain noise, whose low bits tell more than real numbers would"

_EPSILON = Interval(0.0, math.inf, "left", "Give a finite budget.")
_MULTIPLIER = Interval(0.0, math.inf, "neither", "Give sigma/Delta of normal noise, or None.")
_DELTA = Interval(0.0, 1.0, "left", "Give 0 for pure differential privacy.")


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy with the model and the adjacency that it is meant in.

    Parameters
    ----------
    epsilon : float
        The privacy budget, zero or more.
    delta : float
        In [0, 1); 0 is pure differential privacy.
    model : {"local", "central"}
        Local: each record is noised before it leaves its owner.
    adjacency : {"replace-one", "add-remove"}
        What may differ between neighbours; local privacy is always replace-one.
    unprotected : sequence of str
        Parts of the record that are released as they are.
    basis : str
        What it rests on, in a few words: the mechanism, the sampling, the accountant. Comparisons leave it out.
    multiplier : float, optional
        Where it is that of normal noise, a lower bound on its standard deviation divided by the sensitivity, above 0:
        `symdebias.privacy.compose` then composes exactly. Comparisons leave it out.

    Raises
    ------
    TypeError, ValueError
        A number is outside its range, or a word is not known.

    Examples
    --------
    >>> print(Guarantee(1.0, 1e-5, unprotected=("year",)))
    (1, 1e-05)-differential privacy (local, replace-one); not protected: year
    """

    epsilon: float
    delta: float
    model: str = "local"
    adjacency: str = "replace-one"
    unprotected: tuple[str, ...] = ()
    basis: str = field(default="", compare=False)
    multiplier: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        epsilon, delta = _EPSILON.check("epsilon", self.epsilon), _DELTA.check("delta", self.delta)
        for name, value, known in (("model", self.model, MODELS), ("adjacency", self.adjacency, ADJACENCIES)):
            check_choice(name, value, known)
        if self.model == "local" and self.adjacency != "replace-one":
            raise ValueError(
                "a local guarantee compares two values of one record, which is replace-one. Give "
                'adjacency="replace-one".'
            )
        unprotected: Any = self.unprotected
        if (
            isinstance(unprotected, str)
            or not isinstance(unprotected, Sequence)
            or not all(isinstance(name, str) for name in unprotected)
        ):
            raise TypeError(f"unprotected has the value {unprotected!r:.100}. Give a sequence of names.")
        if not isinstance(self.basis, str):
            raise TypeError(f"basis has the value {self.basis!r:.100}. Give a few words.")
        if self.multiplier is not None:
            object.__setattr__(self, "multiplier", _MULTIPLIER.check("multiplier", self.multiplier))
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "unprotected", tuple(unprotected))

    def implies(self, other: "Guarantee") -> bool:
        """Whether this guarantee is at least as strong as another of the same model and adjacency.

        Parameters
        ----------
        other : Guarantee
            The guarantee to compare with.

        Returns
        -------
        bool
            True if neither epsilon nor delta is larger and nothing more is unprotected. Guarantees of
            different models or adjacencies do not imply one another.

        Examples
        --------
        >>> Guarantee(1.0, 0.0).implies(Guarantee(2.0, 1e-5))
        True
        """
        return (
            (self.model, self.adjacency) == (other.model, other.adjacency)
            and self.epsilon <= other.epsilon
            and self.delta <= other.delta
            and set(self.unprotected) <= set(other.unprotected)
        )

    def with_basis(self, more: str) -> "Guarantee":
        """Return the same guarantee with something more to be said of what it rests on."""
        return replace(self, basis=f"{self.basis}, {more}" if self.basis else more)

    @property
    def most_guessed(self) -> float:
        """The largest chance of guessing right which of two neighbours it was, both as likely before: at least 1/2.

        Notes
        -----
        1 - (1 - delta)/(1 + e^epsilon): the errors of a test of neighbours add up to at least
        2 (1 - delta)/(1 + e^epsilon).

        References
        ----------
        Kairouz, Oh & Viswanath 2015, *The Composition Theorem for Differential Privacy*, Theorem 2.1.

        Examples
        --------
        >>> Guarantee(0.0, 0.0).most_guessed, round(Guarantee(1.0, 0.0).most_guessed, 4)
        (0.5, 0.7311)
        """
        # e^-epsilon/(1 + e^-epsilon) does not overflow.
        small = math.exp(-self.epsilon)
        return 1.0 - (1.0 - self.delta) * small / (1.0 + small)

    def in_words(self) -> tuple[str, ...]:
        """Return what it means, in sentences for those who are asked for their data.

        Examples
        --------
        >>> for sentence in Guarantee(1.0, 1e-5, unprotected=("year",)).in_words():
        ...     print(sentence)
        Each record was noised before it left its owner.
        Whoever guesses which of two records it was, both as likely before, is right at most 73.2% of the time.
        Not protected, and released as it is: year.
        """
        if self.model == "local":
            first = "Each record was noised before it left its owner."
            guess = "which of two records it was, both as likely before,"
        else:
            first = "A trusted collector held the true records; what was published was noised."
            guess = "which of two records another one was, both as likely before, and knows all others,"
            if self.adjacency == "add-remove":
                guess = "whether a record was among them, as likely as not before, and knows all others,"
        # Rounded up: a bound may be said too large.
        share = math.ceil(1000 * self.most_guessed - 1e-9) / 10
        often = f"at most {share:g}% of the time" if share < 99.9 else "nearly always: so large an epsilon hides little"
        be = "is" if share < 99.9 else "may be"
        said = [first, f"Whoever guesses {guess} {be} right {often}."]
        if self.unprotected:
            which = "it is" if len(self.unprotected) == 1 else "they are"
            said.append(f"Not protected, and released as {which}: {', '.join(self.unprotected)}.")
        return tuple(said)

    def _repr_html_(self) -> str:
        """Return it for notebooks."""
        return _markup.facts([(str(self), self.in_words())])

    def __str__(self) -> str:
        text = f"({self.epsilon:.6g}, {self.delta:.6g})-differential privacy ({self.model}, {self.adjacency})"
        if self.unprotected:
            text += f"; not protected: {', '.join(self.unprotected)}"
        return f"{text}; by {self.basis}" if self.basis else text
