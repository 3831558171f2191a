"""Records that are not in memory, for tests: rows that are read in their order, and memory maps."""

import numpy as np

from symdebias._rows import Rows


def in_order(array):
    """Return rows of an array that can only be read from the beginning to the end, by slices; None as it is."""

    def read(rows):
        assert rows.step in (None, 1)
        return np.array(array[rows], dtype=np.float64)

    return None if array is None else Rows(array.shape, read)


def on_disk(array, folder, mode="r"):
    """Return a memory map of a copy in a folder."""
    np.save(folder / "records.npy", array)
    return np.load(folder / "records.npy", mmap_mode=mode)
