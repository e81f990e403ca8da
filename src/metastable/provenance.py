"""The provenance stamp: with what, on which machine and when something was made.

Runs, experiments, studies, hunts and reports all carry the same one, so that any two records can be compared.
"""

import platform
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from metastable import __version__
from metastable.backend import jax


def stamp(*packages: str) -> dict[str, str]:
    """Versions of metastable, JAX, NumPy and Python, the machine, and the time (UTC).

    Parameters
    ----------
    *packages : str
        Further packages whose versions matter, such as torch; those that are not installed are left out.

    Examples
    --------
    >>> sorted(stamp("no-such-package"))
    ['jax', 'machine', 'metastable', 'numpy', 'python', 'time']
    """
    found = {**_here(), "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def _here() -> dict[str, str]:
    return {
        "metastable": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {jax.default_backend()}",
    }
