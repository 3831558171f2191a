"""Declare a loss: as an expression of the score and the target, or of features and parameters."""

from symdebias.losses import catalogue
from symdebias.losses.catalogue import *  # noqa: F403  (its __all__ is the one list of the catalogue)

# Public as symdebias.Loss.
from symdebias.losses.loss import Loss as Loss

__all__: list[str] = []
__all__ += catalogue.__all__
