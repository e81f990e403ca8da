"""What a sweep gives: a tidy table, the same as a Dataset with named coordinates, and means with 95% intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
from scipy.special import stdtrit

from metastable.equation.html_cards import card, matrix_picture
from metastable.errors import InputError, unknown
from metastable.progress import counted
from metastable.store.files import reason
from metastable.store.folder import damaged, read_provenance
from metastable.sweeps.designs import SAMPLE
from metastable.sweeps.measuring import OWN
from metastable.sweeps.sweep_dataset import as_dataset
from metastable.sweeps.sweep_folder import CHUNKS, TABLE, chunk_file, numbers_in, read_plan, read_rows, whole

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

_UNSAID = ("target", "observe", "times", "samples", "design", "t")  # left out of captions; axes or notes say the time


class SweepTable(pandas.DataFrame):  # type: ignore[misc]
    """A pandas.DataFrame, a row for each run and time: run, parameters, ``seed``, ``time``, observables, ``status``.

    ``grid`` are the names of the parameters that make a grid (drawn ones share ``sample``), ``drawn`` those drawn, and
    ``folder`` is where the sweep is, None when it is gone.
    """

    _metadata = ("grid", "drawn", "folder", "whole", "settings")
    grid: tuple[str, ...]
    drawn: tuple[str, ...]
    folder: Path | None
    settings: dict[str, Any]  # what all runs have in common, what is observed, and when
    whole: int  # rows of the sweep; a selection of them, or of columns, is shown as any table

    @property
    def _constructor(self) -> Any:
        return SweepTable

    def __repr__(self) -> str:
        return (
            f"SweepTable({self._size()}; {self._swept()}; observed {self._listed()})" if self._is_whole() else str(self)
        )

    def __str__(self) -> str:
        return str(super().__repr__())

    def _repr_html_(self) -> str:
        rows = str(super()._repr_html_() or "")
        if not self._is_whole():
            return rows
        status = ", ".join(
            f"{count} {name}" for name, count in self.drop_duplicates("run")["status"].value_counts().items()
        )
        facts = [("runs", self._size()), ("swept", self._swept()), ("observed", self._listed()), ("status", status)]
        return card("Sweep", facts, self._picture()) + rows

    def _is_whole(self) -> bool:
        return len(self) == getattr(self, "whole", -1) and {"run", "status", *self.grid, *self.drawn} <= set(
            self.columns
        )

    def _size(self) -> str:
        return f"{counted(self['run'].nunique(), 'run')} at {counted(self['time'].nunique(), 'time')}"

    def _swept(self) -> str:
        return " x ".join(f"{name} ({self[name].nunique()})" for name in self._seed_last()) or "nothing"

    def _seed_last(self) -> list[str]:
        return sorted(self.parameters, key=lambda name: name == "seed")

    def _listed(self) -> str:
        names = self.observed
        return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

    def _picture(self) -> str:
        if not self.observed or not self.parameters:
            return ""
        first, value = self._seed_last()[0], self.observed[0]
        table = pandas.DataFrame(self).pivot_table(index="time", columns=first, values=value, aggfunc="mean")
        if not table.size:
            return ""
        return matrix_picture(table.to_numpy()[::-1], f"mean {value}, {first} to the right, time upwards")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that vary."""
        return (*(name for name in self.grid if name != SAMPLE), *self.drawn)

    @property
    def observed(self) -> list[str]:
        """The columns of observables."""
        fixed = {*OWN, *self.grid, *self.drawn, "seed"}
        return [str(name) for name in self.columns if name not in fixed]

    def dataset(self) -> "xarray.Dataset":
        """The same as an ``xarray.Dataset``: one axis for each parameter and ``time``; drawn ones along ``sample``.

        Observables that are arrays have their own dimensions (``head``, ``token``); attributes say what variables and
        coordinates are, and what all runs have in common.
        """
        return as_dataset(pandas.DataFrame(self), self.grid, self.drawn, self.observed, self.settings)

    def means(self, *by: str, over: Sequence[str] = ("seed",)) -> pandas.DataFrame:
        """Means of the observables with 95% intervals (Student's), for each value of ``by``.

        Without ``by`` all parameters and the time but those of ``over``. Columns: NAME, NAME_low, NAME_high, and
        ``count``, the number of runs; the ends are nan where there is one only. Where the time is not among ``by``, a
        run counts once, with its mean over its times, which are not independent.
        """
        known = [*self.parameters, "time"]
        for name in by:
            if name not in known:
                raise unknown("parameter of the sweep", name, known)
        groups = list(by) or [name for name in known if name not in over]
        frame = pandas.DataFrame(self)
        if "time" not in groups:
            frame = frame.groupby(list(self.parameters), sort=False, observed=True)[list(self.observed)].mean()
            frame = frame.reset_index()
        return mean_table(frame, groups, self.observed)

    def plot(self, kind: str = "heatmap", **options: Any) -> "Figure":
        """A picture of the sweep: ``kind`` heatmap or lines; x, y, value, by, panels, log, size, ax."""
        from metastable.plots.sweep_plots import plot_sweep

        frame, observed = pandas.DataFrame(self), self.observed
        shared = {name: value for name, value in getattr(self, "settings", {}).items() if name not in _UNSAID}
        said = {name: f"{v:g}" if isinstance(v, float) else v for name, v in shared.items()}
        fixed = tuple(f"{name} = {value}" for name, value in said.items() if isinstance(value, str | int))
        return plot_sweep(lambda by: mean_table(frame, by, observed), self.parameters, observed, kind, fixed, **options)


def mean_table(frame: pandas.DataFrame, by: list[str], observed: Sequence[str]) -> pandas.DataFrame:
    """Means with Student's 95% intervals over groups of rows; nan values are left out."""
    groups = frame.groupby(by, sort=True, observed=True)[list(observed)]
    mean, count, spread = groups.mean(), groups.count(), groups.std(ddof=1)
    out: dict[str, Any] = {}
    for name in observed:
        n = count[name].to_numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = np.where(n > 1, stdtrit(np.maximum(n - 1, 1), 0.975) / np.sqrt(np.maximum(n, 1)), np.nan)
        half = factor * spread[name].to_numpy()
        out |= {name: mean[name], f"{name}_low": mean[name] - half, f"{name}_high": mean[name] + half}
    table = pandas.DataFrame(out)
    table["count"] = groups.size()
    return table.reset_index()


def read_table(folder: str | Path, partial: bool = False) -> SweepTable:
    """The table of a sweep in a folder; ``partial`` reads the chunks that have landed so far."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"There is no sweep in {str(folder)!r}; give the folder of one.")
    settings = read_provenance(place, "sweep").get("settings", {})
    plan = read_plan(place)
    landed = sorted(numbers_in(place, CHUNKS))
    if plan is None or not landed:
        raise InputError(f"The sweep in {str(folder)!r} has no rows yet; run it first.")
    if not partial and not whole(place, plan):
        raise InputError(
            f"The sweep in {str(folder)!r} is unfinished ({len(landed)} of {plan.chunks} chunks); "
            "run it again to finish it, or read it with partial=True (--partial)."
        )
    try:
        found = [read_rows(path) for path in ([chunk_file(place, k) for k in landed] if partial else [place / TABLE])]
    except ValueError as error:
        raise damaged(place, reason(error)) from error
    frame = pandas.concat([rows.to_pandas() for rows in found], ignore_index=True)
    table = SweepTable(frame)
    table.grid = tuple(plan.design.axes)
    table.drawn = tuple(plan.design.draws.ranges) if plan.design.draws else ()
    table.folder = place
    table.whole = len(table)
    table.settings = settings
    return table
