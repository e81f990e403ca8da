"""What metastable is made of: `python .ci/supply.py` writes .ci/sbom.json (CycloneDX) and .ci/licences.md.

Packages are those that the core and the extra `models` need, as they are installed here; weights are those of the zoo,
with the SHA-256 that is checked before they are read.
"""

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from metastable import __version__
from metastable.models.zoo_packages import CORPORA, MODELS

HERE = Path(__file__).parent


def needed(extras: tuple[str, ...]) -> dict[str, metadata.Distribution]:
    """What pyproject.toml requires and what that requires, as far as it is installed."""
    from packaging.requirements import Requirement

    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    first = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    found: dict[str, metadata.Distribution] = {}
    waiting: list[tuple[list[str], tuple[str, ...]]] = [(first, ())]
    while waiting:
        texts, also = waiting.pop()
        for text in texts:
            wanted = Requirement(text)
            marks = [{"extra": extra} for extra in ("", *also)]
            key = re.sub(r"[-_.]+", "-", wanted.name).lower()
            if (wanted.marker is None or any(wanted.marker.evaluate(m) for m in marks)) and key not in found:
                try:
                    found[key] = metadata.distribution(wanted.name)
                except metadata.PackageNotFoundError:
                    continue
                waiting.append((found[key].requires or [], tuple(wanted.extras)))
    return dict(sorted(found.items()))


def licence(package: metadata.Distribution) -> str:
    """What a package says of its licence, in a few words."""
    head = package.metadata
    told = head.get("License-Expression") or ""
    kinds = [c.split(" :: ")[-1] for c in head.get_all("Classifier") or () if c.startswith("License ::")]
    short = (head.get("License") or "").strip().splitlines()
    return told or ", ".join(kinds) or (short[0][:60] if short else "not stated")


def main() -> None:
    packages = needed(("models",))
    parts: list[dict[str, Any]] = [
        {
            "type": "library", "name": name, "version": package.version, "purl": f"pkg:pypi/{name}@{package.version}",
            "licenses": [{"license": {"name": licence(package)}}],
        }
        for name, package in packages.items()
    ]  # fmt: skip
    for name, entry in sorted((MODELS | CORPORA).items()):
        parts.append({
            "type": "data" if name in CORPORA else "machine-learning-model", "name": name, "version": entry.version,
            "purl": f"pkg:pypi/{entry.package}@{entry.version}",
            "hashes": [{"alg": "SHA-256", "content": entry.sha256}],
            "licenses": [{"license": {"name": entry.licence}}],
            "components": [
                {"type": "file", "name": file, "hashes": [{"alg": "SHA-256", "content": digest}]}
                for file, (_, digest, _) in sorted(entry.files.items())
            ],
        })  # fmt: skip
    made = {"component": {"type": "library", "name": "metastable", "version": __version__}}
    sbom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": made, "components": parts}
    (HERE / "sbom.json").write_text(json.dumps(sbom, indent=1) + "\n")
    rows = [f"| {p['name']} | {p['version']} | {p['licenses'][0]['license']['name']} |" for p in parts]
    head = [
        "# Licences",
        "",
        "Made by `python .ci/supply.py`.",
        "",
        "| name | version | licence |",
        "| --- | --- | --- |",
    ]
    (HERE / "licences.md").write_text("\n".join([*head, *rows]) + "\n")
    print(f"{len(packages)} packages, {len(parts) - len(packages)} models of the zoo")


if __name__ == "__main__":
    main()
