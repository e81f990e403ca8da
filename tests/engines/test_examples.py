"""The examples in the docstrings run."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name",
    ["", ".simd.exponential", ".simd.threads", ".exact.sums", ".spectral.ranks", ".spectral.expansion", ".attend"],
)
def test_examples(name):
    module = import_module(f"metastable.engines{name}")
    assert doctest.testmod(module).failed == 0
