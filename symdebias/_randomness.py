"""Random states: an int, a generator or fresh entropy, as everywhere in scientific Python."""

import numpy as np

from symdebias._domains import is_integer

# Seeds stand for streams of our own: records that were drawn from numpy.random.default_rng(seed) would otherwise share
# their random numbers with the noise of the same seed.
_OWN_STREAM = int.from_bytes(b"sdb", "big")


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return the generator that a ``random_state`` argument stands for.

    Parameters
    ----------
    random_state : int, numpy.random.Generator or None
        A non-negative seed, a generator (used and advanced), or None for fresh entropy of the operating system. The
        stream of a seed is not that of ``numpy.random.default_rng(seed)``.

    Raises
    ------
    TypeError, ValueError
        It is something else, or negative.

    Examples
    --------
    >>> generator(0).random() == generator(0).random()
    True
    >>> generator(0).random() == np.random.default_rng(0).random()
    False
    """
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return random_state
    if not is_integer(random_state):
        raise TypeError(
            "random_state must be an int, a numpy.random.Generator or None; got "
            f"{type(random_state).__name__}. "
            "Pass a seed, or numpy.random.default_rng(seed)."
        )
    if random_state < 0:
        raise ValueError(f"random_state={random_state} is negative. Use a seed of zero or more.")
    return np.random.default_rng(np.random.SeedSequence(int(random_state), spawn_key=(_OWN_STREAM,)))


def spawn(parent: np.random.Generator, count: int) -> list[np.random.Generator]:
    """Return independent generators, the same ones whatever the number of threads that use them.

    Parameters
    ----------
    parent : numpy.random.Generator
        The generator of a call; spawning does not advance its stream.
    count : int
        How many, one per block of work.

    Examples
    --------
    >>> first, second = spawn(generator(0), 2)
    >>> first.random() == second.random()
    False
    """
    return list(parent.spawn(count))
