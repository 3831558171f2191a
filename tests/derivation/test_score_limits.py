"""Where corrections of several scores exist, and have a variance: what counts is how scores stand in exponentials."""

import numpy as np
import pytest
import sympy as sp
from kernel_means import assert_kernels_agree

import symdebias as sd
from symdebias.exceptions import DivergenceError, InfiniteVarianceError, NoExactCorrectionError

M, S, Y, X = sp.symbols("m s y x", real=True)
LOG_SCALE = S + (Y - M) ** 2 * sp.exp(-2 * S) / 2
# With the weights of the scores in its exponentials.
LOSSES = {
    "location and log scale": (LOG_SCALE, [(0, 2)]),
    "a difference": (sp.exp(M - S) - Y * M + S**2, [(1, -1)]),
    "two counts": (sp.exp(M) + sp.exp(S) - Y * (M + S), [(1, 0), (0, 1)]),
    "shared": (sp.exp(M + S) + sp.exp(3 * S) - Y * M, [(1, 1), (0, 3)]),
    "in no direction alone": ((Y - M) ** 2 * sp.exp(-S) + sp.exp(S), [(0, 1)]),
}
LAPLACE = sd.LaplaceMechanism.from_scale(0.3)
SPHERICAL = sd.SphericalLaplaceMechanism.from_scale(0.3)


def loss(name):
    return sd.Loss(LOSSES[name][0], score=(M, S), target=Y)


def reach_by_hand(name, theta, scale):
    """The largest b |w.Theta_j| over exponentials and columns: the correction exists where it is below 1."""
    return scale * max(np.abs(np.array(w) @ theta).max() for w in LOSSES[name][1])


def slope_of_logarithm(expression, at):
    """The slope of log|f| far out, which tails of the noise must outweigh."""
    with_digits = [sp.log(sp.Abs(expression.subs(X, sp.Float(x, 60)).evalf(60))) for x in (at, 2 * at)]
    return float((with_digits[1] - with_digits[0]) / abs(at))


@pytest.mark.parametrize("name", LOSSES)
def test_limits_are_where_tails_of_noise_outweigh_the_corrected_loss_and_its_square(name):
    """One column, G = (1 - b^2 d^2) f of f(theta x): E|G| is finite where the tails of the noise fall faster than |G|
    grows, exp(-|x|/b), and E G^2 where they fall faster than its square.
    """
    correction = sd.debias(loss(name), sd.Release(LAPLACE)).at(1)
    for direction in ([[1.0], [0.0]], [[0.3], [0.8]], [[-1.0], [0.6]], [[0.9], [0.9]], [[2.5], [0.1]]):
        theta = np.array(direction)
        unit = reach_by_hand(name, theta, 0.3)
        if unit == 0:
            correction.limits.require(1e3 * theta.ravel(), finite_variance=True)
            continue
        for share in (0.48, 0.52, 0.97, 1.03):
            at = theta * share / unit
            scores = {M: sp.Float(at[0, 0]) * X, S: sp.Float(at[1, 0]) * X, Y: sp.Rational(7, 10)}
            f = LOSSES[name][0].xreplace(scores)
            corrected = f - sp.Rational(9, 100) * sp.diff(f, X, 2)
            steepest = max(slope_of_logarithm(corrected, side * 3_000) for side in (1, -1))
            exists, has_variance = steepest < 1 / 0.3, 2 * steepest < 1 / 0.3
            assert (exists, has_variance) == (share < 1, share < 0.5)
            for finite, holds, error in (
                (False, exists, NoExactCorrectionError), (True, exists and has_variance, InfiniteVarianceError),
            ):  # fmt: skip
                broken = correction.limits.broken(at.ravel(), finite_variance=finite)
                assert (broken is None) == holds
                assert holds or broken[0] is (error if exists else NoExactCorrectionError)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", LOSSES)
def test_within_the_limits_kernels_have_the_declared_loss_as_mean(name):
    """A location many times as long as the sum over scores would allow."""
    rng = np.random.default_rng(3)
    correction = sd.debias(loss(name), sd.Release({("a", "b"): LAPLACE})).at(2)
    theta = np.array([[3.0, -2.0], [0.1, 0.2]]) if "log scale" in name or "alone" in name else rng.normal(size=(2, 2))
    theta *= 1.0 if "log scale" in name or "alone" in name else 0.3 / reach_by_hand(name, theta, 0.3)
    assert correction.limits.broken(theta.ravel(), finite_variance=True) is None
    assert_kernels_agree(
        correction, np.array([0.5, -0.4]), 0.7, theta.ravel(), rng, nodes=48, within=(1e-9, 1e-8, 1e-6, 1e-6, 1e-5),
        scaled=True,
    )  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("mechanism", [LAPLACE, SPHERICAL], ids=["Laplace", "spherical"])
def test_kernels_limits_and_certificates_hold_the_same_numbers(name, mechanism):
    corrected, rng = sd.debias(loss(name), sd.Release({("a", "b", "c"): mechanism})), np.random.default_rng(0)
    correction, largest = corrected.at(3), 0.0
    for _ in range(300):
        theta = rng.normal(size=(2, 3)) * rng.choice([0.0, 1.0], (2, 1)) * rng.choice([0.01, 1.0], 3)
        found = {"theta": theta.ravel(), "noise": correction.noise}
        exec(correction.program.guard(), found)
        assert found["reach"] == pytest.approx(correction.limits.score_reach(theta), rel=1e-12)
        if mechanism is LAPLACE:
            wanted = reach_by_hand(name, theta, 0.3)
        else:
            wanted = 0.3 * max(np.linalg.norm(np.array(w) @ theta) for w in LOSSES[name][1])
        assert found["reach"] / correction.limits.reach == pytest.approx(wanted, rel=1e-12)
        largest = max(largest, wanted / max(np.linalg.norm(theta), 1e-300))
    certificate = corrected.certify(theta_radius=2.0)
    longest = 0.6 * max(np.linalg.norm(w) for w in LOSSES[name][1])
    assert certificate.reach / certificate.reach_limit == pytest.approx(longest, rel=1e-12)
    assert largest * 2 <= longest * (1 + 1e-12)


def test_scores_that_grow_together_alone_have_a_limit():
    """1/(e^m + e^s) is bounded along both axes, and grows like an exponential where both scores fall: no limit was
    stated, and the correction was said to be exact where its mean is infinite.
    """
    both = sd.Loss(Y**2 / (sp.exp(M) + sp.exp(S)) + M**2 + S**2, score=(M, S), target=Y)
    corrected = sd.debias(both, sd.Release(sd.LaplaceMechanism.from_scale(0.9)))
    with pytest.raises(NoExactCorrectionError, match="exists below 1 only"):
        corrected.loss(np.array([[1.3], [1.3]]), np.array([[0.2]]), np.array([1.0]))
    assert np.isfinite(corrected.loss(np.array([[1.0], [1.0]]), np.array([[0.2]]), np.array([1.0]))).all()


# ---- normal noise ----------------------------------------------------------------------------------------

U = sp.Symbol("u", real=True)
NORMAL = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.8)}, sd.GaussianMechanism.from_scale(0.3))
BELLS = {"a bell": 1 - sp.exp(-((U - Y) ** 2) / 4), "its inverse": sp.exp((U - Y) ** 2 / 12)}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", BELLS)
def test_several_scores_have_the_limits_of_one_that_is_their_difference(name):
    """f(m - s - y) of two scores is f(u - y) of one with theta = theta_m - theta_s: kernels, limits, certificates."""
    one = sd.debias(sd.Loss(BELLS[name], score=U, target=Y), NORMAL)
    two = sd.debias(sd.Loss(BELLS[name].xreplace({U: M - S}), score=(M, S), target=Y), NORMAL)
    single, several, rng = one.at(2), two.at(2), np.random.default_rng(1)
    for _ in range(100):
        theta = rng.normal(size=(2, 2)) * rng.choice([0.3, 1.0, 3.0])
        for finite in (False, True):
            wanted = single.limits.broken(theta[0] - theta[1], finite_variance=finite)
            found = several.limits.broken(theta.ravel(), finite_variance=finite)
            assert (found and found[0]) is (wanted and wanted[0])
        guarded = {"theta": theta.ravel(), "noise": several.noise}
        exec(several.program.guard(), guarded)
        assert (guarded["variance"] < several.limits.for_kernels()[0]) == (wanted is None)
    # |theta_m - theta_s| is up to sqrt(2) ||theta||.
    for limit, finite in ((single.limits.variance, False), (single.limits.finite_variance, True)):
        if np.isfinite(limit):
            radius = np.sqrt(limit / 0.64 / 2)
            for share in (0.99, 1.01):
                theta = share * radius * np.array([[0.6, 0.8], [-0.6, -0.8]]) / np.sqrt(2)
                assert (several.limits.broken(theta.ravel(), finite_variance=finite) is None) == (share < 1)
                certificate = two.certify(theta_radius=share * radius)
                assert (certificate.finite_variance if finite else certificate.exists) == (share < 1)


@pytest.mark.in_turn
def test_a_descent_over_several_scores_stops_where_the_variance_ends():
    two = sd.debias(sd.Loss(sp.exp((M - S - Y) ** 2 / 12) - 9 * (M - S), score=(M, S), target=Y), NORMAL)
    X = np.random.default_rng(0).normal([1.0, 0.0], size=(500, 2))
    with pytest.raises(InfiniteVarianceError, match=r"a finite one needs .*, and s_00 = "):
        sd.sgd(two, X, np.zeros(500), step_size=0.05, batch_size=50, epochs=40, random_state=0)


# ---- noise of the records' own ---------------------------------------------------------------------------

T = sp.Symbol("t", real=True)
LABELS = {"target": Y, "target_values": (-1, 1)}
GROWING = {
    "one score": sd.Loss(sp.exp(U**2 / 8 - Y * U), score=U, **LABELS),
    "a difference of two": sd.Loss(sp.exp((M - S) ** 2 / 8 - Y * (M - S)) + (M + S) ** 2, score=(M, S), **LABELS),
    "a feature": sd.Loss.of_features(sp.exp((T * X) ** 2 / 8 - Y * T * X), features=[X], parameters=[T], **LABELS),
}


def measured(name, declared):
    """The corrected loss for a column of a declared deviation, and 2,000 records of which one has 8 times .4."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000)
    labels = np.where(rng.random(2000) < 1 / (1 + np.exp(-2 * x)), 1.0, -1.0)
    scales = np.where(np.arange(2000) == 7, 3.2, 0.4)
    column = (x + np.where(scales < 1, scales, 0.0) * rng.normal(size=2000))[:, None]
    corrected = sd.debias(GROWING[name], sd.Release({"x": sd.GaussianMechanism.from_scale(declared)}), method="exact")
    return corrected, column, labels, scales


@pytest.mark.in_turn
@pytest.mark.parametrize("name", GROWING)
def test_limits_are_those_of_the_noisiest_record(name):
    corrected, column, labels, scales = measured(name, 0.4)
    noisiest = sd.debias(
        corrected.declared, sd.Release({"x": sd.GaussianMechanism.from_scale(3.2)}), method="exact"
    ).at(1)
    records, rng = corrected.records(column, labels, noise_scale=scales), np.random.default_rng(1)
    found = set()
    for _ in range(50):
        theta = rng.normal(size=noisiest.number_of_parameters) * rng.choice([0.1, 0.3, 1.0])
        for finite in (False, True):
            wanted = noisiest.limits.broken(theta, finite_variance=finite)
            broken = records.limits.broken(theta, finite_variance=finite)
            assert (broken and broken[0]) is (wanted and wanted[0])
        guarded = {"theta": theta, "noise": records.guarded_noise}
        exec(records.correction.program.guard(), guarded)
        assert (guarded["variance"] < records.limits.for_kernels()[0]) == (wanted is None)
        found.add(wanted is None)
    assert found == {False, True}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", GROWING)
def test_fits_stop_where_the_variance_of_the_noisiest_record_ends(name):
    corrected, column, labels, scales = measured(name, 0.4)
    steps = {"step_size": 0.1, "batch_size": 50, "epochs": 5, "random_state": 0}
    with pytest.raises((DivergenceError, InfiniteVarianceError), match="has infinite variance"):
        sd.m_estimate(corrected, column, labels, noise_scale=scales)
    with pytest.raises(InfiniteVarianceError, match="has infinite variance"):
        sd.sgd(corrected, column, labels, noise_scale=scales, **steps)
    # A record without weight says nothing, and no more noise is corrected than that of records: that of the release is
    # in place of it.
    weights = (scales < 1).astype(float)
    for one in (corrected, measured(name, 9.0)[0]):
        fit = sd.m_estimate(one, column, labels, noise_scale=scales, sample_weight=weights)
        alone = sd.m_estimate(corrected, column[scales < 1], labels[scales < 1])
        np.testing.assert_allclose(np.ravel(fit.theta), np.ravel(alone.theta), rtol=1e-6)
        sd.sgd(one, column, labels, noise_scale=scales, sample_weight=weights, **steps)


def test_a_loss_without_a_correction_for_some_record_is_refused():
    bell = sd.Loss(1 - sp.exp(-((M - S - Y) ** 2) / 4), score=(M, S), target=Y)
    corrected = sd.debias(bell, sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    theta, records = np.array([[1.0], [-0.5]]), (np.zeros((2, 1)), np.zeros(2))
    assert np.isfinite(corrected.loss(theta, *records, noise_scale=[0.3, 0.9])).all()
    with pytest.raises(NoExactCorrectionError, match=r"s_00 = 1\.000, .*s_11 = 0\.2500"):
        corrected.loss(theta, *records, noise_scale=[0.3, 1.0])


def test_a_refusal_names_the_score_that_has_a_limit():
    corrected = sd.debias(loss("location and log scale"), sd.Release(LAPLACE))
    records = np.array([[0.2]]), np.array([1.0])
    assert np.isfinite(corrected.loss(np.array([[40.0], [1.0]]), *records)).all()
    with pytest.raises(NoExactCorrectionError, match=r"largest parameter of s, .* is 0\.51, .* exists below 0\.5 only"):
        corrected.loss(np.array([[0.0], [1.7]]), *records)
    corrected = sd.debias(loss("shared"), sd.Release(LAPLACE))
    with pytest.raises(InfiniteVarianceError, match=r"largest parameter of m/3 \+ s/3, .* is 0\.17, and from 0\.1667"):
        corrected.at(1).limits.require(np.array([1.4, 0.3]), finite_variance=True)


def records_of(location, log_scale, *, seed, n=5_000):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, (n, 2))
    y = x @ location + 0.5 + np.exp(x @ log_scale - 0.3) * rng.normal(size=n)
    return x + rng.laplace(scale=0.3, size=x.shape), y


FREE = sd.Release(LAPLACE, fit_intercept=True)


@pytest.mark.in_turn
def test_a_long_location_is_fitted_beside_a_log_scale_within_its_limit():
    """All parameters are within 4.5 standard errors: by the normal law one of six is not in 4e-5 of all seeds."""
    noised, y = records_of([2.0, -1.1], [0.12, -0.2], seed=5)
    fit = sd.m_estimate(sd.debias(loss("location and log scale"), FREE), noised, y)
    truth = np.array([[2.0, -1.1, 0.5], [0.12, -0.2, -0.3]])
    assert np.all(np.abs(fit.theta - truth) < 4.5 * fit.standard_errors)
    assert fit.standard_errors.max() < 0.1


@pytest.mark.in_turn
def test_a_fit_that_runs_into_a_limit_says_which():
    """Log scales of slope 1.4 have no correction of finite variance: it ends at .25/.3 = .83."""
    noised, y = records_of([0.5, 0.2], [1.4, 0.0], seed=1)
    with pytest.raises(DivergenceError, match=r"lies beyond a limit: a whole step on the largest parameter of s, "):
        sd.m_estimate(sd.debias(loss("location and log scale"), FREE), noised, y)


T1, X1 = sp.symbols("t1 x1", real=True)
# Under Laplace noise of the scale b of the target the square of exp(y - u) has a mean for b < 1/2, itself for b < 1.
TARGETS = {
    "one score": sd.Loss(sp.exp(Y - M) - (Y - M), score=M, target=Y),
    "two scores": sd.Loss(sp.exp(Y - M) - (Y - M) + (S - Y) ** 2, score=(M, S), target=Y),
    "features": sd.Loss.of_features(
        sp.exp(Y - T1 * X1 - T1**2 * X1**2) - Y + T1**2, features=[X1], parameters=[T1], target=Y
    ),
}


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_fits_are_refused_where_the_noise_of_the_target_leaves_no_variance(name):
    rng = np.random.default_rng(0)
    column = rng.uniform(-1, 1, (400, 1))
    target = column[:, 0] + 0.5 * rng.normal(size=400)
    steps = {"step_size": 1e-3}
    for scale, has_variance in ((0.2, True), (0.45, True), (0.55, False), (0.9, False)):
        release = sd.Release(target=sd.LaplaceMechanism.from_scale(scale), noiseless=("x1",))
        corrected = sd.debias(TARGETS[name], release, method="exact")
        assert corrected.certify(theta_radius=0.5).finite_variance is has_variance
        assert np.isfinite(corrected.loss(np.zeros((2, 1) if name == "two scores" else 1), column, target)).all()
        noised = target + rng.laplace(scale=scale, size=400)
        if has_variance:
            assert not sd.sgd_replicates(corrected, column, noised, [steps]).errors
            continue
        for solver, settings, options in (
            (sd.m_estimate, (), {}),
            (sd.sgd, (), steps),
            (sd.sgd_replicates, ([steps],), {}),
        ):
            with pytest.raises(InfiniteVarianceError, match=r"grows like exp\(1 \|y\|\), .* Release the target with"):
                solver(corrected, column, noised, *settings, **options)


def test_what_has_no_variance_is_not_chosen_where_a_surrogate_has_one():
    for scale, method in ((0.45, "exact"), (0.55, "surrogate"), (1.2, "surrogate")):
        release = sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.LaplaceMechanism.from_scale(scale))
        found = sd.debias(TARGETS["one score"], release)
        assert found.method == method
        assert ("has infinite variance" in found.reason) == (scale == 0.55)
    # None of two scores.
    found = sd.debias(TARGETS["two scores"], sd.Release(target=sd.LaplaceMechanism.from_scale(0.55), noiseless=("x1",)))
    assert found.method == "exact"
    assert "there is no surrogate, though by the exact correction" in found.reason
