"""kill -9 of workers and drivers, by the command line and by hand-made clusters: the table is the undisturbed one."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pandas
import pytest

RUNS = int(os.environ.get("METASTABLE_KILL_RUNS", "2000"))
ROOT = Path(__file__).parents[2]
PYTHON = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
TABLE = "[simulate]\nn = 6\nd = 2\nt = 2.0\n[sweep]\nbeta = [0.5, 1.0, 2.0, 4.0]\nseed = {{start = 0, count = {}}}\n"
TABLE += 'observe = ["order", "clusters"]\ntimes = 3\n'


def command(folder, *more):
    words = [sys.executable, "-m", "metastable", "sweep", "a.toml", "--out", folder, *more]
    return words


@pytest.fixture
def place(tmp_path):
    (tmp_path / "a.toml").write_text(TABLE.format(RUNS // 4))
    done = subprocess.run(command("quiet", "--jobs", "0"), cwd=tmp_path, env=PYTHON, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tmp_path


def workers_of(driver):
    """Worker processes of a driver: its children that were spawned."""
    try:
        found = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    except OSError:
        return []
    return [int(pid) for pid in found if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def landed(folder):
    return {p.name: p.stat().st_mtime_ns for p in (folder / "chunks").rglob("*.parquet")}


def same_tables(one, other):
    frames = [pandas.read_parquet(folder / "table.parquet") for folder in (one, other)]
    pandas.testing.assert_frame_equal(*frames, check_exact=True)


@pytest.mark.slow
def test_workers_and_drivers_killed_at_random(place):
    chance, kills, before = random.Random(5), 0, {}
    for session in range(3):
        driver = subprocess.Popen(command("killed", "--jobs", "2"), cwd=place, env=PYTHON, stderr=subprocess.DEVNULL)
        for name, when in before.items():
            assert landed(place / "killed")[name] == when  # nothing that landed is written again
        goal = len(before) + max(1, RUNS // 1024 // 4)
        while driver.poll() is None:
            time.sleep(chance.uniform(0.2, 1.0))
            workers = workers_of(driver.pid)
            if workers and kills < 12 and chance.random() < 0.3:
                os.kill(chance.choice(workers), signal.SIGKILL)
                kills += 1
            if session < 2 and len(landed(place / "killed")) >= goal:
                driver.kill()
                driver.wait()
        before = landed(place / "killed")
    assert driver.returncode == 0
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
