"""Clouds of tokens to start from: every function returns (n, d), or (runs, n, d) when ``runs`` is given.

Run r of an ensemble drawn with seed s is the cloud drawn alone with seed ``(s, r)``, so any run can be replayed.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv

from metastable.equation.weights import from_file
from metastable.errors import InputError, door

Seed = int | Sequence[int]


@door
def sphere(n: int, d: int, seed: Seed = 0, runs: int | None = None) -> np.ndarray:
    """Uniform on the unit sphere S^{d-1}.

    >>> float(np.linalg.norm(sphere(n=5, d=3), axis=1).round(12).max())
    1.0
    """
    return _draw(lambda rng: _unit(rng.standard_normal((n, d))), n, d, seed, runs)


@door
def cap(n: int, d: int, angle: float = np.pi / 3, seed: Seed = 0, runs: int | None = None) -> np.ndarray:
    """Uniform on the cap of the sphere within ``angle`` of the first axis (an open hemisphere for angle < pi/2)."""
    if not 0.0 < angle <= np.pi:
        raise InputError(f"The angle of a cap lies in (0, pi], not {angle!r}.")

    def draw(rng: np.random.Generator) -> np.ndarray:
        if d == 1:
            return np.ones((n, 1)) if angle < np.pi else np.sign(rng.uniform(-1.0, 1.0, (n, 1)))
        theta = _polar_angles(rng.uniform(0.0, 1.0, n), d, angle)
        side = _unit(rng.standard_normal((n, d - 1)))
        return np.concatenate([np.cos(theta)[:, None], np.sin(theta)[:, None] * side], axis=1)

    return _draw(draw, n, d, seed, runs)


def _polar_angles(u: np.ndarray, d: int, angle: float) -> np.ndarray:
    """Quantiles of the polar angle on a cap, whose density is proportional to sin^{d-2}."""
    if d == 2:
        return u * angle
    if d == 3:
        return np.asarray(np.arccos(1.0 - u * (1.0 - np.cos(angle))))

    half = (d - 1) / 2.0  # mass below theta: (1/2) I_{sin^2 theta}(half, 1/2) up to pi/2, and its mirror beyond

    def mass(theta: float) -> float:
        below = 0.5 * float(betainc(half, 0.5, np.sin(theta) ** 2))
        return below if theta <= np.pi / 2 else 1.0 - below

    p = u * mass(angle)
    low = np.arcsin(np.sqrt(betaincinv(half, 0.5, np.minimum(1.0, 2.0 * np.minimum(p, 1.0 - p)))))
    return np.asarray(np.where(p <= 0.5, low, np.pi - low))


@door
def cube(n: int, d: int, side: float = 5.0, seed: Seed = 0, runs: int | None = None) -> np.ndarray:
    """Uniform on [-side, side]^d: the second paper's start, with side 5."""
    return _draw(lambda rng: rng.uniform(-_positive("side", side), side, (n, d)), n, d, seed, runs)


@door
def gaussian(n: int, d: int, scale: float = 1.0, seed: Seed = 0, runs: int | None = None) -> np.ndarray:
    """Independent normal coordinates with standard deviation ``scale``."""
    return _draw(lambda rng: _positive("scale", scale) * rng.standard_normal((n, d)), n, d, seed, runs)


@door
def equiangular(n: int, d: int | None = None, gamma: float = 0.0) -> np.ndarray:
    """Unit tokens with every pairwise inner product equal to ``gamma`` (d >= n, or n - 1 at the least gamma).

    >>> (equiangular(3, gamma=0.5) @ equiangular(3, gamma=0.5).T).round(12)[0].tolist()
    [1.0, 0.5, 0.5]
    """
    _counts(n, d or n)
    if not (-1.0 / (n - 1) if n > 1 else -1.0) - 1e-15 <= gamma <= 1.0:
        raise InputError(
            f"{n} unit tokens can share inner products from {-1.0 / max(n - 1, 1):.6g} to 1, not {gamma!r}."
        )
    values, vectors = np.linalg.eigh((1.0 - gamma) * np.eye(n) + gamma)
    root = _unit((vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1])  # largest first: trailing axes may be zero
    size = d or n
    needed = int((values > 1e-12).sum())
    if size < needed:
        raise InputError(f"{n} equiangular tokens with gamma {gamma:g} need d >= {needed}, not {size}.")
    out = np.zeros((n, size))
    out[:, : min(n, size)] = root[:, : min(n, size)]
    return out


@door
def clusters(
    n: int, d: int, count: int = 3, spread: float = 0.05, seed: Seed = 0, runs: int | None = None
) -> np.ndarray:
    """Unit tokens in ``count`` groups around uniform centres, normal spread, as even in size as n allows."""
    if not 1 <= count <= n:
        raise InputError(f"The number of clusters lies between 1 and n = {n}, not {count!r}.")

    def draw(rng: np.random.Generator) -> np.ndarray:
        centres = _unit(rng.standard_normal((count, d)))
        return _unit(centres[np.arange(n) % count] + spread * rng.standard_normal((n, d)))

    return _draw(draw, n, d, seed, runs)


@door
def tokens_from_file(path: str | Path) -> np.ndarray:
    """Tokens (n, d) from a .npy or .csv file, one token per row; .npy may hold an ensemble (..., n, d)."""
    x = from_file(path)
    if x.ndim < 2 or 0 in x.shape:
        raise InputError(
            f"{Path(path).name} holds an array of shape {x.shape}; tokens need shape (n, d), one token per row."
        )
    return x


def _draw(one: Callable[[np.random.Generator], np.ndarray], n: int, d: int, seed: Seed, runs: int | None) -> np.ndarray:
    _counts(n, d)
    base = [seed] if isinstance(seed, (int, np.integer)) else list(seed)
    if any(isinstance(s, bool) or not isinstance(s, (int, np.integer)) or s < 0 for s in base):
        raise InputError(f"A seed is a whole number >= 0 (or several), not {seed!r}.")
    if runs is None:
        return one(np.random.default_rng(base if len(base) > 1 else base[0]))
    if runs < 1:
        raise InputError(f"The number of runs must be at least 1, not {runs!r}.")
    return np.stack([one(np.random.default_rng([*base, r])) for r in range(runs)])


def _counts(n: Any, d: Any) -> None:
    for name, value in (("n", n), ("d", d)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise InputError(f"{name} must be a whole number >= 1, not {value!r}.")


def _positive(name: str, value: float) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise InputError(f"{name} must be a finite number >= 0, not {value!r}.")
    return value


def _unit(x: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norm > 0, norm, 1.0)


INITIAL: dict[str, Callable[..., np.ndarray]] = {
    "sphere": sphere,
    "cap": cap,
    "cube": cube,
    "gaussian": gaussian,
    "clusters": clusters,
    "equiangular": equiangular,
}
