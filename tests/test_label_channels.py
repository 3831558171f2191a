"""Labels released through a finite channel: enumerated over its outputs, and held against what it hides."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import U, Y
from quadrature import gaussian_mean

import symdebias as sd
from symdebias.declared import DeclaredLoss
from symdebias.derivation.labels import UP_TO_A_PART, is_hidden
from symdebias.exceptions import NoExactCorrectionError
from symdebias.mechanisms import LabelRandomizer
from symdebias.mechanisms.realised import realised, strict_ratio
from symdebias.noise import ChannelNoise

pytestmark = pytest.mark.newest

THETAS = np.array([[0.3, -0.7], [0.0, 0.0], [1.5, 0.4]])
RECORDS = np.array([[0.5, 1.2], [-1.0, 0.4], [0.0, 2.0]])

FOUR = np.array([[0.4, 0.3, 0.2, 0.1], [0.2, 0.2, 0.3, 0.3], [0.1, 0.5, 0.1, 0.3]])


def debiased_randomized_response(labels, epsilon, prior=None):
    """Randomized response with outputs that have the labels as means: k outputs, full rank."""
    y = np.array(labels, dtype=float)
    k, ratio = len(y), strict_ratio(epsilon, len(y))
    outputs = ((ratio + k - 1) * y - y.sum()) / (ratio - 1)
    matrix = (1 + (ratio - 1) * np.eye(k)) / (ratio + k - 1)
    return LabelRandomizer(y, outputs, realised(matrix, epsilon, outputs=outputs, means=y), epsilon, prior)


def end_points(labels, epsilon):
    """Two outputs with the labels as means: rank 2, whatever the number of labels."""
    y = np.array(labels, dtype=float)
    ratio = strict_ratio(epsilon, len(y))
    span = (y[-1] - y[0]) * (ratio + 1) / (ratio - 1)
    outputs = (y[0] + y[-1]) / 2 + span * np.array([-0.5, 0.5])
    high = (y - outputs[0]) / span
    matrix = realised(np.column_stack([1 - high, high]), epsilon, outputs=outputs, means=y)
    return LabelRandomizer(y, outputs, matrix, epsilon)


def on_bins(labels, bins, epsilon):
    """Randomized response on bins of labels, each with a number: fewer outputs than labels, and biased."""
    count = max(bins) + 1
    rows = np.full((len(labels), count), 1 / (np.exp(epsilon) + count - 1))
    rows[np.arange(len(labels)), bins] *= np.exp(epsilon)
    middles = [float(np.mean([y for y, own in zip(labels, bins, strict=True) if own == b])) for b in range(count)]
    return sd.FiniteChannel(rows / rows.sum(axis=1, keepdims=True), labels, middles)


CHANNELS = {
    "debiased": debiased_randomized_response((0, 1, 3), 1.0),
    "debiased, uneven prior": debiased_randomized_response((0, 1, 3), 1.0, (0.9, 0.1, 0.0)),
    "of two": debiased_randomized_response((0, 1), 0.5),
    "end points": end_points((0, 1, 2), 1.0),
    "many": debiased_randomized_response(range(1, 21), 2.0),
    "many, end points": end_points(range(1, 21), 2.0),
    "randomized response": sd.RandomizedResponse(1.0, (0, 1, 2)),
    "signs": sd.RandomizedResponse(1.0),
    "four outputs": sd.FiniteChannel(FOUR, (0, 1, 2), (5, 6, 7, 8)),
}  # fmt: skip
LOSSES = {
    "poisson": sd.losses.poisson(),
    "poisson with its factorial": sd.Loss(sp.exp(U) - Y * U + sp.loggamma(Y + 3), score=U, target=Y),
    "least squares": sd.losses.least_squares(),
    "negative binomial": sd.losses.negative_binomial(2.0),
}


def means(corrected, mechanism, theta, x):
    """Means of corrected loss and gradient over the outputs, for every label in the order of the inputs."""
    noise = mechanism.noise
    X = np.tile(x, (len(noise.outputs), 1))
    matrix = np.array(noise.matrix)
    y = np.array(noise.outputs)
    return matrix @ corrected.loss(theta, X, y), matrix @ corrected.gradient(theta, X, y)


def declared(corrected, theta, x, labels):
    """Loss and gradient of true records, by NumPy alone."""
    function, slopes = DeclaredLoss(corrected.declared, corrected.release).functions()
    score = np.full(len(labels), x @ theta)
    return function(score, labels), slopes[0](score, labels)[:, None] * x


# Every channel and every loss, each channel once or twice: all pairs take minutes of compilation.
USUAL = {
    ("debiased", "least squares"), ("debiased, uneven prior", "least squares"), ("of two", "negative binomial"),
    ("end points", "least squares"), ("many", "poisson"), ("many, end points", "poisson with its factorial"),
    ("randomized response", "poisson"), ("signs", "negative binomial"), ("four outputs", "poisson with its factorial"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("channel", "loss"),
    [
        pytest.param(channel, loss, marks=[] if (channel, loss) in USUAL else [pytest.mark.exhaustive])
        for channel in CHANNELS
        for loss in LOSSES
    ],
)
def test_unbiased_labels_are_enough(channel, loss):
    mechanism = CHANNELS[channel]
    corrected = sd.debias(LOSSES[loss], sd.Release(target=mechanism, noiseless=("a", "b")))
    assert corrected.method == "exact"
    assert corrected.is_exact
    labels = np.array(mechanism.noise.inputs)
    for theta in THETAS:
        for x in RECORDS:
            found, gradient = means(corrected, mechanism, theta, x)
            wanted, slopes = declared(corrected, theta, x, labels)
            np.testing.assert_allclose(gradient, slopes, atol=1e-10)
            offset = corrected.bias(theta, np.tile(x, (len(labels), 1)), labels)
            np.testing.assert_allclose(found - offset, wanted, atol=1e-9)
            assert np.abs(offset).max() == pytest.approx(corrected.loss_offset, abs=1e-15)
    if "end points" not in channel:
        assert corrected.loss_offset == 0


@pytest.mark.parametrize("loss", ["poisson", "negative binomial"])
def test_an_unbiased_output_stands_as_it_is(loss):
    mechanism = CHANNELS["many"]
    corrected = sd.debias(LOSSES[loss], sd.Release(target=mechanism, noiseless=("a", "b")))
    assert corrected.expression == LOSSES[loss].expression
    X, y = RECORDS, np.array(mechanism.outputs[:3])
    np.testing.assert_array_equal(
        corrected.gradient(THETAS[0], X, y),
        sd.debias(LOSSES[loss], sd.Release(noiseless=("a", "b"))).gradient(THETAS[0], X, y),
    )


def test_a_part_that_is_hidden_moves_no_gradient_and_is_stated():
    mechanism = CHANNELS["end points"]
    release = sd.Release(target=mechanism, noiseless=("a", "b"))
    corrected = sd.debias(sd.losses.least_squares(), release)
    # By hand: y^2/2 on 0, 1, 2 less its nearest affine function y - 1/6 is 1/6, -1/3, 1/6.
    offset = corrected.bias([0.0, 0.0], np.zeros((3, 2)), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(offset, [-1 / 6, 1 / 3, -1 / 6], atol=1e-12)
    assert corrected.notes[0] == UP_TO_A_PART
    assert "y**2/2, is not in the range of the channel" in corrected.notes[1]
    certificate = corrected.certificate
    assert certificate.exact
    assert certificate.loss_bias == pytest.approx(1 / 3, abs=1e-12)
    assert certificate.loss_offset == pytest.approx(1 / 3, abs=1e-12)
    assert certificate.gradient_bias < 1e-12
    assert "exact up to a part of the loss that no parameter changes" in str(certificate)
    check = sd.checks.check_unbiased(mechanism, sd.losses.least_squares())
    assert check.release.target == mechanism
    assert check.unbiased
    exactly = sd.debias(sd.losses.least_squares(), sd.Release(target=CHANNELS["debiased"], noiseless=("a",)))
    assert exactly.loss_offset == 0
    assert "up to a part" not in str(exactly.certificate)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("channel", "intercept", "loss"),
    [
        ("debiased", False, "poisson"),
        ("end points", True, "least squares"),
        ("randomized response", False, "least squares"),
        pytest.param("debiased", False, "least squares", marks=pytest.mark.exhaustive),
        pytest.param("end points", True, "poisson", marks=pytest.mark.exhaustive),
        pytest.param("randomized response", False, "poisson", marks=pytest.mark.exhaustive),
    ],
)
def test_noised_features_and_labels_together(channel, intercept, loss):
    """Gaussian noise on the features by quadrature, the channel by enumeration."""
    mechanism, scale = CHANNELS[channel], 0.5
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(scale)}, mechanism, fit_intercept=intercept)
    labels = np.array(mechanism.noise.inputs)
    theta, x = np.array([0.8, -0.3])[: 1 + intercept], 0.6
    corrected = sd.debias(LOSSES[loss], release)
    assert corrected.is_exact
    found = np.zeros((len(labels), len(theta)))
    for code, output in enumerate(mechanism.noise.outputs):

        def gradient(noise, place, output=output):
            X = (x + noise)[:, None]
            return corrected.gradient(theta, X, np.full(len(X), output))[:, place]

        of_output = [gaussian_mean(lambda e, j=j, g=gradient: g(e, j), scale**2, nodes=1001) for j in range(len(theta))]
        found += np.array(mechanism.noise.matrix)[:, code, None] * np.array(of_output)
    row = np.array([x, 1.0])[: 1 + intercept]
    _, wanted = declared(corrected, theta, row, labels)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    certificate = corrected.certificate
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
    assert certificate.loss_bias - certificate.loss_offset < 1e-9 * certificate.loss_scale


@pytest.mark.in_turn
@pytest.mark.parametrize("channel", ["debiased", "many", "randomized response", "four outputs"])
def test_losses_of_any_form_are_exact_at_full_rank(channel):
    mechanism = CHANNELS[channel]
    corrected = sd.debias(sd.losses.huber(), sd.Release(target=mechanism, noiseless=("a", "b")))
    assert corrected.is_exact
    labels = np.array(mechanism.noise.inputs)
    for theta in (*THETAS, np.array([3.0, 4.1])):
        for x in RECORDS:
            found, gradient = means(corrected, mechanism, theta, x)
            wanted, slopes = declared(corrected, theta, x, labels)
            np.testing.assert_allclose(found, wanted, atol=1e-10)
            np.testing.assert_allclose(gradient, slopes, atol=1e-10)


@pytest.mark.exhaustive
def test_many_labels_are_summed_over_with_categories():
    loss = sd.Loss(sp.log(1 + sp.exp(U)) + Y**2 * sp.cos(U) / 10, score=U, target=Y)
    mechanism = debiased_randomized_response(range(1, 15), 2.0)
    release = sd.Release({"a": sd.RandomizedResponse(1.0)}, mechanism, noiseless=("b",))
    corrected = sd.debias(loss, release, method="exact")
    assert "summed over the 14 labels" in corrected.notes[0]
    certificate = corrected.certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
    X, y = np.array([[1.0, 0.3], [-1.0, 0.5]]), np.array(mechanism.outputs[:2])
    theta, step, weights = np.array([0.4, -0.2]), 1e-5, np.ones(2)

    def gradient(at):
        return corrected.mean_gradient(at, X, y, sample_weight=weights)

    rows = [(gradient(theta + step * e) - gradient(theta - step * e)) / (2 * step) for e in np.eye(2)]
    hessian = corrected.mean_hessian(theta, X, y, sample_weight=weights)
    np.testing.assert_allclose(hessian, rows, rtol=1e-7, atol=1e-6 * np.abs(hessian).max())


HIDDEN = {
    "huber": (sd.losses.huber(), CHANNELS["end points"]),
    "huber, many": (sd.losses.huber(), CHANNELS["many, end points"]),
    "least squares on bins": (sd.losses.least_squares(), on_bins((0, 1, 2), (0, 1, 1), 0.5)),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_channel_hides_is_corrected_with_a_stated_bias(name):
    loss, mechanism = HIDDEN[name]
    release = sd.Release(target=mechanism, noiseless=("a", "b"))
    with pytest.raises(NoExactCorrectionError, match=r'not in its range.*Pass method="surrogate"'):
        sd.debias(loss, release, method="exact")
    corrected = sd.debias(loss, release)
    assert (corrected.method, corrected.is_exact, corrected.is_resolved) == ("surrogate", False, True)
    labels = np.array(mechanism.noise.inputs)
    matrix = np.array(mechanism.noise.matrix)
    assert f"rank {np.linalg.matrix_rank(matrix)} for {len(labels)} values" in corrected.reason
    # The nearest in the range, by least squares on the columns of the matrix.
    nearest = matrix @ np.linalg.pinv(matrix)
    away = 0.0
    for theta in THETAS:
        for x in RECORDS:
            found, gradient = means(corrected, mechanism, theta, x)
            wanted, slopes = declared(corrected, theta, x, labels)
            np.testing.assert_allclose(found, nearest @ wanted, atol=1e-9)
            np.testing.assert_allclose(gradient, nearest @ slopes, atol=1e-9)
            biases = corrected.bias(theta, np.tile(x, (len(labels), 1)), labels)
            np.testing.assert_allclose(biases, (nearest - np.eye(len(labels))) @ wanted, atol=1e-9)
            away = max(away, np.abs(found - wanted).max())
    assert away > 1e-3
    certificate = corrected.certify(theta_radius=3.0)
    assert certificate.loss_bias > 1e-3
    assert certificate.gradient_bias > 1e-3
    assert "biased" in str(certificate)
    with pytest.raises(ValueError, match="needs no radius"):
        corrected.resolve(radius=1.0, score_variance=1.0, n=10)


def test_hidden_labels_under_noise_that_needs_a_surrogate_are_refused():
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), CHANNELS["end points"])
    with pytest.raises(NoExactCorrectionError, match="nearest one in its range has no exact correction either"):
        sd.debias(sd.losses.huber(), release)


def test_a_loss_that_bends_only_among_the_labels_is_seen_to_be_hidden():
    """Within a few units of 0 the Huber loss is affine in labels of 10 and more; among them it is not."""
    mechanism = end_points(range(10, 20), 1.0)
    assert is_hidden(sd.losses.huber().with_target_values(range(10, 20)), mechanism.noise)
    assert not is_hidden(sd.losses.least_squares().with_target_values(range(10, 20)), mechanism.noise)


@pytest.mark.exhaustive
def test_free_form_losses():
    x1, x2, a, b, y = sp.symbols("x1 x2 a b y", real=True)
    loss = sd.Loss.of_features((a * x1**2 + b * x2 - y) ** 2, features=[x1, x2], parameters=[a, b], target=y)
    for mechanism in (CHANNELS["debiased"], CHANNELS["end points"]):
        release = sd.Release({("x1", "x2"): sd.GaussianMechanism.from_scale(0.3)}, mechanism)
        corrected = sd.debias(loss, release)
        assert corrected.is_exact
        certificate = corrected.certificate
        assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
        assert certificate.loss_bias - certificate.loss_offset < 1e-9 * certificate.loss_scale


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 6), st.integers(2, 8), st.integers(1, 6), st.integers(0, 2**31), st.booleans(),
)  # fmt: skip
def test_weights_are_exact_in_the_range_and_nearest_beyond(inputs, outputs, rank, seed, prior):
    """Random channels of any rank: merged rows and columns, priors with zeros."""
    rng = np.random.default_rng(seed)
    rank = min(rank, inputs, outputs)
    matrix = rng.dirichlet(np.ones(rank), inputs) @ rng.dirichlet(np.ones(outputs), rank)
    matrix /= matrix.sum(axis=1, keepdims=True)
    share = None
    if prior:
        share = rng.dirichlet(np.ones(inputs))
        share[0] = 0.0
        share /= share.sum()
    channel = ChannelNoise(range(inputs), range(outputs), matrix, None if share is None else share.tolist())
    weights, obstacles = channel.weights, channel.obstacles
    numbers = np.linalg.svd(matrix, compute_uv=False)
    if numbers[numbers > 1e-11 * numbers[0]].min() < 1e-6:
        return  # too near to a lower rank for a tight check
    assert len(obstacles) == inputs - np.linalg.matrix_rank(matrix, tol=1e-11 * numbers[0])
    inside = matrix @ rng.normal(size=outputs)
    np.testing.assert_allclose(matrix @ (weights @ inside), inside, atol=1e-7)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)
    # The residual of the nearest one is orthogonal to the range, under the prior.
    g = rng.normal(size=inputs)
    size = np.full(inputs, 1 / inputs) if share is None else np.maximum(share, 1e-6 / inputs)
    np.testing.assert_allclose(matrix.T @ (size * (matrix @ (weights @ g) - g)), 0.0, atol=1e-6)


def test_a_prior_makes_the_variance_least_where_it_says():
    matrix = FOUR
    g = np.array([0.0, 1.0, 2.0])

    def square(weights, prior):
        return prior @ (matrix @ (weights @ g) ** 2)

    for prior in (np.array([0.8, 0.1, 0.1]), np.array([0.0, 0.5, 0.5])):
        ours = ChannelNoise((0, 1, 2), (0, 1, 2, 3), matrix, prior.tolist()).weights
        even = ChannelNoise((0, 1, 2), (0, 1, 2, 3), matrix).weights
        assert square(ours, prior) < square(even, prior) - 1e-4
        np.testing.assert_allclose(matrix @ ours, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("prior", [(0.5, 0.5), (0.5, 0.5, 0.5), (1.5, -0.5, 0.0)])
def test_priors_that_are_none_are_refused(prior):
    with pytest.raises(ValueError, match="prior"):
        ChannelNoise((0, 1, 2), (0, 1, 2), np.eye(3).tolist(), prior)


def test_metrics_state_what_a_channel_hides_and_compare_without_it():
    rng = np.random.default_rng(0)
    mechanism = CHANNELS["end points"]
    release = sd.Release(target=mechanism, noiseless=("a",))
    X, y = rng.normal(size=(400, 1)), rng.integers(0, 3, 400).astype(float)
    noised = release.privatize(X, y, random_state=1)
    found = sd.evaluation.evaluate([0.5], noised.X, noised.y, metric="squared_error", release=release)
    assert (found.bias, found.bias_is_certified) == (pytest.approx(2 / 3), True)
    candidates = {"a": lambda X, y: [0.5], "b": lambda X, y: [0.9]}
    compared = sd.evaluation.cross_validate(candidates, noised.X, noised.y, release=release, metric="squared_error")
    assert [difference.bias for difference in compared.differences.values()] == [0.0, 0.0]
    # A hidden metric: the mean over records of the worst label's bias.
    found = sd.evaluation.evaluate([0.5], noised.X, noised.y, metric=sd.losses.huber(), release=release)
    corrected = sd.debias(sd.losses.huber(), release)
    every = [np.abs(corrected.bias([0.5], X, np.full(400, label))) for label in (0.0, 1.0, 2.0)]
    assert found.bias == pytest.approx(np.max(every, axis=0).mean())
    assert found.bias_is_certified


@pytest.mark.exhaustive
def test_plans_have_the_bias_of_what_is_hidden():
    """First order: the expected bias of theta against the exact root of the nearest loss on the population."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2000, 1))
    y = np.clip(np.round(1 + X[:, 0] + 0.5 * rng.normal(size=2000)), 0, 2)
    loss, mechanism = HIDDEN["least squares on bins"]
    release = sd.Release(target=mechanism, noiseless=("a",), fit_intercept=True)
    found = sd.planning.expected_fit(loss, release, sd.planning.Population(X, y), n=1e5)
    corrected = sd.debias(loss, release)
    mixed = corrected.label_mixing @ np.array([0.0, 1.0, 2.0])
    rows = np.column_stack([X, np.ones(2000)])
    away = np.linalg.lstsq(rows, mixed[y.astype(int)], rcond=None)[0] - np.linalg.lstsq(rows, y, rcond=None)[0]
    np.testing.assert_allclose(found.bias, away, atol=1e-9)
    assert np.abs(away).max() > 0.01


@pytest.mark.exhaustive
def test_training_on_randomized_labels_finds_the_parameters():
    """Least squares on true and on released labels: 6 standard errors have a chance of 2e-9 each."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 2))
    y = np.clip(rng.poisson(np.exp(X @ [0.5, -0.5])), 0, 5).astype(float)
    release = sd.Release(target=debiased_randomized_response(range(6), 2.0), noiseless=("a", "b"))
    noised = release.privatize(X, y, random_state=1)
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), noised.X, noised.y)
    assert np.all(np.abs(fit.theta - np.linalg.lstsq(X, y, rcond=None)[0]) < 6 * fit.standard_errors)
    assert fit.standard_errors.max() < 0.1


@pytest.mark.exhaustive
def test_descent_on_what_a_channel_hides():
    loss, mechanism = HIDDEN["huber"]
    release = sd.Release(target=mechanism, noiseless=("a", "b"))
    X, y = np.tile(RECORDS, (20, 1)), np.tile(mechanism.outputs, 30)
    corrected = sd.debias(loss, release)
    fit = sd.sgd(corrected, X, y, step_size=0.1, batch_size=60, order="given")
    np.testing.assert_allclose(fit.theta, -0.1 * corrected.gradient([0.0, 0.0], X, y).mean(axis=0), rtol=1e-10)
    assert fit.corrected is corrected


def test_what_ignoring_the_noise_costs_needs_no_declared_values():
    release = sd.Release(target=sd.RandomizedResponse(1.0), noiseless=("a",))
    label, _, _ = sd.bias(sd.losses.least_squares(), release)([0.5], [[1.0]], [1.0])
    # E (u - y~)^2/2 - (u - 1)^2/2 = u P(flip) 2 with y~^2 = 1.
    assert label.item() == pytest.approx(2 * 0.5 / (1 + np.e), rel=1e-12)


# ---- labels as they were released ---------------------------------------------------------------------------------


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", [sd.losses.least_squares(), sd.losses.poisson(), sd.losses.huber()], ids=str)
@pytest.mark.parametrize("channel", CHANNELS)
def test_released_labels_are_numbers_without_a_correction(channel, loss):
    """Outputs and true labels alike, whatever the number of labels; the bias is that of the channel's rows."""
    mechanism = CHANNELS[channel]
    plain = sd.debias(loss, sd.Release(target=mechanism, noiseless=("a", "b")), method="none")
    noise = mechanism.noise
    for theta, x in zip(THETAS, RECORDS, strict=True):
        for y in (np.array(noise.inputs), np.array(noise.outputs)):
            X = np.tile(x, (len(y), 1))
            wanted, slopes = declared(plain, theta, x, y)
            np.testing.assert_allclose(plain.loss(theta, X, y), wanted, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(plain.gradient(theta, X, y), slopes, rtol=1e-12, atol=1e-12)
        labels = np.array(noise.inputs)
        found = plain.bias(theta, np.tile(x, (len(labels), 1)), labels)
        before, after = (declared(plain, theta, x, np.array(values))[0] for values in (noise.inputs, noise.outputs))
        np.testing.assert_allclose(found, np.array(noise.matrix) @ after - before, rtol=1e-9, atol=1e-9)


def test_the_certificate_of_released_labels_has_their_bias():
    """The largest bias over labels and scores of |u| <= sqrt(2), which is at an end of the scores."""
    mechanism = CHANNELS["end points"]
    release = sd.Release(target=mechanism, noiseless=("a", "b"))
    for loss, wanted in ((sd.losses.least_squares(), None), (sd.losses.poisson(), 0.0)):
        certificate = sd.debias(loss, release, method="none").certificate
        if wanted is None:
            # (u - y)^2/2 is off by half of the variance of the released label.
            matrix, outputs = np.array(mechanism.noise.matrix), np.array(mechanism.noise.outputs)
            wanted = np.max(matrix @ outputs**2 - np.array(mechanism.noise.inputs) ** 2) / 2
        assert certificate.loss_bias == pytest.approx(wanted, abs=1e-9)
        assert certificate.gradient_bias < 1e-9
        assert not certificate.exact


def test_labels_that_a_channel_does_not_know_are_refused_without_a_correction():
    release = sd.Release(target=CHANNELS["end points"], noiseless=("a",))
    plain = sd.debias(sd.losses.least_squares(), release, method="none")
    with pytest.raises(ValueError, match=r"labels must be .*got 1 other value\. The first other one is in row 0"):
        plain.loss([0.0], [[1.0]], [0.5])
    coin = sd.debias(
        sd.losses.least_squares(), sd.Release(target=sd.RandomizedResponse(1.0), noiseless=("a",)), method="none"
    )
    with pytest.raises(ValueError, match=r"labels must be -1 or \+1; got 0 and 1"):
        coin.loss([0.0], [[1.0], [1.0]], [0.0, 1.0])
    text = sd.Release(target=sd.RandomizedResponse(1.0, ("x", "y", "z")), noiseless=("a",))
    with pytest.raises(ValueError, match="continuous target"):
        sd.debias(sd.losses.least_squares(), text, method="none")


def test_text_that_a_channel_sends_is_no_number():
    channel = sd.FiniteChannel(FOUR, (0, 1, 2), ("p", "q", "r", "s"))
    plain = sd.debias(sd.losses.least_squares(), sd.Release(target=channel, noiseless=("a",)), method="none")
    assert plain.declared.target_values == (0, 1, 2)
    assert plain.at(1).uncorrected is None


def test_fits_of_released_labels_are_those_of_numbers():
    """Randomized response on bins: the uncorrected fit is that of least squares on what was sent."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(500, 2)), rng.integers(1, 8, 500).astype(float)
    mechanism = sd.labels.randomized_response_on_bins(range(1, 8), np.full(7, 1 / 7), 1.0)
    noised = sd.Release(target=mechanism, noiseless=("a", "b")).privatize(X, y, random_state=1)
    plain = sd.debias(sd.losses.least_squares(), noised.release, method="none")
    wanted = np.linalg.lstsq(X, noised.y, rcond=None)[0]
    np.testing.assert_allclose(sd.m_estimate(plain, noised.X, noised.y).theta, wanted, rtol=1e-9)
    naive = sd.literature.naive(sd.losses.least_squares(), noised.release, noised.X, noised.y)
    np.testing.assert_allclose(naive.theta, wanted, rtol=1e-6)
    descended = sd.sgd(plain, noised.X, noised.y, epochs=1, random_state=0)
    assert np.isfinite(descended.theta).all()
