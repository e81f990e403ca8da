"""From R^d to paper: an orthographic camera for d = 3, principal directions beyond."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

AZIMUTH, ELEVATION = -55.0, 22.0  # degrees: the default view
SAMPLE = 1000  # tokens the principal directions are computed from


@dataclass(frozen=True)
class Camera:
    """An orthographic view: three orthonormal rows, to the right, up, and towards the viewer."""

    right: Floats
    up: Floats
    toward: Floats

    @classmethod
    def at(cls, azimuth: float = AZIMUTH, elevation: float = ELEVATION) -> "Camera":
        """The view from that azimuth and elevation, in degrees.

        >>> Camera.at(0.0, 0.0).toward
        array([1., 0., 0.])
        """
        a, e = np.radians([azimuth, elevation])
        right = np.array([-np.sin(a), np.cos(a), 0.0])
        toward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
        return cls(right, np.cross(toward, right), toward)

    def see(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """(..., 3) -> positions on paper (..., 2) and height towards the viewer (...)."""
        points = np.asarray(x, dtype=float)
        flat = points @ np.stack([self.right, self.up], axis=1)  # (..., 2)
        return flat, points @ self.toward


def facing(points: Floats) -> Camera:
    """A view of the unit sphere from the side where most of these points (m, 3) are, a little from above.

    Clusters then come out near the middle of the near side; without a preferred side it is the standard view.
    """
    mean = points.mean(axis=0)
    strength = float(np.linalg.norm(mean))
    if strength < 0.15:
        return Camera.at()
    azimuth = float(np.degrees(np.arctan2(mean[1], mean[0])))
    elevation = float(np.degrees(np.arcsin(mean[2] / strength)))
    # off-centre on purpose: seen straight on, points on a sphere look flat
    return Camera.at(azimuth - 25.0, float(np.clip(elevation + 15.0, -35.0, 60.0)))


@dataclass(frozen=True)
class Principal:
    """The directions that show most of a cloud in R^d, d > 3."""

    origin: Floats
    axes: Floats  # (count, d)
    shares: Floats  # (count,) share of the total spread

    def see(self, x: ArrayLike) -> Floats:
        """(..., d) -> (..., count)."""
        return (np.asarray(x, dtype=float) - self.origin) @ self.axes.T


def principal(x: Floats, centred: bool = True, count: int = 2) -> Principal:
    """Top principal directions of the tokens (..., d); not centred, the origin stays the origin.

    Each direction's sign makes its largest component positive, so that pictures do not flip between machines.
    """
    points = x.reshape(-1, x.shape[-1])
    points = points[np.linspace(0, len(points) - 1, min(len(points), SAMPLE)).astype(int)]  # (m, d)
    origin = points.mean(axis=0) if centred else np.zeros(points.shape[1])
    away = points - origin
    scale = np.abs(away).max() or 1.0  # spreads can be astronomically large or small
    _, singular, rows = np.linalg.svd(away / scale, full_matrices=False)
    axes = np.zeros((count, points.shape[1]))
    found = min(count, len(rows))
    axes[:found] = rows[:found]
    signs = np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1))
    power = np.zeros(count)
    power[:found] = singular[:found] ** 2
    total = float((singular**2).sum())
    return Principal(origin, axes * np.where(signs == 0, 1, signs), power / total if total > 0 else power)
