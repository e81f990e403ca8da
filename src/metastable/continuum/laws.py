"""What `density` returns: laws over time, with what can be read off them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metastable.continuum.surfaces import Moments, Surface
from metastable.equation.dynamics import Dynamics
from metastable.equation.html_cards import card, curve_picture
from metastable.errors import InputError


@dataclass(frozen=True, eq=False)
class Density:
    """The law of tokens at saved times.

    Attributes
    ----------
    t : array (T,)
    moments : complex array (T, degree + 1) on the circle, (T, m, l) on S^2
        int rho conj(mode) at each time; see `metastable.continuum.surfaces`.
    surface : Circle or TwoSphere
        The grid: ``points`` (N, d), ``weights`` (N,) of its quadrature.
    dynamics : Dynamics
    status : "done" or "unresolved"
    valid_until : float
        The last time at which the law was resolved; the horizon where the status is "done".
    message : str
        Why the run ended early, or nothing.
    steps : int
        Accepted steps of the solver.
    """

    t: np.ndarray
    moments: Moments
    surface: Surface
    dynamics: Dynamics
    status: str
    valid_until: float
    message: str = ""
    steps: int = 0

    def __repr__(self) -> str:
        place = "the circle" if self.surface.dimension == 2 else "S^2"
        return (
            f"Density(on {place}, {len(self.t)} times to t = {self.valid_until:.4g}, {self.surface.degree} modes, "
            f"{self.status})"
        )

    def _repr_html_(self) -> str:
        facts = [("law", repr(self)[8:-1]), ("equation", repr(self.dynamics)[9:-1])]
        facts += [("order |int x rho|", f"{self.order[0]:.3g} at the start, {self.order[-1]:.3g} at the end")]
        facts += [("note", self.message)] if self.message else []
        return card("Density", facts, curve_picture(self.order, "order over time"))

    def __len__(self) -> int:
        return len(self.t)

    @cached_property
    def rho(self) -> np.ndarray:
        """The density at the points of the grid, (T, N); its integral is ``rho @ surface.weights``."""
        return np.stack([self.surface.values(c) for c in self.moments])

    @property
    def mass_error(self) -> float:
        """The largest |mass - 1| over the saved times."""
        return float(np.abs(self.rho @ self.surface.weights - 1.0).max())

    @property
    def least(self) -> float:
        """The least density over all saved times and points, relative to the largest at that time."""
        return float((self.rho.min(axis=1) / self.rho.max(axis=1)).min())

    def at(self, x: Any, index: int = -1) -> np.ndarray:
        """The density at points x (m, d), at one of the saved times."""
        points = np.atleast_2d(np.asarray(x, dtype=float))
        if points.shape[-1] != self.surface.dimension:
            raise InputError(f"Points need {self.surface.dimension} coordinates, not {points.shape[-1]}.")
        return self.surface.at(self.moments[index], points / np.linalg.norm(points, axis=1, keepdims=True))

    def mode(self, k: int) -> np.ndarray:
        """The size of all moments of degree k, 1 for a point mass: |int rho e^{ik theta}| on the circle, (T,)."""
        if not 0 <= int(k) <= self.surface.degree:
            raise InputError(f"There are modes up to {self.surface.degree}, not {k!r}.")
        if self.surface.dimension == 2:
            return np.asarray(np.abs(self.moments[:, k]))
        c = self.moments[:, : k + 1, k]  # (T, m)
        twice = np.where(np.arange(k + 1) == 0, 1.0, 2.0)
        return np.asarray(np.sqrt((twice * np.abs(c) ** 2).sum(axis=1) * 4.0 * np.pi / (2 * k + 1)))

    @property
    def mean(self) -> np.ndarray:
        """int x rho, (T, d)."""
        out: np.ndarray = (self.rho * self.surface.weights) @ self.surface.points
        return out

    @property
    def order(self) -> np.ndarray:
        """The order parameter |int x rho|, (T,): 0 for the uniform law, 1 for a point mass."""
        return self.mode(1)

    def sample(self, n: int, seed: int = 0, index: int = 0) -> np.ndarray:
        """n tokens (n, d) drawn from the law at one of the saved times, by rejection."""
        if n < 1:
            raise InputError(f"n must be a number of tokens >= 1, not {n!r}.")
        rng, d = np.random.default_rng(seed), self.surface.dimension
        top = 1.02 * float(self.rho[index].max())
        found: list[np.ndarray] = []
        while sum(map(len, found)) < n:
            x = rng.standard_normal((max(64, min(n, 200_000)), d))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            found.append(x[rng.uniform(0.0, top, len(x)) < self.at(x, index)])
        return np.concatenate(found)[:n]

    def plot(self, path: Any = None, *, tokens: Any = None, **options: Any) -> Any:
        """The density over time; ``tokens`` is a run (a Trajectory) whose tokens are drawn over it.

        ``options`` are those of `metastable.plots.density_picture`: times, size, ax.
        """
        from metastable.plots.density_plots import density_picture
        from metastable.plots.figure_files import save_figure

        figure = density_picture(self, tokens, **options)
        if path is not None:
            save_figure(figure, path)
        return figure
