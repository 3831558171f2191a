"""Releases of features and target as one vector: (y x, c y) for margin losses, (x, c y) for losses of a residual.

A loss F with F(u, 1) = F(-u, -1) takes a record through y x alone. So the whole budget goes to that vector, whose norm
is at most that of x: two records lie 2 R apart at most, as two vectors x do. An intercept is one more coordinate, c y:

    ||(y x, c y)||^2 = ||x||^2 + c^2 <= R^2 + c^2 for |y| = 1,        ||(x, c y)||^2 <= R^2 + c^2 B^2 for |y| <= B,

and in the L1 norm R + c and R + c B. The replace-one sensitivity is twice that, and is attained by opposite records.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import BooleanArray, FloatArray
from symdebias._domains import Interval, LabelSet, shown
from symdebias.mechanisms import ChannelMechanism, Mechanism
from symdebias.mechanisms.base import VectorColumns
from symdebias.mechanisms.ranges import Ball, Numbers, checked_bounds
from symdebias.release.groups import Groups

KINDS = ("margin", "joint")
_TARGET_SCALE = Interval(1e-50, 1e50, "both", "Give a public positive number, such as 1.")
_SIGNS = (-1.0, 1.0)


@dataclass(frozen=True)
class Coupling:
    """How the target is released in one vector with the features."""

    kind: str  # {"margin", "joint"}: Whether the vector is (y x, c y), y = -1 or +1, or (x, c y).
    scale: float  # c, public.
    # Whether the vector has the coordinate c y, as a joint one has and a margin one with an intercept.
    has_column: bool
    values: tuple[float, float] | None  # For a margin release the labels that count as -1 and +1.
    bounds: tuple[float, float] | None  # For a joint release the public bounds of the target.

    @classmethod
    def declared(
        cls, kind: Any, groups: Groups, *, noiseless: Any, intercept: bool, scale: Any, values: Any, bounds: Any
    ) -> "Coupling":
        """Return what was declared, checked.

        Raises
        ------
        TypeError, ValueError
            An argument does not belong to this kind of release, or its features are not one vector in a ball.
        """
        if kind not in KINDS:
            raise TypeError(
                f"target must be a mechanism or None; got {type(kind).__name__} {shown(kind, 60)}. Pass a mechanism, "
                'or "margin" or "joint" for features and target in one vector.'
            )
        joint = kind == "joint"
        has_column = joint or intercept
        if noiseless:
            raise ValueError(
                f'target="{kind}" releases one noised vector, and {", ".join(noiseless)} would stand beside it without '
                "noise"
                + ("." if joint else ": times a private label it is private.")
                + " Noise all columns, or release the target by a mechanism of its own."
            )
        if len(groups) != 1:
            raise ValueError(
                f'target="{kind}" releases features and target as one vector, and features '
                + ("are not noised." if not groups else f"are {len(groups)} groups, each with a mechanism.")
                + " Pass one mechanism for all columns, such as GaussianMechanism(epsilon, delta, radius)."
            )
        if not has_column and scale is not None:
            raise ValueError(
                "target_scale is the weight c of the column c y, which a margin release has with an intercept alone. "
                "Leave it out, or declare fit_intercept=True."
            )
        if joint and values is not None:
            raise ValueError('target_values belongs to target="margin". Give target_bounds=(low, high).')
        if joint and bounds is None:
            raise ValueError(
                'target="joint" needs target_bounds=(low, high): public bounds of the target, known before the data. '
                "Values outside are clipped to them."
            )
        if not joint and bounds is not None:
            raise ValueError(
                'target_bounds belongs to target="joint". A margin release takes two labels: leave it out.'
            )
        made = cls(
            kind,
            _TARGET_SCALE.check("target_scale", 1.0 if scale is None else scale),
            has_column,
            None if joint else _two_labels(_SIGNS if values is None else values),
            checked_bounds(bounds, "target_bounds") if joint else None,
        )
        made._check_mechanism(groups[0][1])
        return made

    def _check_mechanism(self, mechanism: Mechanism) -> None:
        """Raise ValueError where a mechanism cannot noise a vector whose columns are then corrected."""
        if isinstance(mechanism, ChannelMechanism) or not isinstance(mechanism.range, (Ball, Numbers)):
            raise ValueError(
                f'target="{self.kind}" noises a vector of numbers, and {mechanism!r} noises something else.'
            )
        if isinstance(mechanism.range, Numbers) and mechanism.range.bounds is not None:
            raise ValueError(
                f'target="{self.kind}" noises a vector, and {mechanism!r} noises one number within bounds. Pass a '
                "mechanism with radius=, the bound on the norm of the features."
            )
        # Says whether the noise of its columns is known.
        self.known_columns(mechanism, 1 if mechanism.width is None else mechanism.width)

    # ---- the vector --------------------------------------------------------------------------------------

    @property
    def target_bound(self) -> float:
        """The largest absolute value of the target as it enters the vector: B, or 1 for labels."""
        return 1.0 if self.bounds is None else max(map(abs, self.bounds))

    def released(self, mechanism: Mechanism) -> Mechanism:
        """Return the mechanism of the whole vector, its noise calibrated to the radius of that.

        Parameters
        ----------
        mechanism : Mechanism
            That of the features, whose radius bounds them.
        """
        inside = mechanism.range
        if not self.has_column or not isinstance(inside, Ball) or inside.radius is None:
            return mechanism
        largest = self.scale * self.target_bound
        if self.target_bound != 1.0:
            largest = math.nextafter(largest, math.inf)
        return mechanism.with_radius(inside.with_coordinate(largest))

    def known_columns(self, mechanism: Mechanism, columns: int) -> tuple[tuple[int, Mechanism], ...]:
        """Return the noise of the columns of the released y x (or x) and, divided by c, of that of the target.

        Parameters
        ----------
        mechanism : Mechanism
            That of the features.
        columns : int
            The number of features.
        """
        last = (self.scale, self.target_bound) if self.has_column else None
        vector, joint = self.released(mechanism), self.kind == "joint"
        return vector.known_columns(VectorColumns(columns, mechanism.bound, last, joint))

    def apart(
        self, mechanism: Mechanism, columns: tuple[str, ...]
    ) -> tuple[dict[str | tuple[str, ...], Mechanism], Mechanism | None, bool]:
        """Return what a release of the columns has: its features, its target, and whether an intercept is a constant.

        Parameters
        ----------
        mechanism : Mechanism
            That of the features.
        columns : tuple of str
            Their names. The column of the label in a margin release is called intercept, and comes last.
        """
        parts = self.known_columns(mechanism, len(columns))
        if self.kind == "joint":
            (_, features), (_, target) = parts
            return {columns: features}, target, True
        if self.has_column:
            own = "intercept"
            while own in columns:
                own += "_"
            columns += (own,)
        groups: dict[str | tuple[str, ...], Mechanism] = {}
        start = 0
        for count, part in parts:
            groups[columns[start : start + count]] = part
            start += count
        return groups, None, False

    def checked_target(self, y: Any, *, rows: int) -> FloatArray:
        """Return true targets as numbers: -1 and +1 for the labels of a margin release.

        Raises
        ------
        TypeError, ValueError
            They are no numbers, or not of the declared labels.
        """
        target = _arrays.target_array(_arrays.truth_as_labels(y, self.values), rows=rows)
        if self.values is None:
            return target
        _arrays.check_labels(target, self.values, "labels", remedy="declare target_values={} on the release")
        return np.where(target == self.values[1], 1.0, -1.0)

    def clipped_target(self, target: FloatArray) -> tuple[FloatArray, BooleanArray]:
        """Return targets within the declared bounds, and which lay outside; labels are as they are."""
        if self.bounds is None:
            return target, np.zeros(len(target), dtype=bool)
        return Numbers(self.bounds).clip(target)

    def vectors(self, features: FloatArray, target: FloatArray) -> FloatArray:
        """Return the vectors of true records, features and target within their bounds, shape (n, p) or (n, p + 1)."""
        rows = features * target[:, None] if self.kind == "margin" else features
        return np.column_stack([rows, self.scale * target]) if self.has_column else rows

    def margins(self, features: FloatArray, signs: FloatArray) -> FloatArray:
        """Return y x and, where there is a column, y: what the released columns stand for, shape (n, p) or (n, p + 1).

        Parameters
        ----------
        features : array of shape (n, p), float64
            Features of true records.
        signs : array of shape (n,), float64
            Their labels as -1 and +1.
        """
        rows = features * signs[:, None]
        return np.column_stack([rows, signs]) if self.has_column else rows

    def split(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the columns of released vectors that stand for features, and the last one over c or None."""
        if not self.has_column:
            return vectors, None
        return np.ascontiguousarray(vectors[:, :-1]), vectors[:, -1] / self.scale

    def columns(self, matrix: FloatArray, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return checked columns of released records and their targets; see `symdebias.Release.columns_of`."""
        if not self.has_column:
            if y is not None:
                raise ValueError(
                    "a margin release without an intercept has no column of the target: the label is within X. Pass "
                    "y=None, which is noised.y."
                )
            return matrix, np.ones(len(matrix))
        if y is None:
            raise ValueError("this release has a column of the target, and y was not given. Pass noised.y.")
        target = _arrays.target_array(y, rows=len(matrix))
        if self.kind == "joint":
            return matrix, target
        assert self.values is not None
        if np.isin(target, self.values).all():
            raise ValueError(
                "y has labels as they are, and the column of the target of a margin release is noised: no released "
                "number is a label. Pass noised.y."
            )
        return np.column_stack([matrix, target]), np.ones(len(matrix))

    # ---- words -------------------------------------------------------------------------------------------

    @property
    def statement(self) -> str:
        """What is released, what that hides, and what it answers."""
        c = "" if self.scale == 1.0 else f"{self.scale:g} "
        if self.kind == "joint":
            return f"one vector (x, {c}y) is released, which answers losses of the residual y - u alone"
        if self.has_column:
            return f"one vector (y x, {c}y) is released, which hides x apart from y and answers margin losses alone"
        return "y x is released, which hides y and the mean of x and answers margin losses without intercept alone"

    def as_json(self, radius: float | None) -> dict[str, Any]:
        """Return the entry of a card; `radius` is that of the features."""
        card: dict[str, Any] = {"kind": self.kind, "scale": self.scale, "radius": radius, "statement": self.statement}
        return card | ({"values": self.values} if self.bounds is None else {"bounds": self.bounds})

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that are not as they are by default, for what is shown."""
        usual = {"target": self.kind, "target_scale": 1.0, "target_values": _SIGNS}
        return {name: value for name, value in self.arguments.items() if value is not None and value != usual.get(name)}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a release that declare this."""
        return {
            "target": self.kind,
            "target_scale": self.scale if self.has_column else None,
            "target_values": self.values,
            "target_bounds": self.bounds,
        }


def _two_labels(values: Any) -> tuple[float, float]:
    low, high = LabelSet.declare("target_values", values, count=2).values
    return low, high


def of_card(card: dict[str, Any], released: Mechanism, *, intercept: Any) -> tuple[dict[str, Any], Mechanism]:
    """Return the arguments that a card's entry of the target declares, and the mechanism of the features.

    A card states the mechanism of the whole vector, whose noise is what there is to be undone.

    Raises
    ------
    TypeError, ValueError
        The entries are others.
    """
    own = "bounds" if card["kind"] == "joint" else "values"
    if set(card) != {"kind", "scale", "radius", "statement", own}:
        raise ValueError(
            f"a target of the kind {card['kind']} has the entries kind, scale, radius, statement and {own}"
        )
    has_column = card["kind"] == "joint" or bool(intercept)
    if not has_column and card["scale"] != 1.0:
        raise ValueError("it has a scale of the target, and no column of it")
    features = released if card["radius"] is None else released.with_radius(card["radius"])
    arguments = {"target": card["kind"], "target_scale": card["scale"] if has_column else None}
    return arguments | {f"target_{own}": card[own]}, features
