"""Shared by all tests: one thread per worker, how work is shared out, hypothesis without deadlines (noisy machines)."""

import gc
import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # two workers on two cores: no pool inside a worker
    os.environ.setdefault(name, "1")

# XLA cuts every program into up to 32 modules that idle cores compile side by side. In one piece a program takes a
# third less of a processor's time, and there is no idle core; the digits are the same.
_PIECES = "--xla_cpu_parallel_codegen_split_count"
if _PIECES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_PIECES}=1".strip()

gc.set_threshold(100_000, 20, 100)  # compiling makes many objects and hardly a cycle: a tenth of the time

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from metastable.backend import jax  # noqa: E402

# An operation outside of a compiled function is a program too: 40 ms to compile, 8 to read. Kept however quick it was,
# it is compiled once for all workers and all later runs.
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

settings.register_profile(
    "metastable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("metastable")


LONG = ("conformance", "solve", "engines", "experiments", "equation", "models", "learning", "oracles", "store")


def pytest_collection_modifyitems(items):
    """Folders whose files take long go first, so that no worker is left with one of them at the end."""
    order = {folder: k for k, folder in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.parent.name, len(order)))


def pytest_collection_finish(session):
    """Before a long run each worker compiles its share of the kernels, and finds the others kept when it needs them."""
    worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{name}") for name in ("", "_COUNT"))
    if worker is None or len(session.items) < 500:
        return
    from metastable.engines import calibrate

    for group in list(calibrate.GROUPS)[int(worker.removeprefix("gw")) :: int(workers)]:
        calibrate.coefficient(calibrate.GROUPS[group][0][0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of one file go to one worker, where they share what they compile."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # files with many tests are not those that take long
    return LoadFileScheduling(config, log) if config.getoption("dist") == "load" else None
