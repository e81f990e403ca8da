"""Nothing is lost: failures, hangs, deaths, kills, full disks, two drivers, extensions."""

import errno
import os
import random

import pandas
import pytest

import metastable as ms
from metastable import sweeps
from metastable.errors import InputError
from metastable.sweeps import executors, sweep_driver, sweep_folder
from metastable.sweeps.executors import InProcess, Outcome
from tests.sweeps import observing

pytestmark = pytest.mark.usefixtures("small_chunks")
BASE = {"n": 6, "d": 2, "t": 0.5, "mask": "full"}


def config(betas=(1.0, 2.0, 3.0), seeds=4, observe=("order",), **more):
    sweep = {"beta": list(betas), "seed": {"start": 0, "count": seeds}, "observe": observe, "times": [0.0, 0.5], **more}
    return {"simulate": BASE, "sweep": sweep}


def same(one, other):
    keys = ["beta", "seed", "time"]
    one, other = (pandas.DataFrame(t).sort_values(keys).reset_index(drop=True) for t in (one, other))
    pandas.testing.assert_frame_equal(one.drop(columns="run"), other.drop(columns="run"), check_exact=True)


class Shuffled(executors.Executor):
    """An engine on which workers die, tasks hang and answers come in any order."""

    name, workers = "shuffled", 3

    def __init__(self, seed, deaths=0.3):
        self.tasks, self.random, self.deaths = [], random.Random(seed), deaths
        self.computed = []

    @property
    def room(self):
        return 4 - len(self.tasks)

    def submit(self, key, function, arguments):
        self.tasks.append((key, function, arguments))

    def finished(self, timeout):
        key, function, arguments = self.tasks.pop(self.random.randrange(len(self.tasks)))
        if self.random.random() < self.deaths:
            return [Outcome(key, why="died", error=self.random.choice(["", "killed"]))]
        self.computed.append(key)
        return [executors.tried(key, function, arguments)]

    def close(self):
        self.tasks = []


@pytest.fixture
def engine(monkeypatch):
    """Sweeps of this test run on the given engine."""

    def use(executor):
        monkeypatch.setattr(sweep_driver, "make_executor", lambda jobs, cluster, limit: executor)
        return executor

    return use


def test_deaths_and_order_change_nothing(engine, tmp_path):
    quiet = ms.sweep(config())
    made = engine(Shuffled(3))
    table = ms.sweep(config(), tmp_path / "sweep")
    pandas.testing.assert_frame_equal(pandas.DataFrame(quiet), pandas.DataFrame(table), check_exact=True)
    assert sorted(made.computed) == [0, 1, 2]  # each once


def test_a_chunk_whose_workers_always_die_is_recorded(engine, tmp_path):
    engine(Shuffled(1, deaths=1.0))
    with pytest.raises(InputError, match="killed"):
        ms.sweep(config(), tmp_path / "sweep")
    assert len(sweeps.sweep_status(tmp_path / "sweep").failed) == 3


def test_a_chunk_that_fails_is_recorded_and_the_rest_goes_on(tmp_path):
    place = tmp_path / "sweep"
    observe = {"length": observing.fails_at_three}
    with pytest.raises(InputError, match="ZeroDivisionError: beta is three"):
        ms.sweep(config(seeds=2, observe=observe, mask=["full", "causal"]), place)
    status = sweeps.sweep_status(place)
    assert (status.state, status.chunks, status.landed) == ("unfinished, with failed chunks", 4, 0)
    assert "fails_at_three" in status.failed[0]["traceback"]


def test_failed_chunks_are_retried_when_asked(tmp_path, monkeypatch):
    place, observe = tmp_path / "sweep", {"length": observing.fails_at_three}
    wanted = config(betas=(1.0, 2.0, 3.0, 4.0), seeds=2, observe=observe)
    monkeypatch.setattr(sweep_driver, "cut", cut_by_beta)
    with pytest.raises(InputError, match="1 chunk failed"):
        ms.sweep(wanted, place)
    failed = sweeps.sweep_status(place).failed
    assert [(one["runs"], one["parameters"]["beta"]) for one in failed] == [([4, 5], [3.0])]
    with pytest.raises(InputError, match="unfinished"):
        sweeps.read(place)
    assert sorted(sweeps.read(place, partial=True)["beta"].unique()) == [1.0, 2.0, 4.0]
    calls = watched(monkeypatch)
    with pytest.raises(InputError, match="chunks? failed"):
        ms.sweep(wanted, place)  # not asked to: nothing is tried
    assert calls == []
    with pytest.raises(InputError, match="chunks? failed"):
        ms.sweep(wanted, place, retry_failed=True)
    assert calls == [2]


def cut_by_beta(spec, box, offset, before):
    """A chunk for each beta."""
    from metastable.sweeps.designs import Box

    names = ["beta", *(name for name in box.axes if name != "beta")]
    turned = Box({name: box.axes[name] for name in names})
    return sweep_folder.Part(
        turned,
        1,
        (len(box.axes["seed"]),) * len(box.axes["beta"]),
        ({"engine": "dense"},) * len(box.axes["beta"]),
        offset,
        before,
    )


def watched(monkeypatch):
    """The numbers of the chunks that are computed from here on."""
    calls = []

    def compute(spec, chunk):
        calls.append(chunk.number)
        return real(spec, chunk)

    real = sweep_driver.compute
    monkeypatch.setattr(sweep_driver, "compute", compute)
    return calls


def test_a_chunk_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_driver, "cut", cut_by_beta)
    monkeypatch.setitem(sweep_driver._TRIES, "limit", 1)
    with pytest.raises(InputError, match=r"given up after 0\.5 s"):
        ms.sweep(config(seeds=2, observe={"length": observing.hangs_at_three}), tmp_path / "sweep", limit=0.5)
    assert sweeps.sweep_status(tmp_path / "sweep").landed == 2


def test_a_sweep_that_stops_goes_on_and_computes_nothing_twice(tmp_path, monkeypatch):
    place, whole = tmp_path / "sweep", ms.sweep(config())

    class Stops(InProcess):
        def finished(self, timeout):
            if sweep_folder.chunk_file(place, 1).exists():
                raise KeyboardInterrupt
            return super().finished(timeout)

    with monkeypatch.context() as patched:
        patched.setattr(sweep_driver, "make_executor", lambda jobs, cluster, limit: Stops())
        with pytest.raises(KeyboardInterrupt):
            ms.sweep(config(), place)
    status = sweeps.sweep_status(place)
    assert (status.state, status.landed, status.chunks, status.runs_done) == ("unfinished", 2, 3, 8)
    calls = watched(monkeypatch)
    table = ms.sweep(config(), place)
    assert calls == [2]
    pandas.testing.assert_frame_equal(pandas.DataFrame(whole), pandas.DataFrame(table), check_exact=True)
    again = ms.sweep(config(), place)
    assert calls == [2]
    assert len(again) == len(whole)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    place = tmp_path / "sweep"
    real = sweep_folder.write_whole

    def full(path, data):
        if path.name == "000001.parquet":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(sweep_folder, "write_whole", full)
        with pytest.raises(InputError, match="No space left on device.*not lost"):
            ms.sweep(config(), place)
    calls = watched(monkeypatch)
    same(ms.sweep(config(), place), ms.sweep(config()))
    assert calls[:2] == [1, 2]


def test_a_damaged_chunk_is_computed_again(tmp_path, monkeypatch):
    place = tmp_path / "sweep"
    ms.sweep(config(), place)
    (place / "done").unlink()
    sweep_folder.chunk_file(place, 1).write_bytes(b"nothing")
    calls = watched(monkeypatch)
    same(ms.sweep(config(), place), ms.sweep(config()))
    assert calls[0] == 1


def flip(path):
    data = bytearray(path.read_bytes())
    data[40] ^= 255  # among the rows: the footer, and so the file's outline, stays as it was
    path.write_bytes(bytes(data))


def test_flipped_bits_and_lost_chunks(tmp_path, monkeypatch):
    place = tmp_path / "sweep"
    whole = ms.sweep(config(), place)
    flip(sweep_folder.chunk_file(place, 1))
    sweep_folder.chunk_file(place, 2).unlink()  # lost after the sweep was finished
    with pytest.raises(InputError, match="unfinished"):
        sweeps.read(place)
    with pytest.raises(InputError, match="damaged"):
        sweeps.read(place, partial=True)
    calls = watched(monkeypatch)
    same(ms.sweep(config(), place), whole)
    assert calls == [1, 2]
    flip(place / "table.parquet")
    with pytest.raises(InputError, match=r"damaged \(table.parquet"):
        sweeps.read(place)


def test_a_second_driver_is_refused(tmp_path):
    place = tmp_path / "sweep"
    seen = []

    def meddle(progress):
        if not seen:
            with pytest.raises(InputError, match="Another process .* is writing") as refused:
                ms.sweep(config(), place)
            seen.append((str(refused.value), sweeps.sweep_status(place).state))

    ms.sweep(config(), place, progress=meddle)
    assert str(os.getpid()) in seen[0][0]
    assert seen[0][1] == "running"
    assert sweeps.sweep_status(place).state == "finished"


def test_a_finished_sweep_is_extended(tmp_path, monkeypatch):
    place = tmp_path / "sweep"
    first = ms.sweep(config(betas=(1.0, 3.0), seeds=4), place)
    calls = watched(monkeypatch)
    more = ms.sweep(config(betas=(1.0, 2.0, 3.0), seeds=6), place)
    assert min(calls) == 2  # the first two chunks are there
    assert len(more) == 2 * 18
    pandas.testing.assert_frame_equal(
        pandas.DataFrame(more).iloc[: len(first)], pandas.DataFrame(first), check_exact=True
    )
    same(more, ms.sweep(config(betas=(1.0, 2.0, 3.0), seeds=6)))
    status = sweeps.sweep_status(str(place))
    assert repr(status) == "SweepStatus(finished: 18 of 18 runs, 5 of 5 chunks, 0 failed, 2 sessions)"
    assert dict(more.dataset().sizes) == {"seed": 6, "beta": 3, "time": 2}
    with pytest.raises(InputError, match="leaves out"):
        ms.sweep(config(betas=(1.0,), seeds=6), place)


@pytest.mark.parametrize("wrong", [{"jobs": -1}, {"cluster": "nowhere"}])
def test_an_engine_that_cannot_be_leaves_no_folder(tmp_path, wrong):
    with pytest.raises(InputError, match="must be"):
        ms.sweep(config(), tmp_path / "sweep", **wrong)
    assert not (tmp_path / "sweep").exists()
    ms.sweep(config(), tmp_path / "sweep")
    with pytest.raises(InputError, match="must be"):
        ms.sweep(config(seeds=5), tmp_path / "sweep", **wrong)
    assert sweeps.sweep_status(tmp_path / "sweep").landed == 3  # nothing of a sweep that was there is lost


def test_another_sweep_in_the_folder_is_refused(tmp_path):
    place = tmp_path / "sweep"
    ms.sweep(config(betas=(1.0,), seeds=1), place)
    with pytest.raises(InputError, match="another sweep"):
        ms.sweep(config(betas=(1.0,), seeds=1, observe=("clusters",)), place)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        ms.sweep(config(), tmp_path / "other")


def test_a_dry_run_writes_nothing(tmp_path):
    place = tmp_path / "sweep"
    job = sweeps.read_job(config())
    estimate = sweeps.dry_run(job, place)
    assert (estimate.runs, estimate.chunks, estimate.left) == (12, 3, 3)
    assert not place.exists()
    ms.sweep(config(), place)
    assert sweeps.dry_run(job, place).left == 0
    assert sweeps.dry_run(sweeps.read_job(config(seeds=8)), place).left == 3


@pytest.mark.parametrize("other", [{"observe": ("clusters",)}, {"mask": ["full", "causal"]}])
def test_a_dry_run_into_another_sweep_is_refused(tmp_path, other):
    """The left count was that of the sweep there, or a KeyError where that has an axis that this one lacks."""
    ms.sweep(config(betas=(1.0,), seeds=1, **other), tmp_path / "sweep")
    with pytest.raises(InputError, match="another sweep"):
        sweeps.dry_run(sweeps.read_job(config(betas=(1.0,), seeds=1)), tmp_path / "sweep")
