"""What few records or clusters make of a mean in its standard errors: Student's t, and a skewed one."""

from dataclasses import dataclass

from symdebias._arrays import FloatArray
from symdebias.inference import MANY_DECIDE, freedom_of_few


@dataclass(frozen=True)
class Decided:
    """What decides the law of a mean in its standard errors.

    Attributes
    ----------
    freedom : float or None
        The degrees of freedom of the standard error; None where it is as good as known.
    skewness : float
        That of the mean, (sum d^3)/(sum d^2)^1.5 of what records or clusters do to it; 0 where many decide.
    """

    freedom: float | None = None
    skewness: float = 0.0

    @classmethod
    def by_records(cls, squares: float, thirds: float, fourths: float) -> "Decided":
        """Return what sums of powers of what each record does to a mean say.

        Twice the number of records that decide a standard error, (sum d^2)^2/(sum d^4), is Satterthwaite's.
        """
        if not fourths > 0:
            return cls()
        deciding = squares**2 / fourths
        return cls(2 * deciding, thirds / squares**1.5) if deciding < MANY_DECIDE else cls()

    @classmethod
    def by_clusters(cls, moves: FloatArray) -> "Decided":
        """Return what leaving out each of G clusters says, shape (G,): at most G - 1 degrees of freedom."""
        squares = moves**2
        second, fourths = float(squares.sum()), float(squares @ squares)
        if not fourths > 0:
            return cls(float(len(moves) - 1))
        deciding = second**2 / fourths
        few = freedom_of_few(deciding, len(moves))
        skewness = float(squares @ moves) / second**1.5 if deciding < MANY_DECIDE else 0.0
        return cls(float(len(moves) - 1 if few is None else few), skewness)
