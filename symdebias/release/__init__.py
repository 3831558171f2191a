"""Releases: which mechanism noises which columns, how columns enter a score, and the card that an analyst gets."""

from symdebias.release.noised import Noised
from symdebias.release.release import Release

__all__ = ["Noised", "Release"]
