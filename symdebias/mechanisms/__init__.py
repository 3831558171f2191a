"""How data are noised: mechanisms, each with its noise and its guarantee."""

from symdebias.mechanisms.base import Mechanism
from symdebias.mechanisms.gaussian import GaussianMechanism
from symdebias.mechanisms.randomized_response import RandomizedResponse

# The closed table of kinds that a release card may name.
KINDS: dict[str, type[Mechanism]] = {
    "gaussian": GaussianMechanism,
    "randomized_response": RandomizedResponse,
}

__all__ = ["KINDS", "GaussianMechanism", "Mechanism", "RandomizedResponse"]
