"""How each space is laid on paper: where a token goes, how near it is, and what is drawn behind it.

| tokens                    | view      | on paper                                                     |
|---------------------------|-----------|--------------------------------------------------------------|
| d = 1                     | `line`    | time to the right, the token's value up                      |
| d = 2                     | `plane`   | as they are                                                  |
| unit circle               | `circle`  | with the circle drawn                                        |
| unit sphere in R^3        | `sphere`  | orthographic, far side paler                                 |
| d = 3                     | `box`     | orthographic, with a box and its scales                      |
| d > 3                     | `cloud`   | on the two principal directions, with their shares           |
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from metastable.plots import box, globe
from metastable.plots.motion import Motion
from metastable.plots.projection import AZIMUTH, ELEVATION, Camera, facing, principal
from metastable.plots.style import FAINT, INK

Floats = NDArray[np.float64]
Placed = tuple[Floats, Floats]  # positions (..., n, 2) and heights towards the viewer (..., n) from -1 to 1


@dataclass(frozen=True)
class View:
    """One space on paper.

    Parameters
    ----------
    name
        The view's name in the table above.
    place
        Times (m,) and tokens (m, n, d) to positions (m, n, 2) and heights towards the viewer (m, n).
    backdrop
        Draws what lies behind the tokens and sets the limits.
    shading
        How much height changes size and colour: 0 flat, 1 the sphere, whose far side is hidden.
    panel
        Width of a panel in inches, and the ratio and extra that give its height (see `style.panels`).
    """

    name: str
    place: Callable[[Floats, Floats], Placed]
    backdrop: Callable[[Axes], None]
    shading: float
    panel: tuple[float, float, float]


def view_of(motion: Motion, shown: Floats | None = None, angles: tuple[float, float] | None = None) -> View:
    """The view for a run's space.

    Parameters
    ----------
    motion
        The run.
    shown
        The states (m, n, d) the limits must hold; the whole run when None.
    angles
        Azimuth and elevation in degrees for d = 3; chosen to face the final tokens when None.
    """
    shown = motion.x if shown is None else shown
    if motion.d == 1:
        return _line(motion, shown)
    if motion.d > 3:
        return _cloud(motion, shown)
    if motion.d == 2:
        return _circle(motion) if motion.sphere else _plane(motion, shown)
    if motion.sphere:
        return _sphere(motion, angles)
    return _box(motion, shown, Camera.at(*(angles or (AZIMUTH, ELEVATION))))


def limits(points: Floats) -> tuple[Floats, Floats]:
    """Centre and half-width (k,) of square limits around points (..., k).

    One scale for all directions unless that would flatten the picture (spreads more than six times apart), so that
    right angles look right; never of zero width.
    """
    flat = points.reshape(-1, points.shape[-1])
    low, high = flat.min(axis=0), flat.max(axis=0)
    centre, half = (low + high) / 2, (high - low) / 2
    widest = half.max()
    if widest < 1e-9 * max(np.abs(centre).max(), 1e-290):
        widest = max(0.1 * float(np.abs(centre).max()), 1e-3)  # all tokens in one place
        half = np.full_like(half, widest)
    if half.min() > widest / 6 or half.min() < 1e-6 * widest:
        half = np.full_like(half, widest)
    return centre, 1.1 * half


def _line(motion: Motion, shown: Floats) -> View:
    centre, half = limits(shown)

    def place(t: Floats, x: Floats) -> Placed:
        when = np.broadcast_to(t[:, None], x.shape[:2])  # (m, n)
        return np.stack([when, x[..., 0]], axis=-1), np.ones(x.shape[:2])

    def backdrop(ax: Axes) -> None:
        start, end = motion.t[0], motion.t[-1]
        pad = 0.03 * ((end - start) or 1.0)
        ax.set(xlim=(start - pad, end + pad), ylim=(centre[0] - half[0], centre[0] + half[0]))
        ax.set(xlabel="layer" if motion.clock == "layer" else "time $t$", ylabel=f"${motion.letter}$")
        ax.axhline(0.0, color=FAINT, lw=0.6, zorder=0)

    return View("line", place, backdrop, 0.0, (3.4, 0.7, 0.0))


def _flat_backdrop(ax: Axes, centre: Floats, half: Floats, labels: tuple[str, str]) -> None:
    ax.axhline(0.0, color=FAINT, lw=0.6, zorder=0)
    ax.axvline(0.0, color=FAINT, lw=0.6, zorder=0)
    ax.set(xlim=(centre[0] - half[0], centre[0] + half[0]), ylim=(centre[1] - half[1], centre[1] + half[1]))
    ax.set(xlabel=labels[0], ylabel=labels[1], box_aspect=1)
    ax.locator_params(nbins=5)
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)


def _plane(motion: Motion, shown: Floats) -> View:
    centre, half = limits(shown)
    labels = (f"${motion.letter}_1$", f"${motion.letter}_2$")
    return View(
        "plane",
        lambda t, x: (x, np.ones(x.shape[:2])),
        lambda ax: _flat_backdrop(ax, centre, half, labels),
        0.0,
        (2.1, 1.0, 0.12),
    )


def _circle(motion: Motion) -> View:
    def backdrop(ax: Axes) -> None:
        turn = np.linspace(0.0, 2 * np.pi, 361)
        ax.plot(np.cos(turn), np.sin(turn), color=INK, lw=0.6, zorder=1)
        for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1)):  # quarter marks
            ax.plot([0.96 * x, 1.04 * x], [0.96 * y, 1.04 * y], color=INK, lw=0.6, zorder=1)
        ax.plot(0, 0, "+", color=FAINT, ms=5, mew=0.6, zorder=0)
        ax.set(xlim=(-1.13, 1.13), ylim=(-1.13, 1.13), aspect="equal")
        ax.set_axis_off()

    return View("circle", lambda t, x: (x, np.ones(x.shape[:2])), backdrop, 0.0, (1.75, 1.0, 0.16))


def time_disc(motion: Motion) -> View:
    """The circle with time as radius, from an inner ring to the unit circle: paths that retrace an arc stay apart."""
    start, length = motion.t[0], (motion.t[-1] - motion.t[0]) or 1.0
    inner = 0.3
    turn = np.linspace(0.0, 2 * np.pi, 361)

    def place(t: Floats, x: Floats) -> Placed:
        radius = inner + (1 - inner) * (t - start) / length  # (m,)
        return x * radius[:, None, None], np.ones(x.shape[:2])

    def backdrop(ax: Axes) -> None:
        for radius, colour in ((inner, "#B9BEC4"), (1.0, INK)):
            ax.plot(radius * np.cos(turn), radius * np.sin(turn), color=colour, lw=0.6, zorder=1)
        ax.set(xlim=(-1.13, 1.13), ylim=(-1.13, 1.13), aspect="equal")
        ax.set_axis_off()

    return View("disc", place, backdrop, 0.0, (1.75, 1.0, 0.16))


def _sphere(motion: Motion, angles: tuple[float, float] | None) -> View:
    camera = facing(motion.x[-1]) if angles is None else Camera.at(*angles)
    return View("sphere", lambda t, x: camera.see(x), lambda ax: globe.draw_globe(ax, camera), 1.0, (1.75, 1.0, 0.16))


def _box(motion: Motion, shown: Floats, camera: Camera) -> View:
    centre, half = limits(shown)

    def place(t: Floats, x: Floats) -> Placed:
        flat, height = camera.see((x - centre) / half)
        return flat, height / np.sqrt(3.0)

    letters = tuple(f"${motion.letter}_{k}$" for k in (1, 2, 3))
    return View("box", place, lambda ax: box.draw_box(ax, camera, centre, half, letters), 0.45, (2.3, 0.95, 0.2))


def _cloud(motion: Motion, shown: Floats) -> View:
    # on the sphere the origin is the centre of the ball and stays the centre of the picture
    seen = principal(motion.x, centred=not motion.sphere)
    centre, half = (np.zeros(2), np.full(2, 1.1)) if motion.sphere else limits(seen.see(shown))
    one, two = (f"principal axis {k + 1} ({seen.shares[k]:.0%})" for k in (0, 1))

    def backdrop(ax: Axes) -> None:
        _flat_backdrop(ax, centre, half, (one, two))
        if motion.sphere:
            turn = np.linspace(0.0, 2 * np.pi, 361)
            ax.plot(np.cos(turn), np.sin(turn), color=INK, lw=0.5, zorder=0)

    return View("cloud", lambda t, x: (seen.see(x), np.ones(x.shape[:2])), backdrop, 0.0, (2.1, 1.0, 0.12))
