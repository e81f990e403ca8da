"""The conjecture hunter: search weights and tokens for a violation, verify what is found, and say what it is.

See docs/hunt.md. `hunt` runs or resumes a hunt in a folder, `replay` verifies a stored instance again.
"""

from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.hunt.chains import run_chains
from metastable.hunt.claims import CLAIMS
from metastable.hunt.hunt_page import HuntReport, make_report
from metastable.hunt.instances import facts, read
from metastable.hunt.rounds import run_rounds
from metastable.hunt.rules import Rules
from metastable.hunt.verifying import Checked, verify
from metastable.progress import Report, silent
from metastable.store.files import read_json
from metastable.store.folder import claim, finish, settled_by

__all__ = ["Rules", "hunt", "replay"]


def hunt(
    rules: Rules,
    out: str | Path,
    instances: int | None = None,
    minutes: float | None = None,
    progress: Report = silent,
    chains: int = 1,
    jobs: int = 0,
    cluster: str | None = None,
) -> HuntReport:
    """Hunt until a number of random instances, or of minutes, is reached.

    Parameters
    ----------
    rules : Rules
    out : path
        A record folder for rounds, the worst instances and the report. The same hunt resumes where it stopped, and a
        finished one with a larger budget is extended.
    instances, minutes : optional
        The budget, whichever is reached first (256 instances without any). Time counts in whole rounds.
    progress : function
        Called with a `metastable.progress.Progress` after every round.
    chains : int
        Independent searches that share the budget: each climbs from its own instances, and they can run side by side.
        What is found depends on their number and not on where they run.
    jobs, cluster
        Worker processes, or a Dask cluster ("local" or an address), for more than one chain.

    Examples
    --------
    >>> import tempfile
    >>> report = hunt(Rules(n=4, d=2, batch=8, elite=2), tempfile.mkdtemp(), instances=8)
    >>> report.instances
    8
    """
    if instances is None and minutes is None:
        instances = 256
    if instances is not None and instances < 1:
        raise InputError(f"A hunt needs at least one instance, not {instances}.")
    if minutes is not None and not minutes > 0.0:
        raise InputError(f"A hunt needs a positive number of minutes, not {minutes:g}.")
    if chains < 1 or (chains == 1 and (jobs > 1 or cluster is not None)):
        raise InputError(
            f"A hunt of {chains} chains has nothing to share out; give chains=8, say, for several workers."
        )
    folder = Path(out)
    settings = rules.to_dict() | ({"chains": chains} if chains > 1 else {})
    with claim(folder, settled_by("hunt", settings), extend=True):  # the budget may be larger; no round is run again
        if chains == 1:
            rounds, seconds = run_rounds(rules, folder, instances, minutes, progress)
        else:
            rounds, seconds = run_chains(rules, folder, instances, minutes, progress, chains, jobs, cluster)
        report = make_report(rules, rounds, seconds, folder)
        finish(folder, "hunt", {"instances": report.instances, "rounds": report.rounds, "seconds": round(seconds, 1)})
    return report


def replay(file: str | Path) -> tuple[Checked, dict[str, Any]]:
    """Verify a stored instance again: the outcome, and facts of the instance."""
    path = Path(file)
    batch = read(path)
    try:
        rules = Rules(**read_json(path.with_suffix(".json"))["rules"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{str(path.with_suffix('.json'))!r} must hold the hunt's settings beside {path.name}."
        ) from error
    return verify(CLAIMS[rules.claim], batch, rules)[0], facts(batch, 0)
