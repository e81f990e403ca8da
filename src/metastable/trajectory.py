"""Trajectory: what a run returns, and the same type for the layers of a pretrained model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.engines.chart import state as chart_state
from metastable.engines.chart.basis import Chart, chart_of
from metastable.equation.dynamics import Dynamics
from metastable.equation.html_cards import card, token_picture
from metastable.equation.short_forms import dynamics_line
from metastable.errors import InputError, door
from metastable.solve.plan import Ending, with_numbers

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False, eq=False)
class Trajectory:
    """Tokens through time.

    ``run[3:10]`` and ``run[-1]`` are the run at some of its saved times; ``run.at(t)`` is the run at any time.

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
        The last saved time to which the first six digits (in float32 three) are certified: a shaken copy of the run
        agreed so far. None where nothing was certified (see ``trust`` of `simulate`).
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
    ending: Ending | None = None

    def __repr__(self) -> str:
        return f"Trajectory({self._size()}; {self._equation().partition(';')[0]}; {self._trust()})"

    def _repr_html_(self) -> str:
        made = self.provenance
        facts = [("tokens", self._size()), ("equation", self._equation())]
        facts += [("status", f"{self.status}: {self.message}" if self.message else self.status)]
        said = ", ".join(f"{k} {made[k]}" for k in ("method", "dt", "engine", "seed") if np.ndim(made.get(k, [])) == 0)
        facts += [("certified", self._trust().partition(", ")[2]), ("made by", said)]
        if not len(self):
            return card("Trajectory", facts)
        last = self.x[-1].reshape(-1, *self.x.shape[-2:])[0]
        sphere = self.dynamics is not None and self.dynamics.geometry.fixed_norm
        return card("Trajectory", facts, token_picture(last, sphere, f"tokens at t = {self.t[-1]:g}"))

    def _equation(self) -> str:
        if self.dynamics is not None:
            return dynamics_line(self.dynamics)
        return f"parts not in the record: {', '.join(self.missing)}" if self.missing else "measured in a model"

    def _size(self) -> str:
        n, d = self.x.shape[-2:]
        runs = f"{' x '.join(map(str, self.runs))} runs of " if self.runs else ""
        clock = "layer" if self.provenance.get("discrete") else "time"
        several = f", {clock}s {self.t[0]:g} to {self.t[-1]:g} ({len(self)} saved)" if len(self) else ", nothing saved"
        return f"{runs}{n} token{'s' * (n != 1)} in d = {d}{f', {clock} {self.t[0]:g}' if len(self) == 1 else several}"

    def _trust(self) -> str:
        known = "nothing certified" if self.valid_until is None else f"certified to t = {self.valid_until:g}"
        return f"{self.status}, {known}"

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, index: "int | slice | Sequence[int] | np.ndarray") -> "Trajectory":
        """The run at some of its saved times, by their places."""
        try:
            kept = np.atleast_1d(np.arange(len(self))[index])
        except (IndexError, TypeError) as error:
            raise InputError(f"A run has saved times 0 to {len(self) - 1}, so there is no run[{index!r}].") from error
        if (np.diff(kept) <= 0).any():
            raise InputError("Saved times must stay in order; a run cannot be turned around or repeat itself.")
        chart = None if self.chart is None else (self.chart[0][kept], self.chart[1][kept])
        held = None if self.kept_attention is None else self.kept_attention[kept]
        ending = self.ending if len(kept) == len(self) else None
        return replace(self, t=self.t[kept], x=self.x[kept], chart=chart, kept_attention=held, ending=ending)

    @property
    def runs(self) -> tuple[int, ...]:
        """The shape of the ensemble; () for one run."""
        return self.x.shape[1:-2]

    @door
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
        A complex pair takes two real coordinates. Without well-conditioned eigenvectors: (z, zeros, identity).
        """
        if self.chart is None or self.dynamics is None:
            raise InputError("Only a rescaled run has coordinates of its own; project x on left eigenvectors of V.")
        chart = self._chart((0,) * len(self.runs))
        zeta = np.asarray(chart_state.zeta_at(chart, self.t, *self.chart))
        order = np.argsort(-np.asarray(chart.a), kind="stable")
        values = np.asarray(chart.a) + 1j * np.asarray(0.0 if chart.b is None else chart.b)
        return zeta[..., order], values[order], np.asarray(chart.S_inv)[order]

    def _chart(self, run: tuple[int, ...]) -> Chart:
        dynamics = self.moved_by("chart")
        layer = float(self.provenance["dt"]) if self.provenance.get("discrete") else None
        beta = np.broadcast_to(np.asarray(dynamics.beta), self.runs)[run]
        return chart_of(with_numbers(dynamics, beta=float(beta)), self.x.shape[-1], self.x.shape[-2], layer)

    # --- more of it -------------------------------------------------------------------------------------------------

    def at(self, t: Any) -> "Trajectory":
        """The run at any time within it, or at several: the method's own dense output, never the nearest save.

        Saved times come back as they are. Fixed steps are read off the cubic of the step around ``t``; adaptive,
        rescaled and noisy runs are made again with these saves, which changes nothing else.

        >>> import metastable as ms
        >>> run = ms.simulate(ms.Dynamics(), ms.initial.sphere(6, 3), t=2.0, save=3)
        >>> run.at(0.73).x.shape, run.at([0.1, 2.0]).t.tolist()
        ((1, 6, 3), [0.1, 2.0])
        """
        from metastable.solve.continuing import at

        return door(at)(self, t)

    def extend(self, t: float, save: Any = None) -> "Trajectory":
        """The whole run carried on to a later time: the same digits as a run that was made that long at once.

        Adaptive methods choose their steps anew from here on, within their tolerance. ``save`` is a number of later
        times or the times themselves; by default they are as far apart as the last two.

        >>> import metastable as ms
        >>> run = ms.simulate(ms.Dynamics(), ms.initial.sphere(6, 3), t=2.0, save=3)
        >>> longer = run.extend(t=4.0)
        >>> longer.t.tolist(), bool((longer.x[:3] == run.x).all())
        ([0.0, 1.0, 2.0, 3.0, 4.0], True)
        """
        from metastable.solve.continuing import extend

        return door(extend)(self, t, save)

    # --- numbers and tables -----------------------------------------------------------------------------------------

    def observe(self, name: Any, **options: Any) -> Any:
        """An observable at every saved time, as an ``xarray.DataArray`` with first axis time.

        ``name`` is a name of ``metastable list observables`` (options are those of its function), a function of the run
        that returns an array with one entry for every saved time, or several: a list of names, or a dict from names of
        one's own to names and functions, which give an ``xarray.Dataset``. Units, words for axes and the run's
        parameters come with it.

        >>> import numpy as np, metastable as ms
        >>> run = ms.simulate(ms.Dynamics(beta=4.0), ms.initial.sphere(6, 3), t=1.0, save=3)
        >>> data = run.observe({"count": "clusters", "height": lambda run: run.x[..., 2].max(-1)})
        >>> sorted(data.data_vars), data.height.dims, float(data.beta)
        (['count', 'height'], ('time',), 4.0)
        """
        from metastable import observables

        return observables.observe(self, name, **options)

    def parameters(self) -> dict[str, Any]:
        """What the run was made with, name to number or word: n, d, beta, parts, method, seed, ..."""
        made = {k: self.provenance[k] for k in ("method", "dt", "seed") if self.provenance.get(k) is not None}
        found: dict[str, Any] = {"n": self.x.shape[-2], "d": self.x.shape[-1]}
        if self.dynamics is not None:
            found |= {"beta": self.dynamics.beta, "noise": self.dynamics.noise, "heads": self.dynamics.weights.heads}
            found |= {k: getattr(self.dynamics, k).name for k in ("normalise", "mask", "geometry", "score")}
        return found | made

    def to_xarray(self) -> "xarray.Dataset":
        """Times, tokens, parameters and provenance as an ``xarray.Dataset``."""
        from metastable.store.tables import dataset

        return dataset(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """A row for every time, run and token, a column for every coordinate; provenance in ``frame.attrs``."""
        from metastable.store.tables import frame

        return frame(self)

    def to_csv(self, path: str | Path) -> Path:
        """Write `to_pandas` as a .csv file, under lines of provenance: ``pandas.read_csv(path, comment="#")``."""
        from metastable.store.tables import write_csv

        return door(write_csv)(self, path)

    def save(self, path: str | Path) -> Path:
        """Write a record folder; an existing one is never overwritten."""
        from metastable.store import save

        return door(save)(self, path)

    # --- pictures ---------------------------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None, kind: str = "snapshots", **options: Any) -> "Figure":
        """Draw the run (see `metastable.plots.PLOTS`); with a path also write PNG, PDF or SVG."""
        from metastable import plots

        figure = plots.plot(self, kind=kind, **options)
        if path is not None:
            plots.save_figure(figure, path)
        return figure

    def animate(self, path: str | Path, **options: Any) -> Path:
        """Write the run as .mp4 or .gif (options: `metastable.plots.animate`), or as .html, as `export` does."""
        from metastable import plots

        if str(path).lower().endswith((".html", ".htm")):
            return self.export(path, **options)
        return plots.animate(self, path, **options)

    def film(self, **options: Any) -> Any:
        """The run as a film that plays in a notebook (`metastable.plots.film`); options are those of `animate`."""
        from metastable.plots.inline_film import film

        return door(film)(self, **options)

    def view(self, **options: Any) -> Any:
        """Play the run in a notebook (see `metastable.explorer.view`)."""
        from metastable import explorer

        return door(explorer.view)(self, **options)

    def export(self, path: str | Path, **options: Any) -> Path:
        """Write the run as one HTML file that plays without a server (see `metastable.explorer.export`)."""
        from metastable import explorer

        return door(explorer.export)(self, path, **options)


@door
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
