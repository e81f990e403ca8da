"""The conjecture hunter: search weights and tokens for a violation, verify what is found, and say what it is.

See docs/hunt.md. `hunt` runs or resumes a hunt in a folder, `replay` verifies a stored instance again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.hunt.rules import Rules

__all__ = ["Rules", "hunt", "replay"]


def _silent(news: str) -> None:
    return None


def hunt(
    rules: Rules,
    out: str | Path,
    instances: int | None = None,
    minutes: float | None = None,
    watch: Callable[[str], None] = _silent,
) -> Any:
    """Hunt until a number of random instances, or of minutes, is reached; returns a `hunt.report.Report`.

    Parameters
    ----------
    rules : Rules
    out : path
        Where rounds, the worst instances and the report are kept. The same hunt goes on where it was left.
    instances, minutes : optional
        The budget, whichever is reached first (256 instances without any). Time counts in whole rounds.
    watch : function
        Called with a line of news after every round.

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
    from metastable.hunt.hunt_page import make_report
    from metastable.hunt.rounds import run_rounds

    folder = Path(out)
    rounds, seconds = run_rounds(rules, folder, instances, minutes, watch)
    return make_report(rules, rounds, seconds, folder)


def replay(file: str | Path) -> tuple[Any, dict[str, Any]]:
    """Verify a stored instance again: (`hunt.verifying.Checked`, facts of the instance)."""
    from metastable.hunt.claims import CLAIMS
    from metastable.hunt.instances import facts, read
    from metastable.hunt.verifying import verify
    from metastable.store.files import read_json

    path = Path(file)
    batch = read(path)
    try:
        rules = Rules(**read_json(path.with_suffix(".json"))["rules"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{str(path.with_suffix('.json'))!r} must hold the hunt's settings beside {path.name}."
        ) from error
    return verify(CLAIMS[rules.claim], batch, rules)[0], facts(batch, 0)
