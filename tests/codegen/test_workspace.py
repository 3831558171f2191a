import numpy as np
import pytest

from symdebias.codegen.workspace import empty, zeros

SHAPES = ((10, 256), (), (3,), (0,), (7, 5), (1,), (2, 0), (512,))


@pytest.mark.parametrize("make", [empty, zeros])
def test_arrays_begin_with_a_line_and_do_not_overlap(make):
    for _ in range(20):
        found = make(*SHAPES)
        for array, shape in zip(found, SHAPES, strict=True):
            assert (array.shape, array.dtype, array.flags.c_contiguous) == (shape, np.float64, True)
            assert array.size == 0 or array.ctypes.data % 64 == 0
        if make is zeros:
            assert not any(array.any() for array in found)
        for number, array in enumerate(found):
            array[...] = number
        assert all(np.all(array == number) for number, array in enumerate(found))
