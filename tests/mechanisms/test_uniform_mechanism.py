import numpy as np
from sampling_statistics import RECORDS, faults, law_of

from symdebias.mechanisms.uniform import UniformMechanism

HALF = UniformMechanism(0.5)


def test_rounding_is_uniform_noise():
    """Sheppard: what is lost by rounding a smooth number to integers is uniform on [-1/2, 1/2] up to rounding."""
    numbers = np.random.default_rng(0).normal(scale=40.0, size=RECORDS)
    assert faults(np.rint(numbers) - numbers, law_of(HALF.noise)) == []
