"""Tables of mechanisms, losses, releases and solvers that general properties are crossed with."""

import numpy as np
import sympy as sp

import symdebias as sd

U, Y = sp.symbols("u y", real=True)
Z = Y * U


def normal_cdf(x):
    return (1 + sp.erf(x / sp.sqrt(2))) / 2


# Margin losses with a closed form: name -> (expression of the margin, limit of the noise variance or None).
EXACT_MARGIN = {
    "exponential": (sp.exp(-Z), None),
    "squared": ((Z - 1) ** 2 / 2, None),
    "quartic": (Z**4 - 2 * Z, None),
    "trigonometric": (sp.sin(3 * Z) + sp.cos(Z), None),
    "polynomial times exponential": (Z**2 * sp.exp(-Z / 2), None),
    "Gaussian": (sp.exp(-(Z**2) / 8), 4.0),
    "normal cdf": (normal_cdf(-Z), 1.0),
    "hyperbolic times Gaussian": (sp.cosh(Z) ** 2 * sp.exp(-(Z**2) / 6), 3.0),
}
NO_CLOSED_FORM = {
    "logistic": sp.log(1 + sp.exp(-Z)),
    "absolute": sp.Abs(Z),
    "rational": 1 / (1 + Z**2),
}


def margin_loss(expression, **options):
    return sd.Loss(expression, score=U, target=Y, target_values=(-1, 1), **options)


def free_form_loss():
    x1, x2, t1, t2 = sp.symbols("x1 x2 t1 t2", real=True)
    return sd.Loss.of_features((t1 * x1**2 + t2 * x2 - Y) ** 2, features=[x1, x2], parameters=[t1, t2], target=Y)


def gaussian_release(scale=0.5, *, epsilon=1.0, **options):
    """Gaussian noise of a known scale on the features, randomized response on the label."""
    return sd.Release(
        features=sd.GaussianMechanism.from_scale(scale), target=sd.RandomizedResponse(epsilon=epsilon), **options
    )


def records(n, columns, seed=0, *, continuous=False):
    """Records within the unit ball, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, columns)) / np.sqrt(columns)
    y = rng.uniform(-1, 1, size=n) if continuous else np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return X, y


def logistic_records(n, theta, seed=0, *, intercept=0.0, in_ball=False):
    """Columns that are uniform on [-1, 1], or on a cube within the unit ball, and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, len(theta)))
    if in_ball:
        X /= np.sqrt(len(theta))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-(X @ theta + intercept))), 1.0, -1.0)


def clipped_records(n=400, p=2, seed=0):
    """Normal columns, rows shortened to lengths below 1, and labels that the first column decides but for noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)) * 1.001
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def free_form_in_three(kind="polynomial and exponential"):
    """A free-form loss in three features that is no function of a score."""
    x1, x2, x3, t1, t2 = sp.symbols("x1 x2 x3 t1 t2", real=True)
    expression = {
        "polynomial and exponential": (t1 * x1**2 + t2 * x2 * x3 - Y) ** 2 + t1 * sp.exp(t2 * x1 / 2),
        "sine": sp.sin(t1 * x1) * x2 + t2 * x3 * Y,
    }[kind]
    return sd.Loss.of_features(expression, features=[x1, x2, x3], parameters=[t1, t2], target=Y)


# Losses that every way of noising is crossed with.
CROSSED_LOSSES = {
    "exponential": sd.losses.exponential(),
    "squared": sd.losses.squared_margin(),
    "logistic": sd.losses.logistic(),
    "poisson": sd.losses.poisson(),
    "quartic": sd.Loss((U - Y) ** 4 / 4, score=U, target=Y),
    "sin + exp": margin_loss(sp.sin(2 * Z) + sp.exp(-Z / 2)),
    "free form": free_form_in_three(),
}

_NOISE = {
    "Gaussian": sd.GaussianMechanism.from_scale(0.5),
    "Laplace": sd.LaplaceMechanism.from_scale(0.3),
    "discrete Laplace": sd.DiscreteLaplaceMechanism.from_scale(0.3, step=0.5),
    "anisotropic": sd.GaussianMechanism.from_scale([0.5, 0.2, 0.0]),
    "correlated": sd.GaussianMechanism.from_covariance([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.1]]),
}


def mixed_release(*, target):
    """The mixed release of the documentation: groups, single columns, categories, a noiseless one, an intercept."""
    return sd.Release(
        features={
            ("age", "hours"): sd.GaussianMechanism(epsilon=4.0, delta=1e-5, radius=1.0),
            "income": sd.LaplaceMechanism(epsilon=4.0, bounds=(0.0, 1.0)),
            "sex": sd.RandomizedResponse(epsilon=1.0),
            "region": sd.RandomizedResponse(epsilon=1.0, categories=("n", "e", "s", "w")),
        },
        target=target,
        noiseless=("year",),
        fit_intercept=True,
    )


def crossed_release(noise, loss):
    """A way of noising for a loss: three columns, or those of the mixed release."""
    binary = loss.target_values == (-1.0, 1.0)
    coin = sd.RandomizedResponse(epsilon=1.0)
    columns = tuple(symbol.name for symbol in loss.features) or ("a", "b", "c")
    first, *rest = columns
    if noise == "randomized response on the target":
        return sd.Release({columns[:2]: _NOISE["Gaussian"]}, coin, noiseless=columns[2:])
    if noise == "k-ary feature":
        values = (-1, 0, 1) if loss.features else ("n", "e", "s", "w")
        return sd.Release(
            {first: sd.RandomizedResponse(epsilon=1.0, categories=values), rest[0]: _NOISE["Gaussian"]},
            coin if binary else None,
            noiseless=rest[1:],
        )
    if noise == "mixed":
        if not loss.features:
            return mixed_release(target=coin if binary else None)
        return sd.Release({first: _NOISE["Gaussian"], rest[0]: _NOISE["Laplace"], rest[1]: coin})
    mechanism = _NOISE[noise.removesuffix(", per record")]
    if mechanism.width is not None:
        return sd.Release({columns: mechanism})
    return sd.Release(dict.fromkeys(columns, mechanism), coin if binary else None)


CROSSED_NOISES = [*_NOISE, "randomized response on the target", "k-ary feature", "mixed"]


# Every kind of mechanism, with a budget and without, in every form of bounds: what holds for all of them is asked of
# each, so that a new mechanism is tested by a line here.
MECHANISMS = {
    "Gaussian": sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0),
    "Gaussian, classical": sd.GaussianMechanism(epsilon=0.5, delta=1e-7, radius=3.0, calibration="classical"),
    "Gaussian, known scale": sd.GaussianMechanism.from_scale(0.5),
    "Gaussian, known scale in a ball": sd.GaussianMechanism.from_scale(0.5, radius=2.0),
    "Gaussian, scale by column": sd.GaussianMechanism.from_scale([0.5, 0.0]),
    "Gaussian, correlated": sd.GaussianMechanism.from_covariance(
        [[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.1]], radius=3.0
    ),
    "Gaussian, estimated": sd.GaussianMechanism.from_estimate(0.5, 40.0),
    "Gaussian, estimated covariance": sd.GaussianMechanism.from_estimate([[0.3, 0.1], [0.1, 0.2]], 7, radius=3.0),
    "Laplace": sd.LaplaceMechanism(0.3, bounds=(-1.0, 2.0)),
    "Laplace, in a ball": sd.LaplaceMechanism(0.3, radius=2.0),
    "Laplace, known scale": sd.LaplaceMechanism.from_scale(0.1),
    "Laplace, known scale within bounds": sd.LaplaceMechanism.from_scale(0.1, bounds=(0, 1)),
    "Laplace, known scale in a ball": sd.LaplaceMechanism.from_scale(0.1, radius=0.1),
    "spherical Laplace": sd.SphericalLaplaceMechanism(0.3, radius=2.0),
    "spherical Laplace, padded": sd.SphericalLaplaceMechanism(2.0, 0.5, padded=True),
    "spherical Laplace, with a delta": sd.SphericalLaplaceMechanism(1.0, 1.0, 1e-3, dimension=3),
    "spherical Laplace, known scale": sd.SphericalLaplaceMechanism.from_scale(0.1),
    "spherical Laplace, known scale in a ball": sd.SphericalLaplaceMechanism.from_scale(0.1, radius=2.0, dimension=2),
    "discrete Laplace": sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 9)),
    "discrete Laplace, tenths": sd.DiscreteLaplaceMechanism(0.3, bounds=(-1, 2), step=0.1),
    "discrete Laplace, known scale": sd.DiscreteLaplaceMechanism.from_scale(2.0, step=0.5),
    "discrete Laplace, known scale within bounds": sd.DiscreteLaplaceMechanism.from_scale(0.5, bounds=(-3, 2)),
    "staircase": sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0)),
    "staircase, squared": sd.StaircaseMechanism(1.0, bounds=(-1, 2), gamma="squared"),
    "staircase, gamma": sd.StaircaseMechanism(2.0, bounds=(0, 1), gamma=0.5),
    "discrete staircase": sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 10), r=4),
    "discrete staircase, quarters": sd.DiscreteStaircaseMechanism(0.3, bounds=(-1, 2), step=0.25, r="absolute"),
    "uniform": sd.UniformMechanism(0.5),
    "uniform, within bounds": sd.UniformMechanism(0.25, bounds=(-1, 2)),
    "randomized response": sd.RandomizedResponse(epsilon=1.0),
    "randomized response, other numbers": sd.RandomizedResponse(epsilon=2.0, categories=(3, 0.5, 1)),
    "randomized response, letters": sd.RandomizedResponse(1.0, ("n", "e", "s", "w")),
    "channel": sd.FiniteChannel([[0.8, 0.2], [0.4, 0.6]], (-1, 1)),
    "channel to other outputs": sd.FiniteChannel([[0.7, 0.2, 0.1], [0.0, 0.3, 0.7]], ("a", "b"), (1, 2, 3)),
    "label randomizer": sd.labels.debiased_randomized_response(labels=(0, 1, 2), epsilon=1.0),
    "clipped Laplace": sd.ClippedMechanism(sd.LaplaceMechanism(1.0, bounds=(0, 1)), 0, 1),
    "clipped Gaussian": sd.ClippedMechanism(sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0), -2, 3),
    "spherical cap": sd.SphericalCapMechanism(1.0, 2.0),
    "spherical cap, gamma": sd.SphericalCapMechanism(2.0, 1.0, gamma=0.4),
    "input perturbation": sd.InputPerturbation(2, q_scale=4.0, p_scale=8.0, q_bound=1.0, p_bound=3.0, delta=1e-5),
}


# Every loss of the catalogue, with arguments where it needs some: what holds for all of them is asked of each.
ARGUMENTS = {"softmax": (3,), "expectile": (0.75,)}
LOSSES = {name: getattr(sd.losses, name)(*ARGUMENTS.get(name, ())) for name in sd.losses.__all__}
NOT_CONVEX = {"cauchy"}
# Losses of targets that are not negative: convex for these.
NON_NEGATIVE = {"gamma", "tweedie"}

# Every way of releasing records, so that what holds for all of them is asked of each.
_GAUSSIAN = sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0)
_WIDE = sd.GaussianMechanism(epsilon=0.5, delta=1e-6, radius=3.0)
_KNOWN = sd.GaussianMechanism.from_scale(0.5)
_COIN = sd.RandomizedResponse(epsilon=1.0)
_PLACES = {"place": ("n", "e", "s", "w"), "sex": ("f", "m")}
_MARGIN = {"target": "margin", "fit_intercept": True, "target_scale": 0.7}
_JOINT = {"target": "joint", "target_bounds": (-1.0, 2.0), "target_scale": 0.4}
RELEASES = {
    "one mechanism": sd.Release(_GAUSSIAN),
    "with a coin": sd.Release(_GAUSSIAN, _COIN, fit_intercept=True),
    "known noise": sd.Release(_KNOWN, _KNOWN),
    "features as they are": sd.Release(target=_COIN),
    "nothing noised": sd.Release(),
    "names without noise": sd.Release(noiseless=("a", "b"), target=_COIN),
    "one mechanism but a year": sd.Release(_GAUSSIAN, _COIN, noiseless=("year",)),
    "bound": sd.Release(_GAUSSIAN, _COIN).bind(["x0", "x1"]),
    "groups": sd.Release(
        {("age", "hours"): _GAUSSIAN, "income": _WIDE}, _COIN, noiseless=("year",), fit_intercept=True
    ),
    "mixed": mixed_release(target=_COIN),
    "public scales by name": sd.Release(
        {"age": _GAUSSIAN, "pay": _WIDE}, center={"age": 0.4}, scale={"pay": 3, "age": 20}
    ),
    "public scales in order": sd.Release(_GAUSSIAN, center=[0.1, 0.2], scale=(0.5, 4.0)),
    "names of every alphabet": sd.Release({'ä "quoted"': _GAUSSIAN, "年": _WIDE}),
    "measurement error within a ball": sd.Release({"a": sd.GaussianMechanism.from_scale(0.1, radius=2.0)}),
    "measurement error that is correlated": sd.Release(MECHANISMS["Gaussian, correlated"]).bind(["a", "b", "c"]),
    "classical": sd.Release(MECHANISMS["Gaussian, classical"]),
    "each column by itself": sd.Release(
        {
            "a": MECHANISMS["Laplace"],
            "b": MECHANISMS["discrete Laplace, tenths"],
            "c": MECHANISMS["staircase"],
            "d": sd.RandomizedResponse(2.0, categories=(3, 0.5, 1)),
        },
        MECHANISMS["clipped Laplace"],
    ),
    "spherical Laplace": sd.Release(MECHANISMS["spherical Laplace"], _COIN),
    "spherical cap": sd.Release(MECHANISMS["spherical cap"], _COIN),
    "margins": sd.Release(_GAUSSIAN, target="margin"),
    "margins with an intercept": sd.Release(_GAUSSIAN, **_MARGIN),
    "margins of labels 0 and 1": sd.Release(_GAUSSIAN, **_MARGIN, target_values=(0, 1)),
    "margins, Laplace": sd.Release(sd.LaplaceMechanism(epsilon=2.0, radius=1.0), **_MARGIN),
    "margins, spherical cap": sd.Release(MECHANISMS["spherical cap"], **_MARGIN).bind(["a", "b"]),
    "joint": sd.Release(_GAUSSIAN, **_JOINT),
    "joint, spherical Laplace": sd.Release(MECHANISMS["spherical Laplace"], **_JOINT, fit_intercept=True),
    "categories in one vector": sd.Release(_WIDE, _COIN, categories=_PLACES, fit_intercept=True).bind(
        ["age", *_PLACES]
    ),
    "categories in one vector, margins": sd.Release(
        MECHANISMS["spherical cap"], **_MARGIN, categories=_PLACES, center={"age": 0.1, "sex": 0.5},
        scale={"place": 2.0},
    ).bind(["age", *_PLACES]),
    "categories that are numbers": sd.Release(
        {("c", "d"): _KNOWN}, categories={"d": (3, 1, 2.5), "c": (0, 1)}
    ),
    "categories without noise": sd.Release(categories=_PLACES).bind(("place", "sex")),
}  # fmt: skip


def true_table(release, rows=6):
    """Columns by name and a target that a release takes, within all bounds and on all grids."""
    if release.categories:
        declared = release.categories.as_json()
        names = dict.fromkeys(name.split("=")[0] for name in release.columns or declared)
    else:
        declared = {}
        names = release.columns or ("x0", "x1", *release.noiseless)
    noised = {name: part for group, part in release.groups for name in group or ()}
    table = {}
    for name in names:
        if name in declared:
            table[name] = np.resize(np.array(declared[name], dtype=object), rows)
        elif hasattr(noised.get(name), "categories"):
            table[name] = np.resize(np.array(noised[name].categories), rows)
        elif name in noised and noised[name].width in (None, 1):
            table[name] = values_within(noised[name], rows)
        else:
            table[name] = np.linspace(-0.2, 0.3, rows)
    if release.coupling is not None:
        target = np.resize(np.array(release.coupling.values or release.coupling.bounds, dtype=float), rows)
    else:
        target = None if release.target is None else values_within(release.target, rows)
    return table, target


# Every solver, with the loss that it takes and what it must be given besides that and records.
_BUDGET = {"epsilon": 1.0, "adjacency": "replace-one", "record_radius": 1.0, "random_state": 0}
_RELEASED = sd.debias(sd.losses.exponential(), sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(0.3)}))
SOLVERS = {
    "m_estimate": (sd.m_estimate, _RELEASED, {"l2": 1.0}),
    "sgd": (sd.sgd, _RELEASED, {"l2": 1.0, "step_size": 0.1, "random_state": 0}),
    "dp_lssgd": (
        sd.dp_lssgd, sd.losses.logistic(),
        {**_BUDGET, "delta": 1e-5, "epochs": 1, "accountant": "rdp", "smoothing": 0.0},
    ),
    "objective_perturbation": (sd.objective_perturbation, sd.losses.logistic(), {**_BUDGET, "delta": 1e-5}),
    "output_perturbation": (sd.output_perturbation, sd.losses.logistic(), {**_BUDGET, "delta": 1e-5, "l2": 0.1}),
    "input_perturbation": (
        sd.input_perturbation, sd.losses.logistic(), {**_BUDGET, "delta": 0.01, "radius": 1.0, "expansion": "taylor"},
    ),
}  # fmt: skip


def values_within(mechanism, records):
    """Values within the bounds of a mechanism and on its grid, one row per record where it noises columns together."""
    noised = getattr(mechanism, "mechanism", mechanism)
    step = getattr(noised, "step", None)
    if hasattr(noised.noise, "matrix"):
        choices = noised.noise.inputs
    elif getattr(noised, "bounds", None):
        low, high = noised.bounds
        choices = (low, high, (low + high) / 2 if step is None else low + step)
    else:
        unit = step or 2.0 ** np.floor(np.log2(noised.bound or 1.0)) / 4
        choices = (unit, -unit, 0.0)
    return np.resize(choices, records if mechanism.width in (None, 1) else (records, mechanism.width))
