"""Coordinates of a noised vector as columns and a target: known noise, which nothing draws and no card describes."""

import copy
import pickle

import numpy as np
import pytest

import symdebias as sd
from symdebias.exceptions import NoExactCorrectionError
from symdebias.mechanisms.coordinates import Coordinates
from symdebias.release.groups import undoable

VECTOR = sd.SphericalLaplaceMechanism.from_scale(0.5)
WITH_TARGET = Coordinates(VECTOR, (1.0, 1.0), 1.5, target_divisor=0.25, target_bound=3.0)
RELEASE = sd.Release(
    {("a", "b"): sd.SphericalLaplaceMechanism(4.0, radius=1.5)},
    target="joint",
    target_bounds=(-3, 2),
    target_scale=0.25,
)


def test_the_noise_is_that_of_all_coordinates():
    weighed = Coordinates(VECTOR, (1.0, 1.0, 0.5), 2.0)
    assert weighed.noise == VECTOR.noise_on(3) == WITH_TARGET.noise
    assert (weighed.width, weighed.bound, weighed.guarantee) == (3, 2.0, None)
    assert (WITH_TARGET.width, WITH_TARGET.target.bound) == (2, 3.0)
    assert weighed.target is None
    # 4 b^2 over the square of the divisor.
    assert WITH_TARGET.target.noise.variance == pytest.approx(1.0 / 0.0625, rel=1e-15)


def test_columns_of_a_release_have_these():
    columns = RELEASE.in_columns(2)
    ((names, features),) = columns.groups
    assert names == ("a", "b")
    assert columns.target == features.target
    assert (features.bound, columns.target_radius) == (1.5, 3.0)
    b = 2 * np.sqrt(1.5**2 + (0.25 * 3) ** 2) / 4
    np.testing.assert_allclose(columns.feature_variances(2), 4 * b**2, rtol=1e-12)
    assert columns.target_noise.variance == pytest.approx(4 * b**2 * 16, rel=1e-12)
    (group,) = columns.design(2).spherical
    np.testing.assert_allclose(group.weights, 4 * b**2, rtol=1e-12)
    assert group.constant == pytest.approx(4 * b**2 * 16, rel=1e-12)
    np.testing.assert_allclose(group.factors, [1, 1, 4], rtol=1e-14)
    assert pickle.loads(pickle.dumps(columns)) == copy.deepcopy(columns) == columns
    assert hash(RELEASE.in_columns(2)) == hash(columns)


def test_the_column_of_an_intercept_is_divided():
    margin = sd.Release(
        {("a", "b"): sd.SphericalLaplaceMechanism(4.0, radius=1.5)}, target="margin", fit_intercept=True,
        target_scale=0.25,
    )  # fmt: skip
    columns, b = margin.in_columns(2), 2 * np.hypot(1.5, 0.25) / 4
    assert columns.target is None
    # Of the vector (y x, y) within sqrt(R^2 + 1), with the noise of (y x, c y).
    assert columns.groups[0][1].bound == pytest.approx(np.hypot(1.5, 1), rel=1e-15)
    np.testing.assert_allclose(columns.feature_variances(3), 4 * b**2 * np.array([1, 1, 16]), rtol=1e-12)


def test_the_target_is_released_with_its_features():
    columns = RELEASE.in_columns(2)
    ((names, features),) = columns.groups
    for given, target in (
        ({names: features}, None),
        ({names: features}, sd.LaplaceMechanism.from_scale(1.0)),
        ({names: VECTOR}, features.target),
        ({names: features}, WITH_TARGET.target),
        (None, features.target),
    ):
        with pytest.raises(ValueError, match="released with these"):
            sd.Release(given, target, noiseless=() if given else ("a", "b"))


def test_nothing_is_drawn_and_no_card_is_written():
    columns = RELEASE.in_columns(2)
    with pytest.raises(ValueError, match="noised as a whole"):
        columns.privatize(np.zeros((1, 2)), [0.0])
    with pytest.raises(ValueError, match="noised as a whole"):
        WITH_TARGET.privatize(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="has a card"):
        columns.to_json()
    with pytest.raises(NoExactCorrectionError, match="in residuals alone"):
        undoable(WITH_TARGET.target.noise)
