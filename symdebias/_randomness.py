"""Random states: an int, a generator or fresh entropy, as everywhere in scientific Python."""

import numbers

import numpy as np


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return the generator that a ``random_state`` argument stands for.

    Parameters
    ----------
    random_state : int, numpy.random.Generator or None
        A non-negative seed, a generator (used and advanced), or None for fresh entropy of the operating
        system.

    Raises
    ------
    TypeError, ValueError
        It is something else, or negative.

    Examples
    --------
    >>> generator(0).random() == generator(0).random()
    True
    """
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, bool) or not isinstance(random_state, numbers.Integral):
        raise TypeError(
            f"random_state must be an int, a numpy.random.Generator or None; got {type(random_state).__name__}."
        )
    if random_state < 0:
        raise ValueError(f"random_state={random_state} is negative. Use a seed of zero or more.")
    return np.random.default_rng(int(random_state))
