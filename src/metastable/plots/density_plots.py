"""The law of infinitely many tokens over time, and tokens over it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from metastable.errors import InputError
from metastable.plots.style import HEAT, INK, PALETTE, SOFT, Size, captioned, one_axes, panels, paper

_LINES = 40  # tokens drawn as lines over the density of the circle
_DOTS = 400  # and as dots over that of S^2


@paper()
def density_picture(
    law: Any,
    tokens: Any = None,
    *,
    times: int = 4,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """A `Density`: over angle and time on the circle, as maps of S^2 at some times.

    Parameters
    ----------
    law : Density
    tokens : Trajectory, optional
        One run of tokens, drawn over the density: lines on the circle, dots on S^2.
    times : int
        How many maps of S^2.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes: one for the circle, as many as there are maps (``projection="mollweide"``) for S^2.
    """
    if tokens is not None and np.ndim(tokens.x) != 3:
        raise InputError(f"tokens must be one run (T, n, d), but it has shape {np.shape(tokens.x)}; take one of them.")
    figure = _circle(law, tokens, size, ax) if law.surface.dimension == 2 else _maps(law, tokens, times, size, ax)
    dyn = law.dynamics
    n = "" if tokens is None else f", and {tokens.x.shape[1]:,} tokens over it"
    noise = f", noise {float(dyn.noise):g}" if dyn.noisy else ""
    return captioned(
        figure, f"Density of infinitely many tokens{n}; beta = {float(dyn.beta):g}, {dyn.normalise.name}{noise}."
    )


def _circle(law: Any, tokens: Any, size: Size | None, ax: Any) -> Figure:
    figure, panel = one_axes(ax, 4.6, 2.9, size)
    theta = np.linspace(-np.pi, np.pi, 361)
    points = np.stack([np.cos(theta), np.sin(theta)], axis=-1)
    rho = np.stack([law.at(points, k) for k in range(len(law))], axis=1)  # (angles, T)
    drawn = panel.pcolormesh(law.t, theta, rho, cmap=HEAT, norm=_norm(rho), shading="gouraud", rasterized=True)
    figure.colorbar(drawn, ax=panel, label=r"density $\rho$", pad=0.02)
    if tokens is not None:
        angle = np.arctan2(tokens.x[..., 1], tokens.x[..., 0])[:, :: max(1, tokens.x.shape[1] // _LINES)]  # (T, some)
        jump = np.abs(np.diff(angle, axis=0, prepend=angle[:1])) > np.pi
        panel.plot(tokens.t, np.where(jump, np.nan, angle), color=PALETTE[1], lw=0.45, alpha=0.9)
    panel.set(xlabel="time $t$", ylabel=r"angle $\theta$", xlim=(law.t[0], law.t[-1]), ylim=(-np.pi, np.pi))
    panel.set_yticks([-np.pi, 0.0, np.pi], [r"$-\pi$", "0", r"$\pi$"])
    return figure


def _maps(law: Any, tokens: Any, times: int, size: Size | None, ax: Any) -> Figure:
    shown = np.unique(np.linspace(0, len(law) - 1, max(1, times)).round().astype(int))
    figure, axes = panels(ax, len(shown), 3.4, 0.5, 0.1, min(2, len(shown)), size, projection="mollweide")
    lon, lat = np.meshgrid(np.linspace(-np.pi, np.pi, 121), np.linspace(-np.pi / 2, np.pi / 2, 61))
    points = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1).reshape(-1, 3)
    rho = [law.at(points, k).reshape(lon.shape) for k in shown]
    norm = _norm(np.stack(rho))
    for panel, k, values in zip(axes, shown, rho):
        drawn = panel.pcolormesh(lon, lat, values, cmap=HEAT, norm=norm, shading="gouraud", rasterized=True)
        panel.set(xticks=[], yticks=[], title=f"$t = {law.t[k]:.3g}$")
        panel.spines["geo"].set(edgecolor=SOFT, linewidth=0.6)
        if tokens is not None:
            x = tokens.x[int(np.abs(np.asarray(tokens.t) - law.t[k]).argmin())][:_DOTS]
            where = np.arctan2(x[:, 1], x[:, 0]), np.arcsin(np.clip(x[:, 2], -1.0, 1.0))
            panel.scatter(*where, s=2.2, c=PALETTE[1], ec=INK, lw=0.1)
    figure.colorbar(drawn, ax=axes, label=r"density $\rho$", shrink=0.8)
    return figure


def _norm(rho: np.ndarray) -> PowerNorm:
    """Roots make thin clusters and the rest visible side by side."""
    return PowerNorm(0.5, vmin=0.0, vmax=max(float(np.quantile(rho, 0.999)), 1e-300))
