"""The catalogue of losses: each one expression with its domain and its source."""

import sympy as sp

from symdebias.losses.loss import Loss

_SCORE, _TARGET = sp.symbols("u y", real=True)
_MARGIN = _TARGET * _SCORE
_SIGNS = (-1, 1)


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
