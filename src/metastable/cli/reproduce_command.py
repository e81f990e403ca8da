"""metastable reproduce."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from metastable.cli.flags import JSON, whole
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer
from metastable.errors import InputError
from metastable.progress import duration, progress_bar

if TYPE_CHECKING:
    from metastable.experiments.reproducing import Reproduction
    from metastable.experiments.workers import Result

Switch = Annotated[bool, Parameter(negative="", show_default=False)]
Number = Annotated[int | None, Parameter(metavar="N", show_default=False, converter=whole)]


def reproduce(
    *names: Annotated[str, Parameter(help="Experiments by name (metastable list experiments); all without any.")],
    quick: Switch = False,
    full: Switch = False,
    seeds: Number = None,
    seed: Number = None,
    model: Annotated[str | None, Parameter(metavar="NAME", show_default=False)] = None,
    jobs: Number = None,
    cluster: Annotated[str | None, Parameter(metavar="NAME", show_default=False)] = None,
    out: Annotated[Path | None, Parameter(metavar="DIR", group="Output", show_default=False)] = None,
    json: JSON = False,
) -> int:
    """Run the papers' experiments, judge every claim by measurement, and leave a gallery: open DIR/index.html.

    Exit code 1 if a theorem fails or an experiment crashes. Run the same again after an interruption: what is finished
    is not done again.

    Parameters
    ----------
    quick
        a first look: smaller sizes, all experiments in minutes
    full
        thousands of random instances
    seeds
        how many random instances, instead of the preset's
    seed
        the first instance's seed: --seeds 1 --seed 17 replays instance 17
    model
        another pretrained model for Figs 1, 2, 7 and 10: a zoo name, a folder, a .gguf file or a name on a model hub
    jobs
        worker processes [the number of cores]
    cluster
        a Dask cluster instead: local, or a scheduler's address such as tcp://host:8786
    out
        where to [reproduction, reproduction-quick or reproduction-full]
    json
        print one JSON object and nothing else
    """
    if quick and full:
        raise InputError("--quick and --full exclude each other; give one of them, or none for the papers' settings.")
    preset = "quick" if quick else "full" if full else "default"
    folder = out or Path("reproduction" if preset == "default" else f"reproduction-{preset}")
    from metastable.experiments.reproducing import HOMES, choose, reproduce

    left = f"Interrupted; what is finished is in {str(folder)!r}: run the same command again to go on from there"
    with interruptible(lambda: left), progress_bar(len(choose(names, HOMES))) as progress:
        made = reproduce(
            names,
            preset=preset,
            seeds=seeds,
            seed=seed,
            model=model,
            jobs=jobs,
            cluster=cluster,
            out=folder,
            progress=progress,
            homes=HOMES,
        )
    answer(json, _facts(made), _lines(made))
    return int(made.failed)


def _facts(made: "Reproduction") -> dict[str, Any]:
    found = []
    for result in made.results:
        record = result.record
        verdicts = [] if record is None else [v.to_dict() for v in record.verdicts]
        seconds = None if record is None else record.seconds
        status = "error" if record is None else "done"
        facts = {"name": result.name, "status": status, "error": result.error or None, "reused": result.reused}
        found.append(facts | {"seconds": seconds, "verdicts": verdicts})
    for name, why in made.skipped.items():
        found.append(
            {"name": name, "status": "skipped", "error": why, "reused": False, "seconds": None, "verdicts": []}
        )
    pages = {"gallery": str(made.folder / "index.html"), "single": str(made.folder / "gallery.html")}
    return {"out": str(made.folder), **pages, "failed": made.failed, "experiments": found}


def _lines(made: "Reproduction") -> list[str]:
    from metastable.theory.verdicts import STATUSES

    verdicts = [v for r in made.results if r.record is not None for v in r.record.verdicts]
    lines = []
    for result in made.results:
        lines.append(_heading(result))
        for v in result.record.verdicts if result.record else ():
            lines.append(f"  {v.status:<12} {v.claim}: {v.reading()}, {v.eligible} instances")
            lines += [f"    {row.status:<12} read as {row.reading}" for row in v.rows]
    lines += [f"{name}: skipped: {why}" for name, why in made.skipped.items()]
    found = [(sum(v.status == word for v in verdicts), word) for word in STATUSES]
    counts = [f"{count} {word}" for count, word in found if count or word in ("holds", "fails")]
    broken = sum(r.record is None for r in made.results)
    tail = f"; {broken} experiments ended in an error" if broken else ""
    theorems = sum(v.status == "fails" and v.kind == "theorem" for v in verdicts)
    lines += ["", f"{len(verdicts)} verdicts: {', '.join(counts)} ({theorems} of the failing are theorems){tail}."]
    lines += _slowest(made)
    return [*lines, f"Gallery: {made.folder / 'index.html'} (in one file: gallery.html)"]


def _heading(result: "Result") -> str:
    """An experiment's name and the time it took."""
    if result.record is None:
        return f"{result.name}: error: {result.error}"
    return f"{result.name} ({duration(result.record.seconds)}{', already there' if result.reused else ''})"


def _slowest(made: "Reproduction") -> list[str]:
    """How long all of it took, and which experiments took longest."""
    times = sorted(((r.record.seconds, r.name) for r in made.results if r.record is not None), reverse=True)
    if len(times) < 2:
        return []
    most = ", ".join(f"{name} {duration(seconds)}" for seconds, name in times[:3])
    return [f"{duration(sum(seconds for seconds, _ in times))} of work in all; longest: {most}."]
