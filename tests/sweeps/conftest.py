import os

import pytest

from metastable.sweeps import chunks


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture
def small_chunks(monkeypatch):
    """Four runs in a chunk, so that small sweeps have several."""
    monkeypatch.setattr(chunks, "chunk_size", lambda seconds, times, most: 4)
