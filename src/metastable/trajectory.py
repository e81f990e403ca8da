"""Trajectory: what a run returns, and the same type for the layers of a pretrained model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError


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
        What moved them; None for tokens measured in a model.
    status : str
        "done"; "steady" or "stopped" (an asked-for early stop); "stalled" (the adaptive solver could not go on) or
        "diverged" (tokens left the range of floats), with what was reached until then.
    message : str
        The status in a sentence.
    valid_until : float
        The last saved time at which rounding had not yet changed the first six digits; inf when it never did.
    provenance : mapping
        How the run was made: method, steps, tolerances, seed, versions, wall time.
    missing : tuple of str
        Parts of the dynamics that are functions of one's own, when the run was loaded without them.
    """

    t: np.ndarray
    x: np.ndarray
    dynamics: Dynamics | None = None
    status: str = "done"
    message: str = ""
    valid_until: float | None = float("inf")
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
        if not -len(self.t) <= index < len(self.t):
            raise InputError(f"index must lie between {-len(self.t)} and {len(self.t) - 1}, not {index}.")
        if self.kept_attention is not None:
            return np.asarray(self.kept_attention[index])
        if self.dynamics is None:
            raise InputError("This trajectory was measured without attention; probe the model again to keep it.")
        if self.chart is not None:
            return self._charted_attention(index)
        return np.asarray(self.dynamics.attention(float(self.t[index]), self.x[index]))

    def _charted_attention(self, index: int) -> np.ndarray:
        from metastable.engines.chart import state as rescaled

        assert self.chart is not None
        assert self.dynamics is not None
        t, y, refs = float(self.t[index]), self.chart[0][index], self.chart[1][index]
        P = rescaled.attention(self.dynamics, self._chart(), t, y, refs)
        return np.asarray(P)[..., None, :, :]

    def coordinates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens in V's own coordinates: (zeta, eigenvalues, left vectors), for geometry="rescaled".

        ``zeta`` (T, ..., n, d) holds the projections of z on the rows of ``left`` (d, d), largest real part first.
        They come from the run's chart: taken from z itself, small coordinates would drown in those that grow.
        A complex pair of eigenvalues takes two real coordinates.
        """
        from metastable.engines.chart import state as rescaled

        if self.chart is None or self.dynamics is None:
            raise InputError(
                "Only a rescaled run has coordinates of its own; project x on left eigenvectors of V instead."
            )
        chart = self._chart()
        y, refs = self.chart
        zeta = np.asarray(rescaled.zeta_at(chart, self.t, y, refs))
        order = np.argsort(-np.asarray(chart.a), kind="stable")
        values = np.asarray(chart.a) + 1j * np.asarray(0.0 if chart.b is None else chart.b)
        return zeta[..., order], values[order], np.asarray(chart.S_inv)[order]

    def _chart(self) -> Any:
        from metastable.engines.chart import basis as rescaled_chart

        assert self.dynamics is not None
        layer = float(self.provenance["dt"]) if self.provenance.get("method") == "layers" else None
        return rescaled_chart.chart_of(self.dynamics, self.x.shape[-1], self.x.shape[-2], layer)

    def observe(self, name: str, **options: Any) -> Any:
        """A named observable at every saved time, as an ``xarray.DataArray`` whose first axis is time.

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
        return xarray.Dataset(arrays, coords={"time": self.t})

    def save(self, path: str | Path) -> Path:
        """Write a record folder; an existing one is never overwritten."""
        from metastable.store import save

        return save(self, path)

    def plot(self, path: str | Path | None = None, kind: str = "snapshots", **options: Any) -> Any:
        """Draw the run (see `metastable.plots.PLOTS`); with a path also write PNG, PDF or SVG."""
        from metastable import plots

        figure = plots.plot(self, kind=kind, **options)
        if path is not None:
            plots.save_figure(figure, path)
        return figure

    def animate(self, path: str | Path, **options: Any) -> Path:
        """Write the run as an MP4 or GIF."""
        from metastable import plots

        return plots.animate(self, path, **options)


def load(path: str | Path) -> Trajectory:
    """Read a record folder written by ``Trajectory.save``, ``simulate(out=...)`` or the command line."""
    from metastable.store import load as read

    return read(path)
