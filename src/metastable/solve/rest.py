"""Are slow tokens at rest, or on a plateau that ends? Linear stability tells (`metastable.solve.stability`).

Tokens that barely move may be at rest, may sit on an unstable equilibrium, or may drift towards each other at speed
e^{-beta ...} and merge after 1e8 units of time.
"""

import math
from dataclasses import dataclass

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.solve.stability import lifetime

Array = jax.Array

_MOST = 1000  # coordinates up to which the Jacobian is formed: seconds


@dataclass(frozen=True)
class Rest:
    """A verdict on slow tokens: ``kind`` "rest" or "plateau", how long it ``lasts`` from now on, and a sentence."""

    kind: str
    lasts: float
    message: str


def judge(dynamics: Dynamics, t: float, x: np.ndarray, slow: float = 1e-8) -> Rest | None:
    """Whether slow tokens are at rest, or for how long they seem to be.

    Parameters
    ----------
    dynamics : Dynamics
    t : float
        The time reached.
    x : array (n, d)
        The tokens of one run.
    slow : float
        A token that moves at this speed or faster is not slow.

    Returns
    -------
    Rest or None
        None when some token is not slow.

    Examples
    --------
    >>> judge(Dynamics(beta=25.0), 0.0, np.array([[1.0, 0.0], [1.0, 0.0]])).kind
    'rest'
    >>> judge(Dynamics(beta=24.0), 0.0, np.array([[1.0, 0.0], [0.0, 1.0]])).message
    'every token is slower than 1e-08, but this is a plateau, not rest: it may last until about t = 5.5e+08'
    """
    x = np.asarray(x, dtype=np.float64)
    speed = float(np.linalg.norm(np.asarray(_velocity(dynamics, t, jnp.asarray(x))), axis=-1).max())
    if not speed < slow:
        return None
    why = _unsettled(dynamics)
    if why is None and x.size > _MOST:
        why = f"stability was not judged, because {x.shape[0]} tokens in dimension {x.shape[1]} are too many"
    if why is not None:
        return _unjudged(dynamics, t, slow, speed, why)
    lasts = lifetime(dynamics, t, x)
    if math.isinf(lasts):
        return Rest("rest", math.inf, f"every token is at rest: slower than {slow:g}, and no small displacement grows")
    text = f"every token is slower than {slow:g}, but this is a plateau, not rest: it may last until about"
    return Rest("plateau", lasts, f"{text} t = {t + lasts:.2g}")


def at_rest(dynamics: Dynamics, t: float, x: np.ndarray) -> bool:
    """True when tokens (n, d) stay where they are for ever, as far as linear stability tells.

    >>> at_rest(Dynamics(), 0.0, np.array([[1.0, 0.0], [-1.0, 0.0]]))  # opposite tokens: an unstable equilibrium
    False
    """
    verdict = judge(dynamics, t, x)
    return verdict is not None and verdict.kind == "rest"


def _unsettled(dynamics: Dynamics) -> str | None:
    """Why nothing can be at rest, or None."""
    if dynamics.noisy:
        return "noise never lets tokens rest"
    if not dynamics.autonomous:
        return "the equation depends on time, so tokens may move again"
    return None


def _unjudged(dynamics: Dynamics, t: float, slow: float, speed: float, why: str) -> Rest:
    pace = max(speed, float(np.max(np.asarray(dynamics.noise))) ** 2)  # noise sigma moves a token by 1 in 1/sigma^2
    lasts = 1.0 / pace if pace > 0 else math.inf
    text = f"every token is slower than {slow:g}, but {why}"
    known = "" if math.isinf(lasts) else f"; at the present speed this lasts until about t = {t + lasts:.2g}"
    return Rest("plateau", lasts, text + known)


@jax.jit
def _velocity(dynamics: Dynamics, t: Array, x: Array) -> Array:
    return dynamics.velocity(t, x)
