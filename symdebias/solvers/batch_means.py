"""The covariance of an average of iterates by means of batches of them, beside what the records say of it."""

import itertools
from dataclasses import replace

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.exceptions import InferenceError
from symdebias.inference import Inference, batch_means


def by_batch_means(plug_in: Inference, sums: dict[int, FloatArray]) -> Inference:
    """Return the inference with the covariance of batch means; the first batch holds the start, and is left out.

    Iterates go together over many steps, so that means of few batches scatter too little: a variance is at least that
    of the sandwich, which is what it tends to.
    """
    kind = "batch means of the iterates"
    cuts = sorted(sums)[1:]
    means = [(sums[b] - sums[a]) / (b - a) for a, b in itertools.pairwise(cuts)]
    try:
        covariance = batch_means(means, [b - a for a, b in itertools.pairwise(cuts)])
    except InferenceError as error:
        return Inference(None, kind, str(error))
    notes = plug_in.notes
    if plug_in.covariance is not None:
        least, own = np.diag(plug_in.covariance), np.diag(covariance)
        larger = np.sqrt(np.maximum(least / np.where(own > 0, own, 1.0), 1.0, where=own > 0, out=np.ones(len(own))))
        covariance = covariance * np.multiply.outer(larger, larger)
        if np.any(larger > 1):
            notes = (*notes, "a variance of batch means was below that of the sandwich, which was taken for it")
    return replace(plug_in, covariance=covariance, kind=kind, notes=notes, degrees_of_freedom=len(means) - 1)


def batch_ends(steps: int, power: float) -> list[int]:
    """Return the steps at which batches end, for the covariance of an average by batch means.

    Batch k of M = steps^((1 - power)/2) ends at steps (k/M)^(1/(1 - power)): batches are long against the memory of the
    iterates, which grows like t^power.

    Parameters
    ----------
    steps : int
        How many steps there are.
    power : float
        a of the step sizes eta t^-a, in (1/2, 1).

    References
    ----------
    Chen, Lee, Tong & Zhang 2020 (Annals of Statistics 48), the batch-means estimator.
    """
    count = max(2, int(steps ** ((1 - power) / 2)))
    ends = np.unique(np.round(steps * (np.arange(1, count + 1) / count) ** (1 / (1 - power))).astype(int))
    return [int(end) for end in ends if end > 0]
