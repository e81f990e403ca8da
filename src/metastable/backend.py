"""JAX, set up once: float64, compiled code kept between runs, and which values of a part are traced.

Every module of the package takes ``jax`` and ``jnp`` from here, so that no array is ever made in float32 by
accident and the command line does not compile the same step twice in two calls.
"""

import dataclasses
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import xla_bridge

from metastable.errors import InputError

__all__ = ["Array", "Numeric", "Scores", "Tokens", "cache_home", "can_keep", "is_traced", "jax", "jnp"]
__all__ += ["no_device", "ready", "register", "structure"]

T = TypeVar("T")
Array: TypeAlias = jax.Array
Tokens: TypeAlias = jax.Array  # (..., n, d)
Numeric: TypeAlias = jax.Array | np.ndarray  # an array on either side
Scores: TypeAlias = jax.Array  # (..., h, m, n): m queries, n keys
_TRACED: set[type] = set()  # parts whose numbers are traced
_STRUCTURE: set[type] = set()  # parts that are structure as a whole


def cache_home() -> Path:
    """The user's cache folder for compiled code and downloaded weights (``METASTABLE_CACHE`` overrides)."""
    given = os.environ.get("METASTABLE_CACHE")
    if given:
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metastable"
    except RuntimeError:  # no HOME, and no user of this number
        return Path(tempfile.gettempdir()) / f"metastable-{os.getuid()}"


@cache
def can_keep(name: str) -> Path | None:
    """A folder of the cache that can be written, made if it is missing; None where nothing can be kept."""
    folder = cache_home() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


_parent: int | None = None  # the process that a fork copied after JAX had started in it


def _mark_fork() -> None:
    global _parent
    if getattr(xla_bridge, "backends_are_initialized", lambda: True)():
        _parent = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_fork)


def ready() -> None:
    """Refuse to compute where JAX cannot: on a device that is not there, in a fork of a process that has computed.

    JAX's threads do not survive a fork, and it hangs.
    """
    if _parent is not None:
        raise InputError(
            f"This process was forked from {_parent} after JAX had started there, and would hang; start processes by "
            "spawn (multiprocessing.get_context('spawn')), or fork before anything is computed."
        )
    sentence = no_device()
    if sentence is not None:
        raise InputError(sentence)


def no_device() -> str | None:
    """The sentence for a device that was asked for and is not there; None where JAX can start."""
    try:
        jax.default_backend()
    except (RuntimeError, AssertionError):  # JAX says nothing where it sees no NVIDIA device
        asked = os.environ.get("JAX_PLATFORMS", "")
        return f"JAX cannot start on JAX_PLATFORMS={asked!r}; unset it, or set it to cpu."
    return None


jax.config.update("jax_enable_x64", True)
if "JAX_COMPILATION_CACHE_DIR" not in os.environ and can_keep("compiled") is not None:
    jax.config.update("jax_compilation_cache_dir", str(can_keep("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.01)  # dozens of small ones add up to seconds
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def structure(cls: type[T]) -> type[T]:
    """Mark a frozen dataclass as structure: compiled code is made for each value of it, and equal values share it."""
    _STRUCTURE.add(cls)
    return cls


def register(cls: type[T]) -> type[T]:
    """Make a frozen dataclass a JAX pytree: numbers and arrays are traced, names, parts and functions are structure.

    So a sweep over beta or a slider never compiles twice, while another mask or another number of heads does.
    """
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    def flatten(obj: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        traced, static = [], []
        for k, name in enumerate(names):
            value = getattr(obj, name)
            if _is_structure(value.__class__):
                static.append((k, value))
            else:
                traced.append(value)
        return tuple(traced), tuple(static)

    def unflatten(static: tuple[Any, ...], children: tuple[Any, ...]) -> T:
        obj = object.__new__(cls)  # no __post_init__: the values were checked when the object was first built
        fixed, rest = dict(static), iter(children)
        for k, name in enumerate(names):
            object.__setattr__(obj, name, fixed[k] if k in fixed else next(rest))
        return obj

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    _TRACED.add(cls)
    return cls


@cache
def _is_structure(kind: type) -> bool:
    if kind in _TRACED:
        return False
    called = any("__call__" in vars(base) for base in kind.__mro__)
    return kind in _STRUCTURE or issubclass(kind, (str, bool, int, tuple)) or called


def is_traced(value: Any) -> bool:
    """True inside a JAX transformation, where numbers have no value to check yet."""
    return isinstance(value, jax.core.Tracer)
