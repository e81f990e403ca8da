"""Datasets of studies: what is damaged is refused, never read as nan."""

import gc
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray

from metastable.store.datasets import read_dataset, write_dataset


@pytest.fixture
def data() -> xarray.Dataset:
    values = {
        "a": (("x", "y"), np.arange(6.0).reshape(2, 3)),
        "gaps": ("x", np.full(2, np.nan)),
        "one": ((), 3.0),
    }
    return xarray.Dataset(values, coords={"x": ["first", "second"]}, attrs={"n": 1})


def test_round_trip(data: xarray.Dataset, tmp_path: Path) -> None:
    write_dataset(tmp_path, "found", data)
    again = read_dataset(tmp_path, "found")
    assert again.identical(data)
    write_dataset(tmp_path, "found", again)  # over itself
    assert read_dataset(tmp_path, "found").identical(data)


def flip(path: Path) -> None:
    found = bytearray(path.read_bytes())
    found[-1] ^= 1
    path.write_bytes(bytes(found))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "flipped": flip,
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("chunk", ["a/c/0/0", "gaps/c/0", "one/c"])
def test_damage(name: str, chunk: str, data: xarray.Dataset, tmp_path: Path) -> None:
    write_dataset(tmp_path, "found", data)
    DAMAGE[name](tmp_path / "found.zarr" / chunk)
    with pytest.raises((ValueError, OSError)):
        read_dataset(tmp_path, "found")


def test_a_full_disk_leaves_the_old_one_and_nothing_else(data: xarray.Dataset, tmp_path: Path, monkeypatch) -> None:
    write_dataset(tmp_path, "found", data)

    def full(self: xarray.Dataset, store: Path, **options: object) -> None:
        store.mkdir()
        (store / "zarr.json").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xarray.Dataset, "to_zarr", full)
    with pytest.raises(OSError, match="No space"):
        write_dataset(tmp_path, "found", data)
    assert [path.name for path in tmp_path.iterdir()] == ["found.zarr"]
    assert read_dataset(tmp_path, "found").identical(data)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_metadata_leave_no_traceback(
    name: str, data: xarray.Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two arrays that cannot be opened the second one's error reaches nobody, and would be logged."""
    gc.freeze()  # what other tests left behind takes seconds to look through
    write_dataset(tmp_path, "found", data)
    for array in ("a", "gaps", "x"):
        DAMAGE[name](tmp_path / "found.zarr" / array / "zarr.json")
    with pytest.raises((ValueError, OSError)):
        read_dataset(tmp_path, "found")
    gc.collect()
    gc.unfreeze()
    assert not caplog.records


def test_an_array_that_is_gone_as_a_whole(data: xarray.Dataset, tmp_path: Path) -> None:
    write_dataset(tmp_path, "found", data)
    shutil.rmtree(tmp_path / "found.zarr" / "a")
    with pytest.raises((ValueError, OSError)):
        read_dataset(tmp_path, "found")
