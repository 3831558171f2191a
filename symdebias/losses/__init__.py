"""Declare a loss: as an expression of the score and the target, or of features and parameters."""

from typing import TYPE_CHECKING

from symdebias._loss_names import called_here, why_outside
from symdebias.losses import catalogue
from symdebias.losses.catalogue import *  # noqa: F403  (its __all__ is the one list of the catalogue)

# Public as symdebias.Loss.
from symdebias.losses.loss import Loss as Loss

__all__: list[str] = []
__all__ += catalogue.__all__


if not TYPE_CHECKING:  # for which every name would exist

    def __getattr__(name: str) -> object:
        """Say why a loss that is asked for is none of the catalogue."""
        message = f"module 'symdebias.losses' has no attribute {name!r}"
        if name.startswith("__"):
            raise AttributeError(message)
        meant = called_here(name)
        remedy = why_outside(name) or (
            f"{f'Here it is called {meant}. ' if meant else ''}Take one of {', '.join(__all__)}, or declare a "
            "symdebias.Loss."
        )
        # The last full stop is Python's, which may go on with a name of its own.
        raise AttributeError(f"{message}. {remedy}".removesuffix("."))
