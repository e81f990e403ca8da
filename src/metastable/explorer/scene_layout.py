"""Where tokens go in the player's scene: three coordinates, about 1 in size.

| tokens             | kind     | scene                                                       |
|--------------------|----------|-------------------------------------------------------------|
| d = 1              | `line`   | time to the right, the token's value up                     |
| d = 2              | `plane`  | as they are, scaled                                         |
| unit circle        | `circle` | as they are                                                 |
| unit sphere in R^3 | `sphere` | as they are                                                 |
| d = 3              | `box`    | as they are, scaled                                         |
| d > 3, on a sphere | `ball`   | on the three principal directions, inside the unit ball     |
| d > 3              | `cloud`  | on the three principal directions, scaled                   |
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metastable.plots.motion import Motion
from metastable.plots.projection import AZIMUTH, ELEVATION, facing, principal

Floats = NDArray[np.float64]

GROWS = 6.0  # a run whose size changes by more than this is fitted to the picture at every time


@dataclass(frozen=True)
class Layout:
    """A run in the scene.

    ``tokens`` (T, n, 3); ``axes`` (3, d) and ``origin`` (3,), ``half``: scene = (axes x - origin) / half; ``fit``
    (T, 4) are centre and half-width that fill the picture at each time, None where the scene has a size of its own.
    """

    kind: str
    tokens: Floats
    axes: Floats
    origin: Floats
    half: float
    fit: Floats | None
    view: tuple[float, float]
    labels: tuple[str, ...]

    @property
    def flat(self) -> bool:
        """Whether the scene is seen from above."""
        return self.kind in ("line", "plane", "circle")

    @property
    def unit(self) -> bool:
        """Whether tokens live on the unit circle or sphere as drawn."""
        return self.kind in ("circle", "sphere")

    @property
    def grows(self) -> bool:
        """Whether the tokens' size changes so much that the scene must follow."""
        return self.fit is not None and bool(self.fit[:, 3].max() > GROWS * self.fit[:, 3].min())

    def place(self, points: Floats) -> Floats:
        """Points (..., d) of the tokens' own space in the scene, (..., 3)."""
        return np.asarray((points @ self.axes.T - self.origin) / self.half)


def layout(motion: Motion) -> Layout:
    """The scene of a run."""
    d, letter = motion.d, motion.letter
    if d == 1:
        return _line(motion)
    if d > 3:
        seen = principal(motion.x, centred=not motion.sphere, count=3)
        labels = tuple(f"principal axis {k + 1} ({share:.0%})" for k, share in enumerate(seen.shares))
        if motion.sphere:
            flat = seen.see(motion.x)
            return Layout("ball", flat, seen.axes, np.zeros(3), 1.0, None, (AZIMUTH, ELEVATION), labels)
        return _scaled("cloud", motion.x, seen.axes, labels)
    axes = np.eye(3, d)
    names = tuple(f"{letter}{'₁₂₃'[k]}" for k in range(d))
    if motion.sphere:
        kind = "circle" if d == 2 else "sphere"
        angles = (0.0, 90.0) if d == 2 else _angles(motion.x[-1])
        return Layout(kind, motion.x @ axes.T, axes, np.zeros(3), 1.0, None, angles, ())
    return _scaled("plane" if d == 2 else "box", motion.x, axes, names)


def _line(motion: Motion) -> Layout:
    """Time across, values up."""
    values = motion.x[..., 0]
    low, high = float(values.min()), float(values.max())
    centre, half = (low + high) / 2, _positive((high - low) / 2, max(abs(low), abs(high)))
    length = float(motion.t[-1] - motion.t[0]) or 1.0
    across = np.broadcast_to(2 * (motion.t - motion.t[0])[:, None] / length - 1, values.shape)
    tokens = np.stack([across, (values - centre) / half, np.zeros_like(values)], axis=-1)
    axes = np.array([[0.0], [1.0], [0.0]])
    clock = "layer" if motion.clock == "layer" else "t"
    return Layout("line", tokens, axes, np.array([0.0, centre, 0.0]), half, None, (0.0, 90.0), (clock, motion.letter))


def _scaled(kind: str, x: Floats, axes: Floats, labels: tuple[str, ...]) -> Layout:
    flat = x @ axes.T  # (T, n, 3)
    low, high = flat.min(axis=(0, 1)), flat.max(axis=(0, 1))
    origin, half = (low + high) / 2, _positive(float((high - low).max()) / 2, float(np.abs(flat).max()))
    tokens = (flat - origin) / half
    lows, highs = tokens.min(axis=1), tokens.max(axis=1)  # (T, 3)
    centres, sizes = (lows + highs) / 2, (highs - lows).max(axis=1) / 2
    sizes = np.maximum(sizes, max(1e-9, 1e-6 * float(sizes.max())))
    fit = np.concatenate([centres, sizes[:, None]], axis=1)
    view = (0.0, 90.0) if kind == "plane" else (AZIMUTH, ELEVATION)
    return Layout(kind, tokens, axes, origin, half, fit, view, labels)


def _positive(half: float, size: float) -> float:
    """A half-width that is never zero: tokens that never part are drawn in the middle."""
    return half if half > 1e-9 * size else max(0.1 * size, 1e-3)


def _angles(points: Floats) -> tuple[float, float]:
    """Azimuth and elevation, in degrees, of the camera that faces points of the sphere."""
    toward = facing(points).toward
    return float(np.degrees(np.arctan2(toward[1], toward[0]))), float(np.degrees(np.arcsin(toward[2])))
