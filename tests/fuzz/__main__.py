"""Knock at every door until the time is over.

    python -m tests.fuzz --seconds 60                  all doors in turn
    python -m tests.fuzz --door numbers --seed 3 --first 1204 --inputs 1      one input again

An input fails when it ends in anything but a result or an InputError (exit codes 0, 1 and 2), takes longer than the
limit, or leaves a file outside its own folder. Exit code 1 if one did. Inputs are numbered: a seed, a door and a number
are the same input anywhere.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from metastable.errors import InputError, Misuse
from tests.fuzz.doors import DOORS, SOURCES


class Hang(BaseException):
    """An input took too long."""


def _rung(number: int, frame: Any) -> None:
    raise Hang


def _around(home: Path) -> set[str]:
    """What lies where a name that leads out of an input's folder would end: beside it, above it, at the root."""
    return {str(path) for place in (home, home.parent, Path("/")) for path in place.iterdir()}


def knock(name: str, seed: int, number: int, home: Path, limit: int = 60) -> str:
    """One input at a door: an empty text where it was answered, else what went wrong."""
    rng = random.Random(f"{seed} {name} {number}")
    place = home / f"{name}-{number}"
    place.mkdir()
    before = _around(home) | {str(home / name) for name in SOURCES}
    signal.signal(signal.SIGALRM, _rung)
    signal.alarm(limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            DOORS[name](rng, place)
        wrong = ""
    except Misuse:
        wrong = "" if name == "interface" else traceback.format_exc(limit=-6)
    except InputError as error:
        wrong = "" if "\n" not in str(error) else f"more than a line: {error}"
    except Hang:
        wrong = f"no answer in {limit} s"
    except Exception:
        wrong = traceback.format_exc(limit=-6)
    finally:
        signal.alarm(0)
    outside = sorted(_around(home) - before)
    shutil.rmtree(place, ignore_errors=True)
    return f"files outside its folder: {outside}" if outside and not wrong else wrong


def main(argv: list[str] | None = None) -> int:
    """Search, and list what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--inputs", type=int, default=10**9, help="most inputs of each door")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--door", choices=list(DOORS), action="append")
    given = parser.parse_args(argv)
    names, count, found = given.door or list(DOORS), Counter[str](), dict[str, list[str]]()
    before, began, number = os.getcwd(), time.monotonic(), given.first
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "inputs"
        home.mkdir()
        os.chdir(home)
        try:
            while time.monotonic() - began < given.seconds and number < given.first + given.inputs:
                for name in names:
                    if time.monotonic() - began >= given.seconds:
                        break
                    wrong = knock(name, given.seed, number, home)
                    count[name] += 1
                    if wrong:
                        kind = wrong.strip().splitlines()[-1][:160]
                        found.setdefault(f"{name}: {kind}", []).append(f"--door {name} --first {number}\n{wrong}")
                number += 1
        finally:
            os.chdir(before)
    print(
        f"{sum(count.values())} inputs (seed {given.seed}): {dict(count)}; {sum(map(len, found.values()))} not answered"
    )
    for kind, cases in found.items():
        print(f"\n{len(cases)} x {kind}\n  {cases[0]}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
