"""What the machine is and what it can do at most, measured in the same run."""

import os
import platform
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path

PACKAGES = ("numpy", "scipy", "jax", "numba", "torch", "torchdiffeq", "pykeops", "diffrax")


def facts() -> dict[str, str]:
    """Names and versions."""
    found = {"CPU": _cpu(), "cores": str(len(os.sched_getaffinity(0))), "memory": f"{_memory():.0f} GB"}
    found["system"] = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    found["date"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    found["commit"] = commit()
    return found


def commit() -> str:
    """The commit measured, marked when package or benchmarks differ from it."""
    home = Path(__file__).parent.parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=home, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with uncommitted changes" if changed else "")


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def limits(quick: bool) -> dict[str, float]:
    """Peak rates on all cores, per second: exponentials and matrix-product operations in both precisions."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measure, args=(theirs, quick), daemon=True)
    process.start()
    theirs.close()
    try:
        found: dict[str, float] = ours.recv()
    except EOFError as error:
        raise RuntimeError("the machine's limits could not be measured") from error
    process.join()
    return found


def _measure(pipe: Connection, quick: bool) -> None:
    import numpy as np

    from benchmarks import kernels

    count, size = (2e7, 512) if quick else (1e9, 2048)
    found = {}
    for name, dtype in (("float64", np.float64), ("float32", np.float32)):
        kernels.exponentials(1e5, dtype)
        found[f"exp {name}"] = _rate(lambda dtype=dtype: kernels.exponentials(count, dtype))  # type: ignore[misc]
        a = np.ones((size, size), dtype)
        b, c = np.ones((size, size), dtype), np.empty((size, size), dtype)

        def product(a: np.ndarray = a, b: np.ndarray = b, c: np.ndarray = c) -> float:
            np.matmul(a, b, out=c)
            return 2.0 * size**3

        found[f"matmul {name}"] = _rate(product)
    pipe.send(found)


def _rate(work: Callable[[], float], rounds: int = 5) -> float:
    best = 0.0
    for _ in range(rounds):
        started = time.perf_counter()
        done = work()
        best = max(best, done / (time.perf_counter() - started))
    return best
