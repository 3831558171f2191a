"""What a fit predicts by: the link from a score to a probability or a mean."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from symdebias._arrays import FloatArray
from symdebias.solvers.fit import Fit
from symdebias.solvers.predictions import Predictor

# Scores at which a prediction is compared with the links that calibration knows.
_SCORES = np.linspace(-3.0, 3.0, 13)
LINKS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "logistic": expit,
    "identity": lambda u: u,
    "exponential": np.exp,
}


def link_of(fit: Fit) -> str | None:
    """Return the name of the link by which the loss predicts: the chance of the larger label, or the mean; or None."""
    if fit.theta.ndim > 1 or not fit.corrected.declared.scores:
        return None
    predictor = Predictor.of(fit)
    try:
        if predictor.predicts == "label":
            found = predictor.probabilities(_SCORES)
            values = found[:, -1] if found.shape[1] == 2 else None
        else:
            values = predictor.numbers(_SCORES)
    except ValueError:
        return None
    for name, function in LINKS.items():
        if values is not None and np.allclose(values, function(_SCORES), rtol=1e-9, atol=1e-12):
            return name
    return None
