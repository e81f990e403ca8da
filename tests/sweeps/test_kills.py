"""kill -9 of workers and drivers, by the command line and by hand-made clusters: the table is the undisturbed one."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pandas
import pytest

RUNS = int(os.environ.get("METASTABLE_KILL_RUNS", "2000"))
ROOT = Path(__file__).parents[2]
PYTHON = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
EACH = 16  # runs in a chunk: many chunks, so that kills come while some have landed and others have not
CHUNKS = RUNS // EACH
START = f"""
import sys
from metastable.cli import main
from metastable.sweeps import chunks
chunks.chunk_size = lambda seconds, times, most: {EACH}
sys.exit(main(sys.argv[1:]))
"""
TABLE = "[simulate]\nn = 16\nd = 2\nt = 10.0\n[sweep]\nbeta = [0.5, 1.0, 2.0, 4.0]\nseed = {{start = 0, count = {}}}\n"
TABLE += 'observe = ["order", "clusters"]\ntimes = 3\n'


def command(folder, *more):
    return [sys.executable, "-c", START, "sweep", "a.toml", "--out", folder, *more]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "a.toml").write_text(TABLE.format(RUNS // 4))
    done = subprocess.run(command("quiet", "--jobs", "0"), cwd=tmp_path, env=PYTHON, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tmp_path


def workers_of(driver):
    """Worker processes of a driver: its children that were spawned."""
    found = []
    with suppress(OSError):  # it has just ended
        for pid in Path(f"/proc/{driver}/task/{driver}/children").read_text().split():
            found += [int(pid)] if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text() else []
    return found


def landed(folder):
    return {p.name: p.stat().st_mtime_ns for p in (folder / "chunks").rglob("*.parquet")}


def same_tables(one, other):
    frames = [pandas.read_parquet(folder / "table.parquet") for folder in (one, other)]
    pandas.testing.assert_frame_equal(*frames, check_exact=True)


@pytest.mark.slow
def test_workers_and_drivers_killed_at_random(place):
    """Three workers of each of three sessions, and the driver of two, all with chunks landed and chunks left."""
    chance, held, kills, codes = random.Random(5), {}, [], []
    for last in (CHUNKS // 3, 2 * CHUNKS // 3, CHUNKS):
        marks = sorted(chance.sample(range(len(held) + 1, last - 1), 3))  # chunks landed when a worker is killed
        driver = subprocess.Popen(command("killed", "--jobs", "2"), cwd=place, env=PYTHON, stderr=subprocess.DEVNULL)
        while driver.poll() is None:
            there = len(landed(place / "killed"))
            if marks and there >= marks[0] and (workers := workers_of(driver.pid)):
                os.kill(chance.choice(workers), signal.SIGKILL)
                kills.append((there, marks.pop(0)))
            if last < CHUNKS and there >= last:
                driver.kill()
            time.sleep(0.005)
        codes.append(driver.returncode)
        now = landed(place / "killed")
        assert {name: now.get(name) for name in held} == held  # nothing that landed is written again
        held = now
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert len(kills) == 9
    assert all(mark <= there < CHUNKS for there, mark in kills)
    assert len(held) == CHUNKS
    same_tables(place / "quiet", place / "killed")


@contextmanager
def dask_by_hand(place, workers):
    """A scheduler and workers as a user starts them: its address, its process, and theirs."""
    pytest.importorskip("distributed")
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--dashboard-address", ":0"]
    with subprocess.Popen(dask, cwd=place, env=PYTHON, stderr=subprocess.PIPE, text=True) as scheduler:
        lines = iter(scheduler.stderr.readline, "")
        address = next(found[0] for line in lines if (found := re.search(r"tcp://[\d.]+:\d+", line)))
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        team = [subprocess.Popen(worker, cwd=place, env=PYTHON, **quiet) for _ in range(workers)]
        try:
            yield address, scheduler, team
        finally:
            for process in (*team, scheduler):
                process.kill()
                process.wait()


@pytest.mark.slow
def test_a_dask_cluster_started_by_hand_loses_a_worker(place):
    with dask_by_hand(place, 2) as (address, _, team):
        driver = subprocess.Popen(command("dask", "--cluster", address), cwd=place, env=PYTHON)
        while driver.poll() is None and not landed(place / "dask"):
            time.sleep(0.2)
        team[0].kill()
        assert 0 < len(landed(place / "dask")) < CHUNKS
        assert driver.wait(300) == 0
    same_tables(place / "quiet", place / "dask")


LOST = """
import sys, time
from metastable.errors import InputError
from metastable.sweeps.choose_executor import make_executor
with make_executor(0, sys.argv[1]) as executor:
    executor.submit(0, time.sleep, (600,))
    print("under way", flush=True)
    try:
        while True:
            executor.finished(1.0)
    except InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_scheduler_that_is_gone_is_a_sentence_and_no_traceback(tmp_path):
    with dask_by_hand(tmp_path, 1) as (address, scheduler, _):
        driver = [sys.executable, "-c", LOST, address]
        with subprocess.Popen(driver, env=PYTHON, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            scheduler.kill()
            said, errors = process.communicate(timeout=120)
    assert "The Dask scheduler is gone" in said
    assert errors == ""


@pytest.mark.slow
def test_the_local_cluster_gives_the_same_bits(place):
    pytest.importorskip("distributed")
    done = subprocess.run(command("dask", "--cluster", "local", "--jobs", "2"), cwd=place, env=PYTHON)
    assert done.returncode == 0
    same_tables(place / "quiet", place / "dask")
