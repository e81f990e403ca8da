"""The generator that the engines' tests draw from."""

from tests.engines.conftest import rng

__all__ = ["rng"]
