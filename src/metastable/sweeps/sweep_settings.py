"""From a TOML file, a mapping or flags to a sweep that has been checked: a `Spec`, a `Design`, and how to run it."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from metastable.config.settings import checked, kinds
from metastable.config.sweep_tables import SweepTable
from metastable.config.toml_files import Tables, read
from metastable.errors import InputError, unknown
from metastable.store.files import regular
from metastable.store.folder import Purpose, digest
from metastable.sweeps import axes
from metastable.sweeps.designs import SAMPLE, Design, make_design
from metastable.sweeps.measuring import observables
from metastable.sweeps.spec import Spec
from metastable.sweeps.targets import TARGETS, Target

TIMES = 31
OBSERVE = ("clusters",)
_MOST_LIMIT = 1e8  # seconds of a chunk's limit: three years
_INSTEAD = {
    "save": "it measures at the times of [sweep] times",
    "runs": "sweep over seed instead, as in seed = {start = 0, count = 50}",
    "until": "all its runs go to t",
}


@dataclass(frozen=True)
class SweepJob:
    """A sweep that can start. ``settings`` are those that do not decide numbers: jobs, cluster, limit, out."""

    spec: Spec
    design: Design
    name: str
    settings: SweepTable
    marks: Mapping[str, str] = field(default_factory=dict)  # digests of files that are read by the workers

    @property
    def purpose(self) -> Purpose:
        """What its folder is for. The values of the axes are left out: a sweep can be extended."""
        drawn = self.design.plain()
        drawn.pop("axes")
        about = {
            "target": self.spec.target,
            **self.spec.base,
            "observe": {column: _described(what) for column, what in self.spec.observe.items()},
            "times": list(self.spec.times) if isinstance(self.spec.times, tuple) else self.spec.times,
            "parameters": sorted(self.design.axes),
            **drawn,
            **self.marks,
        }
        return Purpose("sweep", about, digest(about))

    def with_settings(self, given: Mapping[str, Any]) -> "SweepJob":
        """The same sweep run in another way: other jobs, cluster or limit."""
        return replace(self, settings=_own({**self.settings.model_dump(exclude_unset=True), **given}))

    @property
    def folder(self) -> Path:
        """Where it goes unless another folder is given: the same for the same sweep."""
        if self.settings.out is not None:
            return Path(self.settings.out)
        mark = digest({"purpose": self.purpose.fingerprint, "design": self.design.plain()})
        return Path("sweeps") / f"{self.name}-{mark[:8]}"


def read_job(config: Any = None, flags: Mapping[str, Any] | None = None) -> SweepJob:
    """Read and check a sweep.

    Parameters
    ----------
    config : path, mapping or None
        A TOML file, or its tables as a mapping: {"simulate": {...}, "sweep": {...}}.
    flags : mapping, optional
        Settings over it; text with several values (``0.5:9:18``) is an axis.
    """
    tables = _tables(config)
    sweep, base = dict(tables.tables.get("sweep", {})), _base(tables)
    target = TARGETS["probe" if "probe" in tables.tables else "simulate"]
    for name, value in (flags or {}).items():
        many = isinstance(value, str) and name not in SweepTable.model_fields and axes.several(name, value)
        to_sweep = name in SweepTable.model_fields or name in sweep or many
        (sweep if to_sweep else base)[name] = value
    own = _own({k: v for k, v in sweep.items() if k in SweepTable.model_fields})
    found = {k: _axis(target, k, v) for k, v in sweep.items() if k not in SweepTable.model_fields}
    base = _inputs({k: v for k, v in base.items() if k not in found and k != "out"})
    for name in base:
        if name in target.fixed and name != "texts":
            raise InputError(f"A sweep has no {name}: {_INSTEAD.get(name, 'leave it out')}.")
    checked(target.table, base)  # names and types; values are tried with the first run
    if not found:
        raise InputError(
            "A sweep needs a parameter with several values, such as --beta 0.5:9:18 or [sweep] beta = [...]."
        )
    design = _ordered(target, make_design(found, own.design, own.samples, own.design_seed))
    observe = observables(own.observe or list(OBSERVE), (*design.axes, *design.names))
    spec = Spec(target.name, base, observe, _times(own), design.draws)
    marks = {f"{k} sha256": _mark(v) for k, v in base.items() if k == "tokens"}
    return SweepJob(spec, design, tables.name if config is not None else "sweep", own, marks)


def _tables(config: Any) -> Tables:
    if config is None or isinstance(config, (str, os.PathLike)):
        return read(None if config is None else Path(config))
    if not isinstance(config, Mapping) or not all(isinstance(v, Mapping) for v in config.values()):
        raise InputError(
            'A sweep is a TOML file or a mapping such as {"simulate": {"n": 24}, "sweep": {"beta": [1.0]}}.'
        )
    for name in config:
        if name not in ("simulate", "probe", "sweep"):
            raise unknown("table", name, ("simulate", "probe", "sweep"))
    return Tables({name: dict(value) for name, value in config.items()}, "sweep")


def _base(tables: Tables) -> dict[str, Any]:
    if "probe" in tables.tables and tables.tables.get("simulate"):
        raise InputError("A sweep has one target: give [simulate] or [probe], not both.")
    return dict(tables.tables.get("probe" if "probe" in tables.tables else "simulate", {}))


def _own(given: Mapping[str, Any]) -> SweepTable:
    """What [sweep] says besides parameters."""
    own = checked(SweepTable, given)
    if own.limit is not None and not 0 < own.limit <= _MOST_LIMIT:
        raise InputError(f"limit must be a positive number of seconds, at most {_MOST_LIMIT:g}, not {own.limit:g}.")
    if own.design_seed < 0:
        raise InputError(f"design_seed must be a whole number >= 0, not {own.design_seed}.")
    return own


def _axis(target: Target, name: str, given: Any) -> Any:
    if name not in target.table.model_fields or name in target.fixed:
        open_ = [field for field in target.table.model_fields if field not in target.fixed]
        raise unknown("parameter of a sweep", name, [*open_, *SweepTable.model_fields])
    return axes.read_axis(name, _embedded(name, given), kinds(target.table, name))


def _ordered(target: Target, design: Design) -> Design:
    """Axes that change the shape or cost of a run first, so that neighbours can run together; beta last."""
    drawn = () if design.draws is None else design.draws.ranges
    shaping = {SAMPLE} if any(target.rank(name) == 0 for name in drawn) else set()
    names = sorted(design.axes, key=lambda name: 0 if name in shaping else target.rank(name))
    return replace(design, axes={name: design.axes[name] for name in names})


def _times(own: SweepTable) -> int | tuple[float, ...]:
    times = TIMES if own.times is None else own.times
    if isinstance(times, int):
        if times < 1:
            raise InputError(f"times must be at least 1, not {times}.")
        return times
    return tuple(float(t) for t in times)


# --- files --------------------------------------------------------------------------------------------------------


def _inputs(base: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with matrices for files and arrays that hold them, so that workers anywhere have them."""
    found = {name: _embedded(name, value) for name, value in base.items()}
    if isinstance(found.get("tokens"), str):
        found["tokens"] = os.path.abspath(found["tokens"])
    return found


def _embedded(name: str, value: Any) -> Any:
    from metastable.config.matrix_specs import is_file
    from metastable.equation.weights import from_file

    if name not in axes.MATRICES:
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list) and any(isinstance(v, np.ndarray) for v in value):
        return [_embedded(name, v) for v in value]
    if isinstance(value, list) and any(is_file(v) for v in value):
        return [_embedded(name, v) for v in value]
    return from_file(value).tolist() if is_file(value) else value


def _mark(path: str) -> str:
    try:
        return hashlib.sha256(regular(Path(path)).read_bytes()).hexdigest()
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot read the tokens in {path!r}: {getattr(error, 'strerror', None) or error}.") from error


def _described(what: Any) -> Any:
    """An observable as JSON holds it: its text, or the name and a digest of a function of one's own."""
    from metastable.store.describe import source_mark

    return what if isinstance(what, str) else source_mark(what)
