"""xarray datasets as zarr folders that appear whole."""

import os
import warnings
from pathlib import Path
from typing import Any

from metastable.store.files import PART, remove, sync


def write_dataset(folder: Path, name: str, data: Any) -> None:
    """Write an ``xarray.Dataset`` to NAME.zarr, whole or not at all."""
    fresh, target = folder / f"{name}.zarr{PART}", folder / f"{name}.zarr"
    remove(fresh)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about strings and consolidated metadata, which zarr's own readers know
        data.to_zarr(fresh, mode="w", zarr_format=3, consolidated=True)
    remove(target)
    os.replace(fresh, target)
    sync(folder)


def read_dataset(folder: Path, name: str) -> Any:
    """The ``xarray.Dataset`` in NAME.zarr, in memory."""
    import xarray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xarray.open_zarr(folder / f"{name}.zarr", chunks=None) as stored:
            return stored.load()
