"""Laplacian smoothing around optimizers of PyTorch, where that is not installed: the name, and what it says."""

import runpy
import sys

import numpy as np
import pytest

from symdebias.exceptions import MissingDependencyError
from symdebias.interfaces import torch
from symdebias.interfaces.torch import LaplacianSmoothing


def test_without_pytorch_it_says_what_to_install(monkeypatch):
    for name in ("torch", "torch.optim"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r'package torch, .*pip install "symdebias\[torch\]"'):
        LaplacianSmoothing("SGD", 1.0)


def test_without_pytorch_its_module_is_imported_all_the_same(monkeypatch):
    """What the documentation is built from."""
    for name in ("torch", "torch.optim"):
        monkeypatch.setitem(sys.modules, name, None)
    # Executed under a name of its own, beside the module that is there already.
    again = runpy.run_path(torch.__file__)
    assert again["LaplacianSmoothing"].__mro__[1] is object


@pytest.mark.parametrize("sigma", [-1.0, 2e12, np.nan, np.inf, True, "3", None])
def test_strengths_outside_their_range_are_refused(sigma):
    with pytest.raises((TypeError, ValueError), match=r"^sigma"):
        LaplacianSmoothing("SGD", sigma)


def test_an_unknown_scope_is_refused():
    with pytest.raises(ValueError, match=r"scope='row' is not known. Choose one of tensor, vector"):
        LaplacianSmoothing("SGD", 1.0, scope="row")
