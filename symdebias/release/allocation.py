r"""From a schema to a release: which mechanism noises which columns, and how the budget is split.

Everything follows from the schema by fixed rules, and nothing from the data.

**Units.** A number with bounds [l, h] is released as :math:`(x - m)/s`, m = (l + h)/2 and s = (h - l)/2, which lies in
[-1, 1]: s is the least float64 with which both ends do so as they are computed, and rounding is monotone.

**Vectors.** k numbers in [-1, 1] lie in the ball of radius :math:`\sqrt k`, or are clipped to that of a smaller
``norm``. The indicators of a column of K categories, in one vector with numbers, add at most

    1/4 (two categories, centred at 1/2),   1 - 1/(K - 1) (K, centred at 1/(K - 1)),   1 (without an intercept)

to the squared norm. The radius is the root of the sum, rounded up: no record within the bounds is shortened. That it
bounds the norm is not what privacy rests on: mechanisms clip to their radius.

**Mechanisms.** In one vector (``margin``, ``joint``): the spherical cap where delta is 0, normal noise otherwise, with
the whole budget. Residuals of models with an intercept have a score of one coordinate more than the vector, and beyond
squares a cap is not undone for it: spherical Laplace noise takes its place for such losses. The weight c of the target
makes the sum of the noise variances least: with a radius R for k coordinates and :math:`|y| \le B` the noise of each is
proportional to :math:`R^2 + c^2 B^2`, that of y to :math:`(R^2 + c^2 B^2)/c^2`, and :math:`(R^2 + c^2B^2)(k + 1/c^2)`
is least at :math:`c^2 = R/(B \sqrt k)`.

Apart: one vector of all numbers, randomized response for each column of categories, randomized response or Laplace
noise for the target, and for each column that may be one. The vector has normal noise where delta is positive;
otherwise Laplace noise where it is one number and spherical Laplace noise where it is more; for the softmax loss, which
has several scores, Laplace noise on each number, scaled to the L1 norm of the vector. Each column has the same part of
epsilon, a vector of k numbers k of them. Parts are rounded down, so that their sum as fractions is at most the budget.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from symdebias import _loss_names
from symdebias.exceptions import PrivacyError
from symdebias.mechanisms import (
    ChannelMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    RandomizedResponse,
    SphericalCapMechanism,
    SphericalLaplaceMechanism,
)
from symdebias.mechanisms.cap_law import CAP_EPSILON
from symdebias.privacy import Guarantee
from symdebias.privacy.composition import split_budget
from symdebias.release.schema import Column, Schema

if TYPE_CHECKING:
    from symdebias.release.release import Release


def arguments_of(schema: Schema) -> dict[str, Any]:
    """Return the arguments of the `symdebias.Release` that a schema declares."""
    arguments: dict[str, Any] = {"fit_intercept": schema.intercept}
    numbers = [column for column in schema.columns if column.bounds is not None and not column.outcome]
    center, scale = {}, {}
    for column in numbers:
        assert column.bounds is not None
        center[column.name], scale[column.name] = centre_and_scale(*column.bounds)
    if schema.design == "apart":
        arguments |= _apart(schema)
        public = {column.name: column.labels.values for column in schema.columns if column.public and column.labels}
        if public:
            arguments["categories"] = public
    else:
        arguments |= _together(schema, center)
    if center:
        arguments |= {"center": center, "scale": scale}
    return arguments


def centre_and_scale(low: float, high: float) -> tuple[float, float]:
    """Return m and s with (x - m)/s in [-1, 1] for all x in [low, high], as float64 computes it."""
    centre = low / 2 + high / 2
    scale = max(high - centre, centre - low)
    while (high - centre) / scale > 1 or (low - centre) / scale < -1:
        scale = math.nextafter(scale, math.inf)
    return centre, scale


def largest_square(categories: int, *, intercept: bool) -> float:
    """Return the largest squared norm of the indicators of so many categories, centred where there is an intercept."""
    if categories == 2:
        return 0.25 if intercept else 1.0
    return 1 - 1 / (categories - 1) if intercept else 1.0


def require_within(spent: Guarantee | None, schema: Schema) -> None:
    """Raise PrivacyError where a guarantee is not within the budget: the last look at what the rules made."""
    if spent is None or not (spent.epsilon <= schema.epsilon and spent.delta <= schema.delta):
        raise PrivacyError(
            f"the release that the schema makes has the guarantee {spent}, and the budget is epsilon "
            f"{schema.epsilon:g}, delta {schema.delta:g}. Declare a Release by hand, and report this schema."
        )


def _apart(schema: Schema) -> dict[str, Any]:
    private = [column for column in schema.columns if not column.public]
    numbers = tuple(column.name for column in private if column.bounds is not None and not column.outcome)
    # Outcomes that are numbers are released like a target, in their own units.
    categories = [column for column in private if column.labels is not None or column.outcome]
    target = schema.target if schema.target is not None and not schema.target.public else None
    weights = ([len(numbers)] if numbers else []) + [1] * (len(categories) + (target is not None))
    # A vector of numbers is the only part that takes a delta.
    if schema.delta and not numbers:
        raise ValueError(
            f"delta={schema.delta:g} is of no use: no private column has bounds, and categories take none. Leave "
            "delta out."
        )
    parts = list(split_budget(schema.epsilon, weights))
    features: dict[Any, Mechanism] = {}
    if numbers:
        features[numbers] = _vector(len(numbers), parts.pop(0), schema)
    for column in categories:
        part = parts.pop(0)
        if column.labels is None:
            features[column.name] = LaplaceMechanism(epsilon=part, bounds=column.bounds)
        else:
            features[column.name] = RandomizedResponse(part, column.labels.values)
    return {
        "features": features or None,
        "target": None if target is None else _of_target(target, parts.pop(0)),
        "noiseless": tuple(column.name for column in schema.columns if column.public),
    }


def _vector(count: int, epsilon: float, schema: Schema) -> Mechanism:
    radius = _root_rounded_up(_square_of_numbers(count, schema))
    if schema.delta:
        return GaussianMechanism(epsilon=epsilon, delta=schema.delta, radius=radius)
    if count == 1:
        return LaplaceMechanism(epsilon=epsilon, bounds=(-radius, radius))
    if schema.loss == "softmax":
        # The L1 norm is at most the root of the count times the L2 norm.
        return LaplaceMechanism(epsilon=epsilon, radius=_root_rounded_up(count * _square_of_numbers(count, schema)))
    return SphericalLaplaceMechanism(epsilon=epsilon, radius=radius)


def _square_of_numbers(count: int, schema: Schema) -> Fraction:
    """Return a bound on the squared norm of so many numbers in [-1, 1]: their number, or that of the schema."""
    return Fraction(count) if schema.norm is None else min(Fraction(count), Fraction(schema.norm) ** 2)


def _of_target(target: Column, epsilon: float) -> Mechanism:
    if target.labels is None:
        return LaplaceMechanism(epsilon=epsilon, bounds=target.bounds)
    if len(target.labels.values) == 2:
        return RandomizedResponse(epsilon)
    return RandomizedResponse(epsilon, target.labels.values)


def _together(schema: Schema, center: dict[str, float]) -> dict[str, Any]:
    """Return features and target in one vector; centres of indicators are added to those of numbers."""
    target = schema.target
    assert target is not None
    count_of_numbers = sum(column.labels is None for column in schema.columns)
    square, coordinates = _square_of_numbers(count_of_numbers, schema), count_of_numbers
    categories = {}
    for column in schema.columns:
        if column.labels is None:
            continue
        count = len(column.labels.values)
        categories[column.name] = column.labels.values
        # The rounding of a centre moves a norm by less than 1e-15, which the radius has room for.
        square += Fraction(largest_square(count, intercept=schema.intercept)) * (1 + Fraction(1, 2**48))
        coordinates += count - 1 if schema.intercept or count == 2 else count
        if schema.intercept:
            center[column.name] = 0.5 if count == 2 else 1 / (count - 1)
    radius = _root_rounded_up(square)
    mechanism: Mechanism
    if schema.delta:
        mechanism = GaussianMechanism(epsilon=schema.epsilon, delta=schema.delta, radius=radius)
    elif schema.design == "joint" and schema.intercept and schema.loss not in (None, "least_squares"):
        mechanism = SphericalLaplaceMechanism(epsilon=schema.epsilon, radius=radius)
    else:
        if schema.epsilon > CAP_EPSILON.high:
            raise ValueError(
                f"epsilon={schema.epsilon:g} is more than the {CAP_EPSILON.high:g} of one vector of columns and "
                f'target, which design = "{schema.design}" releases and a loss asks for by itself. Give a smaller '
                'budget, a delta for normal noise, or design = "apart".'
            )
        mechanism = SphericalCapMechanism(epsilon=schema.epsilon, radius=radius)
    arguments: dict[str, Any] = {
        "features": {tuple(column.name for column in schema.columns): mechanism},
        "target": schema.design,
    }
    bound = 1.0 if target.bounds is None else max(map(abs, target.bounds))
    if schema.design == "joint" or schema.intercept:
        arguments["target_scale"] = float(f"{math.sqrt(radius / (bound * math.sqrt(coordinates))):.3g}")
    if schema.design == "joint":
        arguments["target_bounds"] = target.bounds
    if categories:
        arguments["categories"] = categories
    return arguments


def _root_rounded_up(square: Fraction) -> float:
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def has_better_design(release: "Release", loss: str | None) -> bool:
    """Whether a schema that names a loss would release the target in one vector with the columns, and this one did not.

    It does so for two labels under a loss of the margin, and for a number under one of the residual, where all is
    noised.

    Parameters
    ----------
    release : Release
        How records were noised.
    loss : str or None
        The name of the loss.
    """
    if release.coupling is not None or release.noiseless or release.target is None:
        return False
    if isinstance(release.target, ChannelMechanism):
        return loss in _loss_names.MARGIN and len(release.target.range.numbers) == 2
    return loss in _loss_names.RESIDUAL
