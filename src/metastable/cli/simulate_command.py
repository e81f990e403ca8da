"""metastable simulate."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from metastable.cli.flags import JSON, flagged
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.config.settings import Animate, Plot, Simulate, checked
from metastable.config.toml_files import Tables, read
from metastable.errors import InputError, Misuse, unknown
from metastable.progress import Progress, progress_bar
from metastable.solve.methods import METHODS

if TYPE_CHECKING:
    from metastable.config import Job
    from metastable.trajectory import Trajectory

FIGURE, FILM = "figure.png", "film.mp4"


@flagged(Simulate)
def simulate(
    config: Annotated[Path | None, Parameter(help="A TOML file with a [simulate] table; flags override it.")] = None,
    /,
    *,
    no_pictures: Annotated[bool, Parameter(negative="", show_default=False, group="Output")] = False,
    explain: Annotated[bool, Parameter(negative="", show_default=False, group="Output")] = False,
    json: JSON = False,
    flags: dict[str, Any],
) -> int:
    """Run tokens through the dynamics; leave a record and pictures.

    Without settings the papers' baseline, the same as in Python: 64 tokens on the sphere S^2, every token sees every
    token, Q, K and V the identity, beta = 1, rk4 with dt = 0.1 to t = 15.

    Parameters
    ----------
    no_pictures
        leave the record without figure.png and film.mp4
    explain
        say which engine made the sums, and why not the others
    json
        print one JSON object and nothing else
    """
    tables = read(config)
    settings = checked(Simulate, tables.merged("simulate", flags))
    looks = checked(Plot, tables.merged("plot", {})), checked(Animate, _film_table(tables))
    if not no_pictures:
        _check_kind(looks[0].kind)  # before the run, not after
    with notes() as sentences:
        job = _built(settings, tables)
        folder = Path(settings.out) if settings.out is not None else job.folder
        run, how = _run(job, folder)
        pictures = [] if no_pictures or len(run) == 0 else _pictures(run, folder, *looks, sentences)
    facts, lines = _summary(run, folder, how, pictures)
    if explain:
        facts |= {name: run.provenance.get(name) for name in ("engine", "other engines")}
        lines += _engines(run)
    answer(json, facts | {"notes": sentences}, [*lines, *(f"Note: {sentence}" for sentence in sentences)])
    return 0


def _built(settings: Simulate, tables: Tables) -> "Job":
    from metastable.config.job import build

    return build(settings, tables.name)


def _film_table(tables: Tables) -> dict[str, Any]:
    """The film looks like the figure where [animate] does not say otherwise."""
    plot = tables.merged("plot", {})
    shared = {name: value for name, value in plot.items() if name in ("color", "first", "view", "run")}
    return {**shared, **tables.merged("animate", {})}


def _check_kind(kind: str) -> None:
    from metastable.plots import PLOTS

    if kind not in PLOTS:
        raise unknown("kind of picture", kind, PLOTS)


def _run(job: "Job", folder: Path) -> tuple["Trajectory", str]:
    """The run, and whether it was made, resumed, or there already."""
    from metastable import store

    how = {"free": "made", "unfinished": "resumed", "finished": "already complete"}[store.status(folder, "run")]
    horizon, reached = job.plan.t, 0.0

    def left() -> str:
        where = f"Interrupted at t = {reached:g}; the record in {str(folder)!r} is unfinished"
        return f"{where}: run the same command again to go on from there"

    with interruptible(left), progress_bar() as report:

        def advanced(time: float) -> None:
            nonlocal reached
            reached = time
            report(Progress("simulating", time / horizon if horizon else 1.0, f"t = {time:.4g} of {horizon:g}"))

        return store.run(job.plan, job.x, folder, job.until, job.recipe, advanced), how


def _pictures(run: "Trajectory", folder: Path, look: Plot, film: Animate, sentences: list[str]) -> list[Path]:
    """A figure and a film beside the record, unless they are there; a picture that fails does not fail the run."""
    from metastable import plots

    made: list[Path] = []
    left = f"Interrupted while drawing; the record in {str(folder)!r} is complete: run the same command again to draw"
    try:
        with interruptible(lambda: left):
            if not (folder / FIGURE).exists():
                usual = _colour(run) if "color" in plots.PLOTS[look.kind].options else {}
                figure = plots.plot(run, **usual | look.model_dump(exclude_none=True))
                made.append(plots.save_figure(figure, folder / FIGURE))
            if len(run) > 1 and not (folder / FILM).exists():
                made.append(plots.animate(run, folder / FILM, **_colour(run) | film.model_dump(exclude_none=True)))
    except Misuse:
        raise  # a fault of ours, which must not pass for a note
    except InputError as error:
        sentences.append(f"A picture could not be drawn: {error}")
    return made


def _colour(run: "Trajectory") -> dict[str, str]:
    """Tokens take the colour of the cluster they end in, where there are few enough to tell apart."""
    count = _clusters(run, -1)
    return {"color": "final"} if count <= run.x.shape[-2] / 4 else {}


def _summary(run: "Trajectory", folder: Path, how: str, pictures: list[Path]) -> tuple[dict[str, Any], list[str]]:
    counts = [_clusters(run, index) if len(run) else None for index in (0, -1)]
    facts: dict[str, Any] = {
        "record": str(folder),
        "how": how,
        "status": run.status,
        "message": run.message,
        "t": float(run.t[-1]) if len(run) else None,
        "saved": len(run),
        "shape": list(run.x.shape),
        "clusters": counts[1],
        "valid_until": None if run.valid_until in (None, math.inf) else run.valid_until,
        "seconds": run.provenance.get("seconds"),
        "pictures": [str(path) for path in pictures],
    }
    if how == "already complete":
        lines = [f"The record in {folder} is already complete: nothing was computed or changed."]
    else:
        again = " (resumed from an unfinished record)" if how == "resumed" else ""
        lines = [f"{_described(run)}: {_lowered(run.message)} It took {run.provenance['seconds']:.3g} s{again}."]
    if counts[1] is not None:
        mean = f" (mean over {math.prod(run.runs)} runs)" if run.runs else ""
        found = f"{counts[0]} at t = {run.t[0]:g}, {counts[1]} at t = {run.t[-1]:g}"
        lines.append(f"Clusters at {_tolerance(run)[1]}{mean}: {found}.")
    lines.append(f"Record: {folder}")
    lines += [f"Picture: {path}" for path in pictures]
    return facts, lines


def _engines(run: "Trajectory") -> list[str]:
    others = run.provenance.get("other engines") or {}
    return [f"Engine: {run.provenance.get('engine')}", *(f"  not {name}: {why}" for name, why in others.items())]


def _described(run: "Trajectory") -> str:
    """The run in a few words."""
    assert run.dynamics is not None
    n, d = run.x.shape[-2:]
    space = run.dynamics.geometry
    place = f"on S^{d - 1}" if space.fixed_norm else f"in R^{d}, rescaled" if space.rescales else f"in R^{d}"
    many = "" if not run.runs else f"{math.prod(run.runs)} runs of "
    dyn, made = run.dynamics, run.provenance
    adaptive = made["method"] in METHODS and METHODS[made["method"]].adaptive
    how = f"{made['method']}, dt = {made['dt']:g}" if not adaptive else made["method"]
    return f"{many}{n} tokens {place}, {dyn.mask.name} attention, beta = {dyn.beta:g}, {how}"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _clusters(run: "Trajectory", index: int) -> int | float:
    """Clusters at a saved time: a count, or the mean over an ensemble."""
    from metastable.observables.clusters import cluster_count
    from metastable.observables.from_trajectory import geometry_of

    found = cluster_count(run.x[index], _tolerance(run)[0], geometry_of(run))
    return int(found) if found.ndim == 0 else round(float(found.mean()), 3)


def _tolerance(run: "Trajectory") -> tuple[float, str]:
    """How close tokens of one cluster are, the same as for observables and colours, and in words."""
    from metastable.observables.from_trajectory import default_tolerance, geometry_of

    geometry = geometry_of(run)
    value = default_tolerance(run, geometry)
    return value, f"{value:.2g} rad" if geometry == "sphere" else f"{value:.2g}"
