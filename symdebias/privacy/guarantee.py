"""A guarantee of differential privacy as a value, and its composition."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from symdebias.exceptions import PrivacyError


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy with the model and the adjacency that it is meant in.

    Attributes
    ----------
    epsilon : float
        The privacy budget, zero or more.
    delta : float
        In [0, 1]; 0 is pure differential privacy.
    model : {"local", "central"}
        Local: each record is noised before it leaves its owner.
    adjacency : {"replace-one", "add-remove"}
        What may differ between neighbours; local privacy is always replace-one.
    unprotected : tuple of str
        Parts of the record that are released as they are.
    """

    epsilon: float
    delta: float
    model: str = "local"
    adjacency: str = "replace-one"
    unprotected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (0 <= self.epsilon < math.inf) or not (0 <= self.delta <= 1):
            raise ValueError(
                f"epsilon={self.epsilon!r} and delta={self.delta!r} are no guarantee: epsilon must be finite and at "
                "least 0, delta in [0, 1]."
            )

    def implies(self, other: "Guarantee") -> bool:
        """Whether this guarantee is at least as strong as another of the same model and adjacency."""
        return (
            (self.model, self.adjacency) == (other.model, other.adjacency)
            and self.epsilon <= other.epsilon
            and self.delta <= other.delta
            and set(self.unprotected) <= set(other.unprotected)
        )

    def __str__(self) -> str:
        text = f"({self.epsilon:.6g}, {self.delta:.6g})-differential privacy ({self.model}, {self.adjacency})"
        if self.unprotected:
            text += f"; not protected: {', '.join(self.unprotected)}"
        return text


def compose(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the guarantee of several releases of parts of the same record: budgets add.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        At least one, all of one model and adjacency.

    Raises
    ------
    PrivacyError
        There is none, or they are of different models or adjacencies.

    References
    ----------
    Dwork & Roth 2014, Theorem 3.16 (basic composition).

    Examples
    --------
    >>> print(compose([Guarantee(1.0, 1e-5), Guarantee(0.5, 0.0)]))
    (1.5, 1e-05)-differential privacy (local, replace-one)
    """
    parts = list(guarantees)
    kinds = {(part.model, part.adjacency) for part in parts}
    if len(kinds) != 1:
        found = ", ".join(f"{model} {adjacency}" for model, adjacency in sorted(kinds)) or "none"
        raise PrivacyError(f"guarantees compose within one model and adjacency; got {found}.")
    ((model, adjacency),) = kinds
    unprotected = tuple(dict.fromkeys(name for part in parts for name in part.unprotected))
    epsilon = math.fsum(part.epsilon for part in parts)
    delta = min(1.0, math.fsum(part.delta for part in parts))
    return Guarantee(epsilon, delta, model, adjacency, unprotected)
