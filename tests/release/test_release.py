import math
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import RELEASES
from sampling_statistics import coin_faults, normal_faults

from symdebias.exceptions import ClippingWarning
from symdebias.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
    SphericalCapMechanism,
    sampling,
)
from symdebias.privacy import Guarantee, compose
from symdebias.release import Noised, Release

UNIT = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0)
WIDE = GaussianMechanism(epsilon=0.5, delta=1e-6, radius=3.0)
KNOWN = GaussianMechanism.from_scale(0.5)
COIN = RandomizedResponse(epsilon=1.0)


def bounded(rows, columns, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (rows, columns))
    return X / np.sqrt(columns)


def labels_of(rows, seed=1):
    return np.where(np.random.default_rng(seed).random(rows) < 0.4, -1.0, 1.0)


# ---- values ----------------------------------------------------------------------------------------------


budgets = st.floats(1e-3, 20.0)
gaussians = st.one_of(
    st.builds(GaussianMechanism, budgets, st.floats(1e-12, 0.5), st.floats(1e-3, 1e3)),
    st.builds(GaussianMechanism.from_scale, st.floats(1e-3, 1e3)),
)
# Of characters that are seen; others are refused.
seen = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])
names = st.lists(st.text(seen, min_size=1, max_size=5).filter(str.strip), min_size=4, max_size=4, unique=True)


@given(names, gaussians, gaussians, st.one_of(st.none(), gaussians, st.builds(RandomizedResponse, budgets)),
       st.booleans(), st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4))  # fmt: skip
def test_cards_of_any_release_make_an_equal_one(names, first, second, target, fit_intercept, center):
    a, b, c, d = names
    release = Release({(a, b): first, c: second}, target, noiseless=[d], fit_intercept=fit_intercept, center=center)
    assert Release.from_json(release.to_json()) == release


# ---- columns ---------------------------------------------------------------------------------------------


def test_columns_stand_in_the_order_of_declaration_with_noiseless_last():
    release = Release({"b": UNIT, ("d", "a"): WIDE}, noiseless=("c",))
    assert release.columns == ("b", "d", "a", "c")
    expected = [UNIT.scale**2, WIDE.scale**2, WIDE.scale**2, 0.0]
    np.testing.assert_array_equal(release.feature_variances(4), expected)
    assert release.record_radius(4) == pytest.approx(math.sqrt(1 + 9 + 1))
    assert [noise.variance for _, noise in release.noises(4)] == [UNIT.scale**2, WIDE.scale**2]


def test_binding_gives_names_once():
    release = Release(UNIT, noiseless=("year",))
    assert release.columns is None
    bound = release.bind(["age", "year", "hours"])
    assert bound.columns == ("age", "hours", "year")
    assert bound == Release({("age", "hours"): UNIT}, noiseless=("year",))
    assert bound.bind(("year", "age", "hours")) is bound
    assert Release(target=COIN).bind(["a"]) == Release(target=COIN, noiseless=("a",))


@pytest.mark.parametrize(("release", "columns", "message"), [
    (RELEASES["bound"], ["x0", "x2"], "has the columns x0, x1; got x0, x2"),
    (Release(UNIT), ["a", "a"], "repeat a name"),
    (Release(UNIT, noiseless=("year",)), ["a", "b"], "noiseless columns year are not among"),
    (Release(UNIT, noiseless=("year",)), ["year"], "every column is noiseless"),
    (Release(UNIT, center={"c": 1.0}), ["a"], "center names c, which is no column"),
    (Release(UNIT, scale=[1.0, 2.0]), ["a"], "scale has 2 entries, but the release has 1 columns: a"),
    (Release(UNIT), "ab", "must be a sequence of column names"),
    (Release(UNIT), [""], "which is not a column name"),
    (Release(UNIT), [1], "which is not a column name"),
])  # fmt: skip
def test_names_that_do_not_fit_are_refused(release, columns, message):
    with pytest.raises((TypeError, ValueError), match=message):
        release.bind(columns)


def test_a_release_without_names_takes_any_number_of_columns():
    release = Release(KNOWN)
    np.testing.assert_array_equal(release.feature_variances(3), [0.25] * 3)
    assert release.record_radius(3) == 1.0
    assert Release(WIDE).record_radius(3) == 3.0
    assert Release().record_radius(4) == 2.0
    np.testing.assert_array_equal(Release().feature_variances(2), [0.0, 0.0])
    with pytest.raises(ValueError, match="X has 1 columns, but the release has at least 2"):
        Release(UNIT, noiseless=("year",)).feature_variances(1)
    with pytest.raises(ValueError, match="X has 3 columns, but the release has 2"):
        RELEASES["bound"].record_radius(3)


def test_the_noise_of_the_target():
    assert Release(UNIT).target_noise is None
    assert Release(UNIT, COIN).target_noise == COIN.noise
    assert Release(UNIT, WIDE).target_noise == WIDE.noise
    assert [Release(UNIT, target).target_radius for target in (None, COIN, WIDE, KNOWN)] == [None, None, 3.0, None]


# ---- guarantee -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "guarantee"), [
    ("one mechanism", Guarantee(1.0, 1e-5, unprotected=("target",))),
    ("with a coin", compose([UNIT.guarantee, COIN.guarantee])),
    ("known noise", None),
    ("features as they are", Guarantee(1.0, 0.0, unprotected=("features",))),
    ("nothing noised", None),
    ("names without noise", Guarantee(1.0, 0.0, unprotected=("a", "b"))),
    ("one mechanism but a year", replace(compose([UNIT.guarantee, COIN.guarantee]), unprotected=("year",))),
    ("groups", replace(compose([UNIT.guarantee, WIDE.guarantee, COIN.guarantee]), unprotected=("year",))),
    ("measurement error within a ball", None),
])  # fmt: skip
def test_the_guarantee_composes_and_names_what_it_leaves_out(name, guarantee):
    found = RELEASES[name].guarantee
    if guarantee is None:
        assert found is None
    else:
        assert guarantee.implies(found)
        assert found.epsilon == pytest.approx(guarantee.epsilon, rel=1e-15)
        assert found.delta == pytest.approx(guarantee.delta, rel=1e-15)
        assert found.unprotected == guarantee.unprotected


def test_the_guarantee_of_records_names_a_target_that_was_released_and_no_other():
    release = Release({"age": LaplaceMechanism(1.0, bounds=(0, 1))}, noiseless=("target",))
    ages = [[0.2, 3.0], [0.7, 5.0]]
    assert release.privatize(ages).guarantee.unprotected == ("target",)
    assert release.privatize(ages, [1.0, 2.0]).guarantee.unprotected == ("target", "target")
    alone = Release({"age": LaplaceMechanism(1.0, bounds=(0, 1))})
    assert alone.privatize([[0.2], [0.7]]).guarantee.unprotected == ()
    hidden = Release(SphericalCapMechanism(1.0, radius=1.0), target="margin")
    assert hidden.privatize([[0.2], [0.7]], [1, -1]).guarantee.unprotected == ()


def test_part_without_a_claim_leaves_none():
    assert Release({"a": UNIT, "b": KNOWN}).guarantee is None
    assert Release(UNIT, KNOWN).guarantee is None


# ---- privatize -------------------------------------------------------------------------------------------


def test_the_noise_is_that_of_the_card():
    rows = 50_000
    release = Release({("a", "b"): UNIT, "c": GaussianMechanism.from_scale(0.3)}, COIN, noiseless=("d",))
    X, y = bounded(rows, 4), labels_of(rows)
    noised = release.privatize(X, y, random_state=5)
    again = Release.from_json(noised.release.to_json())
    noise = (noised.X - X)[:, :3] / np.sqrt(again.feature_variances(4)[:3])
    assert normal_faults(noise, 1.0) == []
    np.testing.assert_array_equal(noised.X[:, 3], X[:, 3])
    assert coin_faults(noised.y == y, y, again.target_noise.matrix[0][0]) == []


def test_the_release_of_the_result_has_names():
    noised = Release(UNIT, COIN).privatize(bounded(4, 3), labels_of(4), random_state=0)
    assert isinstance(noised, Noised)
    assert noised.release.columns == ("x0", "x1", "x2")
    np.testing.assert_array_equal(noised.release.design_matrix(noised.X), noised.X)


def test_groups_do_not_share_noise():
    release = Release({"a": KNOWN, "b": KNOWN}, KNOWN)
    noised = release.privatize(np.zeros((4, 2)), np.zeros(4), random_state=0)
    assert len({*noised.X.ravel(), *noised.y}) == 12


def test_columns_are_centred_and_scaled_before_they_are_clipped():
    tiny = GaussianMechanism.from_scale(1e-12, radius=1.0)
    release = Release({"age": tiny, "pay": tiny}, center={"age": 40.0}, scale=[20.0, 1e4])
    X = np.array([[50.0, 2e3], [80.0, -5e3], [10.0, 3e4]])
    with pytest.warns(ClippingWarning):
        noised = release.privatize(X, random_state=0)
    np.testing.assert_allclose(noised.X, [[0.5, 0.2], [1.0, -0.5], [-1.0, 1.0]], atol=1e-10)


def test_records_outside_are_counted_once_each():
    release = Release({"a": UNIT, "b": UNIT}, GaussianMechanism(epsilon=1.0, delta=1e-5, radius=2.0))
    X, y = np.array([[2.0, 2.0], [0.5, 0.5], [0.0, 9.0], [0.5, 0.5]]), [9.0, 0.0, 9.0, 9.0]
    with pytest.warns(ClippingWarning, match="3 of 4 records lay outside") as caught:
        noised = release.privatize(X, y, random_state=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert noised.release == release


def test_nothing_is_drawn_before_every_check_has_passed():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    release, X = Release(UNIT, COIN), bounded(3, 2)
    for arguments in ((X, [0, 1, 1]), (X, [1, -1]), ([[0.1, math.nan]], [1]), (9 * X, [1, -1, 5]), (X, None)):
        with pytest.raises(ValueError, match=r"."), warnings.catch_warnings(action="ignore"):
            release.privatize(*arguments, random_state=rng)
    with pytest.raises(ValueError, match="outside the declared bounds"):
        release.privatize(9 * X, [1, -1, 1], random_state=rng, outside="refuse")
    with pytest.raises(ClippingWarning):
        release.privatize(9 * X, [1, -1, 1], random_state=rng)
    assert rng.bit_generator.state == before


def test_a_target_that_is_not_noised_passes_through():
    y = [3.0, 4.0, 5.0]
    noised = Release(UNIT).privatize(bounded(3, 2), y)
    np.testing.assert_array_equal(noised.y, y)
    assert Release(UNIT).privatize(bounded(3, 2)).y is None


def test_columns_that_overflow_when_scaled_are_refused():
    release = Release(UNIT, scale=[1.0, 1e-50])
    with pytest.raises(ValueError, match="overflows when it is centred and scaled, in row 1, column 1"):
        release.privatize([[0.1, 0.1], [0.1, 1e300]])


def test_the_number_of_columns_is_that_of_the_release():
    with pytest.raises(ValueError, match="X has 3 columns, but the release has 2: x0, x1"):
        RELEASES["bound"].privatize(bounded(2, 3), labels_of(2))
    with pytest.raises(ValueError, match="X has 1 columns, but the release has at least 2"):
        RELEASES["one mechanism but a year"].design_matrix(bounded(2, 1))
    with pytest.raises(ValueError, match="center has 2 entries, but the release has 3 columns"):
        Release(UNIT, center=[0.0, 1.0]).privatize(bounded(2, 3))


# ---- tables ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pandas():
    return pytest.importorskip("pandas")


def test_row_labels_are_released_on_request_only(pandas):
    """They may be anything: incomes, say."""
    table = pandas.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]}, index=[31_000, 99_000])
    y = pandas.Series([1, -1], index=table.index, name="sick")
    release = Release({("a", "b"): GaussianMechanism(1.0, 1e-5, 1.0)}, COIN)
    noised = release.privatize(table, y)
    assert list(noised.X.index) == list(noised.y.index) == [0, 1]
    assert noised.guarantee.unprotected == ()
    kept = release.privatize(table, y, keep_index=True)
    assert list(kept.X.index) == list(kept.y.index) == [31_000, 99_000]
    assert kept.guarantee.unprotected == ("row labels",)
    with pytest.raises(TypeError, match="keep_index must be True or False; got 'yes'"):
        release.privatize(table, y, keep_index="yes")


def test_a_guarantee_says_that_plain_noise_tells_more(pandas):
    release = Release(GaussianMechanism(1.0, 1e-5, 1.0))
    hardened, plain = release.privatize([[0.1, 0.2]]), release.privatize([[0.1, 0.2]], noise="plain")
    assert (hardened.hardened, plain.hardened) == (True, False)
    assert "low bits" in str(plain.guarantee)
    assert "low bits" not in str(hardened.guarantee)


def test_a_table_gives_its_names_to_the_release(pandas):
    table = pandas.DataFrame({"year": [0, 1], "hours": [0.1, 0.2]})
    noised = Release(UNIT, noiseless=("year",), scale={"hours": 2.0}).privatize(table)
    assert noised.release.columns == ("hours", "year")
    assert list(noised.X.columns) == ["hours", "year"]
    np.testing.assert_array_equal(
        Release(UNIT, noiseless=("year",)).design_matrix(table), table[["hours", "year"]].to_numpy()
    )


def test_a_release_with_numbered_columns_writes_its_own_zeros():
    """Releases that are equal may have 0.0 and -0.0 on their cards."""
    for zero in (0.0, -0.0, 0.0):
        release = Release(GaussianMechanism.from_covariance([[1.0, zero], [zero, 1.0]]))
        noised = release.privatize(np.full((4, 2), 0.1), random_state=0)
        assert ("-0.0" in noised.release.to_json()) == ("-0.0" in release.to_json()) == (math.copysign(1.0, zero) < 0)
        # Blocks of records that come one after another have one release.
        assert release.privatize(np.full((3, 2), 0.1), random_state=1).release is noised.release


@pytest.mark.parametrize("center", [None, {"a": 0.1, "c": -0.2}])
@pytest.mark.parametrize("random_state", [0, None])
def test_one_mechanism_noises_a_table_in_one_place_of_its_own(pandas, center, random_state):
    """The true table stays as it is, and what is released does not hang on it."""
    true = np.random.default_rng(0).normal(size=(30, 3))
    table, floats = pandas.DataFrame(true, columns=list("abc"), index=range(7, 37)), true.astype(np.float32)
    release = Release({("c", "a", "b"): UNIT}, center=center)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippingWarning)
        noised = release.privatize(table, random_state=random_state)
        kept = release.privatize(table, random_state=random_state, keep_index=True)
        of_array = release.privatize(true[:, [2, 0, 1]], random_state=random_state)
        of_floats = release.privatize(floats, random_state=random_state)
    assert list(noised.X.columns) == ["c", "a", "b"]
    assert (list(noised.X.index), list(kept.X.index)) == (list(range(30)), list(range(7, 37)))
    if random_state is not None:
        np.testing.assert_array_equal(noised.X.to_numpy(), of_array.X)
        np.testing.assert_array_equal(noised.X.to_numpy(), kept.X.to_numpy())
    assert not np.intersect1d(noised.X.to_numpy(), true).size
    assert not np.intersect1d(of_floats.X, floats.astype(float)).size
    np.testing.assert_array_equal(table.to_numpy(), true)
    np.testing.assert_array_equal(floats, true.astype(np.float32))
    noised.X.iloc[:, :] = 5.0
    np.testing.assert_array_equal(table.to_numpy(), true)


def test_a_row_that_is_not_finite_is_named_where_records_are_clipped_in_place(pandas):
    table = pandas.DataFrame(np.zeros((5, 2)), columns=["a", "b"])
    table.loc[3, "b"] = np.nan
    with pytest.raises(ValueError, match=r"NaN in row 3, column 1 \(b\)"):
        Release({("a", "b"): UNIT}).privatize(table)
    assert table["b"].isna().sum() == 1


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_without_noise_keep_their_types_beside_any_number_of_mechanisms(library):
    data = {"a": [0.1, 0.2, 0.3], "year": [2001, 2002, 2003], "b": [0.3, 0.2, 0.1]}
    module = pytest.importorskip(library)
    table = module.table(data) if library == "pyarrow" else module.DataFrame(data)
    for noised in ({("a", "b"): UNIT}, {"a": KNOWN, "b": KNOWN}):
        sent = Release(noised, noiseless=("year",)).privatize(table, random_state=0).X
        assert str(sent["year"].dtype if library != "pyarrow" else sent["year"].type).lower() == "int64"
        assert list(np.asarray(sent["year"])) == data["year"]
        assert np.asarray(sent["a"]).dtype == np.float64


def test_a_column_of_continuous_targets_comes_back_as_a_column(pandas):
    release = Release({"a": KNOWN}, KNOWN)
    table, y = pandas.DataFrame({"a": [0.1, 0.2]}, index=[7, 3]), pandas.Series([1.5, 2.5], index=[7, 3], name="dose")
    noised = release.privatize(table, y, random_state=0)
    assert (noised.y.name, list(noised.y.index)) == ("dose", [0, 1])
    np.testing.assert_array_equal(noised.y, release.privatize(table.to_numpy(), y.to_numpy(), random_state=0).y)


def test_tables_that_do_not_fit_are_refused(pandas):
    table = pandas.DataFrame({"x0": [0.1, 0.2], "x1": [0.1, 0.2]}, index=[4, 2])
    release = RELEASES["bound"]
    with pytest.raises(ValueError, match="different row labels"):
        release.privatize(table, pandas.Series([1, -1]))
    with pytest.raises(ValueError, match="missing: x1"):
        release.privatize(table[["x0"]], [1, -1])
    with pytest.raises(ValueError, match="not in the release: x2"):
        release.privatize(table.assign(x2=0.0), [1, -1])
    with pytest.raises(ValueError, match="more than one column named x0"):
        release.privatize(table[["x0", "x0"]], [1, -1])
    with pytest.raises(ValueError, match="one dimension; got a table"):
        release.privatize(table, table[["x0"]])


@pytest.mark.parametrize("names", [["31000", "State-gov"], ["State-gov", "0.123456"], ["31000", "31000"]])
@pytest.mark.parametrize("release", [Release(UNIT), Release(UNIT, noiseless=("year",)), RELEASES["bound"]])
def test_the_first_record_of_a_file_without_names_is_neither_shown_nor_published(pandas, release, names):
    table = pandas.DataFrame([[0.1, 0.2]] * 3, columns=names)
    with pytest.raises(ValueError, match=r"of the first record|those of the first record") as refusal:
        release.privatize(table, [1, -1, 1], random_state=0)
    assert not any(name in str(refusal.value) for name in names)


def test_columns_may_be_named_by_numbers_that_are_declared(pandas):
    for names, release in ((["0", "1"], Release(UNIT)), (["1990", "2000"], Release(UNIT).bind(["1990", "2000"]))):
        table = pandas.DataFrame([[0.1, 0.2]] * 3, columns=names)
        assert list(release.privatize(table, random_state=0).X.columns) == names


def test_a_target_without_noise_is_a_copy():
    y = np.array([1.0, -1.0, 1.0])
    noised = Release(UNIT).privatize(np.zeros((3, 2)), y, random_state=0)
    assert not np.shares_memory(noised.y, y)
    np.testing.assert_array_equal(noised.y, y)


def test_records_that_are_centred_are_clipped_where_they_stand(monkeypatch):
    """They were copied twice. The array that was given is left as it is."""
    release, X = Release(UNIT, center={"x0": 0.5}, scale={"x1": 2.0}).bind(("x0", "x1")), np.full((5, 2), 0.7)
    taken, whole = [], type(UNIT).clip_in_place
    monkeypatch.setattr(type(UNIT), "clip_in_place", lambda self, values: taken.append(values) or whole(self, values))
    release.privatize(X, random_state=0)
    assert len(taken) == 1
    np.testing.assert_array_equal(X, 0.7)


@pytest.mark.parametrize("kind", ["array", "float32", "table"])
def test_columns_are_noised_one_by_one_without_a_second_copy(request, kind):
    """All columns clipped stood beside all that were noised: twice what is returned."""
    names = tuple(f"x{place}" for place in range(10))
    release = Release({name: LaplaceMechanism(1.0, bounds=(-1.0, 1.0)) for name in names})
    X = np.random.default_rng(0).uniform(-1, 1, (40_000, 10))
    given = {"array": lambda: X, "float32": lambda: X.astype(np.float32)}
    given["table"] = lambda: request.getfixturevalue("pandas").DataFrame(X, columns=names)
    records = given[kind]()
    release.privatize(records[:10], random_state=0)
    tracemalloc.start()
    try:
        noised = release.privatize(records, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # What is returned, a column that is clipped and drawn, and a byte for each number: whether it lay outside.
    assert peak < 1.6 * X.nbytes
    source, values = sampling.source(0, None), np.asarray(records)
    alone = [one.add_noise(one.clip(values[:, n]), source) for n, (_, one) in enumerate(release.groups)]
    np.testing.assert_array_equal(np.asarray(noised.X), np.transpose(alone))


# ---- coefficients in original units ----------------------------------------------------------------------


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.lists(st.floats(-50, 50), min_size=2, max_size=2),
       st.lists(st.floats(0.1, 50), min_size=2, max_size=2))  # fmt: skip
def test_coefficients_in_original_units_give_the_same_scores(theta, center, scale):
    release = Release({("a", "b"): KNOWN}, fit_intercept=True, center=center, scale=scale)
    X = np.random.default_rng(0).uniform(-100, 100, (20, 2))
    released = (X - center) / scale
    original = release.original_units(np.array(theta))
    scores = released @ theta[:2] + theta[2]
    np.testing.assert_allclose(X @ original[:2] + original[2], scores, rtol=1e-9, atol=1e-9)


def test_coefficients_without_public_scales_stay_as_they_are():
    np.testing.assert_array_equal(Release(UNIT).original_units([1.0, 2.0]), [1.0, 2.0])
    theta = np.array([1.0, 2.0])
    result = Release({("a", "b"): UNIT}, scale={"b": 4.0}).original_units(theta)
    np.testing.assert_array_equal(result, [1.0, 0.5])
    np.testing.assert_array_equal(theta, [1.0, 2.0])
    assert Release({"a": UNIT}, center={"a": 0.0}).original_units([3.0]).tolist() == [3.0]


@pytest.mark.parametrize(("release", "theta", "message"), [
    (Release({"a": UNIT}, center={"a": 1.0}), [1.0], "without an intercept .* Declare fit_intercept=True"),
    (Release({"a": UNIT}, fit_intercept=True), [1.0], r"it must be \(2,\)"),
    (Release({"a": UNIT}), [1.0, 2.0], r"it must be \(1,\)"),
    (Release({"a": UNIT}), [math.nan], "theta has NaN"),
    (Release(UNIT, scale=[2.0]), [1.0], "no names yet"),
    (Release(UNIT), [[1.0]], "theta has the shape"),
])  # fmt: skip
def test_coefficients_that_do_not_fit_are_refused(release, theta, message):
    with pytest.raises(ValueError, match=message):
        release.original_units(theta)


# ---- declarations ----------------------------------------------------------------------------------------


BAD = [
    ({"features": COIN}, TypeError, "noises one column of categories. Name it"),
    ({"features": {("sex", "age"): COIN}}, ValueError, "noises 1 column together; got 2"),
    ({"features": GaussianMechanism}, TypeError, "features must be a mechanism"),
    # The records themselves, whose == is no answer.
    ({"features": np.zeros((2, 2))}, TypeError, "features must be a mechanism.*got ndarray"),
    ({"features": {}}, TypeError, "got dict without entries"),
    ({"features": {"a": 1.0}}, TypeError, "features are noised by mechanisms; got float"),
    ({"features": {"a": None}}, TypeError, "features are noised by mechanisms; got NoneType"),
    ({"features": {1: UNIT}}, TypeError, "sequence of column names; got 1"),
    ({"features": {("a", 1): UNIT}}, TypeError, "which is not a column name"),
    ({"features": {(): UNIT}}, ValueError, "a group without columns"),
    ({"features": {"": UNIT}}, TypeError, "which is not a column name"),
    ({"features": {("a", "a"): UNIT}}, ValueError, "a is named more than once"),
    ({"noiseless": ("a", "a")}, ValueError, "a is named more than once"),
    ({"features": {"intercept": UNIT}, "fit_intercept": True}, ValueError, "the constant that fit_intercept=True adds"),
    ({"noiseless": ("intercept",), "fit_intercept": True}, ValueError, "the column intercept has the name of another"),
    ({"features": {"a=y": UNIT, "a": RandomizedResponse(1.0, ("x", "y", "z"))}}, ValueError, "that of a category of a"),
    ({"noiseless": "year"}, TypeError, "noiseless must be a sequence of column names"),
    ({"noiseless": (1,)}, TypeError, "not a column name"),
    ({"target": RandomizedResponse}, TypeError, "target must be a mechanism or None"),
    ({"fit_intercept": 1}, TypeError, "fit_intercept must be True or False; got 1"),
    ({"fit_intercept": "yes"}, TypeError, "fit_intercept"),
    ({"features": {"a": UNIT}, "center": {"b": 1.0}}, ValueError, "center names b, which is no column"),
    ({"features": {"a": UNIT}, "center": [1.0, 2.0]}, ValueError, "center has 2 entries, but the release has 1"),
    ({"features": {"a": UNIT}, "scale": [-1.0]}, ValueError, r"scale\[0\]=-1.0 is too small"),
    ({"features": {"a": UNIT}, "scale": [True]}, TypeError, r"scale\[0\] has the type bool"),
    ({"features": {"a": UNIT}, "scale": 2.0}, TypeError, "scale must map column names to numbers"),
    ({"features": {"a": UNIT}, "scale": "2"}, TypeError, "scale must map column names to numbers"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD, ids=str)
def test_declarations_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Release(**arguments)


def test_a_column_may_be_called_intercept_where_the_model_has_none():
    assert Release({"intercept": UNIT}).columns == ("intercept",)
    # Two categories that are numbers have no parameter of a category.
    assert Release({"a=1": UNIT, "a": RandomizedResponse(1.0, (0, 1))}).columns == ("a=1", "a")
    with pytest.raises(ValueError, match="fit_intercept=True adds"):
        Release(UNIT, fit_intercept=True).bind(("intercept", "a"))


def test_noiseless_columns_of_an_array_without_names_are_not_guessed():
    release = Release(UNIT, noiseless=("year",))
    with pytest.raises(ValueError, match=r"leaves year without noise: .* Pass a table, or name the columns first"):
        release.privatize(bounded(3, 3), random_state=0)
    noised = release.bind(["a", "b", "year"]).privatize(bounded(3, 3), random_state=0)
    np.testing.assert_array_equal(noised.X[:, 2], bounded(3, 3)[:, 2])


def test_one_interval_is_that_of_one_column():
    release = Release(LaplaceMechanism(epsilon=2.0, bounds=(-1.0, 1.0)))
    with pytest.raises(ValueError, match=r"X has 3 columns.*This LaplaceMechanism noises one column: give each"):
        release.privatize(np.zeros((4, 3)), random_state=0)
