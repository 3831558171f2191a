"""What a metric is: numbers per record with the right mean over the noise, and a bound on what is still wrong."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.evaluation.records import Records
from symdebias.exceptions import DivergenceError

# Squares of larger numbers, summed over records, are on the way to overflow.
LARGEST = 1e100


@dataclass(frozen=True)
class Metric(ABC):
    """A metric of released records, corrected for all parameters that are to be compared.

    Attributes
    ----------
    name, method : str
        What it is, and how it is corrected.
    records : Records
        The records.
    higher_is_better : bool
        Whether large values are good.
    """

    name: str
    method: str
    records: Records
    higher_is_better: ClassVar[bool] = False

    @abstractmethod
    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return numbers of some records whose mean over the noise is the metric of the true record."""

    def bias(self, theta: FloatArray) -> tuple[float, bool]:
        """Return a bound on the absolute bias of the mean at theta, and whether it is certified."""
        return 0.0, True

    @property
    def common_bias(self) -> float:
        """How much of that bound is for a bias that is the same for all parameters, and cancels in differences."""
        return 0.0

    def checked_values(self, thetas: Sequence[FloatArray], parts: Sequence[Any]) -> FloatArray:
        """Return the metric of all records, shape (n,), each part of them judged at its theta.

        Raises
        ------
        DivergenceError
            One is not finite.
        """
        values = np.empty(len(self.records.matrix))
        for theta, part in zip(thetas, parts, strict=True):
            values[part] = self.values(theta, part)
        bad = ~(np.abs(values) < LARGEST)
        if bad.any():
            raise DivergenceError(
                f"the corrected {self.name} of record {int(np.argmax(bad))} is beyond {LARGEST:g} or not finite at "
                "these parameters: its score is too large. Use smaller parameters, or a metric that grows less."
            )
        return values
