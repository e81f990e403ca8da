"""kill -9 at random moments of fresh processes: `python -m tests.faults --kills 200 --seed 0`.

A piece of work is started, killed, and started again until it ends by itself. Then its data must be those of the same
work left alone, bit for bit, nothing unfinished may be left in its folder, and a record that was finished once must
have stayed so. Half of the kills wait for a checkpoint. Exit code 1 if anything was lost.
"""

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SEEDS = ",".join(map(str, range(40)))
SMALL = ["--n", "200", "--t", "40", "--dt", "0.1", "--save", "161"]
# name -> (command, without --out; the files that hold its data; what is there after a checkpoint)
WORK: dict[str, tuple[list[str], str, str]] = {
    "simulate": (["simulate", *SMALL, "--no-pictures"], "data.zarr/x/c*", "state.npz"),
    "draw": (["simulate", "--n", "8", "--t", "1"], "data.zarr/x/c*", "done"),
    "sweep": (
        ["sweep", "--n", "24", "--t", "2", "--beta", "1,2,4,8", "--seed", SEEDS, "--observe", "order"],
        "table.parquet",
        "chunks",
    ),
    "reproduce": (["reproduce", "hyperplanes", "--quick"], "*/data.npz", "*/parts"),
    "model": (["model", "reactions-albert", "--limit", "3", "--layers", "4"], "*.zarr/**/*", "similarity.zarr"),
    "hunt": (["hunt", "codimension", "--minutes", "0.1"], "report.json", "parts"),
}
LEFT = ("*.part", ".*.part.*", "*.partial", "lock", "state.npz")


def digest(folder: Path, files: str) -> str:
    """The data of a folder as one number."""
    found = sorted(path for path in folder.glob(files) if path.is_file())
    whole = hashlib.sha256()
    for path in found:
        whole.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return whole.hexdigest() if found else ""


def started(words: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    """The command in a fresh process."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "metastable", *words, "--out", str(folder)], **quiet)  # type: ignore[call-overload,no-any-return]


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    said = process.communicate(timeout=1800)[1].decode(errors="replace")
    return process.returncode, said


def moment(rng: random.Random, folder: Path, sign: str, seconds: float, process: "subprocess.Popen[bytes]") -> None:
    """Wait for a random moment, in half of the cases one after a checkpoint."""
    if rng.random() < 0.5:
        until = time.monotonic() + 4 * seconds
        while not list(folder.glob(sign)) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3 * seconds))
    else:
        time.sleep(rng.uniform(0.0, seconds))


def tried(name: str, rng: random.Random, home: Path, whole: str, seconds: float, kills: int) -> tuple[int, str]:
    """One piece of work under so many kills at most: how many there were, and what was lost."""
    words, files, sign = WORK[name]
    folder, count, done = home / f"{name}-{rng.getrandbits(32):08x}", 0, False
    for _ in range(kills):
        process = started(words, folder)
        moment(rng, folder, sign, seconds, process)
        if process.poll() is None:
            process.kill()
            count += 1
        process.communicate()
        if done and not (folder / "done").exists():
            return count, "it was finished, and is no longer"
        done = (folder / "done").exists()
    code, said = ended(started(words, folder))
    if code not in (0, 1) or "Traceback" in said:
        return count, f"exit code {code}: {said[-300:]}"
    left = sorted(str(path.relative_to(folder)) for pattern in LEFT for path in folder.rglob(pattern))
    if left:
        return count, f"left behind: {left}"
    if name != "hunt" and digest(folder, files) != whole:  # a hunt goes by the clock: how far it comes is not fixed
        return count, "other data than of the work left alone"
    return count, ""


def main(argv: list[str] | None = None) -> int:
    """Kill, start again, compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", choices=list(WORK), action="append")
    given = parser.parse_args(argv)
    rng, names = random.Random(given.seed), given.work or list(WORK)
    kills, lost, turn = 0, 0, 0
    say: Callable[[str], None] = lambda line: print(line, flush=True)  # noqa: E731
    with tempfile.TemporaryDirectory() as place:
        home, alone = Path(place), {}
        for name in names:
            began = time.monotonic()
            code, said = ended(started(WORK[name][0], home / name))
            if code not in (0, 1):
                say(f"{name}: cannot be run at all ({code}): {said[-300:]}")
                return 1
            alone[name] = (digest(home / name, WORK[name][1]), time.monotonic() - began)
        while kills < given.kills:
            name = names[turn % len(names)]
            count, wrong = tried(name, rng, home, *alone[name], kills=rng.choice((1, 2, 4)))
            kills, lost, turn = kills + count, lost + bool(wrong), turn + 1
            say(f"{kills:4d} kills; {name}: {wrong or 'the same data, nothing left behind'}")
    say(f"{kills} kills in {turn} pieces of work (seed {given.seed}), {lost} lost something")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
