"""Shared by all tests: one thread per worker, and hypothesis without deadlines (the machines are noisy)."""

import gc
import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # two workers on two cores: no pool inside a worker
    os.environ.setdefault(name, "1")

gc.set_threshold(100_000, 20, 100)  # compiling makes many objects and hardly a cycle: a tenth of the time

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "metastable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("metastable")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of one file go to one worker, where they share what they compile."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log) if config.getoption("dist") == "load" else None
