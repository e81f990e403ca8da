"""Hunts that run side by side: a round climbs from the round before, so several chains of rounds share the budget.

Chain c is the hunt with seed (its own) + c * STRIDE, in DIR/chain-00c/rounds: what is found depends on the number of
chains alone, not on workers. Workers write their rounds themselves, so they must see the folder.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from metastable.errors import InputError
from metastable.hunt.rounds import Round, run_rounds
from metastable.hunt.rules import Rules
from metastable.progress import Progress, Report, silent
from metastable.sweeps.choose_executor import make_executor

STRIDE = 1_000_003  # between the seeds of chains; rounds and instances count from them
_TRIES = 3  # of a chain whose worker dies; its finished rounds are not run again


def run_chains(
    rules: Rules,
    folder: Path,
    instances: int | None,
    minutes: float | None,
    report: Report,
    chains: int,
    jobs: int,
    cluster: str | None,
) -> tuple[list[Round], float]:
    """All rounds of all chains, chain by chain, and the seconds they took."""
    share = None if instances is None else -(-instances // chains)
    work = {
        c: (replace(rules, seed=rules.seed + c * STRIDE), folder.absolute() / f"chain-{c:03d}", share, minutes)
        for c in range(chains)
    }
    waiting, left, tries = list(work), set(work), Counter[int]()
    with make_executor(jobs, cluster) as executor:
        while left:
            while waiting and executor.room > 0:
                executor.submit(chain := waiting.pop(0), run_chain, work[chain])
            for outcome in executor.finished(1.0):
                tries[outcome.key] += outcome.why == "died"
                if outcome.why == "died" and tries[outcome.key] < _TRIES:
                    waiting.append(outcome.key)
                elif outcome.why:
                    raise InputError(f"Chain {outcome.key} of the hunt failed: {outcome.error}")
                else:
                    left.discard(outcome.key)
            report(Progress("hunting", 1 - len(left) / chains, f"{chains - len(left)} of {chains} chains"))
    found = [run_rounds(*arguments, silent) for arguments in work.values()]  # from disk
    return [one for rounds, _ in found for one in rounds], sum(seconds for _, seconds in found)


def run_chain(rules: Rules, folder: Path, instances: int | None, minutes: float | None) -> int:
    """One chain to its end, on a worker; returns the number of its rounds."""
    return len(run_rounds(rules, folder, instances, minutes, silent)[0])
