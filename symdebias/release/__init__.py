"""Releases: which mechanism noises which columns, how columns enter a score, and the card that an analyst gets."""

from symdebias.release.description import NoiseDescription
from symdebias.release.loading import load
from symdebias.release.noised import Noised
from symdebias.release.release import Release
from symdebias.release.schema import Schema

__all__ = ["NoiseDescription", "Noised", "Release", "Schema", "load"]
