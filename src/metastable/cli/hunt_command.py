"""metastable hunt."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from metastable.cli.flags import JSON, whole
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.errors import InputError, unknown
from metastable.progress import Progress, progress_bar

Number = Annotated[int | None, Parameter(metavar="N", show_default=False, converter=whole)]
Real = Annotated[float | None, Parameter(metavar="X", show_default=False)]
Name = Annotated[str | None, Parameter(metavar="NAME", show_default=False)]
_WHAT = ("codimension", "multi-head", "replay")


def hunt(
    what: Annotated[str, Parameter(metavar="WHAT", help="codimension, multi-head, or replay and a stored instance.")],
    file: Annotated[Path | None, Parameter(metavar="FILE", show_default=False, help="Instance to replay.")] = None,
    /,
    *,
    instances: Number = None,
    minutes: Real = None,
    n: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 12,
    d: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 4,
    k: Number = None,
    heads: Number = None,
    scores: Name = None,
    leads: Name = None,
    gap: Annotated[float, Parameter(metavar="X", show_default=False)] = 0.1,
    floor: Annotated[float, Parameter(metavar="X", show_default=False)] = 0.2,
    exceptions: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    batch: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 64,
    seed: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 0,
    chains: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 1,
    jobs: Annotated[int, Parameter(metavar="N", show_default=False, converter=whole)] = 0,
    cluster: Name = None,
    out: Annotated[Path | None, Parameter(metavar="DIR", group="Output", show_default=False)] = None,
    json: JSON = False,
) -> int:
    """Search weights and tokens for a violation of a conjecture; verify what is found before calling it anything.

    Exit code 1 if a violation survived verification. Run the same again after an interruption: finished rounds are
    not run again.

    Parameters
    ----------
    instances
        budget in random instances [256]
    minutes
        budget in minutes
    n
        tokens [12]
    d
        dimension [4]
    k
        eigenvalues of V with positive real part [2 to d at random]
    heads
        heads of the multi-head claim [2]
    scores
        condition on Q^T K: symmetric, positive, good or any [in turn]
    leads
        the leading eigenvalue is largest in: modulus or "real part" [in turn]
    gap
        least gap below the leading eigenvalue, which is 1 [0.1]
    floor
        least modulus of other real parts [0.2]
    exceptions
        also draw weights that are known to break the claim (shared largest real part)
    batch
        instances simulated together [64]
    seed
        seed of everything random [0]
    chains
        independent searches that share the budget and can run side by side [1]
    jobs
        worker processes for several chains [0: one after the other]
    cluster
        a Dask cluster for several chains: local, or a scheduler's address such as tcp://host:8786
    out
        where to [hunt-WHAT]; the same hunt goes on where it was left
    json
        print one JSON object and nothing else
    """
    if what not in _WHAT:
        raise unknown("hunt", what, _WHAT)
    if what == "replay":
        return _replay(file, json)
    if file is not None:
        raise InputError(f"`metastable hunt {what}` takes no file; `metastable hunt replay {file}` verifies one again.")
    from metastable.hunt import Rules, hunt

    elite = max(1, batch // 4) if batch > 1 else 1
    number = heads if heads is not None else 1 if what == "codimension" else 2
    rules = Rules(what, n, d, number, k, scores, leads, gap, floor, exceptions, seed, batch, elite)
    folder = out or Path(f"hunt-{what}")
    left = f"Interrupted; finished rounds are in {str(folder)!r}: run the same command again to go on from there"
    with notes(), interruptible(lambda: left), progress_bar() as progress:
        report = hunt(rules, folder, instances, minutes, progress, chains, jobs, cluster)
    where = f"Instances and report: {folder} (verify one again with `metastable hunt replay FILE`)."
    answer(json, report.to_dict() | {"out": str(folder)}, [*str(report).splitlines(), where])
    return int(report.violated)


def _replay(file: Path | None, as_json: bool) -> int:
    if file is None:
        raise InputError("hunt replay needs a file: one of DIR/worst/*.npz of an earlier hunt.")
    from metastable.hunt import replay

    left = "Interrupted; replay writes nothing: run the same command again"
    with notes(), interruptible(lambda: left), progress_bar() as progress:
        progress(Progress("verifying", None))
        checked, facts = replay(file)
    lines = [f"{name}: {value}" for name, value in facts.items()]
    lines += [f"{checked.outcome}: {checked.note}", f"separation {checked.separation:.4g}, drift {checked.drift:.4g}"]
    lines += [f"{name}: {value}" for name, value in checked.numbers.items()]
    answer(as_json, {**facts, **checked.to_dict(), "file": str(file)}, lines)
    return int(checked.outcome == "violation")
