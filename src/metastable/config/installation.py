"""What is installed and what is not: versions, devices, caches, optional parts and how to get them."""

import os
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from metastable import __version__
from metastable.backend import cache_home, jax, no_device
from metastable.config.environment import ENVIRONMENT

_CORE = ("jax", "jaxlib", "numpy", "scipy", "numba", "diffrax", "xarray", "zarr", "matplotlib", "cyclopts", "pydantic")


@dataclass(frozen=True)
class Part:
    """An optional part: the modules it needs, what it is for, and the extra that brings it."""

    name: str
    modules: tuple[str, ...]
    needed_for: str
    extra: str

    @property
    def missing(self) -> list[str]:
        """Modules that are not installed."""
        return [module for module in self.modules if find_spec(module) is None]

    @property
    def advice(self) -> str:
        """How to get it."""
        return f"pip install 'metastable[{self.extra}]'"


# one line for each optional part
PARTS = (
    Part("models", ("torch", "transformers"), "models that the simulator does not run itself", "models"),
    Part("lens", ("transformer_lens",), "weights of architectures without a family file", "lens"),
    Part("cluster", ("dask", "distributed"), "sweeps on more than one machine", "cluster"),
    Part("learn", ("optax",), "fits by gradient and experiments on learning", "learn"),
    Part("explore", ("nicegui",), "the laboratory in the browser", "explore"),
    Part("docs", ("sphinx", "furo", "myst_nb"), "building this documentation", "docs"),
    Part("test", ("pytest", "hypothesis"), "running the tests", "test"),
)


def examine() -> dict[str, Any]:
    """Everything a report of a fault needs, as plain data; nothing is downloaded or computed."""
    found: dict[str, Any] = {
        "metastable": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "versions": {name: _version(name) for name in _CORE},
        "devices": _devices(),
        "film": _encoder(),
        "cache": _cache(cache_home()),
        "environment": {variable.name: variable.value for variable in ENVIRONMENT if variable.value is not None},
        "optional": {part.name: {"missing": part.missing, "for": part.needed_for} for part in PARTS},
    }
    return found | {"problems": _problems(found)}


def as_lines(found: dict[str, Any]) -> list[str]:
    """What was found, for people; problems first."""
    problems = found["problems"]
    lines = [f"Problem: {problem}." for problem in problems] or ["Everything needed is there."]
    lines += ["", f"metastable {found['metastable']}, Python {found['python']}, {found['system']}"]
    lines.append(f"{found['cores']} cores, {found['memory_gb']:.3g} GB; JAX computes on {', '.join(found['devices'])}")
    lines.append(", ".join(f"{name} {number}" for name, number in found["versions"].items()))
    cache = found["cache"]
    lines.append(f"cache: {cache['folder']} ({cache['state']}, {cache['megabytes']:.0f} MB)")
    lines.append(f"films: {found['film'] or 'no ffmpeg'}")
    lines += [f"{name} = {value}" for name, value in found["environment"].items()]
    lines += ["", "Optional parts:"]
    for part in PARTS:
        lacking = found["optional"][part.name]["missing"]
        state = f"missing {', '.join(lacking)}: {part.advice}" if lacking else "installed"
        lines.append(f"  {part.name:<8} {part.needed_for:<46} {state}")
    return lines


def _problems(found: dict[str, Any]) -> list[str]:
    out = [f"{name} is not installed; install metastable again" for name, v in found["versions"].items() if v is None]
    if found["cache"]["state"] != "writable":
        folder = found["cache"]["folder"]
        out.append(
            f"the cache folder {folder} is {found['cache']['state']}: compiled code is not kept; set METASTABLE_CACHE"
        )
    if not found["film"]:
        out.append("there is no ffmpeg, so films cannot be written; pip install imageio-ffmpeg")
    if found["devices"][0].startswith("none"):
        out.append(str(no_device()).rstrip("."))
    return out


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _devices() -> list[str]:
    try:
        return [f"{device.platform} ({device.device_kind})" for device in jax.devices()]
    except (RuntimeError, AssertionError):
        return [f"none: {no_device()}"]


def _memory() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, OSError, ValueError):
        return float("nan")


def _encoder() -> str | None:
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return shutil.which("ffmpeg")


def _cache(folder: Path) -> dict[str, Any]:
    there = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    state = "writable" if there.is_dir() and os.access(there, os.W_OK) else "not writable"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
    return {"folder": str(folder), "state": state, "megabytes": size / 1e6}
