import sys
from pathlib import Path

import pytest

import symdebias as sd

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import random_losses


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.VarianceWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(24))
def test_random_losses_are_derived_or_refused_within_the_family(seed):
    result = random_losses.run(seed, compile_kernels=False)
    assert not result.error.startswith("CRASH"), result
    assert result.seconds < 20, result


@pytest.mark.filterwarnings("ignore::symdebias.exceptions.VarianceWarning")
@pytest.mark.parametrize("seed", [104, 105])
def test_exact_corrections_of_random_losses_are_right(seed):
    result = random_losses.run(seed)
    assert result.method == "exact"
    assert result.worst < 1e-8, result


def test_the_generator_is_the_same_each_time():
    first, second = (random_losses.run(3, compile_kernels=False) for _ in range(2))
    assert (first.loss, first.release) == (second.loss, second.release)
    assert issubclass(sd.exceptions.DerivationLimitError, random_losses.FAMILY)
