"""The declared loss on true records, by NumPy alone: what corrections are held against.

It shares nothing with the derivation or the kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.losses import Loss
from symdebias.noise import ChannelNoise
from symdebias.release import Release


@dataclass(frozen=True)
class DeclaredLoss:
    """The declared loss and its gradient as functions of a true record, by NumPy alone."""

    loss: Loss
    release: Release  # The release, for the design of a record.

    def functions(self) -> tuple[Callable[..., FloatArray], list[Callable[..., FloatArray]]]:
        """Return the loss and its derivatives by the scores, or by the parameters of a free-form loss."""
        declared = self.loss
        by = declared.scores or declared.parameters
        arguments = (*(declared.scores or (*declared.features, *declared.parameters)), declared.target)
        # Before it is differentiated, so that no derivative is 0/0 in a tail.
        expression = stable.rewrite(declared.expression)
        return (
            numeric(expression, arguments),
            [numeric(sp.diff(expression, symbol), arguments) for symbol in by],
        )

    def features(self, X: FloatArray) -> FloatArray:
        """Return the features of a free-form loss: categories as their numbers."""
        values = X.copy()
        for place, noise in self.release.noises(X.shape[1]):
            if isinstance(noise, ChannelNoise):
                values[:, place.start] = np.array(noise.inputs)[X[:, place.start].astype(int)]
        return values

    def arguments(self, theta: FloatArray, X: FloatArray, y: FloatArray) -> tuple[Any, ...]:
        """Return what the functions take, for records in the rows of X."""
        if self.loss.scores:
            scores = self.release.design(X.shape[1]).rows(X) @ theta.reshape(len(self.loss.scores), -1).T
            return (*scores.T, y)
        return (*self.features(X).T, *theta, y)

    def target(self, code: float) -> float:
        """Return the value of the target with a code."""
        noise = self.release.target_noise
        return float(noise.inputs[int(code)]) if isinstance(noise, ChannelNoise) else float(code)

    def gradient(self, slopes: list[FloatArray], X: FloatArray) -> FloatArray:
        """Return the gradient of records out of the derivatives that `functions` gives, shape (n, parameters)."""
        stacked = np.stack([np.broadcast_to(slope, (len(X),)) for slope in slopes], axis=1)
        if not self.loss.scores:
            return stacked
        return (stacked[:, :, None] * self.release.design(X.shape[1]).rows(X)[:, None, :]).reshape(len(X), -1)
