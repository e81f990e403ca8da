"""Writing pictures: the whole file or none, the same bytes for the same picture."""

import glob
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from metastable.errors import InputError
from metastable.plots.style import paper
from metastable.plots.text_table import cells_of

_ABANDONED = 3600.0  # seconds without a change after which an unfinished picture is nobody's, on any machine
# Without dates and program versions the same picture gives the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    ".svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
}


@contextmanager
def whole_file(path: str | os.PathLike[str], suffixes: Sequence[str], also: str = "") -> Iterator[Path]:
    """A temporary path beside `path` that takes its name once the block ends well; otherwise nothing is left.

    Missing parent folders are made. Raises `InputError` for a suffix not in `suffixes` (``also`` says what others are
    for) or a folder that cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise InputError(
            f"Cannot write {str(target)!r}: its suffix is {target.suffix!r}; use one of {', '.join(suffixes)}{also}."
        )
    if target.is_dir():
        raise InputError(f"Cannot write {str(target)!r}: it is a folder; give the name of a file.")
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
    part = target.with_name(f".{target.stem}-{mark}.part{target.suffix.lower()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        part.touch(exist_ok=False)
    except OSError as error:
        raise InputError(
            f"Cannot write {str(target)!r}: {error.strerror or error}; choose a folder that can be written."
        ) from error
    try:
        yield part
        os.replace(part, target)
    except OSError as error:  # for example a full disk
        reason = error.strerror or (str(error).strip().splitlines() or ["unknown error"])[-1]
        raise InputError(
            f"Could not finish {str(target)!r}: {reason}; free some space or choose another folder."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _remove_abandoned(target: Path) -> None:
    """Remove what processes that were killed have left of this file; one that still draws is left alone."""
    for part in target.parent.glob(f".{glob.escape(target.stem)}-*.part.*"):
        found = re.fullmatch(r"(\d+)-[0-9a-f]{8}\.part\.\w+", part.name[len(target.stem) + 2 :])
        old = found is not None and time.time() - part.stat().st_mtime > _ABANDONED
        if found is not None and (old or not _alive(int(found[1]))):
            part.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: float = 300.0) -> Path:
    """Write a figure as PNG, PDF or SVG: atomically, fonts embedded, no dates inside.

    Parameters
    ----------
    figure
        Any matplotlib figure.
    path
        Where to; the suffix (.png, .pdf, .svg) chooses the format.
    dpi
        Resolution of PNG files and of large point clouds inside vector files.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> from metastable.plots import save_figure, series
    >>> fig = series([0.0, 1.0, 2.0], [3, 2, 1], ylabel="clusters")
    >>> save_figure(fig, "/tmp/metastable-doctest/count.svg").name
    'count.svg'
    """
    with whole_file(path, tuple(METADATA)) as part, paper(), laid_out(figure):
        kind = part.suffix
        how: dict[str, Any] = {"format": kind[1:], "dpi": dpi, "metadata": METADATA[kind]}
        if kind == ".png":
            how["pil_kwargs"] = {"compress_level": 3}  # a sixth larger, in half the time
        figure.savefig(part, **how)
    return Path(path)


def save_preview(figure: Figure, path: str | os.PathLike[str], width: int = 560) -> Path:
    """Write a small PNG of a figure, ``width`` pixels wide, for lists of many: few colours, some 15 kB."""
    from PIL import Image

    with whole_file(path, (".png",)) as part, paper(), laid_out(figure):
        figure.savefig(part, format="png", dpi=width / figure.get_figwidth(), metadata=METADATA[".png"])
        with Image.open(part) as image:
            small = image.convert("RGB").quantize(64)
        small.save(part, optimize=True)
    return Path(path)


def save_cells(figure: Figure, path: str | os.PathLike[str]) -> Path | None:
    """Write the texts of a figure that is a table as JSON, so that a page can show a table; None for any other."""
    cells = cells_of(figure)
    if cells is None:
        return None
    with whole_file(path, (".json",)) as part:
        part.write_text(json.dumps({"columns": cells[0], "rows": cells[1:]}), encoding="utf-8")
    return Path(path)


@contextmanager
def laid_out(figure: Figure) -> Iterator[None]:
    """The figure with its panels in place; left to it, `savefig` draws everything once just to place them.

    Files that are written inside one block share the placing.
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
    try:
        yield
    finally:
        if engine is not None:
            figure.set_layout_engine(engine)
