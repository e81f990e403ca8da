"""metastable plot, metastable animate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from metastable.cli.flags import JSON, flagged
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.config.settings import Animate, Plot, PlotFlags, SweepPlot, checked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from metastable.trajectory import Trajectory

Record = Annotated[Path, Parameter(help="A record folder.")]
Partial = Annotated[bool, Parameter(negative="", show_default=False, group="Output")]
_UNDRAWN = "Interrupted; the record is as it was: run the same command again"
Out = Annotated[Path | None, Parameter(metavar="FILE", group="Output", show_default=False)]


@flagged(PlotFlags)
def plot(
    record: Record, /, *, out: Out = None, partial: Partial = False, json: JSON = False, flags: dict[str, Any]
) -> int:
    """Draw a picture of a record: a run, a sweep (--kind heatmap or lines), the study of a model, or a comparison.

    --kind of a study or a comparison takes the names in its page's captions.

    Parameters
    ----------
    out
        where to: .png, .pdf or .svg [KIND.png inside the record]
    partial
        draw what an unfinished record has so far
    json
        print one JSON object and nothing else
    """
    from metastable import plots
    from metastable.store.folder import holds

    with notes() as sentences, interruptible(lambda: _UNDRAWN):
        if holds(record, "sweep"):
            chosen = checked(SweepPlot, flags)
            path = plots.save_figure(_sweep_picture(record, partial, chosen), out or record / f"{chosen.kind}.png")
            return _answered(path, json, sentences)
        look = checked(Plot, flags)
        if (what := _named_pictures(record)) is not None:
            _check_flags(record, what, flags, ("kind",))
            figure = _picture(record, what, look.kind if "kind" in flags else "")
        else:
            figure = plots.plot(_loaded(record, partial), **look.model_dump(exclude_none=True))
        home = record / "figures" if what == "comparison" else record
        path = plots.save_figure(figure, out or home / f"{look.kind}.png")
    return _answered(path, json, sentences)


@flagged(Animate)
def animate(
    record: Record, /, *, out: Out = None, partial: Partial = False, json: JSON = False, flags: dict[str, Any]
) -> int:
    """Write a record as a film, or as a page that plays it: a run, or the study of a model, state by state.

    Parameters
    ----------
    out
        where to: .mp4, .gif, or .html for a page that plays offline [film.mp4 inside the record]
    partial
        show what an unfinished record has so far
    json
        print one JSON object and nothing else
    """
    look = checked(Animate, flags)
    from metastable import plots

    with notes() as sentences, interruptible(lambda: _UNDRAWN):
        if _named_pictures(record) == "study":
            _check_flags(record, "study", flags, ())
            return _answered(_study_film(record, out), json, sentences)
        run = _loaded(record, partial)
        if out is not None and out.suffix.lower() in (".html", ".htm"):
            return _answered(_offline_page(run, out, flags), json, sentences)
        path = plots.animate(run, out or record / "film.mp4", **look.model_dump(exclude_none=True))
    return _answered(path, json, sentences)


def _loaded(folder: Path, partial: bool) -> "Trajectory":
    from metastable.store import load

    return load(folder, partial=partial)


def _offline_page(run: "Trajectory", out: Path, flags: dict[str, Any]) -> Path:
    """A page that plays the run; how it looks is chosen in the page."""
    from metastable.errors import InputError

    other = [name for name in flags if name != "run"]
    if other:
        raise InputError(f"A page that plays has no option '{other[0]}': its viewer chooses in the page; leave it out.")
    return run.export(out, of=checked(Animate, flags).run)


_HELD = {"study": "the study of a model", "comparison": "a comparison"}


def _named_pictures(folder: Path) -> str | None:
    """Which of `_HELD` a folder holds: their pictures have names and no options; None for any other."""
    from metastable.store.folder import holds

    if holds(folder, "study"):
        return "study"
    return "comparison" if (folder / "comparison.json").is_file() else None


def _check_flags(folder: Path, what: str, flags: dict[str, Any], taken: tuple[str, ...]) -> None:
    from metastable.errors import InputError

    other = [name for name in flags if name not in taken]
    if other:
        raise InputError(f"{str(folder)!r} holds {_HELD[what]}, whose pictures have no option '{other[0]}'.")


def _sweep_picture(folder: Path, partial: bool, chosen: SweepPlot) -> "Figure":
    from metastable.sweeps.sweep_results import read_table

    return read_table(folder, partial).plot(**chosen.model_dump(exclude_none=True))


def _picture(folder: Path, what: str, name: str) -> "Figure":
    from metastable.errors import InputError
    from metastable.models import comparison_figures, study_figures
    from metastable.models.comparison import reread
    from metastable.models.study import read

    if what == "study":
        known = study_figures.every_picture(read(folder))
    else:
        known = comparison_figures.every_picture(reread(folder))
    if not name:
        raise InputError(f"{str(folder)!r} holds {_HELD[what]}; name a picture with --kind: {', '.join(known)}.")
    return study_figures.named(known, name).draw()


def _study_film(folder: Path, out: Path | None) -> Path:
    from metastable.models.depth_film import film
    from metastable.models.study import read

    return film(read(folder), out or folder / "film.mp4")


def _answered(path: Path, as_json: bool, sentences: list[str]) -> int:
    lines = [f"Picture: {path}", *(f"Note: {sentence}" for sentence in sentences)]
    answer(as_json, {"picture": str(path), "notes": sentences}, lines)
    return 0
