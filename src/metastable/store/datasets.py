"""xarray datasets as zarr folders that appear whole, and are read only when they are whole.

Every chunk is written, with a checksum. A chunk that is missing, cut, or no file at all is damage: zarr alone would
read it as nan. Folders of metastable 0.1 have no checksums, and are read as they are.
"""

import itertools
import math
import os
import warnings
from pathlib import Path
from typing import Any

import zarr
from zarr.codecs import ZstdCodec

from metastable.store.files import PART, reason, refuse_strange, regular, remove, sync

_CODEC = ZstdCodec(level=0, checksum=True)


def write_dataset(folder: Path, name: str, data: Any) -> None:
    """Write an ``xarray.Dataset`` to NAME.zarr, whole or not at all."""
    fresh, target = folder / f"{name}.zarr{PART}", folder / f"{name}.zarr"
    remove(fresh)
    plain = data.drop_encoding()  # what a dataset remembers of the file it was read from
    encoding = {variable: {"compressors": (_CODEC,)} for variable in plain.variables}
    try:
        with warnings.catch_warnings(), zarr.config.set({"array.write_empty_chunks": True}):
            warnings.simplefilter("ignore")  # about strings and consolidated metadata, which zarr's own readers know
            plain.to_zarr(fresh, mode="w", zarr_format=3, consolidated=True, encoding=encoding)
        remove(target)
        os.replace(fresh, target)
    except (Exception, KeyboardInterrupt):
        remove(fresh)  # what a full disk holds of it is of no use, and in the way
        raise
    sync(folder)


def read_dataset(folder: Path, name: str) -> Any:
    """The ``xarray.Dataset`` in NAME.zarr, in memory; a damaged one is a ValueError or an OSError."""
    import xarray

    place = folder / f"{name}.zarr"
    refuse_strange(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _check_chunks(place)
            with xarray.open_zarr(place, chunks=None) as stored:
                return stored.load()
        except OSError:
            raise
        except Exception as error:  # zarr, its decoders and xarray have many ways to say that a store is broken
            raise ValueError(f"{place.name}: {reason(error)}") from error


def _check_chunks(place: Path) -> None:
    for name, array in zarr.open_group(str(place), mode="r", zarr_format=3).arrays():
        meta = array.metadata
        if not any(getattr(codec, "checksum", False) for codec in meta.codecs):
            continue
        counts = [range(math.ceil(size / chunk)) for size, chunk in zip(array.shape, array.chunks)]
        for where in itertools.product(*counts):
            regular(place / name / meta.encode_chunk_key(where))
