import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import symdebias as sd
from symdebias import _arrays
from symdebias._arrays import (
    check_same_index,
    codes_array,
    column_like,
    features_array,
    label_array,
    parameter_vector,
    table_like,
    target_array,
    value_array,
    weights_array,
)

MATRIX = np.arange(12.0).reshape(4, 3) / 7


class Table:
    """The least that counts as a table: columns by name, as polars has them, and no row labels."""

    def __init__(self, columns):
        self._columns = dict(columns)
        self.columns = list(columns)

    def __getitem__(self, name):
        return self._columns[name]

    def __len__(self):
        return len(next(iter(self._columns.values())))


class Column:
    def __init__(self, name, values):
        self.name, self._values = name, np.asarray(values)

    def to_numpy(self):
        return self._values

    def __array__(self, dtype=None, copy=None):
        return self._values


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array):
    buffer = np.zeros(array.nbytes + 1, dtype=np.int8)[1:]
    moved = buffer.view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


LAYOUTS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "negative strides": lambda a: a[::-1, ::-1][::-1, ::-1],
    "negative strides over a copy": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "every other row of a larger one": lambda a: np.repeat(a, 2, axis=0)[::2],
    "some columns of a larger one": lambda a: np.hstack([a, a])[:, : a.shape[1]],
    "read-only": read_only,
    "unaligned": unaligned,
    "big-endian": lambda a: a.astype(">f8"),
    "nested lists": lambda a: a.tolist(),
    "unmasked masked array": np.ma.masked_array,
    "subclass": lambda a: a.view(type("Sub", (np.ndarray,), {})),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_array(layout):
    X = LAYOUTS[layout](MATRIX)
    before = np.array(X, copy=True)
    result = features_array(X)
    assert type(result) is np.ndarray
    assert result.dtype == np.float64
    assert result.flags.c_contiguous
    assert result.flags.aligned
    assert result.dtype.isnative
    np.testing.assert_array_equal(result, MATRIX)
    np.testing.assert_array_equal(X, before)


def test_repeated_rows_of_zero_stride_are_taken():
    X = np.broadcast_to(MATRIX[:1], (5, 3))
    result = features_array(X)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, np.tile(MATRIX[:1], (5, 1)))


def test_memory_maps_are_read(tmp_path):
    np.save(tmp_path / "X.npy", MATRIX)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    result = features_array(mapped)
    np.testing.assert_array_equal(result, MATRIX)
    assert np.shares_memory(result, mapped)


def test_an_array_that_fits_is_not_copied():
    assert features_array(MATRIX) is MATRIX
    assert target_array(MATRIX[0], rows=3).base is MATRIX or np.shares_memory(MATRIX, target_array(MATRIX[0], rows=3))
    frozen = read_only(MATRIX)
    assert np.shares_memory(features_array(frozen), frozen)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">f4"])
def test_numbers_of_every_kind_are_converted(dtype):
    X = np.array([[1, 2], [3, 4]]).astype(dtype)
    np.testing.assert_array_equal(features_array(X), [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(target_array(X[0], rows=2), [1.0, 2.0])


@given(hnp.arrays(np.float64, (4, 3), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)))
def test_what_is_not_finite_is_found_and_nothing_else(X):
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        with pytest.raises(ValueError, match=rf"in row {bad[0][0]}, column {bad[0][1]}\."):
            features_array(X)
    else:
        assert features_array(X) is X


def test_large_finite_numbers_pass_although_their_sum_overflows():
    X = np.full((3, 2), 1.7e308)
    assert features_array(X) is X
    X[2, 1] = -1.7e308
    X[0, 0] = 5e-324
    assert features_array(X) is X


def of_features(X):
    return lambda: features_array(X)


def of_target(y):
    return lambda: target_array(y, rows=2)


def of_weights(weights):
    return lambda: weights_array(weights, rows=2)


def of_theta(theta):
    return lambda: parameter_vector(theta, 2)


def of_labels(labels, values):
    return lambda: label_array(list(labels), values, rows=len(labels))


SPARSE = scipy.sparse.eye_array(1000, format="csr")
REFUSED = {
    "X, a vector": (of_features(np.zeros(3)), "must have two dimensions, records and columns; got 1. Pass X.reshape"),
    "X, three dimensions": (of_features(np.zeros((2, 2, 2))), "got 3. Pass one row per record"),
    "X, a scalar": (of_features(np.float64(1.0)), "got 0"),
    "X, a number": (of_features(1.0), "got 0"),
    "X, no rows": (of_features(np.zeros((0, 2))), r"X is empty: its shape is \(0, 2\)"),
    "X, no columns": (of_features(np.zeros((2, 0))), "X has no columns. Pass at least one"),
    "X, an empty list": (of_features([]), "got 1"),
    "X, ragged": (of_features([[1.0, 2.0], [3.0]]), "rows of different lengths"),
    "X, NaN": (of_features([[1.0, math.nan]]), "X has NaN in row 0, column 1"),
    "X, infinity": (of_features([[1.0], [-math.inf]]), "X has infinity in row 1, column 0"),
    "X, masked": (of_features(np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]])), "masked entries"),
    "X, a table without columns": (of_features(Table({})), "X is empty|no columns"),
    "X, NaN in a table": (of_features(Table({"a": [1.0, 2.0], "b": [1.0, math.nan]})), r"NaN in row 1, column 1 \(b\)"),
    "y, a column": (of_target([[1.0], [2.0]]), r"its shape is \(2, 1\). Pass numpy\.ravel\(y\)"),
    "y, a matrix": (of_target(np.zeros((2, 2))), "Pass one number per record"),
    "y, a number": (of_target(1.0), "must have one dimension"),
    "y, too short": (of_target([1.0]), "y has 1 entries, but X has 2 rows"),
    "y, too long": (of_target([1.0, 2.0, 3.0]), "y has 3 entries"),
    "y, none": (of_target([]), "y has 0 entries"),
    "y, NaN": (of_target([1.0, math.nan]), "y has NaN in row 1"),
    "y, infinity": (of_target([math.inf, 0.0]), "y has infinity in row 0"),
    "y, a table": (of_target(Table({"y": [1.0, 2.0]})), "got a table. Pass one of its columns"),
    "a negative weight": (of_weights([1.0, -1.0]), "sample_weight is negative in row 1"),
    "no weight at all": (of_weights([0.0, 0.0]), "every sample_weight is zero"),
    "weights whose squares are infinite": (of_weights([1.0, 1e200]), "the largest sample_weight is 1e.200"),
    "weights whose squares are 0": (of_weights([0.0, 1e-200]), "the largest sample_weight is 1e-200"),
    "a weight that is NaN": (of_weights([math.nan, 1.0]), "sample_weight has NaN in row 0"),
    "too few weights": (of_weights([1.0]), "sample_weight has 1 entries"),
    "theta, too short": (of_theta([1.0]), r"theta has the shape \(1,\); it must be \(2,\)"),
    "theta, a matrix": (of_theta([[1.0, 2.0]]), "theta has the shape"),
    "theta, NaN": (of_theta([1.0, math.nan]), "theta has NaN in entry 1"),
    "values, three dimensions": (lambda: value_array(np.zeros((2, 2, 2))), "Pass an array of shape"),
    "values, a number": (lambda: value_array(1.0), "Pass an array of shape"),
    "values, none": (lambda: value_array([]), "at least one entry"),
    "values, NaN": (lambda: value_array([math.nan]), "values has NaN in row 0"),
    "labels of the other coding": (
        of_labels([0, 1, 1], (-1, 1)), r"be -1 or \+1; got 0 and 1. Pass 2\*y - 1, or take loss.recoded\(\(0, 1\)\),"
    ),
    "labels, one class of it": (of_labels([0, 0, 0], (-1, 1)), r"got 0. Pass 2\*y - 1"),
    "labels, the other way": (of_labels([-1, 1, 1], (0, 1)), r"be 0 or 1; got -1 and 1. Pass \(y \+ 1\)/2"),
    "labels, nearly": (
        of_labels([1, 0.9999999, -1], (-1, 1)), "got 1 other value. The first other one is in row 1; recode"
    ),
    "labels, another": (of_labels([1, 1, 2], (-1, 1)), "got 1 other value. The first other one is in row 2"),
    "labels, many": (
        of_labels([3, 4, 5, 6, 1], (-1, 1)), "got 4 other values. The first other one is in row 0"
    ),
    "labels, too many": (of_labels(range(30), (-1, 1)), "got 29 other values"),
}  # fmt: skip
OF_ANOTHER_TYPE = {
    "X, text": (of_features(np.array([["1", "2"]])), "must hold real numbers .*; got <U1"),
    "X, None inside": (of_features(np.array([[1, None]], dtype=object)), "got object"),
    "X, objects": (of_features(np.array([[1.0, 2.0]], dtype=object)), "got object"),
    "X, complex": (of_features(np.ones((2, 2), dtype=complex)), "got complex128"),
    "X, booleans": (
        of_features(np.ones((2, 2), dtype=bool)), r"got bool.*For 0 and 1, pass array.astype\(float\)"
    ),
    "X, dates": (of_features(np.zeros((2, 2), dtype="M8[s]")), r"got datetime64\[s\]"),
    "X, records": (of_features(np.zeros(2, dtype=[("a", float), ("b", float)])), "must hold real numbers"),
    "X, None": (of_features(None), "must hold real numbers"),
    "X, a path": (of_features("data.csv"), "must hold real numbers"),
    "X, sparse": (of_features(SPARSE), r"\(1000, 1000\) with 1000 stored .* takes 7.63 MiB"),
    "X, sparse by coordinates": (of_features(scipy.sparse.eye_array(3, format="coo")), r"pass X.toarray\(\)"),
    "X, text in a table": (of_features(Table({"a": [1.0], "b": ["x"]})), "column b of X must hold real numbers"),
    "X, numbered columns": (of_features(Table({0: [1.0], 1: [2.0]})), "name of column 0 of X is not text"),
    "y, text": (of_target(["a", "b"]), "y must hold real numbers"),
    "y, booleans": (of_target([True, False]), "y must hold real numbers"),
    "y, complex": (of_target([1j, 0]), "y must hold real numbers"),
    "y, None inside": (of_target([1.0, None]), "y must hold real numbers"),
    "y, sparse": (of_target(scipy.sparse.csr_array([[1.0, 2.0]])), "y is a sparse matrix"),
    "weights, text": (of_weights(["a", "b"]), "sample_weight must hold real numbers"),
    "theta, text": (of_theta(["a", "b"]), "theta must hold real numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", [*REFUSED, *OF_ANOTHER_TYPE])
def test_arrays_that_are_refused(case):
    call, message = (REFUSED | OF_ANOTHER_TYPE)[case]
    with pytest.raises(TypeError if case in OF_ANOTHER_TYPE else ValueError, match=message):
        call()


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is float64 here")
def test_longer_floats_are_refused():
    with pytest.raises(TypeError, match="floats of up to 64 bits"):
        features_array(np.ones((2, 2), dtype=np.longdouble))


def test_decimal_commas_are_told():
    with pytest.raises(TypeError, match=r'written with a decimal comma: of a file, pandas.read_csv\(..., sep=";"'):
        features_array(np.array([["1.234,5"]], dtype=object))


def test_messages_keep_values_private():
    secret = 8675309.25
    for call in (
        lambda: features_array([[secret, math.nan]]),
        lambda: features_array([[secret, "a"]]),
        lambda: features_array(np.array([["8675309,25"]], dtype=object)),
        lambda: target_array([secret, math.inf], rows=2),
        lambda: target_array([secret], rows=2),
        lambda: weights_array([-secret, secret], rows=2),
        lambda: label_array(np.full(50, secret) + np.arange(50), (-1, 1), rows=50),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert "8675309" not in str(caught.value)


def test_a_table_is_matched_by_name():
    table = Table({"b": [1, 2], "a": np.array([3.0, 4.0], dtype=np.float32)})
    np.testing.assert_array_equal(features_array(table, ["a", "b"]), [[3.0, 1.0], [4.0, 2.0]])
    np.testing.assert_array_equal(features_array(table), [[1.0, 3.0], [2.0, 4.0]])
    assert features_array(table).flags.c_contiguous


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["a", "c"], "missing: c; not in the release: b"),
        (["a"], "not in the release: b"),
        (["a", "b", "c"], "missing: c"),
        (
            ["a", "B"],
            "missing: B; not in the release: b. Names are matched letter by letter, and B differs in capitals",
        ),
        (["a", "b "], "and b  differs in blanks: correct either"),
    ],
)
def test_a_table_with_other_columns_is_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        features_array(Table({"b": [1.0], "a": [2.0]}), columns)


def test_an_array_with_another_number_of_columns_is_refused():
    with pytest.raises(ValueError, match="X has 3 columns, but the release has 2: a, b"):
        features_array(MATRIX, ["a", "b"])


def test_the_least_table_comes_back_in_its_kind():
    result = table_like(Table({"a": [0.0]}), ["x", "y"], np.array([[1.0, 2.0]]).T)
    assert isinstance(result, Table)
    assert result.columns == ["x", "y"]
    assert result["y"].tolist() == [2.0]
    column = column_like(Column("y", [1, 2]), np.array([3.0, 4.0]))
    assert isinstance(column, Column)
    assert (column.name, column.to_numpy().tolist()) == ("y", [3.0, 4.0])
    vector = np.array([1.0])
    assert column_like([0], vector) is vector
    assert column_like(np.zeros(1), vector) is vector


def test_one_class_alone_is_taken():
    assert label_array([1, 1], (-1, 1), rows=2).tolist() == [1.0, 1.0]


# ---- pandas ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pandas():
    return pytest.importorskip("pandas")


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "UInt8", "float32", "int16"])
def test_pandas_numbers_of_every_kind_are_converted(pandas, dtype):
    frame = pandas.DataFrame({"a": pandas.array([1, 2], dtype=dtype), "b": [3.0, 4.0]}, index=[9, 5])
    np.testing.assert_array_equal(features_array(frame, ["b", "a"]), [[3.0, 1.0], [4.0, 2.0]])
    np.testing.assert_array_equal(target_array(frame["a"], rows=2), [1.0, 2.0])


@pytest.mark.parametrize("dtype", ["int64[pyarrow]", "double[pyarrow]"])
def test_arrow_numbers_are_converted(pandas, dtype):
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": pandas.array([1, 2], dtype=dtype)})
    np.testing.assert_array_equal(features_array(frame), [[1.0], [2.0]])
    frame = pandas.DataFrame({"a": pandas.array([1, None], dtype=dtype)})
    with pytest.raises(ValueError, match=r"X has NaN in row 1, column 0 \(a\)"):
        features_array(frame)


def test_pandas_missing_values_are_found(pandas):
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": pandas.array([1, None], dtype="Int64")})
    with pytest.raises(ValueError, match=r"X has NaN in row 1, column 1 \(b\)"):
        features_array(frame)


@pytest.mark.parametrize("values", [["x", "y"], [True, False], [1, "y"], [None, None]])
def test_pandas_columns_that_are_no_numbers_are_refused(pandas, values):
    with pytest.raises(TypeError, match="column a of X must hold real numbers"):
        features_array(pandas.DataFrame({"a": values}))


def test_pandas_categories_are_taken_as_their_numbers_or_refused(pandas):
    numbers = pandas.DataFrame({"a": pandas.Categorical([3, 1])})
    np.testing.assert_array_equal(features_array(numbers), [[3.0], [1.0]])
    with pytest.raises(TypeError, match="column a of X"):
        features_array(pandas.DataFrame({"a": pandas.Categorical(["n", "s"])}))


def test_pandas_duplicated_columns_are_refused(pandas):
    frame = pandas.DataFrame(MATRIX, columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="more than one column named a"):
        features_array(frame)


def test_pandas_unnamed_columns_are_refused(pandas):
    with pytest.raises(TypeError, match=r"not text, but has the type int\. Columns are matched by name"):
        features_array(pandas.DataFrame(MATRIX))


def test_pandas_row_labels_must_agree(pandas):
    X = pandas.DataFrame({"a": [1.0, 2.0]}, index=[5, 3])
    check_same_index(X, pandas.Series([1.0, 2.0], index=[5, 3]))
    check_same_index(X, np.zeros(2))
    check_same_index(X, [0.0, 1.0])
    check_same_index(np.zeros((2, 1)), pandas.Series([1.0, 2.0]))
    with pytest.raises(ValueError, match="different row labels"):
        check_same_index(X, pandas.Series([1.0, 2.0], index=[3, 5]))
    with pytest.raises(ValueError, match=r"X has 2 rows and y 3\. Pass both of the same records"):
        check_same_index(X, pandas.Series([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="y and sample_weight have different row labels"):
        check_same_index(
            np.zeros((2, 1)), pandas.Series([1.0, 2.0]), sample_weight=pandas.Series([1.0, 2.0], index=[1, 0])
        )


def test_every_entry_refuses_records_whose_row_labels_disagree(pandas):
    X = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 1.0]})
    y = pandas.Series([1.0, 2.0, 3.0])
    shuffled = y.iloc[[2, 0, 1]]
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.1))
    corrected = sd.debias(sd.losses.least_squares(), release)
    theta = np.zeros(2)
    calls = [
        lambda: release.privatize(X, shuffled, random_state=0),
        lambda: corrected.mean_loss(theta, X, shuffled),
        lambda: corrected.mean_loss(theta, X, y, sample_weight=shuffled),
        lambda: corrected.mean_gradient(theta, X, y, noise_scale=shuffled.abs()),
        lambda: corrected.mean_hessian(theta, X, y, sample_weight=shuffled),
        lambda: sd.m_estimate(corrected, X, shuffled),
        lambda: sd.m_estimate(corrected, X, y, clusters=shuffled),
        lambda: sd.sgd(corrected, X, y, sample_weight=shuffled, step_size=0.1, batch_size=3, random_state=0),
        lambda: sd.evaluation.evaluate(theta, X, shuffled, metric="squared_error", release=release),
        lambda: sd.literature.regression_calibration(sd.losses.least_squares(), release, X, shuffled),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="have different row labels"):
            call()


def test_pandas_tables_and_columns_come_back_in_their_kind(pandas):
    frame = pandas.DataFrame({"a": [1, 2]}, index=[5, 3])
    for keep_index, index in ((True, [5, 3]), (False, None)):
        result = table_like(frame, ["b", "c"], np.array([[1.0, 2.0], [3.0, 4.0]]).T, keep_index=keep_index)
        wanted = pandas.DataFrame({"b": [1.0, 3.0], "c": [2.0, 4.0]}, index=index)
        pandas.testing.assert_frame_equal(result, wanted)
        target = pandas.Series([1, 2], index=[5, 3], name="y")
        series = column_like(target, np.array([1.0, -1.0]), keep_index=keep_index)
        pandas.testing.assert_series_equal(series, pandas.Series([1.0, -1.0], index=index, name="y"))


def test_no_table_package_is_imported_by_the_boundary():
    assert not {"pandas", "polars"} & set(vars(_arrays))


@pytest.mark.parametrize("value", [1.0, 2.5, 1e-300])
def test_labels_of_opposite_values_are_told_by_their_bits(value):
    labels = value * np.where(np.random.default_rng(0).random(200_001) < 0.5, -1.0, 1.0)
    for some in (labels, labels[::2], labels[:0], labels[::-1], np.full(5, value), labels.reshape(-1, 3)):
        assert _arrays.all_among(some, (-value, value))
        assert _arrays.all_among(some, (value, -value))
    near = (
        0.0,
        -0.0,
        np.nan,
        np.inf,
        -np.inf,
        np.nextafter(value, 0),
        np.nextafter(value, np.inf),
        2 * value,
        value / 2,
    )
    for place in (0, 77_777, 200_000):
        for other in near:
            changed = labels.copy()
            changed[place] = other
            assert not _arrays.all_among(changed, (-value, value))
    # Bits that one has and another lacks are those of none.
    assert not _arrays.all_among(np.array([2.0 * value, value / 2]), (-value, value))
    assert not _arrays.all_among(np.array([1, -2]), (-1.0, 1.0))


# ---- categories ------------------------------------------------------------------------------------------

ODD_COLUMNS = [
    [1, 2, 3], ["a", None, "b"], [True, False], [1, "1"], [np.nan, 1.0], [[1], [2]], ["a", ["b"]], [b"a", "a"],
    [np.True_, 1], ["True", False], ["low ", "low"], [0.1, 0.2], [np.float32(0.1)], [2**53 + 1], [], ["b", "a", "b"],
    np.array([0.1, 0.2], np.float32), np.array([2**53 + 1, 0]), np.array([2.0**53]), np.array([2**63], np.uint64),
    np.array([1 + 0j]), np.array([-1], np.int8), np.array([300, 1], np.int16), np.array(["a", "b"]),
    np.array(["a"], "S1"), np.array([np.nan, 1]), np.array([np.inf]), np.array([True, False]), np.array([0.5, 1.5]),
]  # fmt: skip
DECLARED = [
    (0.0, 1.0, 2.0), (0, 1), ("a", "b"), ("True", "False"), ("1", "2"), (0.1, 0.2), (float(np.float32(0.1)), 0.1),
    (2.0**53, 0.0), (2**53, 2**53 + 1), (300.0, 1.0), (-1, 255), (0.5, 1.5), (False, True), ("low", "mid"),
]  # fmt: skip


def looked_up(column, categories):
    """The places as a dictionary has them, None where one of them has none."""
    places = {value: place for place, value in enumerate(categories)}
    found = []
    for value in np.asarray(column, dtype=object):
        if isinstance(value, (bool, np.bool_)) and ("True" in places or "False" in places):
            value = str(value)
        found.append(places.get(value) if not isinstance(value, list) else None)
    return None if None in found else found


@pytest.mark.parametrize("categories", DECLARED, ids=str)
@pytest.mark.parametrize("column", ODD_COLUMNS, ids=repr)
def test_codes_are_those_that_a_dictionary_has(column, categories):
    if isinstance(column, list) and column == [[1], [2]]:
        column = np.array([None, *column], dtype=object)[1:]
    expected = looked_up(column, categories)
    kinds = [column]
    if isinstance(column, np.ndarray):
        kinds.append(column.astype(object))
    kinds += [pd.Series(one) for one in list(kinds) if np.asarray(one, dtype=object).dtype.kind != "c" and len(one)]
    for kind in kinds:
        if expected is not None:
            assert codes_array(kind, categories, "x").tolist() == expected
            continue
        with pytest.raises(ValueError, match=r"x has (a|no) value in row") as raised:
            codes_array(kind, categories, "x")
        assert raised.value.__context__ is None


def test_the_row_is_named_in_which_a_category_is_missing_or_unknown():
    for kind in (list, pd.Series, pd.Categorical, lambda values: np.array(values, dtype=object)):
        with pytest.raises(ValueError, match="x has no value in row 70001"):
            codes_array(kind(["a", *["b"] * 70_000, None, "c"]), ("a", "b"), "x")
        with pytest.raises(ValueError, match="x has a value in row 70001 that was not declared"):
            codes_array(kind(["a", *["b"] * 70_000, "c", None]), ("a", "b"), "x")


def test_numbers_beyond_those_of_a_column_are_none_of_its_values():
    assert codes_array(np.array([1, 0]), (0, 1, 2**70), "x").tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["category", "int64", "Int64", "float64", "object"])
def test_codes_of_labels_of_text_are_taken_in_columns_of_every_kind(kind):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), pd.Series([0, 1] * 20)
    release = sd.Release(target=sd.RandomizedResponse(2.0, categories=("no", "yes")))
    corrected = sd.debias(sd.losses.squared_margin().recoded((0.0, 1.0)), release)
    found = corrected.loss(np.ones(2), X, y.astype(kind) if kind != "object" else y.map({0: "no", 1: "yes"}))
    np.testing.assert_array_equal(found, corrected.loss(np.ones(2), X, y.to_numpy()))


@pytest.mark.parametrize("kind", ["numbers", "texts", "all apart"])
def test_codes_of_clusters_take_little_more_than_their_own_room(kind):
    """By an order of all labels and its inverse they took five times their 1.6 MB, of texts nine times."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(200_000) - 7 if kind == "all apart" else rng.integers(-3, 500, 200_000)
    labels = labels.astype("U6") if kind == "texts" else labels
    tracemalloc.start()
    try:
        codes = _arrays.cluster_codes(labels, rows=len(labels))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(codes, np.unique(labels, return_inverse=True)[1].ravel())
    assert most < 3.5 * codes.nbytes
