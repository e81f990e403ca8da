"""JAX, set up once: float64, and compiled code kept between runs.

Every module of the package takes ``jax`` and ``jnp`` from here, so that no array is ever made in float32 by
accident and the command line does not compile the same step twice in two calls.
"""

import os
from pathlib import Path

import jax
import jax.numpy as jnp

__all__ = ["cache_home", "jax", "jnp"]


def cache_home() -> Path:
    """The user's cache folder for compiled code and downloaded weights (``METASTABLE_CACHE`` overrides)."""
    given = os.environ.get("METASTABLE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metastable"


jax.config.update("jax_enable_x64", True)
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    jax.config.update("jax_compilation_cache_dir", str(cache_home() / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
