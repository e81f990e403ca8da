"""Damaged and forged records, full and forbidden disks: one sentence each, nothing executed, nothing half-written."""

import errno
import json
import os
import pickle
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metastable as ms
from metastable import store as record
from metastable.errors import InputError
from metastable.store import arrays_on_disk as store
from metastable.store import folder as protocol
from metastable.store import locks, recorder
from tests.store.runs import made
from tests.store.test_cuts import cut_on_the_way


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    dynamics = ms.Dynamics(ms.Weights(V=np.eye(3)))
    return ms.Trajectory(np.arange(30.0), ms.initial.sphere(4, 3, runs=30), dynamics).save(tmp_path / "run")


def edit(path: Path, **changes: Any) -> None:
    value = json.loads(path.read_text())
    value.update(changes)
    path.write_text(json.dumps(value))


def remove_chunk(folder: Path) -> None:
    (folder / "data.zarr/x/c.1.0.0").unlink()


def cut_chunk(folder: Path) -> None:
    path = folder / "data.zarr/x/c.1.0.0"
    path.write_bytes(path.read_bytes()[:-9])


def flip_bit(folder: Path) -> None:
    path = folder / "data.zarr/x/c.1.0.0"
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(bytes(data))


def folder_for_chunk(folder: Path) -> None:
    (folder / "data.zarr/x/c.1.0.0").unlink()
    (folder / "data.zarr/x/c.1.0.0").mkdir()


def ask_for_memory(folder: Path) -> None:
    edit(folder / "data.zarr/x/zarr.json", shape=[10**9, 4, 3])
    edit(folder / "data.zarr/time/zarr.json", shape=[10**9])


def forge_codec(folder: Path) -> None:
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]
    edit(folder / "data.zarr/x/zarr.json", codecs=codecs)


def older_format(folder: Path) -> None:
    """Format 2 may hold pickled objects."""
    shutil.rmtree(folder / "data.zarr")
    (folder / "data.zarr").mkdir()
    (folder / "data.zarr/.zgroup").write_text('{"zarr_format": 2}')


def other_attributes(folder: Path, **dynamics: Any) -> None:
    path = folder / "data.zarr/zarr.json"
    value = json.loads(path.read_text())
    value["attributes"]["dynamics"].update(dynamics)
    path.write_text(json.dumps(value))


DAMAGE = {
    "no json": lambda f: (f / "provenance.json").write_text("{"),
    "not an object": lambda f: (f / "provenance.json").write_text("[1]"),
    "deep json": lambda f: (f / "provenance.json").write_text("[" * 200_000),
    "not text": lambda f: (f / "provenance.json").write_bytes(b"\xff\xfe\x00"),
    "another json": lambda f: (f / "provenance.json").write_text('{"name": "left-pad"}'),
    "later format": lambda f: edit(f / "provenance.json", record=99),
    "strange valid_until": lambda f: edit(f / "provenance.json", valid_until="always"),
    "no run": lambda f: edit(f / "provenance.json", run=[1]),
    "another kind": lambda f: edit(f / "provenance.json", kind="hunt"),
    "unknown kind": lambda f: edit(f / "provenance.json", kind="novel"),
    "no sessions": lambda f: edit(f / "provenance.json", sessions=3),
    "strange status": lambda f: edit(f / "provenance.json", status="; rm"),
    "no arrays": lambda f: shutil.rmtree(f / "data.zarr"),
    "one array": lambda f: shutil.rmtree(f / "data.zarr/x"),
    "missing chunk": remove_chunk,
    "cut chunk": cut_chunk,
    "flipped bit": flip_bit,
    "folder for a chunk": folder_for_chunk,
    "longer chunk": lambda f: (f / "data.zarr/x/c.1.0.0").write_bytes(b"0" * 4096),
    "pipe": lambda f: os.mkfifo(f / "inputs2"),
    "pipe for a chunk": lambda f: ((f / "data.zarr/x/c.1.0.0").unlink(), os.mkfifo(f / "data.zarr/x/c.1.0.0")),
    "pipe for the settings": lambda f: ((f / "provenance.json").unlink(), os.mkfifo(f / "provenance.json")),
    "socket": lambda f: socket.socket(socket.AF_UNIX).bind(os.path.relpath(f / "sock")),
    "empty metadata": lambda f: (f / "data.zarr/x/zarr.json").write_text(""),
    "memory": ask_for_memory,
    "codec": forge_codec,
    "object type": lambda f: edit(f / "data.zarr/x/zarr.json", data_type="|O"),
    "older format": older_format,
    "shape": lambda f: edit(f / "data.zarr/x/zarr.json", shape=[15, 4, 3]),
    "unknown part": lambda f: other_attributes(f, weights={"kind": "os.system", "command": "true"}),
    "unknown field": lambda f: other_attributes(f, weights={"kind": "Weights", "W": 1}),
    "unknown array": lambda f: other_attributes(f, weights={"kind": "Weights", "V": {"array": "../../secret"}}),
    "unknown mask": lambda f: other_attributes(f, mask="__import__"),
    "extra part": lambda f: other_attributes(f, extra=1),
    "link": lambda f: ((f / "done").unlink(), (f / "done").symlink_to("/etc/hostname")),
    "linked folder": lambda f: (f / "inputs2").symlink_to("/etc"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_a_sentence(name: str, saved: Path) -> None:
    DAMAGE[name](saved)
    with pytest.raises(InputError) as caught:
        record.load(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value)


class Boom:
    """Unpickled, it would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.mark),))


def pickled_state(folder: Path, mark: Path) -> None:
    np.savez(folder / "state.npz", saved=np.array([Boom(mark)], dtype=object))


def plain_pickle(folder: Path, mark: Path) -> None:
    (folder / "state.npz").write_bytes(pickle.dumps(Boom(mark)))


def cut_state(folder: Path, mark: Path) -> None:
    path = folder / "state.npz"
    path.write_bytes(path.read_bytes()[:100])


def state_of_another(folder: Path, mark: Path) -> None:
    with np.load(folder / "state.npz") as old:
        values = dict(old)
    values["state.x"] = np.zeros((99, 3))
    np.savez(folder / "state.npz", **values)


def saves_too_many(folder: Path, mark: Path) -> None:
    with np.load(folder / "state.npz") as old:
        values = dict(old)
    np.savez(folder / "state.npz", **{**values, "saved": np.asarray(10**6)})


def lost_chunk(folder: Path, mark: Path) -> None:
    (folder / "data.zarr/x/c.0.0.0").unlink()


def chunk_as_folder(folder: Path, mark: Path) -> None:
    lost_chunk(folder, mark)
    (folder / "data.zarr/x/c.0.0.0").mkdir()


def other_mask(folder: Path, mark: Path) -> None:
    other_attributes(folder, mask="full")


def other_shape(folder: Path, mark: Path) -> None:
    edit(folder / "data.zarr/dynamics.weights.V/zarr.json", shape=[3, 2])


def other_settings(folder: Path, mark: Path) -> None:
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("beta = 4.0", "beta = 3.0"))


def no_state(folder: Path, mark: Path) -> None:
    with np.load(folder / "state.npz") as old:
        values = {name: value for name, value in old.items() if name != "state.driver.missed"}
    np.savez(folder / "state.npz", **values)


def linked_arrays(folder: Path, mark: Path) -> None:
    (folder / "data.zarr").rename(mark)
    (folder / "data.zarr").symlink_to(mark)


@pytest.mark.parametrize(
    "damage",
    [
        *(pickled_state, plain_pickle, cut_state, state_of_another, saves_too_many, lost_chunk, linked_arrays),
        *(chunk_as_folder, other_mask, other_shape, other_settings, no_state),
    ],
)
def test_an_unfinished_record_that_was_tampered_with(damage: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("metastable.store.recorder._INTERVAL", 0.0)
    plan, x, until = made("sphere")
    folder = cut_on_the_way("sphere", tmp_path)
    assert (folder / "state.npz").exists()
    mark = tmp_path / "executed"
    damage(folder, mark)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InputError) as caught:
        record.run(plan, x, folder, until)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# --- disks --------------------------------------------------------------------------------------------------------


def full(*args: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("place", ["write_json", "write_recipe", "create"])
def test_a_full_disk_leaves_nothing_behind(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, x, until = made("sphere")
    home = {"create": store, "write_recipe": recorder, "write_json": protocol}[place]
    monkeypatch.setattr(home, place, full)
    with pytest.raises(InputError, match="No space left on device; free some space"):
        record.run(plan, x, tmp_path / "run", until)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_on_the_way_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, x, until = made("sphere")
    whole = record.run(plan, x, tmp_path / "whole", until)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "write", full)
        with pytest.raises(InputError, match="run the same again to go on"):
            record.run(plan, x, tmp_path / "run", until)
    assert record.status(tmp_path / "run", "run") == "unfinished"
    assert record.run(plan, x, tmp_path / "run", until).x.tobytes() == whole.x.tobytes()


def test_a_full_disk_while_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ms.Trajectory(np.arange(3.0), ms.initial.sphere(4, 3, runs=3))
    monkeypatch.setattr(store, "write", full)
    with pytest.raises(InputError, match="No space left"):
        run.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_file_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real refusal by the system, not a patched one."""
    run = ms.Trajectory(np.arange(2.0), ms.initial.sphere(600, 3, runs=2))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(InputError, match="File too large"):
            run.save(tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    plan, x, until = made("sphere")
    tmp_path.chmod(0o555)
    try:
        for folder in (tmp_path / "run", tmp_path):
            with pytest.raises(InputError, match="Permission denied; .* choose a folder that can be written"):
                record.run(plan, x, folder, until)
    finally:
        tmp_path.chmod(0o755)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    plan, x, until = made("sphere")
    with pytest.raises(InputError, match="Cannot write to"):
        record.run(plan, x, "/proc/no/such/place", until)


# --- two at once --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_in_one_folder(tmp_path: Path) -> None:
    plan, x, until = made("sphere")
    hold = (
        "import sys, pathlib, time\nfrom metastable.store.locks import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(InputError, match=rf"Another process \({other.pid} on .*\) is writing to"):
                record.run(plan, x, tmp_path, until)
            assert [path.name for path in tmp_path.iterdir()] == ["lock"]
        finally:
            other.kill()
    # its lock file is still there, but it is dead
    assert (tmp_path / "lock").exists()
    assert record.run(plan, x, tmp_path, until).status == "done"


def test_locks_are_let_go(tmp_path: Path) -> None:
    for _ in range(3):
        with locks.locked(tmp_path):
            assert (tmp_path / "lock").exists()
            with pytest.raises(InputError, match="Another process"), locks.locked(tmp_path):
                pass
        assert list(tmp_path.iterdir()) == []


def test_a_model_study_is_not_taken_for_a_damaged_run(tmp_path: Path) -> None:
    with protocol.claim(tmp_path, protocol.settled_by("study", {"model": "minilm"})):
        pass
    with pytest.raises(InputError, match="pretrained model"):
        ms.load(tmp_path)
