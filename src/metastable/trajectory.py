"""Trajectory: what a run returns, and the same type for the layers of a pretrained model."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metastable.engines.chart import state as chart_state
from metastable.engines.chart.basis import Chart, chart_of
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, unknown
from metastable.solve.plan import with_numbers


@dataclass(frozen=True)
class Trajectory:
    """Tokens through time.

    Attributes
    ----------
    t : array (T,)
        The saved times.
    x : array (T, ..., n, d)
        The tokens at these times; axes between time and tokens are an ensemble. For geometry="rescaled" these are
        the rescaled tokens z = e^{-tV} x.
    dynamics : Dynamics or None
        What moved them; None for tokens measured in a model, and for a loaded run with functions for parts.
    status : str
        "done"; "steady", "plateau" or "stopped" (a requested early stop); "stalled" (the adaptive solver could not go
        on) or "diverged" (tokens left the range of floats), with what was reached until then; "unconverged" (attention
        missed its own definition).
    message : str
        The status in a sentence.
    valid_until : float or None
        The last saved time to which the first six digits are certified: a shaken copy of the run agreed so far. None
        where nothing was certified (see ``trust`` of `simulate`).
    provenance : mapping
        How the run was made: method, steps, tolerances, seed, versions, wall time.
    missing : tuple of str
        Parts that a record could not hold, because they are functions of one's own.
    """

    t: np.ndarray
    x: np.ndarray
    dynamics: Dynamics | None = None
    status: str = "done"
    message: str = ""
    valid_until: float | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    chart: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    kept_attention: np.ndarray | None = field(default=None, repr=False)
    missing: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.t)

    @property
    def runs(self) -> tuple[int, ...]:
        """The shape of the ensemble; () for one run."""
        return self.x.shape[1:-2]

    def nearest(self, time: float) -> int:
        """The index of the saved time nearest to ``time``."""
        return int(np.abs(self.t - time).argmin())

    def attention(self, index: int = -1) -> np.ndarray:
        """Attention (..., h, n, n) at a saved time."""
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool):
            raise InputError(f"index must be a whole number, the place of a saved time, not {index!r}.")
        if not -len(self.t) <= index < len(self.t):
            raise InputError(f"index must lie between {-len(self.t)} and {len(self.t) - 1}, not {index}.")
        if self.kept_attention is not None:
            return np.asarray(self.kept_attention[index])
        dynamics = self.moved_by("attention")
        if self.chart is None:
            return np.asarray(dynamics.attention(float(self.t[index]), self.x[index]))
        (y, refs), t, out = self.chart, np.asarray(self.t[index]), {}
        for run in np.ndindex(*self.runs):
            out[run] = chart_state.attention(dynamics, self._chart(run), t, y[(index, *run)], refs[(index, *run)])
        n = self.x.shape[-2]
        return np.stack([np.asarray(P) for P in out.values()]).reshape(*self.runs, 1, n, n)

    def moved_by(self, what: str) -> Dynamics:
        """The dynamics, or the sentence why there is no ``what`` without it."""
        if self.dynamics is not None:
            return self.dynamics
        if self.missing:
            raise InputError(
                f"This record has functions for parts ({', '.join(self.missing)}), which no file holds, so there is no "
                f"{what}; load it with metastable.load(path, dynamics=...)."
            )
        raise InputError(f"These tokens were measured in a model, without dynamics, so there is no {what}.")

    def coordinates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens in V's own coordinates: (zeta, eigenvalues, left vectors), for geometry="rescaled".

        ``zeta`` (T, ..., n, d) holds the projections of z on the rows of ``left`` (d, d), largest real part first.
        They come from the run's chart: taken from z itself, small coordinates would drown in those that grow.
        A complex pair of eigenvalues takes two real coordinates.
        """
        if self.chart is None or self.dynamics is None:
            raise InputError(
                "Only a rescaled run has coordinates of its own; project x on left eigenvectors of V instead."
            )
        chart = self._chart((0,) * len(self.runs))
        y, refs = self.chart
        zeta = np.asarray(chart_state.zeta_at(chart, self.t, y, refs))
        order = np.argsort(-np.asarray(chart.a), kind="stable")
        values = np.asarray(chart.a) + 1j * np.asarray(0.0 if chart.b is None else chart.b)
        return zeta[..., order], values[order], np.asarray(chart.S_inv)[order]

    def _chart(self, run: tuple[int, ...]) -> Chart:
        dynamics = self.moved_by("chart")
        layer = float(self.provenance["dt"]) if self.provenance.get("discrete") else None
        beta = np.broadcast_to(np.asarray(dynamics.beta), self.runs)[run]
        return chart_of(with_numbers(dynamics, beta=float(beta)), self.x.shape[-1], self.x.shape[-2], layer)

    def observe(self, name: Any, **options: Any) -> Any:
        """A named observable, or a function of the run, at every saved time: an ``xarray.DataArray``, first axis time.

        ``metastable list observables`` names them; options are those of the observable's function.
        """
        from metastable import observables

        return observables.observe(self, name, **options)

    def to_xarray(self) -> Any:
        """Times, tokens and provenance as an ``xarray.Dataset``."""
        import xarray

        runs = [f"run{k}" for k in range(len(self.runs))]
        arrays: dict[str, Any] = {"x": (("time", *runs, "token", "coordinate"), self.x)}
        if self.chart is not None:
            arrays["chart_y"] = (("time", *runs, "token", "direction"), self.chart[0])
            arrays["chart_refs"] = (("time", *runs, "token"), self.chart[1])
        if self.kept_attention is not None:
            arrays["attention"] = (("time", *runs, "head", "query", "key"), self.kept_attention)
        made = {name: value for name, value in self.provenance.items() if isinstance(value, (str, int, float, bool))}
        attrs = {"status": self.status, "message": self.message, **made}
        if self.valid_until is not None:
            attrs["valid_until"] = self.valid_until
        return xarray.Dataset(arrays, coords={"time": self.t}, attrs=attrs)

    def save(self, path: str | Path) -> Path:
        """Write a record folder; an existing one is never overwritten."""
        from metastable.store import save

        return save(self, path)

    def plot(self, path: str | Path | None = None, kind: str = "snapshots", **options: Any) -> Any:
        """Draw the run (see `metastable.plots.PLOTS`); with a path also write PNG, PDF or SVG."""
        from metastable import plots

        known = [name for name in inspect.signature(plots.plot).parameters if name not in ("trajectory", "kind")]
        for name in options:
            if name not in known:
                raise unknown("option of plot", name, known)
        figure = plots.plot(self, kind=kind, **options)
        if path is not None:
            plots.save_figure(figure, path)
        return figure

    def animate(self, path: str | Path, **options: Any) -> Path:
        """Write the run as an MP4 or GIF."""
        from metastable import plots

        return plots.animate(self, path, **options)

    def view(self, **options: Any) -> Any:
        """Play the run in a notebook (see `metastable.explorer.view`)."""
        from metastable import explorer

        return explorer.view(self, **options)

    def export(self, path: str | Path, **options: Any) -> Path:
        """Write the run as one HTML file that plays without a server (see `metastable.explorer.export`)."""
        from metastable import explorer

        return explorer.export(self, path, **options)


def load(path: str | Path, partial: bool = False, dynamics: Dynamics | None = None) -> Trajectory:
    """Read a record folder written by ``Trajectory.save`` or the command line.

    Parameters
    ----------
    path : path
    partial : bool
        Read what an unfinished record has so far instead of refusing it.
    dynamics : Dynamics, optional
        What moved the tokens; needed only for runs with functions for parts, which no file can hold.
    """
    from metastable.store import load as read

    return read(path, partial=partial, dynamics=dynamics)
