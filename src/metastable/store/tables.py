"""Runs as tables for other tools: xarray, pandas and .csv files, each with how the run was made."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.errors import InputError
from metastable.store.files import write_whole
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import pandas
    import xarray


_FEW = 64  # numbers of a matrix that are written out


def facts(run: Trajectory) -> dict[str, Any]:
    """How a run was made and how it ended, as plain values."""
    found: dict[str, Any] = {"status": run.status, "message": run.message}
    found |= {name: value for name, value in run.provenance.items() if isinstance(value, (str, int, float, bool))}
    found |= {name: value for name, value in run.parameters().items() if np.ndim(value) == 0}
    found |= {} if run.dynamics is None else _matrices(run.dynamics.weights)
    return found | ({} if run.valid_until is None else {"valid_until": run.valid_until})


def _matrices(weights: Any) -> dict[str, str]:
    """Q, K and V by their numbers where they are few; larger ones are in a record (`Trajectory.save`)."""
    found = {}
    for name in ("Q", "K", "V"):
        W = getattr(weights, name)
        few = isinstance(W, np.ndarray) and W.size <= _FEW
        shape = f"a matrix of shape {W.shape}, which a record holds" if isinstance(W, np.ndarray) else "a function of t"
        found[name] = "identity" if W is None else json.dumps((W[0] if len(W) == 1 else W).tolist()) if few else shape
    return found


def dataset(run: Trajectory) -> "xarray.Dataset":
    """Times, tokens, parameters and provenance as an ``xarray.Dataset``."""
    import xarray

    runs = [f"run{k}" for k in range(len(run.runs))]
    words = {"units": "1", "long_name": "rescaled tokens z" if run.chart is not None else "tokens x"}
    arrays: dict[str, Any] = {"x": (("time", *runs, "token", "coordinate"), run.x, words)}
    if run.chart is not None:
        arrays["chart_y"] = (("time", *runs, "token", "direction"), run.chart[0])
        arrays["chart_refs"] = (("time", *runs, "token"), run.chart[1])
    if run.kept_attention is not None:
        arrays["attention"] = (("time", *runs, "head", "query", "key"), run.kept_attention)
    return xarray.Dataset(arrays, coords=coordinates(run), attrs=facts(run))


def coordinates(run: Trajectory) -> dict[str, Any]:
    """Time, and parameters that differ between the runs of an ensemble (beta, noise)."""
    clock = "layer" if run.provenance.get("discrete") else "time"
    found: dict[str, Any] = {"time": ("time", np.asarray(run.t), {"units": "1", "long_name": clock})}
    for name, value in run.parameters().items():
        if np.ndim(value):
            axes = [f"run{k}" for k in range(len(run.runs))]
            found[name] = (axes, np.broadcast_to(np.asarray(value), run.runs))
    return found


def frame(run: Trajectory) -> "pandas.DataFrame":
    """A row for every time, run and token; columns time, run0, ..., token, x0, x1, ..."""
    import pandas

    d = run.x.shape[-1]
    axes = ["time", *(f"run{k}" for k in range(len(run.runs))), "token"]
    places = np.indices(run.x.shape[:-1]).reshape(len(axes), -1)
    columns: dict[str, Any] = dict(zip(axes, places))
    columns["time"] = np.asarray(run.t)[places[0]]
    columns |= {f"x{k}": run.x.reshape(-1, d)[:, k] for k in range(d)}
    table = pandas.DataFrame(columns)
    table.attrs = facts(run)
    return table


def write_csv(run: Trajectory, path: str | Path) -> Path:
    """`frame` as a .csv file, under lines that begin with # and say how the run was made."""
    target = Path(path)
    if target.suffix != ".csv":
        raise InputError(f"A table is written as a .csv file, not as {target.name!r}.")
    lines = [f"# {name}: {json.dumps(value)}" for name, value in facts(run).items()]
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, ("\n".join([*lines, ""]) + frame(run).to_csv(index=False)).encode())
    return target
