"""Releases with categories, mixed mechanisms and several scores: codes, tables, designs, noise per record."""

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, mixed_release

import symdebias as sd
from symdebias.assessment.kernel_bias import released_records

pytestmark = pytest.mark.newest

REGIONS = ("n", "e", "s", "w")


def true_records(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 0.5, size=(n, 6))
    X[:, 3] = rng.choice([-1.0, 1.0], n)
    X[:, 4] = rng.integers(0, 4, n)
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def test_without_an_intercept_all_categories_have_a_parameter():
    mechanism = sd.RandomizedResponse(1.0, REGIONS)
    assert sd.debias(sd.losses.exponential(), sd.Release({"region": mechanism})).parameter_names == (
        "region=n", "region=e", "region=s", "region=w",
    )  # fmt: skip
    two = sd.Release({"sex": sd.RandomizedResponse(1.0, ("f", "m")), "age": sd.GaussianMechanism.from_scale(1.0)})
    assert sd.debias(sd.losses.exponential(), two).parameter_names == ("sex=m", "age")
    numbers = sd.Release({"rooms": sd.RandomizedResponse(1.0, (1, 2, 3))}, fit_intercept=True)
    assert sd.debias(sd.losses.exponential(), numbers).parameter_names == ("rooms=2", "rooms=3", "intercept")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_tables_hold_the_users_own_values(kind):
    library = pytest.importorskip(kind)
    X, y = true_records(8)
    release = mixed_release(target=sd.RandomizedResponse(epsilon=1.0))
    columns = {name: X[:, j] for j, name in enumerate(release.columns)}
    columns["region"] = [REGIONS[int(code)] for code in X[:, 4]]
    table = library.DataFrame({name: columns[name] for name in reversed(list(columns))})
    noised = release.privatize(table, y, random_state=3)
    array = release.privatize(X, y, random_state=3)
    assert set(noised.X["region"]) <= set(REGIONS)
    assert [REGIONS.index(value) for value in noised.X["region"]] == array.X[:, 4].astype(int).tolist()
    np.testing.assert_array_equal(np.asarray(noised.X["sex"], dtype=float), array.X[:, 3])
    corrected = sd.debias(sd.losses.exponential(), release)
    theta = 0.1 * np.cos(np.arange(9.0))
    np.testing.assert_array_equal(corrected.loss(theta, noised.X, noised.y), corrected.loss(theta, array.X, array.y))


def test_a_target_of_text_is_a_target_of_codes():
    pandas = pytest.importorskip("pandas")
    release = sd.Release(target=sd.RandomizedResponse(2.0, ("cat", "dog", "eel")), noiseless=("a", "b"))
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.array(["cat", "dog", "eel"] * 10)
    noised = release.privatize(X, y, random_state=0)
    assert set(noised.y) <= {0.0, 1.0, 2.0}
    series = release.privatize(X, pandas.Series(y, name="pet"), random_state=0).y
    assert series.name == "pet"
    assert series.map({"cat": 0.0, "dog": 1.0, "eel": 2.0}).tolist() == noised.y.tolist()
    corrected = sd.debias(sd.losses.softmax(3), release)
    theta = np.ones((3, 2)) * [[0.1], [0.2], [-0.3]]
    np.testing.assert_array_equal(corrected.loss(theta, X, noised.y), corrected.loss(theta, X, series))
    with pytest.raises(ValueError, match=r"labels must be 0 or 1 or 2"):
        corrected.loss(theta, X, np.full(30, 3.0))


BAD = [
    (lambda r: r.privatize(_changed(3, 0.0)), r"column sex of X must be -1 or \+1"),
    (lambda r: sd.debias(sd.losses.exponential(), r).loss(np.zeros(9), _changed(4, 9.0), np.ones(60)), "no code"),
    (lambda r: sd.debias(sd.losses.exponential(), r).loss(np.zeros(8), true_records()[0], np.ones(60)), r"\(9,\)"),
    (lambda r: sd.Release({("a", "b"): sd.RandomizedResponse(1.0)}), "noises 1 column together; got 2"),
    (lambda r: sd.Release({("a", "b"): sd.LaplaceMechanism(1.0, bounds=(0, 1))}), "noises 1 column together"),
    (lambda r: sd.Release({"a": sd.GaussianMechanism.from_scale([1.0, 2.0])}), "noises 2 columns together; got 1"),
    (lambda r: sd.Release({"a": sd.RandomizedResponse(1.0)}, center={"a": 1.0}), "neither shifted nor scaled"),
    (lambda r: sd.Release({"a": sd.RandomizedResponse(1.0)}, scale={"a": 2.0}), "neither shifted nor scaled"),
]


def _changed(column, value):
    X, _ = true_records()
    X[2, column] = value
    return X


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(mixed_release(target=None))


def test_table_categories_that_were_not_declared():
    pandas = pytest.importorskip("pandas")
    release = sd.Release({"region": sd.RandomizedResponse(1.0, REGIONS)})
    for value, message in (
        ("x", "value in row 1 that was not declared"),
        *((one, "missing") for one in (None, np.nan, "")),
    ):
        frame = pandas.DataFrame({"region": pandas.Series(["n", value], dtype=object)})
        with pytest.raises(ValueError, match=message):
            release.privatize(frame)


def test_uncorrected_kernels_take_the_one_hot_design():
    X, y = true_records()
    release = mixed_release(target=sd.RandomizedResponse(epsilon=1.0))
    plain = sd.debias(sd.losses.exponential(), release, method="none")
    theta = 0.1 * np.cos(np.arange(9.0))
    one_hot = np.eye(4)[X[:, 4].astype(int)][:, 1:]
    design = np.column_stack([X[:, :4], one_hot, X[:, 5], np.ones(60)])
    np.testing.assert_allclose(plain.loss(theta, X, y), np.exp(-y * (design @ theta)), rtol=1e-13)
    coded = X.copy()
    coded[:, 3] = X[:, 3] > 0
    np.testing.assert_allclose(release.design(6).rows(coded), design)


def test_coefficients_in_the_units_of_mixed_columns():
    release = sd.Release(
        {"age": sd.GaussianMechanism.from_scale(1.0), "region": sd.RandomizedResponse(1.0, REGIONS)},
        fit_intercept=True, center={"age": 40.0}, scale={"age": 20.0},
    )  # fmt: skip
    theta = np.array([2.0, 0.1, 0.2, 0.3, 1.0])
    np.testing.assert_allclose(release.original_units(theta), [0.1, 0.1, 0.2, 0.3, 1.0 - 4.0])
    two = np.stack([theta, -theta])
    np.testing.assert_allclose(release.original_units(two)[1], [-0.1, -0.1, -0.2, -0.3, 3.0])


# ---- every path agrees -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [
    sd.losses.exponential(), sd.Loss(U**3 * Y + sp.cos(U) * U**2, score=U, target=Y, target_values=(-1, 1)),
], ids=str)  # fmt: skip
@pytest.mark.exhaustive
def test_looked_up_factors_and_enumeration_agree(loss):
    """The universal rule against the sum over combinations: two derivations of one correction."""
    X, y = true_records()
    corrected = sd.debias(loss, mixed_release(target=sd.RandomizedResponse(epsilon=1.0)))
    theta = 0.3 * np.cos(np.arange(9.0))
    records = corrected.records(X, y)
    enumerated = records.under(records.correction.enumerated)
    assert not enumerated.correction.program.has_lookups
    assert records.correction.program.has_lookups
    values, gradients = enumerated.losses(theta), enumerated.gradients(theta, slice(None))
    np.testing.assert_allclose(values, corrected.loss(theta, X, y), rtol=1e-10)
    np.testing.assert_allclose(gradients, corrected.gradient(theta, X, y), rtol=1e-9, atol=1e-10)


@pytest.mark.exhaustive
def test_many_categories_are_looked_up_in_memory():
    """Twelve categories: the kernel that deals sums out, against the rule M^-1 by NumPy."""
    mechanism = sd.RandomizedResponse(2.0, tuple("abcdefghijkl"))
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.4), "k": mechanism}, fit_intercept=True)
    corrected = sd.debias(sd.losses.exponential(), release)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.integers(0, 12, 500)])
    y = np.where(rng.random(500) < 0.5, -1.0, 1.0)
    theta = 0.3 * rng.normal(size=13)
    inverse = np.linalg.inv(np.array(mechanism.noise.matrix))
    levels = np.append(0.0, theta[1:12])
    factor = np.where(
        y > 0, (inverse @ np.exp(-levels))[X[:, 1].astype(int)], (inverse @ np.exp(levels))[X[:, 1].astype(int)]
    )
    expected = np.exp(-y * (X[:, 0] * theta[0] + theta[12]) - 0.08 * theta[0] ** 2) * factor
    np.testing.assert_allclose(corrected.loss(theta, X, y), expected, rtol=1e-11)
    mean = corrected.mean_gradient(theta, X, y)
    np.testing.assert_allclose(mean, corrected.gradient(theta, X, y).mean(axis=0), rtol=1e-10, atol=1e-12)
    steps = 1e-6 * np.eye(13)
    numeric = [(corrected.mean_loss(theta + e, X, y) - corrected.mean_loss(theta - e, X, y)) / 2e-6 for e in steps]
    np.testing.assert_allclose(mean, numeric, atol=1e-7)


def test_a_thousand_laplace_columns_keep_their_product():
    """Products over many columns: the factor prod (1 - b^2 t^2) of exp(-y u), by hand."""
    names = tuple(f"x{j}" for j in range(60))
    release = sd.Release({names: sd.LaplaceMechanism.from_scale(0.5)})
    corrected = sd.debias(sd.losses.exponential(), release)
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(20, 60)), rng.uniform(-0.9, 0.9, 60)
    expected = np.exp(-X @ theta) * np.prod(1 - 0.25 * theta**2)
    np.testing.assert_allclose(corrected.loss(theta, X, np.ones(20)), expected, rtol=1e-11)


# ---- noise of the records' own ---------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.newest
def test_equal_scales_of_all_records_are_the_scale_of_the_release():
    release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.4)}, noiseless=("c",))
    corrected = sd.debias(sd.losses.exponential(), release)
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.tile([1.0, -1.0], 15)
    theta = np.array([0.3, -0.5, 0.2])
    for call in ("loss", "gradient", "mean_gradient"):  # the Hessian and the mean loss: below, and in the fused pass
        plain = getattr(corrected, call)(theta, X, y)
        for scales in (np.full(30, 0.4), np.tile([0.4, 0.4, 0.0], (30, 1))):
            np.testing.assert_allclose(getattr(corrected, call)(theta, X, y, noise_scale=scales), plain, rtol=1e-12)
    options = {"step_size": 0.01, "random_state": 0, "batch_size": 8}
    first = sd.sgd(corrected, X, y, **options)
    second = sd.sgd(corrected, X, y, noise_scale=np.full(30, 0.4), **options)
    np.testing.assert_allclose(first.theta, second.theta, rtol=1e-12)


def test_the_hessian_with_scales_of_the_records_own():
    release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.4)}, fit_intercept=True)
    corrected = sd.debias(sd.losses.exponential(), release)
    rng = np.random.default_rng(0)
    X, y, scales = rng.normal(size=(30, 2)), np.tile([1.0, -1.0], 15), rng.uniform(0, 1, size=(30, 2))
    theta, step = np.array([0.3, -0.5, 0.2]), 1e-6
    hessian = corrected.mean_hessian(theta, X, y, noise_scale=scales)
    numeric = [
        (corrected.mean_gradient(theta + e, X, y, noise_scale=scales)
         - corrected.mean_gradient(theta - e, X, y, noise_scale=scales)) / (2 * step)
        for e in step * np.eye(3)
    ]  # fmt: skip
    np.testing.assert_allclose(hessian, numeric, atol=1e-7)


@pytest.mark.parametrize(("scales", "message"), [
    (np.ones(3), "must be"), (np.ones((4, 3)), "must be"), (-np.ones(4), "negative in row 0"),
    (np.full(4, np.nan), "NaN"), (np.ones((4, 2)), "column b, which has no normal noise"),
    (["a"] * 4, "real numbers"),
], ids=["short", "wide", "negative", "nan", "noiseless", "text"])  # fmt: skip
def test_noise_scales_that_are_refused(scales, message):
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.4)}, noiseless=("b",))
    corrected = sd.debias(sd.losses.exponential(), release)
    with pytest.raises((TypeError, ValueError), match=message):
        corrected.loss([0.1, 0.2], np.zeros((4, 2)), np.ones(4), noise_scale=scales)


def test_a_budgets_scale_cannot_be_replaced():
    release = sd.Release(sd.GaussianMechanism(1.0, 1e-5, 1.0))
    corrected = sd.debias(sd.losses.exponential(), release)
    with pytest.raises(ValueError, match="has its scale from its budget"):
        corrected.loss([0.1], np.zeros((4, 1)), np.ones(4), noise_scale=np.ones(4))
    laplace = sd.debias(sd.losses.exponential(), sd.Release({"a": sd.LaplaceMechanism.from_scale(0.1)}))
    with pytest.raises(ValueError, match="the release has none"):
        laplace.loss([0.1], np.zeros((4, 1)), np.ones(4), noise_scale=np.ones(4))


# ---- several scores --------------------------------------------------------------------------------------

V = sp.Symbol("v", real=True)
TWO_SCORES = {
    "mean and log variance": (U - Y) ** 2 * sp.exp(-V) / 2 + V / 2,
    "product": (U * V - Y) ** 2,
    "exponentials": sp.exp(U - V / 2) + sp.cos(U + V) - Y * V,
}


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        *((name, noise) for name in TWO_SCORES for noise in ("normal", "mixed")),
        ("product", "correlated"), ("product", "laplace"), ("exponentials", "laplace"), ("product", "noised target"),
    ],
)  # fmt: skip
@pytest.mark.exhaustive
def test_losses_of_two_scores_are_certified(name, noise):
    """Gradient g x~' - H Theta D, for every noise; a loss of mean and log variance beside."""
    normal = sd.GaussianMechanism.from_scale(0.4)
    release = {
        "normal": sd.Release({("a", "b"): normal}, fit_intercept=True),
        "correlated": sd.Release({("a", "b"): sd.GaussianMechanism.from_covariance([[0.2, 0.1], [0.1, 0.3]])}),
        "laplace": sd.Release({("a", "b"): sd.LaplaceMechanism.from_scale(0.2)}),
        "mixed": sd.Release({"a": normal, "b": sd.RandomizedResponse(1.0, REGIONS)}, noiseless=("c",)),
        "noised target": sd.Release({("a", "b"): normal}, sd.GaussianMechanism.from_scale(0.5)),
    }[noise]
    loss = sd.Loss(TWO_SCORES[name], score=(U, V), target=Y)
    if name == "exponentials" and noise == "laplace":
        # cos(u + v) has no growth, and exp(u - v/2) the rate 1 in |u| + |v|, which r bounds per unit of noise.
        assert sd.debias(loss, release).conditions == (sp.Symbol("r", positive=True) < 1,)
    corrected = sd.debias(loss, release)
    certificate = corrected.certificate
    assert certificate.exists
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
    correction = corrected.at(len(release.columns))
    theta = correction.shaped(0.2 * np.cos(np.arange(float(correction.number_of_parameters))))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, len(release.columns))), rng.normal(size=9)
    if noise == "mixed":
        X[:, 1] = rng.integers(0, 4, 9)
    assert corrected.gradient(theta, X, y).shape == (9, *theta.shape)
    if name == "exponentials":
        return
    hessian = corrected.mean_hessian(theta, X, y)
    steps = 1e-6 * np.eye(theta.size)
    numeric = [
        (corrected.mean_gradient(theta + e.reshape(theta.shape), X, y)
         - corrected.mean_gradient(theta - e.reshape(theta.shape), X, y)).ravel() / 2e-6
        for e in steps
    ]  # fmt: skip
    np.testing.assert_allclose(hessian, numeric, atol=1e-6)


OWN = {
    "normal": sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.4)}, fit_intercept=True),
    "normal and Laplace": sd.Release(
        {("a", "b"): sd.GaussianMechanism.from_scale(0.4), "d": sd.LaplaceMechanism.from_scale(0.2)}, noiseless=("c",)
    ),
    "normal and categories": sd.Release(
        {("a", "b"): sd.GaussianMechanism.from_scale(0.4), "e": sd.RandomizedResponse(2.0, ("n", "e", "s"))},
        fit_intercept=True,
    ),
}


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "scores"),
    [pytest.param(name, scores, marks=[] if (name, scores) == ("normal and categories", 2) else [
        pytest.mark.exhaustive]) for name in OWN for scores in (2, 3)],
)  # fmt: skip
def test_scales_of_the_records_own_with_several_scores(name, scores):
    """E over the noise of a record is the loss of the true one, equal scales are those of all, and Hessians fit."""
    release, W = OWN[name], sp.Symbol("w", real=True)
    expression = sp.exp(U - V / 2) + U**2 * V + (U + V) ** 2 - Y * U
    loss = sd.Loss(expression + (scores - 2) * (sp.exp(W + U / 2) + U * V * W), score=(U, V, W)[:scores], target=Y)
    corrected, declared = sd.debias(loss, release), sd.debias(loss, release, method="none")
    rng, p = np.random.default_rng(3), len(release.columns)
    theta = rng.uniform(-0.4, 0.4, (scores, len(corrected.parameter_names)))
    has_normal = np.isin(release.columns, ("a", "b"))
    record, own = np.full(p, 1.0), np.where(has_normal, np.arange(p) * 0.4 + 0.2, 0.0)
    seen = released_records(release, record, 1.0, nodes=16, scales=own)
    scales = np.tile(own, (len(seen.X), 1))
    values = corrected.loss(theta, seen.X, seen.y, noise_scale=scales)
    gradients = corrected.gradient(theta, seen.X, seen.y, noise_scale=scales)
    np.testing.assert_allclose(seen.weights @ values, declared.loss(theta, record[None], [1.0])[0], atol=1e-10)
    wanted = declared.gradient(theta, record[None], [1.0])[0]
    np.testing.assert_allclose(np.tensordot(seen.weights, gradients, 1), wanted, atol=1e-9)
    rows = np.linspace(0, len(seen.X) - 1, 40).astype(int)
    X, y, weights = seen.X[rows], seen.y[rows], rng.uniform(0, 2, 40)
    same = np.where(has_normal, 0.4, 0.0) * np.ones((40, 1))
    np.testing.assert_allclose(
        corrected.gradient(theta, X, y, noise_scale=same), corrected.gradient(theta, X, y), rtol=1e-10, atol=1e-10
    )
    varied = np.where(has_normal, rng.uniform(0, 0.8, (40, p)), 0.0)
    options = {"sample_weight": weights, "noise_scale": varied}
    hessian = corrected.mean_hessian(theta, X, y, **options)
    numeric = [
        (corrected.mean_gradient(theta + e, X, y, **options) - corrected.mean_gradient(theta - e, X, y, **options))
        / 2e-6
        for e in 1e-6 * np.eye(theta.size).reshape(-1, *theta.shape)
    ]
    size = theta.size
    np.testing.assert_allclose(
        np.reshape(hessian, (size, size)), np.reshape(numeric, (size, size)), atol=1e-7 * np.abs(hessian).max()
    )


@pytest.mark.exhaustive
def test_intervals_with_scales_of_the_records_own_and_two_scores_cover():
    """150 fits of 6 parameters: a coverage of .91 in place of .95 would be seen, and a bias of a third of an error.

    Scales grow with the first column, so that one scale for all is biased by more than a standard error.
    """
    one, two = Y * (2 - Y), Y * (Y - 1) / 2
    loss = sd.Loss(sp.exp(U) + sp.exp(V) - one * U - two * V, score=(U, V), target=Y, target_values=(0, 1, 2))
    release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)}, fit_intercept=True)
    truth = np.array([[0.6, -0.3, -1.4], [-0.4, 0.5, -1.3]])
    corrected, n, inside, standard, plain = sd.debias(loss, release), 4_000, [], [], []
    for seed in range(150):
        rng = np.random.default_rng([5, seed])
        X = rng.uniform(-1, 1, (n, 2))
        rates = np.exp(X @ truth[:, :2].T + truth[:, 2])
        # The chances of labels 1 and 2 are the rates, whose log-linear score the loss has.
        drawn = rng.random(n)
        y = np.where(drawn < rates[:, 0], 1.0, np.where(drawn < rates.sum(axis=1), 2.0, 0.0))
        scales = np.column_stack([0.35 + 0.3 * X[:, 0], rng.uniform(0.1, 0.6, n)])
        released = X + scales * rng.normal(size=X.shape)
        fit = sd.m_estimate(corrected, released, y, noise_scale=scales)
        standard.append((fit.theta - truth) / fit.standard_errors)
        inside.append(np.abs(standard[-1]) < 1.96)
        if seed < 20:
            equal = np.sqrt(np.mean(scales**2, axis=0)) * np.ones((n, 1))
            plain.append((sd.m_estimate(corrected, released, y, noise_scale=equal).theta - truth) / fit.standard_errors)
    assert 0.92 < np.mean(inside) < 0.975
    assert np.all(np.abs(np.mean(standard, axis=0)) < 0.33)
    assert np.abs(np.mean(plain, axis=0)).max() > 1


@pytest.mark.parametrize("label", [None, sd.RandomizedResponse(1.0, (0, 1, 2)), sd.FiniteChannel(
    [[0.8, 0.1, 0.1, 0.0], [0.1, 0.6, 0.2, 0.1], [0.0, 0.2, 0.3, 0.5]], (0, 1, 2), (0, 1, 2, 3))
], ids=["none", "k-ary", "four outputs"])  # fmt: skip
@pytest.mark.parametrize("features", [
    None, {"a": sd.LaplaceMechanism.from_scale(0.3)}, {"a": sd.RandomizedResponse(1.0, REGIONS)},
    {"a": sd.DiscreteLaplaceMechanism.from_scale(0.3, step=0.5)},
], ids=["plain", "laplace", "categories", "grid"])  # fmt: skip
@pytest.mark.exhaustive
def test_softmax_is_certified(features, label):
    release = sd.Release(features, label, noiseless=("b",))
    certificate = sd.debias(sd.losses.softmax(3), release).certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9


@pytest.mark.exhaustive
def test_softmax_under_normal_noise_is_refused():
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match="No method corrects"):
        sd.debias(sd.losses.softmax(3), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    series = sd.debias(sd.losses.softmax(3), sd.Release(sd.GaussianMechanism.from_scale(0.5)), method="series", order=1)
    plain = sd.debias(sd.losses.softmax(3), sd.Release(sd.GaussianMechanism.from_scale(0.5)), method="none")
    assert 0 < series.certificate.loss_bias < plain.certificate.loss_bias / 5


def test_softmax_does_not_overflow():
    corrected = sd.debias(sd.losses.softmax(3), sd.Release(noiseless=("a",)))
    theta = np.array([[1000.0], [0.0], [-1000.0]])
    loss = corrected.loss(theta, [[1.0], [-1.0]], [0.0, 0.0])
    assert loss.tolist() == [0.0, 2000.0]
    assert np.isfinite(corrected.gradient(theta, [[1.0], [-1.0]], [0.0, 0.0])).all()


# ---- targets ---------------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_a_loss_that_is_affine_in_the_target_says_so():
    poisson = sd.debias(sd.losses.poisson(), sd.Release(target=sd.LaplaceMechanism.from_scale(1.0), noiseless=("a",)))
    assert poisson.notes == (
        "the loss is affine in the target: a target released with noise of mean 0 stands as it is",
    )
    counts = sd.Loss(sp.exp(U) - Y * U, score=U, target=Y, target_values=(0, 1, 2, 3))
    release = sd.Release(target=sd.RandomizedResponse(1.0, (0, 1, 2, 3)), noiseless=("a",))
    corrected = sd.debias(counts, release)
    assert corrected.notes == (
        "the loss is affine in the target: its label noise is undone by an unbiased estimate of the label",
    )
    gain = release.target.gain
    theta, X = np.array([0.4]), np.ones((4, 1))
    estimate = 1.5 + gain * (np.arange(4.0) - 1.5)
    np.testing.assert_allclose(corrected.loss(theta, X, np.arange(4.0)), np.exp(0.4) - 0.4 * estimate, rtol=1e-13)
    fit = sd.sgd(corrected, X, np.arange(4.0), step_size=0.1)
    assert "note: the loss is affine in the target" in fit.summary()


@pytest.mark.parametrize("target", [
    sd.LaplaceMechanism.from_scale(0.4), sd.DiscreteLaplaceMechanism.from_scale(0.4, step=0.5),
    sd.UniformMechanism(0.5), sd.StaircaseMechanism(3.0, bounds=(-1, 1)),
    sd.DiscreteStaircaseMechanism(3.0, bounds=(-1, 1), step=0.5),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize("features", [sd.GaussianMechanism.from_scale(0.5), sd.LaplaceMechanism.from_scale(0.2)])
@pytest.mark.exhaustive
def test_noise_of_any_kind_on_a_continuous_target(features, target):
    loss = sd.Loss((U - Y) ** 4 / 4 + (U - Y) ** 2, score=U, target=Y)
    certificate = sd.debias(loss, sd.Release(features, target)).certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9


@pytest.mark.in_turn
def test_kinks_are_exact_where_the_noise_lies_on_a_grid():
    """Huber and squared hinge under discrete Laplace noise and categories: three-point differences, no smoothness."""
    grid = sd.DiscreteLaplaceMechanism.from_scale(0.4, step=0.5)
    for loss, release in (
        (
            sd.losses.squared_hinge(),
            sd.Release({"a": grid, "b": sd.RandomizedResponse(1.0)}, sd.RandomizedResponse(1.0)),
        ),
        (sd.losses.huber(0.5), sd.Release({"a": grid}, grid)),
    ):
        certificate = sd.debias(loss, release).certificate
        assert certificate.loss_bias / certificate.loss_scale < 1e-9
        assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match="has a kink or a jump"):
        sd.debias(sd.losses.huber(), sd.Release({"a": sd.LaplaceMechanism.from_scale(0.1)}), method="exact")


def test_a_channel_without_full_rank_corrects_what_is_in_its_range():
    channel = sd.FiniteChannel([[0.6, 0.2, 0.2], [0.4, 0.3, 0.3], [0.2, 0.4, 0.4]], (0, 1, 2))
    release = sd.Release(target=channel, noiseless=("a",))
    affine = sd.Loss(sp.exp(U) - Y * U, score=U, target=Y, target_values=(0, 1, 2))
    certificate = sd.debias(affine, release).certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match="has the rank 2 for 3 values"):
        sd.debias(sd.losses.softmax(3), release, method="exact")


def test_a_hidden_score_is_looked_for_once_for_all_noise(monkeypatch):
    """SymPy simplifies a loss each time, which takes a second where the loss has no such score."""
    x1, x2, a, b = sp.symbols("x1 x2 a b", real=True)
    loss = sd.Loss.of_features((a * x1**3 - b * x2 - Y) ** 4, features=[x1, x2], parameters=[a, b], target=Y)
    asked = []
    monkeypatch.setattr(sp, "simplify", lambda expression: asked.append(expression) or expression)
    for scale in (0.1, 0.2, 0.3):
        assert sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(scale))).notes == ()
    assert 0 < len(asked) == len(set(asked))


@pytest.mark.exhaustive
def test_hidden_scores_are_found_and_keep_the_parameters_in_place():
    x1, x2, a, b, c = sp.symbols("x1 x2 a b c", real=True)
    loss = sd.Loss.of_features(
        sp.log(1 + sp.exp(-Y * (b * x1 + a * x2 + c))), features=[x1, x2], parameters=[a, b, c], target=Y,
        target_values=(-1, 1),
    )  # fmt: skip
    release = sd.Release({("x1", "x2"): sd.LaplaceMechanism.from_scale(0.2)}, sd.RandomizedResponse(1.0))
    corrected = sd.debias(loss, release)
    assert "through one linear score" in corrected.notes[0]
    assert corrected.parameter_names == ("a", "b", "c")
    certificate = corrected.certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
    inside = sd.Release(
        {("x1", "x2"): sd.LaplaceMechanism.from_scale(0.2)}, sd.RandomizedResponse(1.0), fit_intercept=True
    )
    score = sd.debias(sd.losses.logistic(), inside)
    X, y = np.random.default_rng(0).normal(size=(5, 2)), np.array([1.0, -1, 1, 1, -1])
    np.testing.assert_allclose(corrected.loss([0.4, -0.2, 0.1], X, y), score.loss([-0.2, 0.4, 0.1], X, y), rtol=1e-12)
    other = sd.Loss.of_features((a * x1 * x2 + b * x2 + c - Y) ** 2, features=[x1, x2], parameters=[a, b, c], target=Y)
    assert sd.debias(other, sd.Release(sd.GaussianMechanism.from_scale(0.3))).notes == ()


@pytest.mark.exhaustive
# Steps so short leave theta where it starts.
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.ConvergenceWarning")
def test_much_inflation_is_warned_of():
    """The log loss under Laplace noise with beta = 2 on four columns: worth a hundredth of its records, or none."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(100_000, 4))
    y = np.where(rng.random(100_000) < 1 / (1 + np.exp(-X.sum(axis=1))), 1.0, -1.0)
    release = sd.Release({tuple("abcd"): sd.LaplaceMechanism.from_scale(2.0)})
    noised = release.privatize(X, y, random_state=0)
    corrected = sd.debias(sd.losses.logistic(), release)

    def left_at(size):
        return sd.sgd(
            corrected, noised.X, noised.y, step_size=1e-9, l2=20.0, start=np.full(4, float(size)), random_state=0
        )

    with pytest.warns(sd.exceptions.VarianceWarning, match="times that of the uncorrected loss"):
        fit = left_at(0.65)
    assert fit.diagnostics["noise_inflation"] > 100
    assert 0.9 < left_at(0.2).diagnostics["noise_inflation"] < 2
    with pytest.raises(sd.DivergenceError, match="times that of the uncorrected loss"):
        left_at(1.0)


@pytest.mark.parametrize("target", [None, sd.RandomizedResponse(epsilon=1.0)], ids=["plain", "noised"])
def test_the_hessian_of_exponentials_under_categories_beside_uniform_noise(target):
    """Categories are summed over for it, and the noise beside them has no finite inverse but on exponentials."""
    release = sd.Release(
        {"c": sd.RandomizedResponse(epsilon=1.0, categories=("x", "y", "z")), "u": sd.UniformMechanism(0.5)}, target
    )
    corrected = sd.debias(sd.losses.exponential(), release)
    X, y, theta = np.array([[0, 1.0], [1, 0.0], [2, -1.0]]), [1.0, -1.0, 1.0], np.array([0.3, -0.2, 0.1, 0.4])
    numeric = [
        corrected.gradient(theta + step, X, y) - corrected.gradient(theta - step, X, y) for step in 1e-5 * np.eye(4)
    ]
    found = corrected.hessian(theta, X, y)
    np.testing.assert_allclose(found, np.stack(numeric, axis=2) / 2e-5, atol=1e-8)
    np.testing.assert_allclose(corrected.mean_hessian(theta, X, y), found.mean(axis=0), atol=1e-12)
