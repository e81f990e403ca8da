"""What records write is Zarr v3 as zarr itself and xarray read it."""

from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

from metastable.errors import InputError
from metastable.store import arrays_on_disk as store
from metastable.store import zarr3


def made(path: Path, count: int = 50, dtype: str = "float64") -> np.ndarray:
    """An array along time that was filled in uneven pieces, and a fixed one."""
    x = np.random.default_rng(0).normal(size=(count, 4, 3)).astype(dtype)
    timed = {"x": (("time", "token", "coordinate"), x.shape, dtype), "refs": (("time", "token"), (count, 4), "int64")}
    store.create(path, {"dynamics": None}, timed, {"time": (("time",), np.arange(float(count)))})
    for start, end in ((0, 1), (1, 8), (8, 9), (9, 33)):
        store.write(path, start, {"x": x[start:end], "refs": np.arange(count * 4).reshape(count, 4)[start:end]})
    return x


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zarr_and_xarray_read_it(tmp_path: Path, dtype: str) -> None:
    x = made(tmp_path / "data.zarr", dtype=dtype)
    group = zarr.open_group(str(tmp_path / "data.zarr"), mode="r", zarr_format=3)
    assert (group["x"][:33] == x[:33]).all()
    assert np.isnan(group["x"][36:]).all()  # chunks that are not there
    assert (group["refs"][36:] == -1).all()
    store.shorten(tmp_path / "data.zarr", 33)
    found = xarray.open_zarr(tmp_path / "data.zarr", consolidated=True)
    assert found["x"].dims == ("time", "token", "coordinate")
    assert found["x"].dtype == dtype
    assert (found["x"].values == x[:33]).all()
    assert (found["refs"].values == np.arange(33 * 4).reshape(33, 4)).all()
    assert (found["time"].values == np.arange(33.0)).all()
    names = {entry.name for entry in (tmp_path / "data.zarr" / "x").iterdir()}
    assert names == {"zarr.json", *(f"c.{k}.0.0" for k in range(11))}


def test_it_says_of_itself_what_zarr_would_say(tmp_path: Path) -> None:
    made(tmp_path / "ours")
    theirs = zarr.open_group(str(tmp_path / "theirs"), mode="w", zarr_format=3, attributes={"dynamics": None})
    made_there = theirs.create_array(
        "x",
        shape=(50, 4, 3),
        chunks=(3, 4, 3),
        dtype="float64",
        fill_value=float("nan"),
        compressors=[zarr.codecs.Crc32cCodec()],
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=("time", "token", "coordinate"),
    )
    ours = zarr.open_group(str(tmp_path / "ours"), mode="r", zarr_format=3)
    made_there[:33] = ours["x"][:33]
    assert ours["x"].metadata.to_dict() == made_there.metadata.to_dict()
    for k in range(11):
        assert (tmp_path / f"ours/x/c.{k}.0.0").read_bytes() == (tmp_path / f"theirs/x/c.{k}.0.0").read_bytes()


def test_a_damaged_chunk_is_not_written_over(tmp_path: Path) -> None:
    made(tmp_path / "record" / "data.zarr")
    chunk = tmp_path / "record" / "data.zarr" / "x" / "c.11.0.0"
    store.write(tmp_path / "record" / "data.zarr", 33, {"x": np.ones((1, 4, 3))})
    chunk.write_bytes(b"\1" + chunk.read_bytes()[1:])
    with pytest.raises(InputError, match="The record in .*record' is damaged .*'x'"):
        store.write(tmp_path / "record" / "data.zarr", 34, {"x": np.ones((1, 4, 3))})


@pytest.mark.parametrize("change", [("[3,", "[0,"), ("float64", "object"), ("dimension_names", "names")])
def test_a_form_that_is_no_record(tmp_path: Path, change: tuple[str, str]) -> None:
    made(tmp_path / "record" / "data.zarr")
    file = tmp_path / "record" / "data.zarr" / "x" / zarr3.FORM
    text = "".join(file.read_text().split()).replace(*change)
    file.write_text(text)
    with pytest.raises(InputError, match="in a way that records are not"):
        store.write(tmp_path / "record" / "data.zarr", 33, {"x": np.ones((1, 4, 3))})
