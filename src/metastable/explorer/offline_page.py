"""A run as one HTML file that plays without a server or a network, and the same page inside a notebook."""

import base64
import gzip
import html
import json
import os
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from metastable.errors import InputError, unknown
from metastable.explorer.payload import pack
from metastable.plots.figure_files import whole_file
from metastable.trajectory import Trajectory

ASSETS = files("metastable.explorer") / "assets"
# in the order of their imports
MODULES = (
    "palette", "decode", "camera", "clock", "shaders", "backdrop", "scene", "icons", "controls", "inspect", "pointer",
    "player",
)  # fmt: skip
THEMES = (None, "light", "dark")
_OPTIONS = ("of", "names", "limit", "extra", "brief")  # those of `pack`
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)


def asset(name: str) -> str:
    """The text of a file beside the player."""
    return (ASSETS / name).read_text(encoding="utf-8")


def script() -> str:
    """The player's modules as one module: imports left out, exports made plain names."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", asset(f"{name}.js"))) for name in MODULES)


def offline_page(data: bytes, title: str, **options: Any) -> str:
    """The HTML of a page that plays the bytes of a run."""
    packed = base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()
    parts = {
        "title": html.escape(title),
        "css": asset("player.css"),
        "data": packed,
        "script": script(),
        "options": json.dumps(options),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], asset("offline.html"))


def export(
    run: Trajectory,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    theme: str | None = None,
    play: bool = True,
    **options: Any,
) -> Path:
    """Write a run as one HTML file that plays anywhere: no server, no network, nothing else to carry along.

    Parameters
    ----------
    run : Trajectory
    path : path
        Where to: .html.
    title : str
        A line above the scene and the page's title; made from the run when empty.
    theme : {None, "light", "dark"}
        None follows the reader's system.
    play : bool
        Begin to play when the page opens (never where the reader asked for reduced motion).
    **options
        ``of`` (which run of an ensemble), ``names`` (of the tokens), ``limit`` (segments): see `pack`.

    Examples
    --------
    >>> import metastable as ms
    >>> run = ms.simulate(ms.Dynamics(), ms.initial.sphere(n=8, d=3, seed=0), t=1.0, save=3)
    >>> run.export("/tmp/metastable-doctest/run.html").name
    'run.html'
    """
    text = _page(run, title, theme, play, options)
    with whole_file(path, (".html", ".htm")) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def _page(run: Trajectory, title: str, theme: str | None, play: bool, options: dict[str, Any]) -> str:
    if theme not in THEMES:
        raise unknown("theme", str(theme), [name for name in THEMES if name])
    for name in options:
        if name not in _OPTIONS:
            raise unknown("option of a page that plays", name, ["title", "theme", "play", *_OPTIONS])
    data = pack(run, title=title, **options)
    return offline_page(data, title or "A run of metastable", theme=theme, autoplay=bool(play))


@dataclass(frozen=True, repr=False)
class View:
    """A playing run, as a notebook shows it: the page of `export` in a frame of its own."""

    page: str
    height: int

    def __repr__(self) -> str:
        return f"View(a run that plays in a notebook, {self.height} pixels high; run.export(path) writes a page)"

    def _repr_html_(self) -> str:
        frame = "width:100%;border:1px solid #8884;border-radius:8px"
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" style="{frame};height:{self.height}px" '
            'title="A run of metastable" allow="fullscreen" sandbox="allow-scripts"></iframe>'
        )


def view(
    run: Trajectory, height: int = 520, *, title: str = "", theme: str | None = None, play: bool = True, **options: Any
) -> View:
    """Play a run in a notebook: the value of a cell shows it. ``height`` is in pixels, the rest as for `export`."""
    if isinstance(height, bool) or not isinstance(height, int) or not 200 <= height <= 4000:
        raise InputError(f"height must be a whole number of pixels from 200 to 4000, not {height!r}.")
    return View(_page(run, title, theme, play, options), height)
