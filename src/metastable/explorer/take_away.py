"""What can be taken away from the explorer: films, pages, tables, settings, code."""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from metastable.config.settings import Simulate
from metastable.errors import unknown
from metastable.explorer.computing import Made
from metastable.explorer.live_panels import panels_of
from metastable.explorer.payload import pack
from metastable.explorer.steering import DEFAULTS, moved_of, settings_of

FRAMES = {"mp4": 240, "gif": 120}


def _film(made: Made, kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"run.{kind}"
        made.run.animate(path, frames=FRAMES[kind], color="cluster")
        return path.read_bytes()


def _page(made: Made) -> bytes:
    from metastable.explorer.offline_page import offline_page

    _, limit = panels_of(made.run)
    return offline_page(pack(made.run, limit=limit), "A run of metastable", autoplay=True).encode()


def _table(made: Made) -> bytes:
    """One row per saved time and token."""
    run = made.run
    n, d = run.x.shape[-2:]
    out = io.StringIO()
    out.write(",".join(["t", "token", *(f"x{k + 1}" for k in range(d))]) + "\n")
    token = np.arange(n)
    for t, x in zip(run.t, run.x):
        for i in token:
            out.write(",".join([f"{t:.9g}", str(i), *(f"{v:.9g}" for v in x[i])]) + "\n")
    return out.getvalue().encode()


def _chosen(made: Made) -> dict[str, object]:
    """The settings that differ from those of `metastable simulate`."""
    usual = Simulate()
    table = settings_of(made.state).model_dump(exclude_none=True)
    return {name: value for name, value in table.items() if value != getattr(usual, name)}


def _toml(made: Made) -> bytes:
    import tomli_w

    note = "# metastable simulate this-file.toml\n"
    if made.state.get("moved"):
        note += "# Tokens that were moved by hand are not in this file; the Python code has them.\n"
    return (note + tomli_w.dumps({"simulate": _chosen(made)})).encode()


def _code(made: Made) -> bytes:
    """A program that makes the same run."""
    s, full = settings_of(made.state), {**DEFAULTS, **made.state}
    lines = ["import numpy as np", "", "import metastable as ms", "from metastable.config.job import build",
             "from metastable.config.settings import Simulate", ""]  # fmt: skip
    chosen = ", ".join(f"{name}={value!r}" for name, value in _chosen(made).items())
    lines += [f"job = build(Simulate({chosen}))", "dynamics, x0 = job.plan.model, np.array(job.x)[0]"]
    for token in moved_of(full["moved"]):
        lines.append(f"x0[{token}] = {made.run.x[0][token].tolist()}")  # where it was put, with its norm
    lines += [
        f"run = ms.simulate(dynamics, x0, t={s.t!r}, dt={s.dt!r}, method={s.method!r}, save={s.save}, seed={s.seed})",
        'print(run.message, "clusters:", int(run.observe("clusters")[-1]))',
        'run.export("run.html")',
    ]
    return ("\n".join(lines) + "\n").encode()


TAKEN: dict[str, tuple[str, str, Callable[[Made], bytes]]] = {
    "mp4": ("metastable.mp4", "video/mp4", lambda made: _film(made, "mp4")),
    "gif": ("metastable.gif", "image/gif", lambda made: _film(made, "gif")),
    "html": ("metastable.html", "text/html; charset=utf-8", _page),
    "csv": ("metastable.csv", "text/csv; charset=utf-8", _table),
    "toml": ("metastable.toml", "text/plain; charset=utf-8", _toml),
    "python": ("metastable_run.py", "text/plain; charset=utf-8", _code),
}


def taken(kind: str) -> tuple[str, str, Callable[[Made], bytes]]:
    """File name, media type and maker of what can be taken away."""
    if kind not in TAKEN:
        raise unknown("file to take away", kind, TAKEN)
    return TAKEN[kind]
