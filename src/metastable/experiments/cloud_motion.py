"""How clouds of unit vectors turn and how close their tokens are: measures that several experiments share."""

import numpy as np


def rotation(x: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far tokens turn about one axis in the second half, in turns (b,), and how much of their motion that is (b,).

    Between two saved times tokens move by v at x; the common rotation omega minimises sum |v - omega x x|^2, so that
    (sum 1 - x x^T) omega = sum x x v. Rotations add up as vectors: an axis that wanders gives few turns. The share of
    the motion is 1 - sum |v - omega x x|^2 / sum |v|^2; of tokens at rest it is 0.
    """
    late = t >= t[-1] / 2.0
    y, dt = x[:, late], np.diff(t[late])  # (b, s, n, 3), (s - 1,)
    v = np.diff(y, axis=1) / dt[:, None, None]
    middle = (y[:, 1:] + y[:, :-1]) / 2.0
    middle = middle / np.linalg.norm(middle, axis=-1, keepdims=True)
    spread = np.eye(3) * middle.shape[-2] - np.einsum("...ni,...nj->...ij", middle, middle)
    turn = np.cross(middle, v).sum(axis=-2)  # (b, s - 1, 3)
    omega = (np.linalg.pinv(spread, rcond=1e-6) @ turn[..., None])[..., 0]
    left = v - np.cross(omega[..., None, :], middle)
    moved, kept = (v**2).sum(axis=(1, 2, 3)), (left**2).sum(axis=(1, 2, 3))
    turns = np.linalg.norm((omega * dt[:, None]).sum(axis=1), axis=-1) / (2.0 * np.pi)
    return turns, np.where(moved > 1e-12, 1.0 - kept / np.maximum(moved, 1e-12), 0.0)


def nearest_angles(x: np.ndarray) -> np.ndarray:
    """Angle from every token to its nearest other token, (..., n)."""
    cosine = x @ np.swapaxes(x, -1, -2) - 3.0 * np.eye(x.shape[-2])  # (..., n, n), itself out of reach
    near = np.take_along_axis(x, cosine.argmax(axis=-1)[..., None], axis=-2)
    return np.asarray(2.0 * np.arcsin(np.minimum(1.0, np.linalg.norm(x - near, axis=-1) / 2.0)))
