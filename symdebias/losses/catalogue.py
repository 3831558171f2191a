"""The catalogue of losses: each one expression with its domain and its source.

A loss that `__all__` lists is public, documented, proposed where a release asks for losses of its kind, and tested with
all others.
"""

import math

import sympy as sp

from symdebias._domains import POSITIVE, Integer, Interval, shown
from symdebias.losses.loss import Loss

__all__ = [
    "cauchy",
    "expectile",
    "exponential",
    "gamma",
    "hinge",
    "huber",
    "least_squares",
    "logistic",
    "negative_binomial",
    "poisson",
    "probit",
    "quantile",
    "softmax",
    "squared_hinge",
    "squared_margin",
    "tweedie",
]  # fmt: skip

_SCORE, _TARGET = sp.symbols("u y", real=True)
_MARGIN = _TARGET * _SCORE
_SIGNS = (-1, 1)
# As many pieces as a loss may have.
_MOST_CLASSES = 200
_LEVEL = Interval(0, 1, closed="neither")
_COMPOUND_POISSON = Interval(1, 2, advice="poisson() is the limit 1, and gamma() is the limit 2.")


def exponential() -> Loss:
    """Return the exponential loss exp(-y u), y in {-1, +1} (boosting).

    Exact under Gaussian noise at every noise level: the inverse Weierstrass transform multiplies it by
    exp(-s/2).

    References
    ----------
    Freund & Schapire 1997, Section 4; Dufraiche et al. 2026 (arXiv 2602.16436), Section 6.

    Examples
    --------
    >>> exponential().expression
    exp(-u*y)
    """
    return Loss(sp.exp(-_MARGIN), score=_SCORE, target=_TARGET, target_values=_SIGNS, name="exponential")


def squared_margin() -> Loss:
    """Return the squared margin loss (y u - 1)^2 / 2, y in {-1, +1} (least squares classification).

    A polynomial of degree two: exact under every noise with a variance.

    References
    ----------
    Bartlett, Jordan & McAuliffe 2006, Section 2.

    Examples
    --------
    >>> squared_margin().expression
    (u*y - 1)**2/2
    """
    return Loss((_MARGIN - 1) ** 2 / 2, score=_SCORE, target=_TARGET, target_values=_SIGNS, name="squared_margin")


def logistic() -> Loss:
    """Return the log loss log(1 + exp(-y u)), y in {-1, +1} (logistic regression).

    It is not entire (branch points at y u = ±iπ), so no exact correction exists under Gaussian noise;
    label noise meets its odd part -u/2 only and is corrected exactly.

    References
    ----------
    Berkson 1944; Stefanski & Carroll 1987, Section 1.

    Examples
    --------
    >>> logistic().expression
    log(1 + exp(-u*y))
    """
    return Loss(sp.log(1 + sp.exp(-_MARGIN)), score=_SCORE, target=_TARGET, target_values=_SIGNS, name="logistic")


def least_squares() -> Loss:
    """Return the least squares loss (u - y)^2 / 2 of a continuous target.

    A polynomial of degree two: exact under every noise with a variance, in features and target.

    References
    ----------
    Fuller 1987, *Measurement Error Models*, Section 1.2.

    Examples
    --------
    >>> least_squares().expression
    (u - y)**2/2
    """
    return Loss((_SCORE - _TARGET) ** 2 / 2, score=_SCORE, target=_TARGET, name="least_squares")


def poisson() -> Loss:
    """Return the Poisson loss exp(u) - y u of a count (log link; the likelihood up to a constant).

    Affine in the target: a target released by an unbiased mechanism needs no correction.

    References
    ----------
    McCullagh & Nelder 1989, Chapter 6; Nakamura 1990, Section 3.2 (corrected under normal noise).

    Examples
    --------
    >>> poisson().expression
    -u*y + exp(u)
    """
    return Loss(sp.exp(_SCORE) - _TARGET * _SCORE, score=_SCORE, target=_TARGET, name="poisson")


def huber(threshold: float = 1.345) -> Loss:
    """Return the Huber loss of the residual r = u - y: r^2/2 up to the threshold, linear beyond.

    It has a kink in its slope, so that only noise on a grid and finite channels have an exact correction.

    Parameters
    ----------
    threshold : float
        Where it becomes linear, positive.

    References
    ----------
    Huber 1964, Section 4.

    Examples
    --------
    >>> huber(1.0).name
    'huber'
    """
    k = sp.nsimplify(POSITIVE.check("threshold", threshold), rational=True)
    size = sp.Abs(_SCORE - _TARGET)
    expression = sp.Piecewise(((_SCORE - _TARGET) ** 2 / 2, size <= k), (k * size - k**2 / 2, True))
    return Loss(expression, score=_SCORE, target=_TARGET, name="huber")


def squared_hinge() -> Loss:
    """Return the squared hinge loss max(0, 1 - y u)^2 / 2, y in {-1, +1}.

    Its second derivative jumps, so that only noise on a grid and finite channels have an exact correction.

    References
    ----------
    Bartlett, Jordan & McAuliffe 2006, Section 2.

    Examples
    --------
    >>> squared_hinge().expression
    Max(0, -u*y + 1)**2/2
    """
    expression = sp.Max(0, 1 - _MARGIN) ** 2 / 2
    return Loss(expression, score=_SCORE, target=_TARGET, target_values=_SIGNS, name="squared_hinge")


def probit() -> Loss:
    """Return the probit loss -log Phi(y u), y in {-1, +1}, Phi the normal distribution function (probit regression).

    Phi has zeros off the real axis, so that no exact correction exists under Gaussian noise; a surrogate comes within
    1e-4 at unit noise variance.

    References
    ----------
    Bliss 1934; McCullagh & Nelder 1989, Section 4.3.

    Examples
    --------
    >>> probit().name
    'probit'
    """
    return Loss(
        -sp.log(sp.erfc(-_MARGIN / sp.sqrt(2)) / 2), score=_SCORE, target=_TARGET, target_values=_SIGNS, name="probit"
    )


def hinge() -> Loss:
    """Return the hinge loss max(0, 1 - y u), y in {-1, +1} (support vector machines).

    It has a kink, so that only noise on a grid and finite channels have an exact correction.

    References
    ----------
    Cortes & Vapnik 1995; Bartlett, Jordan & McAuliffe 2006, Section 2.

    Examples
    --------
    >>> hinge().expression
    Max(0, -u*y + 1)
    """
    return Loss(sp.Max(0, 1 - _MARGIN), score=_SCORE, target=_TARGET, target_values=_SIGNS, name="hinge")


def quantile(level: float = 0.5, width: float = 0.5) -> Loss:
    """Return the quantile loss of the residual r = y - u, smoothed by a logistic density of a given width.

    The limit for width 0 is (level - 1[r < 0]) r, which has a kink; the smoothed one is level r + h log(1 + e^{-r/h}).

    Parameters
    ----------
    level : float
        The quantile, in (0, 1); 0.5 is the median (least absolute deviations).
    width : float
        h, positive, in units of the target. Choose it small beside the residuals: at a tenth of their standard
        deviation the quantile 0.9 of normal ones moves by 0.02 of it. A surrogate needs more records for a small one.

    Notes
    -----
    The smoothed loss is the mean of the one with a kink over a logistic error of the scale h, so that what is fitted is
    the quantile of the target plus such an error, of the standard deviation 1.81 h. Of normal residuals of standard
    deviation 0.7 the quantile 0.9 is 0.90, and at the width 0.5 it is 1.43. The median of a symmetric law stays.

    References
    ----------
    Koenker & Bassett 1978; Chen & Mangasarian 1996 (the smoothing).

    Examples
    --------
    >>> quantile(0.9).name
    'quantile'
    """
    q = sp.nsimplify(_LEVEL.check("level", level), rational=True)
    h = sp.nsimplify(POSITIVE.check("width", width), rational=True)
    residual = _TARGET - _SCORE
    return Loss(q * residual + h * sp.log(1 + sp.exp(-residual / h)), score=_SCORE, target=_TARGET, name="quantile")


def smoothing_width(loss: Loss) -> float | None:
    """Return the width h over which a loss of this name is smoothed, if it is `quantile`; None for others.

    Its curvature in the middle is 1/(4 h), and at the residuals h and -h it differs by (2 level - 1) h.
    """
    if loss.name != "quantile" or len(loss.scores) != 1:
        return None
    score, target = loss.scores[0], loss.target

    def at(residual: float, expression: sp.Expr = loss.expression) -> float:
        return float(sp.N(expression.xreplace({score: sp.Integer(0), target: sp.Float(residual)})))

    middle = at(0.0, sp.diff(loss.expression, score, 2))
    if not middle > 0:
        return None
    width = 1 / (4 * middle)
    level = (at(width) - at(-width) + width) / (2 * width)
    is_so = math.isclose(at(width), level * width + width * math.log1p(math.exp(-1.0)), rel_tol=1e-9)
    return width if is_so and 0 < level < 1 else None


def negative_binomial(dispersion: float = 1.0) -> Loss:
    """Return the negative binomial loss of a count, (y + k) log(1 + e^u/k) - y u, mean e^u and variance e^u + e^{2u}/k.

    Affine in the target: a count released by an unbiased mechanism needs no correction. Not entire in the score.

    Parameters
    ----------
    dispersion : float
        k, positive; large values approach the Poisson loss.

    References
    ----------
    McCullagh & Nelder 1989, Section 6.2; Hilbe 2011, Chapter 8.

    Examples
    --------
    >>> negative_binomial(2.0).name
    'negative_binomial'
    """
    k = sp.nsimplify(POSITIVE.check("dispersion", dispersion), rational=True)
    expression = (_TARGET + k) * sp.log(1 + sp.exp(_SCORE) / k) - _TARGET * _SCORE
    return Loss(expression, score=_SCORE, target=_TARGET, name="negative_binomial")


def gamma() -> Loss:
    """Return the gamma loss y exp(-u) + u of a positive target (log link; the likelihood up to a constant).

    Exact under Gaussian noise at every noise level. Affine in the target: a target released by an unbiased mechanism
    needs no correction.

    References
    ----------
    McCullagh & Nelder 1989, Chapter 8.

    Examples
    --------
    >>> gamma().expression
    u + y*exp(-u)
    """
    return Loss(_TARGET * sp.exp(-_SCORE) + _SCORE, score=_SCORE, target=_TARGET, name="gamma")


def tweedie(power: float = 1.5) -> Loss:
    """Return the Tweedie loss exp((2 - p) u)/(2 - p) - y exp((1 - p) u)/(1 - p) of a target with many zeros (log link).

    The variance is in proportion to the mean to the power p: a compound Poisson law, of claims for example. Exact under
    Gaussian noise at every noise level. Affine in the target: a target released by an unbiased mechanism needs no
    correction.

    Parameters
    ----------
    power : float
        p, in (1, 2).

    References
    ----------
    Jorgensen 1987; Dunn & Smyth 2005 (the likelihood, up to what the parameters do not enter).

    Examples
    --------
    >>> tweedie(1.5).expression
    2*y*exp(-u/2) + 2*exp(u/2)
    """
    p = sp.nsimplify(_COMPOUND_POISSON.check("power", power), rational=True)
    expression = sp.exp((2 - p) * _SCORE) / (2 - p) - _TARGET * sp.exp((1 - p) * _SCORE) / (1 - p)
    return Loss(expression, score=_SCORE, target=_TARGET, name="tweedie")


def cauchy(scale: float = 2.385) -> Loss:
    """Return the Cauchy loss c^2/2 log(1 + (r/c)^2) of the residual r = u - y: r^2/2 near 0, a logarithm far out.

    Not convex: a record far out has next to no slope. Not entire (branch points at r = ±ic).

    Parameters
    ----------
    scale : float
        c, positive, in units of the target; at 2.385 times the residuals' standard deviation the fit is 95% efficient
        for normal ones.

    References
    ----------
    Holland & Welsch 1977, Table 1.

    Examples
    --------
    >>> cauchy(1.0).expression
    log((u - y)**2 + 1)/2
    """
    c = sp.nsimplify(POSITIVE.check("scale", scale), rational=True)
    expression = c**2 / 2 * sp.log(1 + (_SCORE - _TARGET) ** 2 / c**2)
    return Loss(expression, score=_SCORE, target=_TARGET, name="cauchy")


def expectile(level: float) -> Loss:
    """Return the expectile loss of the residual r = y - u: level r^2 above the score, (1 - level) r^2 below it.

    As r^2/2 + (level - 1/2) r |r|. Level 0.5 is least squares; the second derivative of others jumps, so that only
    noise on a grid and finite channels have an exact correction.

    Parameters
    ----------
    level : float
        In (0, 1).

    References
    ----------
    Newey & Powell 1987, Section 2.

    Examples
    --------
    >>> expectile(0.75).expression
    (-u + y)**2/2 + (-u/4 + y/4)*Abs(u - y)
    """
    q = sp.nsimplify(_LEVEL.check("level", level), rational=True)
    residual = _TARGET - _SCORE
    expression = residual**2 / 2 + (q - sp.Rational(1, 2)) * residual * sp.Abs(residual)
    return Loss(expression, score=_SCORE, target=_TARGET, name="expectile")


def softmax(classes: int) -> Loss:
    """Return the softmax loss log(sum_j exp(u_j)) - u_y, y one of the classes 0 to k - 1 (multinomial logit).

    Label noise meets its linear part only. It is not entire in the scores: no exact correction under normal noise,
    an exact one under Laplace noise and finite channels. It knows differences of scores alone: without a penalty, and
    for intercepts, fits are those whose parameters sum to 0 over the classes.

    Parameters
    ----------
    classes : int
        The number k of classes, from 2 to 200; one score each.

    References
    ----------
    Bridle 1990 (softmax); McCullagh & Nelder 1989, Section 5.2.

    Examples
    --------
    >>> softmax(3).scores
    (u0, u1, u2)
    """
    count = Integer(2).check("classes", classes)
    if count > _MOST_CLASSES:
        raise ValueError(
            f"classes={shown(count, 40)} is too many. There may be {_MOST_CLASSES}: merge rare classes, or fit each "
            "against one, as logistic().against(label, baseline, of=labels)."
        )
    scores = sp.symbols(f"u:{count}", real=True)
    own = sp.Piecewise(*((score, sp.Eq(_TARGET, label)) for label, score in enumerate(scores[:-1])), (scores[-1], True))
    expression = sp.log(sp.Add(*map(sp.exp, scores))) - own
    return Loss(expression, score=scores, target=_TARGET, target_values=tuple(range(count)), name="softmax")
