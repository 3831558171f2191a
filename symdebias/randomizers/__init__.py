"""Randomizers of labels: the optimal unbiased one and the family that it is measured against."""

from symdebias.randomizers.optimal import optimal_unbiased_randomizer

__all__ = ["optimal_unbiased_randomizer"]
