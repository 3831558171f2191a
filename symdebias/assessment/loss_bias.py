"""The bias of a correction that is not exact, for true records: its mean over the noise less the declared loss."""

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.assessment.noise_bias import infinite_mean
from symdebias.assessment.variance import noise_moment
from symdebias.correction import Correction
from symdebias.declared import DeclaredLoss
from symdebias.derivation import hidden_score


def loss_biases(correction: Correction, theta: FloatArray, matrix: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the biases of a corrected loss for true records, shape (n,), float64; its surrogates are designed.

    Columns of categories, and a target that a channel noises, hold codes.

    Raises
    ------
    NoExactCorrectionError
        There are too many noised columns for a product rule, or the mean is infinite, or nearly so.
    """
    truth = DeclaredLoss(correction.loss, correction.release)
    values = np.array([truth.target(code) for code in targets])
    if correction.surrogates is not None:
        scores = _scores(truth, theta, matrix)
        return correction.surrogate_parts.errors(correction.surrogates, scores, values)[0]
    function, _ = truth.functions()
    biases = np.empty(len(matrix))
    for row, (record, code) in enumerate(zip(matrix, targets, strict=True)):
        mean = noise_moment(correction, theta, record, code, _of_mean, of="loss")
        if mean is None:
            raise infinite_mean()
        wanted = function(*truth.arguments(theta, record[None, :], values[row : row + 1]))
        biases[row] = mean - float(np.asarray(wanted).reshape(-1)[0])
    return biases


def _of_mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(weights * values[:, 0])


def _scores(truth: DeclaredLoss, theta: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return the scores of true records, for a hidden score too."""
    if truth.loss.scores:
        return np.asarray(truth.release.design(matrix.shape[1]).rows(matrix) @ theta)
    hidden = hidden_score(truth.loss)
    assert hidden is not None
    scores: FloatArray = truth.features(matrix) @ theta[list(hidden.places)]
    return scores if hidden.intercept is None else scores + theta[hidden.intercept]
