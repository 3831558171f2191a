"""How data are noised: mechanisms, each with its noise and its guarantee."""

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
from symdebias.mechanisms.staircase import StaircaseMechanism
from symdebias.mechanisms.uniform import UniformMechanism

KINDS.update(
    (mechanism.kind, mechanism)
    for mechanism in (
        ClippedMechanism,
        DiscreteLaplaceMechanism,
        DiscreteStaircaseMechanism,
        FiniteChannel,
        GaussianMechanism,
        InputPerturbation,
        LabelRandomizer,
        LaplaceMechanism,
        RandomizedResponse,
        StaircaseMechanism,
        UniformMechanism,
    )
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
    "StaircaseMechanism",
    "UniformMechanism",
]
