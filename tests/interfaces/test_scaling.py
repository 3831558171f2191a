"""The scaler of declared bounds: what it does to columns, and that the estimator after it knows the noise."""

import numpy as np
import pandas as pd
import pytest

import symdebias as sd

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(20, 60, 5000),
        "rooms": RNG.integers(0, 8, 5000).astype(float),
        "a": RNG.uniform(-1, 1, 5000),
        "b": RNG.uniform(-1, 1, 5000),
        "sex": RNG.choice(["f", "m"], 5000),
        "year": RNG.integers(1, 4, 5000).astype(float),
    }
)
Y = 0.1 * TABLE["age"] - TABLE["rooms"] + TABLE["a"] + 2 * (TABLE["sex"] == "m") + 0.3 * TABLE["year"]
RELEASE = sd.Release(
    {
        "age": sd.LaplaceMechanism(6.0, bounds=(-2, 2)),
        "rooms": sd.DiscreteLaplaceMechanism(6.0, bounds=(0, 7)),
        ("a", "b"): sd.GaussianMechanism(epsilon=6.0, delta=1e-5, radius=1.5),
        "sex": sd.RandomizedResponse(3.0, ("f", "m")),
    },
    noiseless=("year",), fit_intercept=True, center={"age": 40.0}, scale={"age": 10.0, "a": 2.0},
)  # fmt: skip


@pytest.fixture(scope="module")
def noised():
    return RELEASE.privatize(TABLE, Y, random_state=1)


def test_bounds_go_to_the_unit_interval_and_the_release_with_them(noised):
    scaler = sd.ReleaseScaler(RELEASE)
    scaled = scaler.scaled_release
    by_name = {name: mechanism for names, mechanism in scaled.groups for name in names}
    assert by_name["age"].bounds == (-1.0, 1.0)
    # 0 to 7 has eight points and no middle one: ends stay on the grid of steps of 1/3.5.
    np.testing.assert_allclose(by_name["rooms"].bounds, (-4 / 3.5, 3 / 3.5))
    assert by_name["rooms"].step == pytest.approx(1 / 3.5)
    assert (by_name["a"].radius, by_name["sex"]) == (1.0, RELEASE.groups[3][1])
    assert scaled.guarantee.epsilon == pytest.approx(RELEASE.guarantee.epsilon)
    variances = RELEASE.feature_variances(6)
    moved = scaler.fit(noised.X)
    np.testing.assert_allclose(scaled.feature_variances(6), variances / moved.scale_**2, rtol=1e-12)
    np.testing.assert_allclose(moved.center_, [0, 4, 0, 0, 0, 0])
    np.testing.assert_allclose(moved.scale_, [2, 3.5, 1.5, 1.5, 1, 1])
    found = moved.transform(noised.X)
    assert list(found.columns) == list(noised.X.columns)
    np.testing.assert_allclose(found["rooms"], (noised.X["rooms"] - 4) / 3.5)
    assert found["sex"].equals(noised.X["sex"])
    back = moved.inverse_transform(found)
    pd.testing.assert_frame_equal(back, noised.X)
    assert moved.get_feature_names_out().tolist() == list(noised.X.columns)


def test_a_pipeline_knows_the_noise_and_predicts_in_the_users_units():
    """Least squares in other units is the same fit: predictions agree to rounding."""
    release = sd.Release(
        {"age": sd.LaplaceMechanism(6.0, bounds=(-1, 3)), "rooms": sd.LaplaceMechanism(6.0, bounds=(0, 7))},
        fit_intercept=True, center={"age": 40.0}, scale={"age": 10.0},
    )  # fmt: skip
    table = TABLE[["age", "rooms"]].assign(age=TABLE["age"].clip(lower=30))
    y = 0.1 * table["age"] - table["rooms"]
    noised = release.privatize(table, y, random_state=1)
    scaler = sd.ReleaseScaler(release)
    model = make_pipeline(scaler, sd.DebiasedRegressor(release=scaler.scaled_release, l2=0.0))
    plain = sd.DebiasedRegressor(release=release, l2=0.0).fit(noised.X, noised.y)
    model.fit(noised.X, noised.y)
    np.testing.assert_allclose(model.predict(table), plain.predict(table), rtol=1e-6)
    # The noise known to the fit is that of the columns in their new units.
    known = model[-1].fit_.corrected.release.feature_variances(2)
    np.testing.assert_allclose(known, release.feature_variances(2) / scaler.fit(noised.X).scale_ ** 2, rtol=1e-12)
    scorer = sd.CorrectedScorer("squared_error")
    assert scorer(model, noised.X, noised.y) == pytest.approx(scorer(plain, noised.X, noised.y), rel=1e-6)
    assert clone(model)[0].scaled_release == scaler.scaled_release
    search = GridSearchCV(model, {"debiasedregressor__l2": [0.0, 100.0]}, scoring=scorer, cv=2)
    search.fit(noised.X, noised.y)
    assert search.best_params_ == {"debiasedregressor__l2": 0.0}
    assert scorer(search, noised.X, noised.y) == scorer(search.best_estimator_, noised.X, noised.y)


def test_without_an_intercept_nothing_is_moved():
    release = sd.Release({"a": sd.LaplaceMechanism(1.0, bounds=(2, 4)), "b": sd.GaussianMechanism.from_scale(0.5)})
    scaler = sd.ReleaseScaler(release).fit(np.ones((3, 2)))
    np.testing.assert_array_equal(scaler.center_, [0, 0])
    np.testing.assert_array_equal(scaler.transform([[2.0, 3.0]]), [[0.5, 3.0]])
    assert scaler.scaled_release.groups[0][1].bounds == (0.5, 1.0)


ONE = sd.GaussianMechanism.from_scale(1.0)


@pytest.mark.parametrize(
    ("release", "kind", "message"),
    [
        (sd.Release({"a": ONE}, target="margin"), ValueError, "has its columns in one vector"),
        (sd.Release({("a", "p"): ONE}, categories={"p": ("n", "s", "e")}), ValueError, "categories in its vector"),
    ],
)
def test_what_has_no_scale_is_refused(release, kind, message):
    with pytest.raises(kind, match=message):
        sd.ReleaseScaler(release).fit(np.ones((3, 2)))


def test_other_columns_are_refused():
    scaler = sd.ReleaseScaler(RELEASE)
    with pytest.raises(ValueError, match="Select and name the columns as declared"):
        scaler.fit(TABLE[["age", "rooms"]])
    with pytest.raises(ValueError, match="X has 2 columns, but the release has 6"):
        scaler.transform(np.ones((3, 2)))


def test_a_scaler_that_learns_from_noised_columns_is_refused_in_a_pipeline():
    release = sd.Release({("a", "b"): sd.GaussianMechanism(epsilon=8.0, delta=1e-5, radius=1.5)})
    noised = release.privatize(TABLE[["a", "b"]].to_numpy(), random_state=0)
    for scaler in (StandardScaler(), MinMaxScaler()):
        with pytest.raises(ValueError, match="a scaler was fitted to the released records"):
            make_pipeline(scaler, sd.DebiasedRegressor(release=release)).fit(noised.X, Y)
