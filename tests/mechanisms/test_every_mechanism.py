"""What holds for every mechanism of the table: values, cards, arrays, clipping, sensitivity, refused arguments."""

import dataclasses
import inspect
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from instances import MECHANISMS, values_within

import symdebias as sd
import symdebias.mechanisms
from symdebias._domains import DELTA, EPSILON, NOT_NUMBERS, OPEN_UNIT, RADIUS, SCALE
from symdebias.mechanisms import KINDS, Mechanism, ranges, sampling
from symdebias.mechanisms.base import Clipped, VectorColumns
from symdebias.mechanisms.laplace import laplace_noise
from symdebias.noise import AdditiveNoise

REFUSED = (TypeError, ValueError, sd.exceptions.PrivacyError)
TYPES = {kind.__name__: kind for kind in KINDS.values()}
every = pytest.mark.parametrize("name", MECHANISMS)


def where(condition):
    """The names of the mechanisms for which a condition holds."""
    return pytest.mark.parametrize("name", [name for name, mechanism in MECHANISMS.items() if condition(mechanism)])


def taken(call, values):
    """The values that a call does not refuse, by an error that names what they are wrong for."""
    accepted = []
    for value in values:
        try:
            call(value)
        except REFUSED:
            continue
        accepted.append(value)
    return accepted


@where(lambda mechanism: isinstance(mechanism.noise, AdditiveNoise))
def test_additive_noise_is_derived_once(name):
    """Its moments are proved on SymPy expressions, and metrics under estimated noise ask for it thousands of times."""
    mechanism = MECHANISMS[name]
    assert mechanism.noise is mechanism.noise
    assert pickle.loads(pickle.dumps(mechanism)).noise is mechanism.noise


def test_the_table_has_every_mechanism():
    classes = [value for value in vars(symdebias.mechanisms).values() if inspect.isclass(value)]
    public = {kind for kind in classes if issubclass(kind, Mechanism) and not inspect.isabstract(kind)}
    assert public == set(KINDS.values()) == {type(mechanism) for mechanism in MECHANISMS.values()}
    assert all(getattr(sd, kind.__name__) is kind for kind in public)
    assert all(kind.kind == name for name, kind in KINDS.items())


# ---- values and cards ------------------------------------------------------------------------------------


@every
def test_mechanisms_are_values(name):
    mechanism = MECHANISMS[name]
    # A long matrix is described, everything else is shown as it is made.
    shown = mechanism if repr(mechanism).startswith("<") else eval(repr(mechanism), dict(TYPES))
    for again in (
        shown,
        pickle.loads(pickle.dumps(mechanism)),
        KINDS[mechanism.kind].from_card(json.loads(json.dumps(mechanism.to_card()))),
    ):
        assert again == mechanism
        assert hash(again) == hash(mechanism)
        assert again.guarantee == mechanism.guarantee
        assert again.noise == mechanism.noise
    assert [other for other in MECHANISMS.values() if other == mechanism] == [mechanism]
    for field in dataclasses.fields(mechanism):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mechanism, field.name, None)


@pytest.mark.parametrize("name", ["Gaussian", "Laplace", "discrete Laplace"])
def test_a_budget_is_not_a_known_scale(name):
    mechanism = MECHANISMS[name]
    declared = {"bounds": mechanism.bounds} if hasattr(mechanism, "bounds") else {"radius": mechanism.radius}
    known = type(mechanism).from_scale(mechanism.scale, **declared)
    assert known != mechanism
    assert known.guarantee is None
    assert (known.noise, known.bound, known.width) == (mechanism.noise, mechanism.bound, mechanism.width)


@where(
    lambda mechanism: {"epsilon", "matrix", "q_scale"}.isdisjoint(mechanism.to_card()) and mechanism.kind != "clipped"
)
def test_known_noise_makes_no_claim(name):
    assert MECHANISMS[name].guarantee is None


def claims(mechanism, card):
    """The guarantee of the mechanism that a card makes, or None where the card is refused."""
    try:
        return type(mechanism).from_card(card).guarantee
    except REFUSED:
        return None


@every
def test_cards_with_other_entries_are_refused(name):
    """An entry that is missing, unknown or of another kind: refused, or never with a guarantee that it decides."""
    mechanism = MECHANISMS[name]
    card = mechanism.to_card()
    for other in ({}, {**card, "seed": 1}):
        with pytest.raises(ValueError, match=r"entries|epsilon"):
            type(mechanism).from_card(other)
    for entry in card:
        assert claims(mechanism, {key: value for key, value in card.items() if key != entry}) is None
        wrong = taken(type(mechanism).from_card, [{**card, entry: value} for value in (math.nan, "text", 1j)])
        assert wrong == [], entry
        if card[entry] is not None and entry not in ("prior", "lower_bound", "gamma"):
            assert claims(mechanism, {**card, entry: None}) is None, entry


@where(lambda mechanism: {"scale", "q_scale"} & set(mechanism.to_card()) and mechanism.guarantee)
def test_cards_whose_noise_and_guarantee_disagree_are_refused(name):
    mechanism = MECHANISMS[name]
    card = mechanism.to_card()
    scale = "scale" if "scale" in card else "q_scale"
    changes = [{scale: card[scale] / 2}, {"epsilon": card["epsilon"] / 2}]
    if mechanism.guarantee.delta == 0:
        changes += [{scale: math.nextafter(card[scale], 0.0)}]
    if card.get("bounds"):
        changes += [{"bounds": [card["bounds"][0], card["bounds"][1] + 1]}]
    for change in changes:
        with pytest.raises(ValueError, match="noise and guarantee disagree"):
            type(mechanism).from_card({**card, **change})


# ---- arrays ----------------------------------------------------------------------------------------------


@every
def test_kinds_of_arrays(name):
    mechanism = MECHANISMS[name]
    values = values_within(mechanism, 6)
    plain = mechanism.privatize(values, random_state=0)
    assert plain.dtype == np.float64
    assert plain.shape == values.shape
    arrays = [np.repeat(values, 2, axis=0)[::2], np.asfortranarray(values), values.tolist(), values.astype(">f8")]
    arrays += [values.astype(kind) for kind in ("f4", "i8", "u1") if np.array_equal(values.astype(kind), values)]
    if values.ndim == 1:
        arrays += [values[:, None], np.asfortranarray(np.tile(values[:, None], 3))[:, :1]]
    for array in arrays:
        if mechanism.width is not None and hasattr(mechanism.noise, "matrix") and np.ndim(array) == 2:
            continue
        before = np.array(array)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = mechanism.privatize(array, random_state=0)
        np.testing.assert_array_equal(sent, plain.reshape(before.shape))
        np.testing.assert_array_equal(array, before)


@every
def test_values_that_are_no_finite_numbers_are_refused(name):
    mechanism = MECHANISMS[name]
    good = values_within(mechanism, 2)
    second = np.array([False, True]).reshape(2, *[1] * (good.ndim - 1))
    bad = [np.where(second, value, good) for value in (math.nan, math.inf)]
    bad += [good.astype(complex), good.astype(str), good.astype(bool), good.astype(object), good[:0], 1.0, [[good]]]
    assert taken(lambda values: mechanism.privatize(values, random_state=0), bad) == []
    with pytest.raises(ValueError, match="NaN in row 1"):
        mechanism.privatize(bad[0], random_state=0)


@where(lambda mechanism: getattr(mechanism, "mechanism", mechanism).width is not None)
def test_rows_of_another_width_are_refused(name):
    mechanism = MECHANISMS[name]
    with pytest.raises(ValueError, match=r"shape|one label per record"):
        mechanism.privatize(np.zeros((3, mechanism.width + 1)), random_state=0)
    columns = [f"x{place}" for place in range(mechanism.width + 1)]
    with pytest.raises(ValueError, match=r"noises .* columns? together|one column|clips what comes out"):
        sd.Release({tuple(columns): mechanism})


@where(lambda mechanism: mechanism.width is None)
@pytest.mark.parametrize("width", [1, 2, 7, 70])
def test_every_coordinate_is_noised(name, width):
    values = np.zeros((200, width))
    noise = MECHANISMS[name].privatize(values, random_state=width)
    assert noise.shape == values.shape
    if MECHANISMS[name].noise.step is None:
        assert len(np.unique(noise)) == noise.size
    assert np.all(np.any(noise != 0, axis=0))


# ---- clipping --------------------------------------------------------------------------------------------


def step_of(mechanism):
    """The step of the noise, None where it has none."""
    return getattr(mechanism.noise, "step", None)


def wild_values(mechanism, seed=0, records=300):
    """Values of all sizes, most of them far outside the bounds, a third of them opposite pairs."""
    rng = np.random.default_rng(seed)
    noised = getattr(mechanism, "mechanism", mechanism)
    if hasattr(noised.noise, "matrix"):
        return rng.choice(noised.noise.inputs, records)
    shape = (records, 3 if mechanism.width is None else mechanism.width)
    sizes = 10.0 ** rng.uniform(-3, 300 if noised.bound is not None else 9, (records, 1))
    values = rng.standard_normal(shape) * sizes
    if step_of(noised) is not None:
        # Beyond 2^52 steps everything is clipped; what is not must be on the grid.
        near = np.abs(values) < 1e11
        values = np.where(near, noised.noise.step * np.rint(values / noised.noise.step), 1e6 * values)
    values[1::3] = -values[::3]
    return values


def exact(row):
    return [Fraction(value) for value in np.ravel(row).tolist()]


@every
def test_clipped_values_lie_within_the_bounds_exactly(name):
    mechanism = MECHANISMS[name]
    for values in (wild_values(mechanism), values_within(mechanism, 30)):
        before = values.copy()
        clipped = mechanism.clip(values)
        np.testing.assert_array_equal(values, before)
        assert clipped.values.shape == values.shape
        changed = np.any((clipped.values != values).reshape(len(values), -1), axis=1)
        # Rows within rounding of a sphere may be drawn in by a few units in the last place.
        assert np.all(changed[clipped.outside])
        np.testing.assert_allclose(clipped.values[~clipped.outside], values[~clipped.outside], rtol=1e-12)
        again = mechanism.clip(clipped.values)
        np.testing.assert_array_equal(again.values, clipped.values)
        assert not again.outside.any()
        if mechanism.bound is None:
            assert not changed.any()
        else:
            norms = [sum(part * part for part in exact(row)) for row in clipped.values]
            assert max(norms) <= Fraction(mechanism.bound) ** 2
    assert not mechanism.clip(values_within(mechanism, 30)).outside.any()


@where(lambda mechanism: getattr(getattr(mechanism, "mechanism", mechanism), "bounds", None))
def test_numbers_are_clipped_to_the_bounds(name):
    mechanism = MECHANISMS[name]
    noised = getattr(mechanism, "mechanism", mechanism)
    (low, high), step = noised.bounds, noised.noise.step
    below, above = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    if step is not None:
        below, above = low - step, high + step
    clipped = mechanism.clip([-1.7e308, below, low, high, above, 1.7e308])
    assert clipped.values.tolist() == [low, low, low, high, high, high]
    assert clipped.outside.tolist() == [True, True, False, False, True, True]
    column = mechanism.clip([[-1e300], [low], [1e300]])
    assert column.values.tolist() == [[low], [low], [high]]
    assert column.outside.tolist() == [True, False, True]


BALLS = {
    "L2": (sd.GaussianMechanism, 2),
    "spherical": (sd.SphericalLaplaceMechanism, 2),
    "L1": (sd.LaplaceMechanism, 1),
}
finite = st.floats(allow_nan=False, allow_infinity=False)
radii = st.floats(-100, 100).map(lambda x: 10**x)


def exact_norm(row, order):
    """The norm itself for the first, its square for the second."""
    return sum(abs(part) ** order for part in exact(row))


@pytest.mark.parametrize("ball", BALLS)
@settings(max_examples=200)
@given(X=hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=finite), radius=radii)
@example(X=np.array([[3e250]]), radius=1e-59)
def test_clipped_rows_lie_in_the_ball_exactly(ball, X, radius):
    kind, order = BALLS[ball]
    clipped = kind.from_scale(1.0, radius=radius).clip(X)
    bound, hair = Fraction(radius) ** order, Fraction(1, 10**12)
    for row, inside, outside in zip(X, clipped.values, clipped.outside, strict=True):
        norm = exact_norm(row, order)
        assert exact_norm(inside, order) <= bound
        if norm > bound * (1 + hair):
            assert outside
            assert exact_norm(inside, order) >= bound * (1 - hair)
        if norm <= bound:
            assert not outside
        if norm < bound * (1 - hair):
            np.testing.assert_array_equal(inside, row)


@pytest.mark.parametrize("ball", BALLS)
@settings(max_examples=200)
@given(X=hnp.arrays(np.float64, (2, 3), elements=st.floats(-1e3, 1e3)), y=hnp.arrays(np.float64, 5, elements=finite),
       radius=radii)  # fmt: skip
def test_clipping_keeps_directions_and_clips_numbers_to_the_interval(ball, X, y, radius):
    kind, order = BALLS[ball]
    for row, clipped in zip(X, kind.from_scale(1.0, radius=1.0).clip(X).values, strict=True):
        wanted = row / max(np.linalg.norm(row, ord=order), 1.0)
        np.testing.assert_allclose(clipped, wanted, rtol=1e-13, atol=1e-300)
    clipped = kind.from_scale(1.0, radius=radius).clip(y)
    np.testing.assert_array_equal(clipped.values, np.clip(y, -radius, radius))
    np.testing.assert_array_equal(clipped.outside, np.abs(y) > radius)


@pytest.mark.parametrize("ball", BALLS)
def test_extreme_and_tiny_rows_and_rows_on_the_sphere(ball):
    """Without a warning, and rows that are on the sphere up to rounding are not reported."""
    kind, order = BALLS[ball]
    X = np.array([[1.7e308, 1.7e308], [5e-324, -0.0], [0.0, 0.0], [1e-200, 1e200], [-1.7e308, 5e-324]])
    for radius in (1e-100, 1e-3, 1.0, 1e100):
        clipped = kind.from_scale(1.0, radius=radius).clip(X)
        assert clipped.outside.tolist() == [True, False, False, True, True]
        np.testing.assert_allclose(clipped.values[0], [radius / 2 ** (1 / order)] * 2, rtol=1e-13)
        np.testing.assert_array_equal(clipped.values[1:3], X[1:3])
    sphere = np.random.default_rng(0).standard_normal((2000, 20))
    sphere /= np.linalg.norm(sphere, ord=order, axis=1, keepdims=True)
    clipped = kind.from_scale(1.0, radius=1.0).clip(sphere)
    assert not clipped.outside.any()
    np.testing.assert_allclose(clipped.values, sphere, rtol=1e-13)
    assert max(exact_norm(row, order) for row in clipped.values[:200]) <= 1


@every
def test_only_clipped_values_are_noised(name):
    mechanism, source = MECHANISMS[name], sampling.source(0)
    values = values_within(mechanism, 4)
    with pytest.raises(TypeError, match="only clipped values are noised; got ndarray"):
        mechanism.add_noise(values, source)
    with pytest.raises(TypeError, match=r"made by Mechanism\.clip"):
        Clipped(values, np.zeros(4, dtype=bool), mechanism)
    other = MECHANISMS["uniform" if name != "uniform" else "Laplace, known scale"]
    with pytest.raises(ValueError, match="clipped for"):
        mechanism.add_noise(other.clip(values), source)
    twin = pickle.loads(pickle.dumps(mechanism))
    clipped = twin.clip(values)
    assert mechanism.add_noise(clipped, source).shape == values.shape
    with pytest.raises(ValueError, match="read-only"):
        clipped.values[0] = 9.0
    kept = clipped.values.copy()
    values[:] = 9.0
    np.testing.assert_array_equal(clipped.values, kept)


@every
def test_values_that_were_noised_in_their_place_are_not_noised_again(name):
    mechanism, source = MECHANISMS[name], sampling.source(0)
    clipped = mechanism.clip(values_within(mechanism, 4))
    sent = mechanism.noise_in_place(clipped, source)
    kept = sent.copy()
    if clipped.values.flags.writeable:
        for draw in (mechanism.add_noise, mechanism.noise_in_place):
            with pytest.raises(ValueError, match="given up to be noised in their place"):
                draw(clipped, source)
    else:
        assert not np.shares_memory(sent, clipped.values)
        mechanism.add_noise(clipped, source)
    np.testing.assert_array_equal(sent, kept)


@pytest.mark.parametrize("epsilon", [2.0, 20.0], ids=["by trials", "by cosine"])
@pytest.mark.parametrize("kind", [sd.SphericalCapMechanism, sd.SphericalLaplaceMechanism])
def test_vectors_of_spherical_noise_stand_where_clipped_ones_did(kind, epsilon):
    """A cap took four copies of the records. Those that are not given up are left, and have the same noise."""
    mechanism, rows = kind(epsilon, radius=1.0), np.full((20, 3), 0.4)
    kept, given_up = mechanism.clip(rows), mechanism.clip(rows)
    sent = mechanism.noise_in_place(given_up, sampling.source(None))
    assert np.shares_memory(sent, given_up.values)
    mechanism.add_noise(kept, sampling.source(None))
    np.testing.assert_array_equal(kept.values, rows)
    seeded = [
        draw(mechanism.clip(rows), sampling.source(5, "hardened"))
        for draw in (mechanism.noise_in_place, mechanism.add_noise)
    ]
    np.testing.assert_array_equal(*seeded)


def test_values_given_up_to_a_draw_that_failed_are_not_noised_again(monkeypatch):
    mechanism, source = sd.RandomizedResponse(1.0), sampling.source(None)
    clipped = mechanism.clip(np.ones(4))
    with monkeypatch.context() as broken:
        broken.setattr(sampling, "_secret_octets", refused)
        with pytest.raises(OSError, match="no bits"):
            mechanism.noise_in_place(clipped, source)
    with pytest.raises(ValueError, match="given up to be noised in their place"):
        mechanism.add_noise(clipped, source)


def refused(out):
    raise OSError("no bits")


# ---- what a record can change ----------------------------------------------------------------------------


def change(mechanism, one, other):
    """How far two clipped values are apart, exactly and in the measure that the noise hides."""
    gaps = [a - b for a, b in zip(exact(one), exact(other), strict=True)]
    if isinstance(mechanism, sd.InputPerturbation):
        scales = [mechanism.q_scale] * mechanism.dimension + [mechanism.p_scale] * mechanism.dimension
        return sum((gap / Fraction(scale)) ** 2 for gap, scale in zip(gaps, scales, strict=True))
    if mechanism.guarantee.delta or isinstance(mechanism, sd.SphericalLaplaceMechanism):
        return sum(gap**2 for gap in gaps)
    return sum(map(abs, gaps))


def declared_change(mechanism):
    """How far they may be, by what the noise is calibrated to."""
    if isinstance(mechanism, sd.InputPerturbation):
        return 4 * sum(
            (Fraction(bound) / Fraction(scale)) ** 2
            for bound, scale in ((mechanism.q_bound, mechanism.q_scale), (mechanism.p_bound, mechanism.p_scale))
        )
    if isinstance(mechanism, sd.GaussianMechanism):
        return (2 * Fraction(mechanism.radius)) ** 2
    if isinstance(mechanism, sd.SphericalLaplaceMechanism):
        if mechanism.delta:
            return (2 * Fraction(mechanism.radius)) ** 2
        return (Fraction(mechanism.epsilon) * Fraction(mechanism.scale)) ** 2
    if isinstance(mechanism, (sd.LaplaceMechanism, sd.DiscreteLaplaceMechanism)):
        return Fraction(mechanism.epsilon) * Fraction(mechanism.scale)
    return Fraction(mechanism.sensitivity) * Fraction(mechanism.noise.step or 1)


def protects(mechanism):
    return mechanism.guarantee is not None and not hasattr(mechanism.noise, "matrix")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "width"),
    [
        (name, width)
        for name, mechanism in MECHANISMS.items()
        # A cap hides how far two records are apart, whatever the distance.
        if protects(mechanism) and isinstance(getattr(mechanism.noise, "noise", mechanism.noise), AdditiveNoise)
        for width in ([mechanism.width] if mechanism.width else [1, 2, 7, 100])
    ],
)
def test_no_two_values_are_farther_apart_than_the_noise_hides(name, width):
    mechanism = getattr(MECHANISMS[name], "mechanism", MECHANISMS[name])
    rng = np.random.default_rng(width)
    shape = (300, width)
    first = rng.standard_normal(shape) * 10.0 ** rng.uniform(3, 300, (300, 1))
    second = rng.standard_normal(shape) * 10.0 ** rng.uniform(3, 300, (300, 1))
    second[::3] = -first[::3]
    if step_of(mechanism) is not None:
        first, second = (mechanism.noise.step * np.rint(values / mechanism.noise.step) for values in (first, second))
    pairs = zip(mechanism.clip(first).values, mechanism.clip(second).values, strict=True)
    changes, most = [change(mechanism, *pair) for pair in pairs], declared_change(mechanism)
    # A step of .1 is no float64: a bound of 2 is 20 of them up to rounding, and the noise is in steps.
    hair = Fraction(1, 10**12) if step_of(mechanism) not in (None, 0.25, 1.0) else 0
    assert max(changes) <= most * (1 + hair)
    assert max(changes) >= most * Fraction(999, 1000)


@where(lambda mechanism: mechanism.guarantee is not None and hasattr(mechanism.noise, "matrix"))
def test_no_output_tells_two_labels_apart_by_more_than_the_budget(name):
    mechanism = MECHANISMS[name]
    for column in zip(*mechanism.noise.matrix, strict=True):
        assert math.log(max(column)) - math.log(min(column)) <= mechanism.guarantee.epsilon + 4e-16
    assert mechanism.guarantee.delta == 0


@pytest.mark.in_turn
@where(protects)
def test_the_check_of_guarantees_agrees(name):
    mechanism = MECHANISMS[name]
    check = sd.checks.check_guarantee(mechanism, samples=20_000, random_state=0)
    assert check.holds, str(check)
    if mechanism.guarantee.delta == 0:
        assert check.exact_epsilon == pytest.approx(mechanism.guarantee.epsilon, rel=1e-9)
        assert check.sampled_epsilon <= mechanism.guarantee.epsilon


# ---- arguments -------------------------------------------------------------------------------------------

ENDS = (math.nan, math.inf, -math.inf, "1", True, None, 1j, 1e101, 10**400)
POSITIVE = (0, 0.0, -1.0, 1e-320, np.array(1.0))
# What is refused for an argument of this name, whatever the mechanism.
BAD = {
    "epsilon": (*EPSILON.outside(), *POSITIVE),
    "delta": (*DELTA.outside(), np.array(0.1)),
    "radius": (*(value for value in RADIUS.outside() if value is not None), *POSITIVE),
    "q_bound": (*RADIUS.outside(), *POSITIVE),
    "p_bound": (*RADIUS.outside(), *POSITIVE),
    "scale": (*(value for value in SCALE.outside() if np.ndim(value) == 0), *POSITIVE, [0.0], [1.0, -1.0], 1e121),
    "half_width": (*SCALE.outside(), *POSITIVE),
    "q_scale": (*SCALE.outside(), *POSITIVE),
    "p_scale": (*SCALE.outside(), *POSITIVE),
    "p_share": OPEN_UNIT.outside(),
    "step": (math.nan, math.inf, 1e101, 1e-101, *POSITIVE[:4], *NOT_NUMBERS),
    "bounds": (
        (1, 0), (1, 1), (0,), (), (0, 1, 2), "01", b"01", 3, True, {0, 1}, (False, True), (math.nan, 0), (-math.inf, 0),
        *((0, end) for end in ENDS),
    ),
    "gamma": (0, 1, -0.1, 1.1, math.nan, math.inf, "1", "cubic", True, [0.5], 1j),
    "r": (0, -1, 6, 2.5, math.nan, math.inf, "cubic", True, None, [1]),
    "padded": (None, 1, 0, "yes", math.nan),
    "calibration": ("exact", None, 1, []),
    "low": (9.0, 10.0, *ENDS[:7]),
    "high": (0.0, -1.0, *ENDS[:7]),
    "dimension": (0, -1, 1.0, "2", None, True),
    "covariance": ([[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.4, 1.0]], [[0.0]], [1.0], [[1.0, 0.0]], [[math.nan]], "x"),
    "estimate": (
        *POSITIVE[:4], math.nan, math.inf, "x", None, True, [1.0], [[1.0, 2.0], [2.0, 1.0]], [[0.0]], [[1.0, 0.0]],
    ),
    "degrees_of_freedom": (0, -1, 0.99, 1e16, math.nan, math.inf, "9", None, True, [9.0]),
    "replicates": (
        [1.0, 2.0], 1.0, [[1.0], [2.0]], [[1.0, math.nan], [math.nan, 2.0]], [[1.0, 1.0], [2.0, 2.0]],
        [[1.0, math.inf]], [["a", "b"]], [[1, True], [0, None]], "ab", None, [[1.0, 2.0], [3.0]], [],
        np.zeros((2, 2, 2, 2)),
        [[[1.0, math.nan], [2.0, 3.0]], [[1.0, 2.0], [3.0, 5.0]]],
    ),
    "noised": ([1.0, 2.0, 3.0], [[1.0]] * 6, [math.nan] * 6, ["a"] * 6, 1.0, None, np.zeros((6, 1, 1)), [True] * 6),
    "true": ([1.0, 2.0, 3.0], [[1.0, 2.0]] * 6, [math.inf] * 6, ["a"] * 6, 1.0, None, [False] * 6),
    "keep": (0, 0.5, 1, -0.1, 1.1, math.nan, math.inf, "1", None, True, [0.8]),
    "ratio": (0, 1, -0.1, 1.1, math.nan, "1", None, True, [0.5]),
    "variance": (*POSITIVE[:4], math.nan, math.inf, "1", None, True, [1.0]),
    "standard_error": (-0.1, 3.0, math.nan, math.inf, "1", None, True, [0.1]),
    "categories": (
        (1,), ("a",), ("a", "a"), ("a", ""), (1, 1), (0, math.nan), (0, math.inf), ("a", 1), (False, True), "ab", None,
    ),
    "inputs": ((0, 0), ("a", 1), (0,), (0, math.nan), "ab", None),
    "outputs": ((0, 0), ("a", 1), (0,), (0, math.nan), "ab", [], {}),
    "labels": ((0, 0), (1, 0), (0,), (0, math.nan), "ab", None),
    "matrix": ([[0.5, 0.4], [0.5, 0.5]], [[0.5, 0.5]], [[1.0], [1.0]], [[1.5, -0.5]] * 2, [[math.nan, 1.0]] * 2, None),
    "prior": ([0.5, 0.6], [1.0], [-0.5, 1.5], [math.nan, 1.0], "ab"),
    "loss": ("cubic", None, 1),
    "lower_bound": (math.nan, math.inf, "1", [1.0]),
    "mechanism": (
        sd.RandomizedResponse(1.0), MECHANISMS["clipped Laplace"], MECHANISMS["Gaussian, correlated"], "laplace", None,
    ),
}  # fmt: skip

# Every way of making a mechanism, and arguments that are taken.
MAKERS = {
    "GaussianMechanism": {"epsilon": 1.0, "delta": 1e-5, "radius": 1.0, "calibration": "analytic"},
    "GaussianMechanism.from_scale": {"scale": 1.0, "radius": 1.0},
    "GaussianMechanism.from_covariance": {"covariance": [[1.0]], "radius": 1.0},
    "GaussianMechanism.from_estimate": {"estimate": 1.0, "degrees_of_freedom": 9, "radius": 1.0},
    "GaussianMechanism.from_replicates": {"replicates": [[1.0, 3.0], [2.0, 2.0], [5.0, math.nan]], "radius": 1.0},
    "GaussianMechanism.from_validation": {
        "noised": [1.0, 3.0, 2.0, 5.0, 5.5, 6.0], "true": [1.5, 2.5, 2.5, 4.5, 5.5, 6.0], "radius": 1.0,
    },
    "GaussianMechanism.from_reliability": {"ratio": 0.7, "variance": 4.0, "standard_error": 0.05, "radius": 1.0},
    "LaplaceMechanism": {"epsilon": 1.0, "bounds": (0, 1)},
    "LaplaceMechanism with radius": {"epsilon": 1.0, "radius": 1.0},
    "LaplaceMechanism.from_scale": {"scale": 1.0, "bounds": (0, 1)},
    "LaplaceMechanism.from_scale with radius": {"scale": 1.0, "radius": 1.0},
    "SphericalLaplaceMechanism": {"epsilon": 1.0, "radius": 1.0, "padded": True},
    "SphericalLaplaceMechanism with delta": {"epsilon": 1.0, "radius": 1.0, "delta": 0.1, "dimension": 2},
    "SphericalLaplaceMechanism.from_scale": {"scale": 1.0, "radius": 1.0, "dimension": 2, "padded": True},
    "DiscreteLaplaceMechanism": {"epsilon": 1.0, "bounds": (0, 1), "step": 1.0},
    "DiscreteLaplaceMechanism.from_scale": {"scale": 1.0, "bounds": (0, 1), "step": 1.0},
    "StaircaseMechanism": {"epsilon": 1.0, "bounds": (0, 1), "gamma": 0.5},
    "DiscreteStaircaseMechanism": {"epsilon": 1.0, "bounds": (0, 5), "step": 1.0, "r": 2},
    "SphericalCapMechanism": {"epsilon": 1.0, "radius": 1.0, "gamma": 0.5},
    "UniformMechanism": {"half_width": 1.0, "bounds": (0, 1)},
    "RandomizedResponse": {"epsilon": 1.0, "categories": (-1, 1)},
    "RandomizedResponse.from_keep_probability": {"keep": 0.8, "categories": (-1, 1)},
    "FiniteChannel": {"matrix": [[0.7, 0.3], [0.2, 0.8]], "inputs": (0, 1), "outputs": (0, 1)},
    "LabelRandomizer": {
        "labels": (0, 1), "outputs": (-0.5, 1.5), "matrix": ((0.75, 0.25), (0.25, 0.75)), "epsilon": 1.1,
        "prior": (0.5, 0.5), "loss": "squared", "lower_bound": 0.0,
    },
    "ClippedMechanism": {"mechanism": sd.LaplaceMechanism(1.0, bounds=(0, 1)), "low": 0.0, "high": 9.0},
    "InputPerturbation": {
        "dimension": 2, "q_scale": 4.0, "p_scale": 8.0, "q_bound": 1.0, "p_bound": 3.0, "delta": 1e-5,
    },
    "InputPerturbation.from_budget": {
        "dimension": 2, "epsilon": 1.0, "delta": 1e-5, "q_bound": 1.0, "p_bound": 1.0, "p_share": 0.5,
    },
}  # fmt: skip


# Values of the table that some take: pure differential privacy, and any number of columns.
ALSO_TAKEN = {
    ("SphericalLaplaceMechanism", "delta"): [0, 0.0],
    ("SphericalLaplaceMechanism.from_scale", "dimension"): [None],
}


def maker(name):
    kind, _, method = name.partition(" ")[0].partition(".")
    return getattr(TYPES[kind], method) if method else TYPES[kind]


def test_every_argument_of_every_maker_has_refused_values():
    """A maker returns the mechanism; `from_card` has tests of its own."""
    makers = set(TYPES) | {
        f"{kind.__name__}.{method}"
        for kind in TYPES.values()
        for method, value in vars(kind).items()
        if isinstance(value, classmethod) and method != "from_card" and not method.startswith("_")
    }
    assert {name.partition(" ")[0] for name in MAKERS} == makers
    for name in makers:
        given_to = set().union(*(MAKERS[form] for form in MAKERS if form.partition(" ")[0] == name))
        assert given_to == set(inspect.signature(maker(name)).parameters), name
        assert given_to <= set(BAD)


@pytest.mark.parametrize("name", TYPES)
def test_a_class_says_what_it_is_made_of(name):
    kind, taken = TYPES[name], inspect.signature(TYPES[name]).parameters
    needed = [one.name for one in taken.values() if one.default is one.empty]
    with pytest.raises(TypeError, match=f"^{name} was not given ") as refused:
        kind()
    assert all(f" {argument}" in str(refused.value) for argument in taken)
    assert ("from_scale(scale)" in str(refused.value)) == hasattr(kind, "from_scale")
    with pytest.raises(TypeError, match=f"^{name} takes no sigma. Give {needed[0]}"):
        kind(sigma=2.0)
    # No cause is shown above it, which would be Python's own words for the same.
    assert refused.value.__context__ is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sd.GaussianMechanism(2),
            "was not given delta and radius. Give delta, .* 1e-5; radius, ",
        ),
        (
            lambda: sd.LaplaceMechanism(scale=5),
            "takes no scale. Give epsilon, .* bounds= and radius=. Noise ",
        ),
        (lambda: sd.LaplaceMechanism(1.0, (0, 1), None, 4), "takes 3 arguments by place, and 4 were given"),
        (lambda: sd.LaplaceMechanism(1.0, epsilon=2.0), "was given epsilon twice"),
        (lambda: sd.LaplaceMechanism(**{"x" * 200: 2.0}), "takes no x{60}\\. "),
    ],
)
def test_arguments_that_are_none_of_a_class(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_an_error_of_a_mechanism_of_ones_own_is_its_own():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Failing(sd.UniformMechanism):
        def __post_init__(self):
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        Failing(1.0)
    with pytest.raises(TypeError, match="Failing was not given half_width"):
        Failing()


@pytest.mark.parametrize(
    ("name", "argument"), [(name, argument) for name, sound in MAKERS.items() for argument in sound]
)
def test_arguments_that_are_refused(name, argument):
    make, sound = maker(name), MAKERS[name]
    assert make(**sound)
    messages = []

    def with_value(value):
        try:
            make(**{**sound, argument: value})
        except REFUSED as error:
            messages.append(str(error))
            raise

    allowed = ALSO_TAKEN.get((name.partition(" ")[0], argument), [])
    assert [value for value in taken(with_value, BAD[argument]) if value not in allowed] == []
    also = {
        "scale": "covariance",
        "covariance": "values",
        "estimate": "covariance",
        "inputs": "rows",
        "outputs": "rows",
        "mechanism": "one number",
    }
    said = (argument, also.get(argument, argument))
    assert [message for message in messages if not any(word in message for word in said)] == []


# ---- vectors of another radius ---------------------------------------------------------------------------


@where(lambda mechanism: getattr(mechanism, "radius", None) is not None)
def test_the_same_mechanism_at_another_radius(name):
    mechanism = MECHANISMS[name]
    larger = mechanism.with_radius(3 * mechanism.radius)
    assert larger.radius == 3 * mechanism.radius
    assert str(larger.guarantee) == str(mechanism.guarantee)
    assert larger.with_radius(mechanism.radius) == mechanism
    if isinstance(mechanism, sd.SphericalCapMechanism):
        return  # a point of a sphere has no noise that is added
    # A budget buys noise in proportion to the radius; noise of a known scale is what it is.
    factor = 1.0 if mechanism.guarantee is None else 9.0
    assert larger.noise.variance == pytest.approx(factor * mechanism.noise.variance, rel=1e-9)


@where(lambda mechanism: getattr(mechanism, "radius", None) is None)
def test_mechanisms_without_a_radius_have_no_other(name):
    with pytest.raises(ValueError, match="no radius that could be another one"):
        MECHANISMS[name].with_radius(1.0)


@where(
    lambda mechanism: (
        not isinstance(
            mechanism,
            (sd.GaussianMechanism, sd.LaplaceMechanism, sd.SphericalLaplaceMechanism, sd.SphericalCapMechanism),
        )
    )
)
def test_noise_of_columns_that_is_not_known_is_refused(name):
    with pytest.raises(ValueError, match="does not state the noise of the columns"):
        MECHANISMS[name].known_columns(VectorColumns(2, 1.5, (4.0, 2.0)))


@where(lambda mechanism: isinstance(mechanism, sd.SphericalLaplaceMechanism))
def test_noise_that_columns_share_is_one_group(name):
    mechanism = MECHANISMS[name]
    ((count, known),) = mechanism.known_columns(VectorColumns(3, 1.5))
    assert (count, known.radius, known.guarantee) == (3, mechanism.radius, None)
    assert known.noise_on(3).variance == pytest.approx(mechanism.noise_on(3).variance)
    if mechanism.dimension is not None:
        with pytest.raises(ValueError, match="one coordinate more"):
            mechanism.known_columns(VectorColumns(2, 1.5, (4.0, 2.0)))
        return
    ((count, divided),) = mechanism.known_columns(VectorColumns(2, 1.5, (4.0, 2.0)))
    assert (count, divided.bound, divided.guarantee) == (3, 2.5, None)
    assert divided.noise == known.noise_on(3)
    assert divided.divisors_on(3).tolist() == [1.0, 1.0, 4.0]
    (count, columns), (one, target) = mechanism.known_columns(VectorColumns(2, 1.5, (4.0, 2.0), True))
    assert (count, one, columns.bound, target.bound) == (2, 1, 1.5, 2.0)
    assert columns.noise == known.noise_on(3)
    assert target.noise.variance == pytest.approx(known.noise_on(3).variance / 16, rel=1e-14)


@where(lambda mechanism: isinstance(mechanism, (sd.GaussianMechanism, sd.LaplaceMechanism)) and not mechanism.width)
def test_noise_of_columns_of_a_vector(name):
    mechanism = MECHANISMS[name]
    if getattr(mechanism, "degrees_of_freedom", None) is not None:
        with pytest.raises(ValueError, match="was estimated from measurements of columns, and margin and joint"):
            mechanism.known_columns(VectorColumns(2, 1.5))
        return
    (count, first), (one, last) = mechanism.known_columns(VectorColumns(2, 1.5, (4.0, 2.0)))
    assert (count, one) == (2, 1)
    assert (first.bound, last.bound) == (1.5, 2.0)
    assert first.guarantee is last.guarantee is None
    assert first.noise.variance == pytest.approx(mechanism.noise.variance)
    assert last.noise.variance == pytest.approx(mechanism.noise.variance / 16)
    assert mechanism.known_columns(VectorColumns(2, 1.5)) == ((2, first),)


# ---- mechanisms of others --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Own(Mechanism):
    """Laplace noise as somebody else would write it."""

    scale: float
    kind = "own"
    guarantee = None
    range = ranges.Numbers(None)

    @property
    def noise(self):
        return laplace_noise(self.scale)

    def _add_noise(self, values, source):
        return values + sampling.laplace_noise(self.scale, values.shape, source)


def changed(**members):
    """A mechanism of a class of the name Own with other members."""
    return dataclasses.dataclass(frozen=True)(type("Own", (Own,), {"__annotations__": {"scale": float}, **members}))(
        0.5
    )


@pytest.mark.parametrize(("drawn", "got"), [
    (lambda self, values, source: None, "NoneType"),
    (lambda self, values, source: values.tolist(), "list"),
    (lambda self, values, source: values[:, 0], r"an array of float64 of the shape \(3,\)"),
    (lambda self, values, source: values[:1], r"an array of float64 of the shape \(1, 2\)"),
    (lambda self, values, source: values + 0j, r"an array of complex128 of the shape \(3, 2\)"),
])  # fmt: skip
def test_a_draw_of_another_shape_or_kind_is_refused(drawn, got):
    """A column that was lost or one row for all would be released as if it were the records."""
    mechanism, X = changed(_add_noise=drawn), np.zeros((3, 2))
    message = (
        f"_add_noise of Own returned {got} for values of the shape .3, 2.. Return an array of numbers of that shape"
    )
    for call in (
        lambda: sd.Release(mechanism).privatize(X, random_state=0),
        lambda: mechanism.privatize(X, random_state=0),
        lambda: mechanism.add_noise(mechanism.clip(X), sampling.source(0)),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_a_draw_of_whole_numbers_is_one_of_numbers():
    found = changed(_add_noise=lambda self, values, source: np.rint(values).astype(int)).privatize([[0.6, 1.2]])
    assert (found.dtype, found.tolist()) == (np.float64, [[1.0, 1.0]])


@pytest.mark.parametrize(("members", "message"), [
    ({"kind": 3}, "kind of Own is int. State text"),
    ({"noise": 0.5}, "noise of Own is float. State a noise of symdebias.noise"),
    ({"guarantee": 1.0}, "guarantee of Own is float. State a symdebias.Guarantee, or None"),
    ({"range": (0, 1)}, "range of Own is tuple. State one of symdebias.mechanisms.ranges"),
    ({"range": ranges.Numbers}, "range of Own is .*. State one of"),
])  # fmt: skip
def test_what_a_mechanism_states_by_another_type_is_refused(members, message):
    mechanism = changed(**members)
    for call in (
        lambda: sd.Release(mechanism),
        lambda: sd.Release({"a": mechanism}),
        lambda: sd.Release(target=mechanism),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_a_card_is_not_written_under_the_kind_of_another_mechanism():
    """It would be read as that one, and another noise be undone."""
    assert '"kind": "own"' in sd.Release({"a": changed()}).to_json()
    mechanism = changed(kind="laplace")
    with pytest.raises(ValueError, match="Own has the kind 'laplace', which is that of LaplaceMechanism"):
        sd.Release({"a": mechanism}).to_json()
    with pytest.raises(ValueError, match="which is that of LaplaceMechanism"):
        sd.Release(target=mechanism).to_json()
