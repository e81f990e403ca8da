"""The arrays of a record are written by zarr; zarr and xarray read them without the package."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

from metastable.errors import InputError
from metastable.store import arrays_on_disk as store

AXES = {"x": ("time", "token", "coordinate"), "refs": ("time", "token")}


def rows(count: int, dtype: str = "float64") -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(count, 4, 3)).astype(dtype)
    return {"x": x, "refs": np.arange(count * 4).reshape(count, 4)}


def made(path: Path, count: int = 50, dtype: str = "float64") -> np.ndarray:
    """Arrays along time that were filled in uneven segments, and a fixed one."""
    values = rows(count, dtype)
    store.create(path, {"dynamics": None}, {"time": (("time",), np.arange(float(count)))})
    for start, end in ((0, 1), (1, 8), (8, 9), (9, 33)):
        store.write(path, count, start, {name: (AXES[name], values[name][start:end]) for name in AXES})
    return values["x"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zarr_and_xarray_read_it(tmp_path: Path, dtype: str) -> None:
    x = made(tmp_path / "data.zarr", dtype=dtype)
    group = zarr.open_group(str(tmp_path / "data.zarr"), mode="r", zarr_format=3)
    assert (group["x"][:33] == x[:33]).all()
    assert np.isnan(group["x"][36:]).all()  # chunks that are not there
    assert (group["refs"][36:] == -1).all()
    assert [type(codec).__name__ for codec in group["x"].metadata.codecs] == ["BytesCodec", "Crc32cCodec"]
    store.shorten(tmp_path / "data.zarr", 33)
    found = xarray.open_zarr(tmp_path / "data.zarr", consolidated=True)
    assert found["x"].dims == ("time", "token", "coordinate")
    assert found["x"].dtype == dtype
    assert (found["x"].values == x[:33]).all()
    assert (found["refs"].values == np.arange(33 * 4).reshape(33, 4)).all()
    assert (found["time"].values == np.arange(33.0)).all()
    names = {entry.name for entry in (tmp_path / "data.zarr" / "x").iterdir()}
    assert names == {"zarr.json", *(f"c.{k}.0.0" for k in range(11))}


def test_an_array_of_nan_is_data(tmp_path: Path) -> None:
    path = tmp_path / "data.zarr"
    store.create(path, {}, {"time": (("time",), np.full(4, np.nan))})
    store.write(path, 4, 0, {"x": (AXES["x"], np.full((4, 2, 1), np.nan))})
    assert np.isnan(store.read(path)[1]["x"]).all()


def test_a_damaged_chunk_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "record" / "data.zarr"
    made(path)
    one = {"x": (AXES["x"], np.ones((1, 4, 3)))}
    store.write(path, 50, 33, one)
    chunk = path / "x" / "c.11.0.0"
    chunk.write_bytes(b"\1" + chunk.read_bytes()[1:])
    with pytest.raises(InputError, match=r"The record in .*record' is damaged .*checksum"):
        store.write(path, 50, 34, one)


@pytest.mark.parametrize(
    "change", [("[3,", "[0,"), ("float64", "object"), ("dimension_names", "names"), ("[3,4", "[3,2")]
)
def test_metadata_that_are_no_records(tmp_path: Path, change: tuple[str, str]) -> None:
    made(tmp_path / "record" / "data.zarr")
    file = tmp_path / "record" / "data.zarr" / "x" / "zarr.json"
    file.write_text("".join(file.read_text().split()).replace(*change))
    with pytest.raises(InputError, match="The record in .*record' is damaged"):
        store.write(tmp_path / "record" / "data.zarr", 50, 33, {"x": (AXES["x"], np.ones((1, 4, 3)))})


@pytest.mark.slow
def test_chunks_are_whole_whenever_the_writer_is_killed(tmp_path: Path) -> None:
    """zarr's own writes are atomic: 8 MB chunks, killed at random moments, are never seen in part."""
    code = (
        "import sys, pathlib, numpy as np\n"
        "from metastable.store import arrays_on_disk as store\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "store.create(path, {}, {'time': (('time',), np.arange(1.0))})\n"
        "print('ready', flush=True)\n"
        "for k in range(10**6):\n"
        "    store.write(path, 1, 0, {'x': (('time', 'token', 'coordinate'), np.full((1, 1000, 1000), float(k)))})\n"
    )
    for attempt in range(2):
        path = tmp_path / str(attempt) / "data.zarr"
        path.parent.mkdir()
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            while not (path / "x" / "c.0.0.0").exists():
                time.sleep(0.001)
            time.sleep(0.05 * attempt)
            os.kill(writer.pid, signal.SIGKILL)
        x = store.read(path)[1]["x"]
        assert (x == x[0, 0, 0]).all()
