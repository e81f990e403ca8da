"""Soak: memory stays flat over a million tiny runs, one by one or as a sweep, and over an hour of clients.

    python -m benchmarks.soak runs --count 1000000
    python -m benchmarks.soak sweep --count 1000000
    python -m benchmarks.soak explorer --seconds 3600

Each prints the resident memory as it goes; exit code 1 if the last quarter needs 10% and 64 MB more than the second.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path


def resident(pid: int | str = "self") -> float:
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def flat(seen: list[float]) -> int:
    """Exit code: whether the last quarter is as the second was, when everything had been compiled."""
    quarter = max(1, len(seen) // 4)
    early, late = max(seen[quarter : 2 * quarter] or seen), max(seen[-quarter:])
    print(f"memory: {early:.0f} MB in the second quarter, {late:.0f} MB in the last")
    return int(late > max(1.1 * early, early + 64))


def runs(count: int) -> int:
    """So many tiny runs in one process."""
    import metastable as ms

    dynamics, x0, seen = ms.Dynamics(beta=2.0), ms.initial.sphere(4, 3), []
    began = time.monotonic()
    for number in range(count):
        ms.simulate(dynamics, x0, t=0.2, save=2)
        if number % max(1, count // 40) == 0:
            seen.append(resident())
            print(f"{number:9,d} runs, {time.monotonic() - began:8.0f} s, {seen[-1]:6.0f} MB", flush=True)
    return flat(seen)


def sweep(count: int) -> int:
    """So many tiny runs as one sweep in one process, its table written and not read."""
    from metastable.progress import Progress
    from metastable.sweeps import read_job, run_sweep

    seen: list[float] = []
    began = shown = time.monotonic()

    def watch(progress: Progress) -> None:
        nonlocal shown
        seen.append(resident())
        if time.monotonic() - shown > 10.0:
            shown = time.monotonic()
            print(f"{progress.text}: {shown - began:8.0f} s, {seen[-1]:6.0f} MB", flush=True)

    own = {"seed": {"start": 0, "count": count}, "observe": ["order"], "times": 2, "jobs": 0}
    job = read_job({"simulate": {"n": 4, "d": 3, "mask": "full", "beta": 2.0, "t": 0.2}, "sweep": own})
    with tempfile.TemporaryDirectory() as place:
        report = run_sweep(job, Path(place) / "sweep", progress=watch)
        seen.append(resident())  # when the table has been written
    print(f"{report.computed:,d} runs in {report.seconds:.0f} s")
    return flat(seen) or int(report.computed != count)


def explorer(seconds: float, port: int = 8497) -> int:
    """Clients that ask for pages and runs, some of them with nonsense, and go."""
    queries = ("", "?n=8&beta=2", "?n=abc", "?V=goe&seed=3", "?mask=window(4)&t=1", "?n=999999999", "?moved=1:0,0,1")
    seen: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        words = [sys.executable, "-m", "metastable", "explore", "--port", str(port), "--no-show"]
        server = subprocess.Popen(words, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(10.0)
            began, asked = time.monotonic(), 0
            while time.monotonic() - began < seconds and server.poll() is None:
                try:
                    url = f"http://127.0.0.1:{port}/{queries[asked % len(queries)]}"
                    with urllib.request.urlopen(url, timeout=60) as answer:
                        answer.read(4096 if asked % 3 else -1)  # two of three leave before the end
                except (urllib.error.URLError, OSError):
                    pass
                asked += 1
                if asked % 50 == 0:
                    seen.append(resident(server.pid))
                    print(f"{asked:7,d} clients, {seen[-1]:6.0f} MB", flush=True)
            if server.poll() is not None:
                print(f"the explorer ended with code {server.returncode}")
                return 1
        finally:
            server.terminate()
            server.wait()
    return flat(seen) if seen else 1


def main(argv: list[str] | None = None) -> int:
    """Choose what is soaked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("runs", "sweep", "explorer"))
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    given = parser.parse_args(argv)
    if given.what == "explorer":
        return explorer(given.seconds)
    return runs(given.count) if given.what == "runs" else sweep(given.count)


if __name__ == "__main__":
    sys.exit(main())
