"""Several studies beside each other: which they are, the numbers they differ in, the page."""

import csv
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.models.curves import SHORT, Source, band, sources
from metastable.models.load import load
from metastable.models.run_study import default_folder, run
from metastable.models.study import Settings, Study, read
from metastable.models.study_numbers import SINK, key_numbers
from metastable.models.token_shapes import LINKED, SPIKE
from metastable.progress import Report, silent
from metastable.store.files import read_json, reason, write_json
from metastable.store.folder import DONE, holds


@dataclass(frozen=True, eq=False)
class Side:
    """One column of a comparison: a study's model, or one of its controls."""

    study: Study
    source: Source

    @property
    def label(self) -> str:
        """What it is called on the page."""
        return self.source.label


def sides(names: Sequence[str], progress: Report = silent) -> list[Side]:
    """The sides that names stand for.

    A name is the folder of a finished study, FOLDER:CONTROL for a control of it, or a model, which is measured as
    `metastable model NAME` does unless that has been done. One name alone stands for a model and its controls, which
    are then called "trained", "fresh weights", and so on.
    """
    found = [_parted(name) for name in names]
    for place in dict.fromkeys(place for place, _ in found if _finished(place) is None):
        load(place)  # a name that stands for nothing is refused before hours of measuring
    studies = [(_finished(place) or _measured(place, progress), control) for place, control in found]
    whole = len(names) == 1 and not found[0][1]
    labels = [""] if whole else _labels([made for made, _ in studies])
    chosen: list[Side] = []
    for (made, control), label in zip(studies, labels):
        all_of = sources(made, label)
        wanted = all_of if whole else [s for s in all_of if s.control == control]
        if not wanted:
            raise InputError(
                f"The study in {str(made.folder)!r} has no control {control!r}; measure it with --control {control}."
            )
        chosen += [Side(made, source) for source in wanted]
    if len(chosen) < 2:
        raise InputError(
            f"To compare takes two, and {names[0]!r} has no controls; name another study or model, or measure it with "
            "--control init,shuffle,tokens."
        )
    return chosen


def _parted(name: str) -> tuple[str, str]:
    """FOLDER:CONTROL as a pair; the control is empty where none is named."""
    place, colon, control = name.rpartition(":")
    return (place, control) if colon and control in SHORT else (name, "")


def _finished(name: str) -> Study | None:
    """The finished study of a folder or a model; None where a model has still to be measured."""
    folder = Path(name)
    if not holds(folder, "study"):
        folder = default_folder(name)
    if holds(folder, "study") and (folder / DONE).exists():
        return read(folder)
    if holds(Path(name), "study"):
        raise InputError(f"The study in {name!r} is not finished: run the command that made it again.")
    return None


def _measured(name: str, progress: Report) -> Study:
    return run(Settings(name), default_folder(name), progress)[0]


def _labels(studies: Sequence[Study]) -> list[str]:
    """Names of the models; of their folders where two studies are of one model."""
    names = {made.folder.resolve(): Path(made.settings.model).name for made in studies}
    twice = [name for name in names.values() if list(names.values()).count(name) > 1]
    each = [names[made.folder.resolve()] for made in studies]
    return [made.folder.name if name in twice else name for made, name in zip(studies, each)]


# --- on disk ------------------------------------------------------------------------------------------------------

RECORD = "comparison.json"  # which studies a folder compares, so that its pictures can be drawn again


def remember(shown: Sequence[Side], folder: Path) -> None:
    """Leave in a folder what is compared there."""
    write_json(folder / RECORD, {"sides": [_named(side, folder) for side in shown]})


def _named(side: Side, folder: Path) -> dict[str, str]:
    record = Path(os.path.relpath(side.study.folder.resolve(), folder.resolve())).as_posix()
    return {"record": record, "control": side.source.control, "label": side.label}


def reread(folder: Path) -> list[Side]:
    """What a folder compares, from the records of the studies."""
    try:
        named = [
            (str(one["record"]), str(one["control"]), str(one["label"])) for one in read_json(folder / RECORD)["sides"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The comparison in {str(folder)!r} is damaged ({reason(error)}): make it again with `metastable compare`."
        ) from error
    studies = {record: read(folder / record) for record, _, _ in named}
    found = []
    for record, control, label in named:
        source = next((s for s in sources(studies[record]) if s.control == control), None)
        if source is None:
            raise InputError(f"The study in {str(folder / record)!r} has no control {control!r} any more.")
        found.append(Side(studies[record], replace(source, label=label)))
    return found


# --- numbers ------------------------------------------------------------------------------------------------------

Row = tuple[str, list[Any]]


def numbers(shown: Sequence[Side]) -> list[Row]:
    """Rows of what the sides can be compared by; None where a side has no such number."""
    rows = [(words, [get(side) for side in shown]) for words, get in _MEASURED.items()]
    known = [key_numbers(side.study) if not side.source.control else {} for side in shown]
    for words, get in _READ.items():
        rows.append((words, [get(n) if n else None for n in known]))
    return [row for row in rows if any(value is not None for value in row[1])]


def _similarity(name: str, kind: str, **where: float) -> Callable[[Side], float | None]:
    def get(side: Side) -> float | None:
        values = side.source.similarity[name].sel({"kind": kind, "layer": side.study.trained, **where})
        return _plain(band(values)[0])

    return get


def _grouped(side: Side) -> float | None:
    if side.source.heads is None:
        return None
    has = side.source.heads["has_groups"].isel(layer=slice(0, side.study.trained)).astype(float)
    return _plain(band(has.mean("layer"))[0])


def _strongest(side: Side) -> float | None:
    if side.source.sinks is None:
        return None
    mass = side.source.sinks["mass"].sel(kind="first").isel(layer=slice(0, side.study.trained))
    return _plain(band(mass.max(("layer", "head")))[0])


def _sunk(side: Side) -> float | None:
    if side.source.sinks is None:
        return None
    mass = side.source.sinks["mass"].sel(kind="first").isel(layer=slice(0, side.study.trained))
    return _plain(band((mass >= SINK).astype(float).mean(("layer", "head")))[0])


def _plain(value: Any) -> float | None:
    number = float(value)
    return number if number == number else None


_MEASURED: dict[str, Callable[[Side], float | None]] = {
    "mean cosine": _similarity("mean", "raw"),
    "mean cosine, centred": _similarity("mean", "centred"),
    f"pairs above {SPIKE:g}": _similarity("share_above", "raw", threshold=SPIKE),
    f"pairs above {SPIKE:g}, centred": _similarity("share_above", "centred", threshold=SPIKE),
    "tokens in the largest cluster": _similarity("largest", "raw", threshold=LINKED),
    "tokens in the largest cluster, centred": _similarity("largest", "centred", threshold=LINKED),
    "tokens in clusters of different tokens": _similarity("mixed_share", "raw", threshold=LINKED),
    "tokens in clusters of different tokens, centred": _similarity("mixed_share", "centred", threshold=LINKED),
    "clusters of different tokens in a text, centred": _similarity("mixed_clusters", "centred", threshold=LINKED),
    "share of layers whose heads form groups": _grouped,
    "attention of the strongest head on the first token": _strongest,
    f"share of heads that pay it {SINK:.0%} or more": _sunk,
}
_READ: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "share of heads that are good triples": lambda n: n["good_triples"] / n["heads"] if n["heads"] else None,
    "median effective beta": lambda n: n["beta"][1] if n["beta"] else None,
    **{
        f"Gram distance of rung {k}": lambda n, k=k: n["rungs"][str(k)]["gram_distance"][0] if n["rungs"] else None  # type: ignore[misc]
        for k in range(4)
    },
    **{
        f"Gram distance of {b}": lambda n, b=b: n["baselines"][b]["gram_distance"][0] if n["baselines"] else None  # type: ignore[misc]
        for b in ("frozen tokens", "one point", "best constant")
    },
}


def as_csv(shown: Sequence[Side], rows: Sequence[Row]) -> bytes:
    """The numbers as a file of commas."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["measure", *(side.label for side in shown)])
    for words, values in rows:
        writer.writerow([words, *("" if value is None else repr(float(value)) for value in values)])
    return text.getvalue().encode()
