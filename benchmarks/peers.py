"""The papers' equations in NumPy and torch, as their users write them: what the workloads compare with.

Runge-Kutta stages on the sphere use |x| f(x/|x|), as metastable does, so that all give the same digits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Absent


def need(module: str) -> Any:
    """The module, or Absent."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise Absent(f"{module} is not installed") from error


def sphere(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Tokens uniform on the sphere."""
    x = np.random.default_rng(seed).standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# --- NumPy --------------------------------------------------------------------------------------------------------


def numpy_attend(x: np.ndarray, beta: Any) -> np.ndarray:
    """sum_j A_ij x_j on the sphere, (..., n, d); the scores' maximum is known to be beta."""
    P = (beta * x) @ np.swapaxes(x, -1, -2)
    P -= beta
    np.exp(P, out=P)
    return (P @ x) / P.sum(axis=-1, keepdims=True)


def numpy_field(x: np.ndarray, beta: Any) -> np.ndarray:
    """|x| f(x/|x|) with f = P_x(sum_j A_ij x_j)."""
    size = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    u = x / size
    pull = numpy_attend(u, beta)
    return size * (pull - (u * pull).sum(axis=-1, keepdims=True) * u)


def numpy_plain_field(x: np.ndarray, beta: Any) -> np.ndarray:
    """P_x(sum_j A_ij x_j) of tokens taken for unit vectors: textbook stages, a little cheaper."""
    pull = numpy_attend(x, beta)
    return pull - (x * pull).sum(axis=-1, keepdims=True) * x


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True))


def rk4(f: Callable[..., Any], x: Any, dt: float, steps: int, every: int, retract: Callable[[Any], Any]) -> list[Any]:
    """The classical method for NumPy arrays and torch tensors alike; the saved states."""
    saved = [x]
    for k in range(steps):
        k1 = f(x, k * dt)
        k2 = f(x + dt / 2 * k1, k * dt + dt / 2)
        k3 = f(x + dt / 2 * k2, k * dt + dt / 2)
        k4 = f(x + dt * k3, k * dt + dt)
        x = retract(x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
        if (k + 1) % every == 0:
            saved.append(x)
    return saved


# --- torch --------------------------------------------------------------------------------------------------------


def torch_field(x: Any, beta: Any) -> Any:
    """numpy_field in torch."""
    size = x.norm(dim=-1, keepdim=True)
    u = x / size
    pull = (beta * (u @ u.mT)).softmax(dim=-1) @ u
    return size * (pull - (u * pull).sum(dim=-1, keepdim=True) * u)


def torch_sdpa_field(x: Any, beta: float) -> Any:
    """The same through scaled_dot_product_attention."""
    from torch.nn.functional import scaled_dot_product_attention as attend

    size = x.norm(dim=-1, keepdim=True)
    u = (x / size)[None, None]
    pull = attend(u, u, u, scale=beta)
    return size * (pull - (u * pull).sum(dim=-1, keepdim=True) * u)[0, 0]


def torch_unit(x: Any) -> Any:
    return x / x.norm(dim=-1, keepdim=True)
