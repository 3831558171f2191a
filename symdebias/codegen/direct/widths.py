"""How wide vectors are.

Where processors had to slow down for vectors of 512 bits, LLVM takes those of 256, and it still does for Intel's that
no longer do. Functions that are written directly ask for the wider ones there.
"""

import functools
from typing import Any

import llvmlite.binding

# What processors have that do not slow down (Ice Lake and Zen 4 are the first ones), and none before.
_FEATURE = "avx512vbmi2"
_WIDE = '"prefer-vector-width"="512"'


@functools.cache
def has_wide_vectors() -> bool:
    """Whether this processor works with vectors of 512 bits as fast as with shorter ones."""
    return bool(llvmlite.binding.get_host_cpu_features().get(_FEATURE, False))


def widen(function: Any) -> None:
    """Let LLVM use the widest vectors in a function that is being written."""
    if has_wide_vectors():
        # The set knows attributes without a value alone, and prints what is in it.
        set.add(function.attributes, _WIDE)
