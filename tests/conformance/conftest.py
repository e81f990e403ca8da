"""Hundreds of compiled programs in one process exhaust its memory maps: they are dropped from time to time."""

import itertools
from collections.abc import Iterator

import pytest

from metastable.backend import jax

_COUNT = itertools.count(1)
_EVERY = 60  # more than the tests of a default run on two workers, so that these share what they compile


@pytest.fixture(autouse=True)
def _few_programs() -> Iterator[None]:
    yield
    if next(_COUNT) % _EVERY == 0:
        jax.clear_caches()
