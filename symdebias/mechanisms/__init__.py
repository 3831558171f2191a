"""How data are noised: mechanisms, each with its noise and its guarantee."""

import inspect

from symdebias.mechanisms.base import KINDS, ChannelMechanism, Mechanism
from symdebias.mechanisms.clipped import ClippedMechanism
from symdebias.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from symdebias.mechanisms.discrete_staircase import DiscreteStaircaseMechanism
from symdebias.mechanisms.finite_channel import FiniteChannel
from symdebias.mechanisms.gaussian import GaussianMechanism
from symdebias.mechanisms.input_perturbation import InputPerturbation
from symdebias.mechanisms.label_randomizer import LabelRandomizer
from symdebias.mechanisms.laplace import LaplaceMechanism
from symdebias.mechanisms.randomized_response import RandomizedResponse
from symdebias.mechanisms.spherical_cap import SphericalCapMechanism
from symdebias.mechanisms.spherical_laplace import SphericalLaplaceMechanism
from symdebias.mechanisms.staircase import StaircaseMechanism
from symdebias.mechanisms.uniform import UniformMechanism

# What a card may name is what is imported here.
KINDS.update(
    (listed.kind, listed)
    for listed in tuple(vars().values())
    if isinstance(listed, type) and issubclass(listed, Mechanism) and not inspect.isabstract(listed)
)

__all__ = [
    "KINDS",
    "ChannelMechanism",
    "ClippedMechanism",
    "DiscreteLaplaceMechanism",
    "DiscreteStaircaseMechanism",
    "FiniteChannel",
    "GaussianMechanism",
    "InputPerturbation",
    "LabelRandomizer",
    "LaplaceMechanism",
    "Mechanism",
    "RandomizedResponse",
    "SphericalCapMechanism",
    "SphericalLaplaceMechanism",
    "StaircaseMechanism",
    "UniformMechanism",
]
