"""What every mechanism has: a noise, a guarantee, a range, a card, and `privatize`, which clips and then noises."""

import functools
import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import BooleanArray, FloatArray, check_finite_values, truth_as_labels, value_array
from symdebias._domains import NON_NEGATIVE
from symdebias.codegen.parallel import all_finite
from symdebias.mechanisms import sampling
from symdebias.mechanisms.clipping import clipped_in_place
from symdebias.mechanisms.making import Making, kind_of
from symdebias.mechanisms.ranges import Ball, Labels, Numbers, Pair, Range
from symdebias.noise import (
    AdditiveNoise,
    ChannelNoise,
    ClippedNoise,
    CoordinateNoise,
    SphericalNoise,
    declared_state,
)
from symdebias.privacy import Guarantee
from symdebias.zonal import ZonalNoise

# What may be between a value and what is released of it.
Noise = AdditiveNoise | ChannelNoise | ClippedNoise | CoordinateNoise | SphericalNoise | ZonalNoise

_MAKER = object()

# The closed table of kinds that a card may name; `symdebias.mechanisms` lists them.
KINDS: dict[str, type["Mechanism"]] = {}


@dataclass(frozen=True)
class VectorColumns:
    """What the coordinates of a vector are that margin and joint releases noise as a whole.

    Attributes
    ----------
    columns : int
        The number of columns before the last one.
    radius : float or None
        The bound on the norm of these columns.
    last : (divisor, bound), optional
        For one more column what it is divided by, and the bound on its absolute value then; None for none.
    of_residual : bool
        Whether that column is a target y, which is only met in residuals y - u.

    Examples
    --------
    >>> import symdebias as sd
    >>> vector = VectorColumns(2, 1.0, last=(0.5, 1.0))
    >>> len(sd.GaussianMechanism(1.0, 1e-5, radius=2.0).known_columns(vector))
    2
    """

    columns: int
    radius: float | None
    last: tuple[float, float] | None = None
    of_residual: bool = False


class Clipped:
    """Values within the bounds of one mechanism. `Mechanism.clip` makes them, and nothing else can.

    The noise step takes this type, so that values which were not clipped cannot reach it by mistake. The
    values are a read-only copy.

    Attributes
    ----------
    values : array of shape (n,) or (n, k), float64
        The values.
    outside : array of shape (n,), bool
        Which records lay outside the bounds: a statistic of the data, for the collector only.
    mechanism : Mechanism
        Whose bounds they keep.

    Raises
    ------
    TypeError
        It was not made by `Mechanism.clip`.

    Examples
    --------
    >>> import symdebias as sd
    >>> clipped = sd.GaussianMechanism(1.0, 1e-5, radius=1.0).clip([[3.0, 4.0], [0.3, 0.4]])
    >>> clipped.values.round(2), clipped.outside
    (array([[0.6, 0.8],
           [0.3, 0.4]]), array([ True, False]))
    """

    __slots__ = ("mechanism", "outside", "values")

    def __init__(
        self,
        values: FloatArray,
        outside: BooleanArray,
        mechanism: "Mechanism",
        *,
        maker: object = None,
    ) -> None:
        if maker is not _MAKER:
            raise TypeError(
                "clipped values are made by Mechanism.clip, so that nothing is noised unclipped. Call clip."
            )
        values.flags.writeable = False
        self.values = values
        self.outside = outside
        self.mechanism = mechanism


class Mechanism(metaclass=Making):
    """A way of noising, immutable and comparable: a frozen dataclass, whose fields are the entries of its card.

    A new mechanism states its `kind`, `noise`, `guarantee` and `range`, and its draw (`_add_noise`). One of labels
    derives from `ChannelMechanism` and states its `kind` and `noise`. `symdebias.mechanisms` lists them for cards.
    """

    kind: ClassVar[str]
    # For each way to make it the entries of its card, by the name of the constructor; a card has the first ones whose
    # first entry is known. Entries that the constructor does not take are computed again from the others.
    cards: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # How far such an entry may be off: the rounding of another machine.
    card_rounding: ClassVar[float] = 0.0

    __getstate__ = declared_state

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The noise, which a correction undoes."""

    def noise_on(self, width: int) -> Noise:
        """Return the noise on a vector of so many columns, where it depends on their number."""
        return self.noise

    def divisors_on(self, width: int) -> FloatArray:
        """Return by what the coordinates of the noise are divided in so many columns: ones, but for `Coordinates`."""
        return np.ones(width)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee | None:
        """The local guarantee for one record, or None for known noise without a privacy claim."""

    @property
    @abstractmethod
    def range(self) -> Range:
        """What it takes; values outside are clipped to it."""

    @property
    def bound(self) -> float | None:
        """The largest L2 norm of a value within the declared bounds, or None where none is declared."""
        return self.range.bound

    @property
    def width(self) -> int | None:
        """The number of columns that it noises together, or None where it takes any number."""
        return self.range.width

    @property
    def farthest(self) -> Pair | None:
        """Two values that the noise tells apart best, or None where they are not known."""
        return self.range.farthest

    def with_radius(self, radius: float) -> Self:
        """Return the same mechanism on vectors of another radius: the same budget, with noise calibrated to it.

        Parameters
        ----------
        radius : float
            The bound on the norm, positive. Noise of a known scale keeps it, and clips to the new radius.

        Raises
        ------
        ValueError
            It is no mechanism of vectors in a ball.

        Examples
        --------
        >>> from symdebias.mechanisms import LaplaceMechanism
        >>> LaplaceMechanism(epsilon=2.0, radius=1.0).with_radius(3.0)
        LaplaceMechanism(epsilon=2.0, radius=3.0)
        """
        if getattr(self, "radius", None) is None:
            raise ValueError(
                f"{self!r} has no radius that could be another one. Use a mechanism of vectors in a ball, such as "
                "GaussianMechanism or LaplaceMechanism with radius=."
            )
        return self._with("radius", radius)

    def with_epsilon(self, epsilon: float) -> Self:
        """Return the same mechanism with another budget, its noise calibrated to it.

        Parameters
        ----------
        epsilon : float
            The budget, in [1e-6, 700].

        Raises
        ------
        ValueError
            It has no budget to choose: its noise is of a known scale.

        Examples
        --------
        >>> from symdebias.mechanisms import LaplaceMechanism
        >>> LaplaceMechanism(epsilon=2.0, radius=1.0).with_epsilon(4.0)
        LaplaceMechanism(epsilon=4.0, radius=1.0)
        """
        return self._with("epsilon", epsilon)

    def _with(self, entry: str, value: float) -> Self:
        """Return what the constructor makes of another value of one entry."""
        make = getattr(type(self), self._maker) if self._maker else type(self)
        taken = inspect.signature(make).parameters
        # A channel that is written down stays what it is under any budget.
        if entry not in taken or "matrix" in taken:
            raise ValueError(f"{self!r} is not made from its {entry}. Make another one.")
        made: Self = make(**{name: value if name == entry else getattr(self, name) for name in taken})
        return made

    def known_columns(self, vector: VectorColumns) -> tuple[tuple[int, "Mechanism"], ...]:
        """Return the noise of a vector as noise of its columns, known and without a claim.

        Margin and joint releases noise a vector as a whole; what is corrected is the noise of its columns, of which
        the last may be divided by a number first.

        Parameters
        ----------
        vector : VectorColumns
            What its coordinates are.

        Returns
        -------
        tuple of (int, Mechanism)
            Groups of columns in their order, each with its mechanism. Groups are noised independently of each other,
            but for a target whose mechanism is a `TargetCoordinate` of the group before it.

        Raises
        ------
        ValueError
            The noise of the columns is not known one by one.
        """
        raise ValueError(
            f"{self!r} does not state the noise of the columns of a vector. Margin and joint releases take mechanisms "
            "whose noise is known column by column: GaussianMechanism, LaplaceMechanism with radius=, or "
            "SphericalLaplaceMechanism."
        )

    def clip(self, values: ArrayLike) -> Clipped:
        """Return values within the declared bounds.

        Parameters
        ----------
        values : array of shape (n,) or (n, k)
            Finite numbers or row vectors; they are not changed.

        Returns
        -------
        Clipped
            A copy within the bounds, which `add_noise` takes.

        Raises
        ------
        TypeError, ValueError
            Values are not finite numbers, or cannot be brought within the bounds (a label that was not
            declared).
        """
        if isinstance(self.range, Labels):
            values = truth_as_labels(values, self.range.values)
        array = value_array(values, check_finite=False)
        if not (self.range.refuses_infinite or all_finite(array)):
            check_finite_values(array)
        inside, outside = self.range.clip(array)
        return Clipped(inside, outside, self, maker=_MAKER)

    def clip_in_place(self, values: FloatArray) -> Clipped:
        """Return what `clip` does, and give up the values: those clipped may be written over them.

        Parameters
        ----------
        values : array of shape (n,) or (n, k), float64
            Numbers that nobody else has.

        Raises
        ------
        TypeError, ValueError
            As for `clip`.
        """
        if getattr(self.clip, "__func__", None) is not Mechanism.clip or type(self.range) not in (Numbers, Ball):
            return self.clip(values)
        return Clipped(values, clipped_in_place(values, self.range.clip), self, maker=_MAKER)

    def add_noise(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        """Return noised values.

        Parameters
        ----------
        clipped : Clipped
            What `clip` of this mechanism or of an equal one returned.
        source : sampling.Source
            Where the random numbers come from.

        Raises
        ------
        TypeError
            The values were not clipped.
        ValueError
            They were clipped to the bounds of another mechanism, or given up to `noise_in_place`.
        """
        self._check(clipped)
        return self._drawn(self._add_noise(clipped.values, source), clipped)

    def noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        """Return noised values as `add_noise` does, which may stand where those clipped were: these are given up.

        Parameters
        ----------
        clipped, source
            As for `add_noise`.

        Raises
        ------
        TypeError, ValueError
            As for `add_noise`.
        """
        self._check(clipped)
        return self._drawn(self._noise_in_place(clipped, source), clipped)

    def _drawn(self, noised: Any, clipped: Clipped) -> FloatArray:
        """Return what a draw of whoever wrote the mechanism gave back, of the shape of what it was given."""
        is_array, shape = isinstance(noised, np.ndarray), clipped.values.shape
        if is_array and noised.shape == shape and noised.dtype.kind in "fiu":
            numbers: FloatArray = noised.astype(np.float64, copy=False)
            return numbers
        got = f"an array of {noised.dtype} of the shape {noised.shape}" if is_array else kind_of(noised)
        raise TypeError(
            f"_add_noise of {type(self).__name__} returned {got} for values of the shape {shape}. Return an array of "
            "numbers of that shape, one noised value for each value."
        )

    def _check(self, clipped: Clipped) -> None:
        if not isinstance(clipped, Clipped):
            raise TypeError(f"only clipped values are noised; got {type(clipped).__name__}. Call clip first.")
        if clipped.mechanism != self:
            raise ValueError(
                f"these values were clipped for {clipped.mechanism}, not for {self}. Clip them with this mechanism."
            )
        if clipped.values.flags.writeable:
            # What stands there may be noised, be half noised, or lie outside of the bounds.
            raise ValueError("these clipped values were given up to be noised in their place. Clip once for each draw.")

    def privatize(
        self,
        values: ArrayLike,
        *,
        random_state: int | np.random.Generator | None = None,
        noise: str | None = None,
    ) -> FloatArray:
        """Clip values and noise them.

        Parameters
        ----------
        values : array of shape (n,) or (n, k)
            Finite numbers or row vectors.
        random_state : int, numpy.random.Generator or None
            None draws on the operating system. A seed is for tests and simulations: whoever knows it can
            subtract the noise, and nothing in the returned array says so. `Release.privatize` records it.
        noise : {"hardened", "plain"}, optional
            As for `Release.privatize`.

        Returns
        -------
        array of the shape of `values`, float64
            The noised values.
        """
        clipped = self.clip(values)
        return self._drawn(self._noise_in_place(clipped, sampling.source(random_state, noise)), clipped)

    def _noise_in_place(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        """Return noised values, which may be written over those clipped: nobody else has them."""
        return self._add_noise(clipped.values, source)

    def _given_up(self, clipped: Clipped, kind: type["Mechanism"]) -> FloatArray:
        """Return clipped values that a draw may write over, where it is that of a class and not of one made of it.

        Another one may look at the values after it has called that.
        """
        if getattr(self._add_noise, "__func__", None) is kind._add_noise:
            clipped.values.flags.writeable = True
        return clipped.values

    @abstractmethod
    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        """Return noised values of values within the bounds; where these may be written to, in their place."""

    def require_stated(self) -> None:
        """Raise TypeError where a class from elsewhere states its kind, noise, guarantee or range by another type.

        Those of this library are not asked: to make a noise takes time, and code that no reader of cards needs.
        """
        own = type(self)
        if own.__module__.partition(".")[0] == __name__.partition(".")[0]:
            return
        wanted: dict[str, tuple[Any, str]] = {
            "kind": (str, "text, such as kind: ClassVar[str] = 'my noise'"),
            "noise": (Noise, "a noise of symdebias.noise, such as AdditiveNoise(variance, characteristic_function)"),
            "guarantee": (Guarantee | None, "a symdebias.Guarantee, or None for noise without a claim"),
            "range": (Range, "one of symdebias.mechanisms.ranges, such as Numbers(bounds) or Ball(radius)"),
        }
        if own.noise_on is not Mechanism.noise_on:
            # It is that of so many columns, and what stands in its place may say so.
            del wanted["noise"]
        for name, (kind, words) in wanted.items():
            stated = getattr(self, name, None)
            if not isinstance(stated, kind):
                raise TypeError(f"{name} of {own.__name__} is {kind_of(stated)}. State {words}.")

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism as JSON values, and what follows for readers without this library."""
        return {name: _as_json(getattr(self, name)) for name in self._cards()[self._maker]}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> Self:
        """Make the mechanism that `to_card` described; what follows from other entries is computed again.

        Raises
        ------
        TypeError, ValueError
            The entries are others, out of range, or do not agree.
        """
        makers = [name for name, entries in cls._cards().items() if set(entries) == set(card)]
        if not makers:
            listed = "; or ".join(", ".join(entries) for entries in cls._cards().values())
            raise ValueError(f"a card of the kind {cls.kind} has the entries {listed}")
        make = getattr(cls, makers[0]) if makers[0] else cls
        taken = _parameters(cls, makers[0])
        made: Self = make(**{name: _from_json(value) for name, value in card.items() if name in taken})
        for name in card.keys() - taken.keys():
            stated, computed = NON_NEGATIVE.check(name, card[name]), getattr(made, name)
            if not abs(stated - computed) <= cls.card_rounding * computed:
                raise ValueError(
                    f"its {name} {stated!r} is not the one of its other entries, {computed!r}: noise and guarantee "
                    "disagree"
                )
        return made

    @classmethod
    def _cards(cls) -> Mapping[str, tuple[str, ...]]:
        return cls.cards or {"": tuple(field.name for field in fields(cls))}  # type: ignore[arg-type]

    @property
    def _maker(self) -> str:
        """The name of the constructor that makes an equal mechanism, empty for that of the class."""
        cards = self._cards()
        return next((name for name, entries in cards.items() if getattr(self, entries[0]) is not None), "")

    def __repr__(self) -> str:
        name = type(self).__name__ + ("." if self._maker else "") + self._maker
        make = getattr(type(self), self._maker) if self._maker else type(self)
        shown = []
        for parameter in inspect.signature(make).parameters.values():
            value = getattr(self, parameter.name)
            if self._maker and parameter.default is parameter.empty:
                shown.append(repr(value))
            elif parameter.default is parameter.empty or value != parameter.default:
                shown.append(f"{parameter.name}={value!r}")
        return f"{name}({', '.join(shown)})"

    def _declare(self, **values: Any) -> None:
        """Set fields, in constructors only."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _known(cls, **values: Any) -> Self:
        """Return an instance with these fields, for constructors of known noise, past that of the class."""
        mechanism = object.__new__(cls)
        mechanism._declare(**values)
        return mechanism


class ChannelMechanism(Mechanism):
    """A mechanism of labels, noised by a finite channel.

    Examples
    --------
    >>> import symdebias as sd
    >>> coin = sd.RandomizedResponse(epsilon=1.0, categories=("no", "yes"))
    >>> isinstance(coin, ChannelMechanism), coin.categories
    (True, ('no', 'yes'))
    """

    @property
    @abstractmethod
    def noise(self) -> ChannelNoise:
        """The channel, with the probabilities that the draw realises."""

    @cached_property
    def range(self) -> Labels:
        """The labels that go in, as they were declared; the numbers of the channel by default."""
        return Labels(self.noise.inputs)

    @cached_property
    def sent(self) -> Labels:
        """The labels that come out."""
        return Labels(self.noise.outputs)

    @property
    def categories(self) -> tuple[Any, ...]:
        """The labels that go in."""
        return self.range.values

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """(epsilon, 0) in the local model at the largest log ratio of two entries of a column, rounded up.

        None where an output rules an input out.
        """
        matrix = np.array(self.noise.matrix)
        used = matrix[:, matrix.max(axis=0) > 0]
        if not used.min() > 0:
            return None
        epsilon = float(np.max(np.log(used.max(axis=0)) - np.log(used.min(axis=0))))
        # Two logarithms and a difference: a few units in the last place, rounded to the safe side.
        return Guarantee(epsilon + 4 * math.ulp(max(epsilon, 1.0, -math.log(float(used.min())))), 0.0)

    def _add_noise(self, values: FloatArray, source: sampling.Source) -> FloatArray:
        sent, matrix, outputs = np.empty(len(values)), np.array(self.noise.matrix), np.array(self.noise.outputs)

        def draw(part: slice) -> None:
            sent[part] = outputs[sampling.categories(matrix, self.range.codes(values[part]), source)]

        sampling.in_parts(len(values), draw, source, sampling.COINS)
        return sent


@functools.cache
def _parameters(kind: type[Mechanism], maker: str) -> Mapping[str, inspect.Parameter]:
    """Return what a constructor takes; a card may ask for it thousands of times."""
    return inspect.signature(getattr(kind, maker) if maker else kind).parameters


def card_of(mechanism: Mechanism) -> dict[str, Any]:
    """Return the card of a mechanism with its kind."""
    return {"kind": mechanism.kind, **mechanism.to_card()}


def mechanism_of(card: Any) -> Mechanism:
    """Make the mechanism that `card_of` described.

    Raises
    ------
    TypeError, ValueError
        It is no card, of no known kind, or its entries do not fit.
    """
    if not isinstance(card, dict):
        raise TypeError(f"the card of a mechanism is an object, not {type(card).__name__}")
    entries = dict(card)
    kind = entries.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"the kind of mechanism {kind!r:.50} is not one of {', '.join(KINDS)}")
    return KINDS[kind].from_card(entries)


def _as_json(value: Any) -> Any:
    if isinstance(value, Mechanism):
        return card_of(value)
    return [_as_json(part) for part in value] if isinstance(value, tuple) else value


def _from_json(value: Any) -> Any:
    return mechanism_of(value) if isinstance(value, dict) else value


def independent_columns(
    known: Callable[..., Mechanism], scale: float, vector: VectorColumns
) -> tuple[tuple[int, Mechanism], ...]:
    """Return `Mechanism.known_columns` of noise that is independent and of one scale on all columns.

    Parameters
    ----------
    known : callable
        Takes a scale and ``radius=``, and returns noise of that scale without a claim.
    scale : float
        The scale on the released vector; the last column, which is divided, has a divided one.
    vector : VectorColumns
        What its coordinates are.
    """
    first = (vector.columns, known(scale, radius=vector.radius))
    if vector.last is None:
        return (first,)
    divisor, bound = vector.last
    return first, (1, known(scale / divisor, radius=bound))
