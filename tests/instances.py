"""Tables of losses and releases that general properties are crossed with."""

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
