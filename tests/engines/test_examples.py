"""The examples in the docstrings run."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name", ["", ".vexp", ".threads", ".exact", ".ranks", ".spectral", ".front", ".fields", ".coalesce", ".leap"]
)
def test_examples(name):
    module = import_module(f"metastable.engines{name}")
    assert doctest.testmod(module).failed == 0
