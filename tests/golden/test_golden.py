"""The digits of today are those of the golden records, bit for bit where they were made with the same versions."""

import subprocess
import sys

import numpy as np
import pytest

import metastable as ms
from tests.golden.cases import CASES, digest, machine, run, stored


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    kept, x = stored(), run(name)
    np.testing.assert_allclose(x[-1], kept["runs"][name]["last"], rtol=1e-9, atol=1e-9)
    if kept["made"] == machine():
        assert digest(x) == kept["runs"][name]["sha256"]


@pytest.mark.parametrize("name", ["dense", "lanes"])
def test_a_run_of_a_batch_is_the_run_alone_to_rounding(name):
    """Lanes: the same bits. Dense: XLA vectorises another loop, so the last digits may differ."""
    dynamics, x0, options = CASES[name]
    batch = np.stack([x0, x0[::-1], x0])
    many = ms.simulate(dynamics, batch, t=2.0, save=5, **options).x
    np.testing.assert_allclose(many[:, 0], run(name), rtol=0, atol=1e-13)
    assert many[:, 0].tobytes() == many[:, 2].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_and_folders_change_nothing(threads, tmp_path):
    code = "from tests.golden.cases import *; print(*[digest(run(n)) for n in ('dense', 'lanes', 'rescaled')])"
    path = {"PYTHONPATH": ":".join(p or "." for p in sys.path), "METASTABLE_THREADS": threads}
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**__import__("os").environ, **path},
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == [digest(run(name)) for name in ("dense", "lanes", "rescaled")], said.stderr[-500:]
