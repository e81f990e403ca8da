"""metastable plot, metastable animate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from metastable.cli import drawing
from metastable.cli.flags import JSON, flagged
from metastable.cli.output import answer, notes
from metastable.config.settings import Animate, Plot, checked

if TYPE_CHECKING:
    from metastable.trajectory import Trajectory

Record = Annotated[Path, Parameter(help="A record folder.")]
Partial = Annotated[bool, Parameter(negative="", show_default=False, group="Output")]
Out = Annotated[Path | None, Parameter(metavar="FILE", group="Output", show_default=False)]


@flagged(Plot)
def plot(
    record: Record, /, *, out: Out = None, partial: Partial = False, json: JSON = False, flags: dict[str, Any]
) -> int:
    """Draw a picture of a record.

    Parameters
    ----------
    out
        where to: .png, .pdf or .svg [KIND.png inside the record]
    partial
        draw what an unfinished record has so far
    json
        print one JSON object and nothing else
    """
    look = checked(Plot, flags)
    with notes() as said:
        run = _loaded(record, partial)
        plots = drawing.plots()
        figure = plots.plot(run, **look.model_dump(exclude_none=True))
        path = plots.save_figure(figure, out or record / f"{look.kind}.png")
    return _told(path, json, said)


@flagged(Animate)
def animate(
    record: Record, /, *, out: Out = None, partial: Partial = False, json: JSON = False, flags: dict[str, Any]
) -> int:
    """Write a record as a film.

    Parameters
    ----------
    out
        where to: .mp4 or .gif [film.mp4 inside the record]
    partial
        show what an unfinished record has so far
    json
        print one JSON object and nothing else
    """
    look = checked(Animate, flags)
    with notes() as said:
        run = _loaded(record, partial)
        path = drawing.plots().animate(run, out or record / "film.mp4", **look.model_dump(exclude_none=True))
    return _told(path, json, said)


def _loaded(folder: Path, partial: bool) -> "Trajectory":
    from metastable.store import load

    return load(folder, partial=partial)


def _told(path: Path, as_json: bool, said: list[str]) -> int:
    lines = [f"Picture: {path}", *(f"Note: {sentence}" for sentence in said)]
    answer(as_json, {"picture": str(path), "notes": said}, lines)
    return 0
