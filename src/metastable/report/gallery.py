"""The gallery: pages made from the records of experiments, and from nothing else.

    DIR/index.html        the front: findings, and an index with small pictures
    DIR/NAME/index.html   an experiment: figures, text, verdicts, settings
    DIR/verdicts.html     every claim in one table (DIR/verdicts.md: the same for documents)
    DIR/gallery.html      all of it in one file, for mailing

All open offline and load nothing from elsewhere: the style is inside, pictures and films lie beside the pages, or are
data in the single file (each SVG in an image of its own, so that names inside two of them cannot clash). There are no
scripts. Pages read records and never run anything, so they can be made again: `write_gallery(folder, names)`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.report.experiment_page import anchor, broken, experiment
from metastable.report.experiment_record import Record, command, read
from metastable.report.front_page import TITLE, absent, front
from metastable.report.sections import BUDGET, Linked, Media, chip, details, embedded_size, escaped, page_frame
from metastable.report.verdict_table import markdown, verdict_table
from metastable.store.files import write_whole

INDEX, SINGLE, VERDICTS, DOCUMENT = "index.html", "gallery.html", "verdicts.html", "verdicts.md"


@dataclass(frozen=True)
class Slot:
    """A figure that needs a pretrained model.

    It is filled by the experiment of that name; where there is no model, the slot says why, and how to fill it.
    """

    name: str
    figure: str
    shows: str


SLOTS: tuple[Slot, ...] = (
    Slot("model-similarities", "first paper, Fig. 1", "Cosine similarities of a model's tokens, layer by layer"),
    Slot("model-heads", "first paper, Fig. 2", "Attention heads: what they look at, and how alike they are"),
    Slot("model-controls", "a control for Fig. 1", "A model's clusters beside those of networks without training"),
    Slot("model-eigenvalues", "first paper, Fig. 7", "Particles moved by the leading eigenvalues of a model's values"),
    Slot("model-spectra", "second paper, Fig. 10", "Eigenvalues of a model's value matrices, and its good triples"),
    Slot("model-sharing", "beyond the papers", "Shared against unshared weights, before and after fine-tuning"),
    Slot("model-residual", "beyond the papers", "A model with its residual connections scaled down"),
    Slot("model-ranks", "both papers", "Ranks of a model's attention matrices, layer by layer"),
    Slot("model-simplex", "beyond the papers", "How far the means of a model's clusters are from a simplex"),
    Slot("model-eigenspaces", "first paper, sec. 5", "Tokens that a head's leading eigenvectors promote"),
    Slot("best-particle-system", "beyond the papers", "The best that any particle system explains of a model's clouds"),
)


@dataclass(frozen=True)
class Contents:
    """What there is to show: finished experiments in order, and what became of the others."""

    folder: Path
    records: Mapping[str, Record]
    errors: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()


def contents(
    folder: str | Path,
    names: Sequence[str] | Mapping[str, Any],
    errors: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
) -> Contents:
    """The records in ``folder``.

    Parameters
    ----------
    folder : path
        Where `reproduce` left its records.
    names : sequence of str
        Experiments in the order they are shown; those without a record are named as not run.
    errors : mapping, optional
        Experiments that ended in an error, with the sentence that says why.
    skipped : mapping, optional
        Experiments that were left out for want of a model, with the sentence that says why.
    """
    home = Path(folder)
    wanted = dict.fromkeys([*names, *(slot.name for slot in SLOTS)])
    records = {name: record for name in wanted if (record := _record(home / name)) is not None}
    failures = {name: why for name, why in (errors or {}).items() if name not in records}
    return Contents(home, records, failures, skipped or {}, list(names))


def write_gallery(
    folder: str | Path,
    names: Sequence[str] | Mapping[str, Any],
    errors: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
) -> Path:
    """Write every page of the gallery of the records in ``folder`` (see `contents`); the path of the front."""
    found = contents(folder, names, errors, skipped)
    for path, text in {**folder_pages(found), SINGLE: single_page(found)}.items():
        write_whole(found.folder / path, text.encode())
    title = "Verdicts"
    write_whole(found.folder / DOCUMENT, markdown(found.records.values(), title).encode())
    return found.folder / INDEX


def _record(folder: Path) -> Record | None:
    """The record in a folder under the folder's name: the one it has in the table, and in the command that makes it."""
    try:
        return replace(read(folder), name=folder.name) if (folder / "done").exists() else None
    except InputError:
        return None


# --- one folder ---------------------------------------------------------------------------------------------------


def folder_pages(found: Contents) -> dict[str, str]:
    """Path -> page, of a folder that opens offline."""
    pages = {name: f"{name}/{INDEX}" for name in found.records}
    pages |= dict.fromkeys(found.errors, "#experiments")
    body = front(found.records, found.errors, pages, Linked(home=found.folder), VERDICTS) + _rest(found)
    mail = f'<p>All of it in one file, for mailing: <a href="{SINGLE}">{SINGLE}</a>.</p>'
    made = {INDEX: page_frame(TITLE, body, _footer(mail)), VERDICTS: _verdicts_page(found, pages)}
    order = list(found.records.values())
    for k, record in enumerate(order):
        around = (order[k - 1] if k else None, order[k + 1] if k + 1 < len(order) else None)
        body = _way(*around) + f"<article>{experiment(record, Linked(home=record.folder))}</article>" + _way(*around)
        made[pages[record.name]] = page_frame(record.about["title"], body, _footer())
    return made


def _way(before: Record | None, after: Record | None) -> str:
    """Links to the front and to the neighbours."""
    links = [f'<a href="../{INDEX}">All experiments</a>']
    for record, arrow in ((before, "\N{LEFTWARDS ARROW} "), (after, "")):
        if record is not None:
            end = "" if arrow else " \N{RIGHTWARDS ARROW}"
            links.append(f'<a href="../{record.name}/{INDEX}">{arrow}{escaped(record.about["title"])}{end}</a>')
    return f'<nav class="way" aria-label="Experiments">{"".join(links)}</nav>'


def _verdicts_page(found: Contents, pages: Mapping[str, str]) -> str:
    rows = [(record, v) for record in found.records.values() for v in record.verdicts]
    way = f'<nav class="way"><a href="{INDEX}">All experiments</a></nav>'
    return page_frame(f"Verdicts: {TITLE}", f"{way}<h1>Every claim</h1>{verdict_table(rows, pages)}", _footer())


# --- one file -----------------------------------------------------------------------------------------------------


def single_page(found: Contents) -> str:
    """The whole gallery as one HTML file with everything inside."""
    shown = [record.folder / one.file for record in found.records.values() for one in record.figures]
    media = Media(BUDGET - sum(embedded_size(path) for path in shown if path.exists()))
    pages = {name: f"#{anchor(name)}" for name in {**found.records, **found.errors}}
    parts = [front(found.records, found.errors, pages, media, "#verdicts")]
    for record in found.records.values():
        here = anchor(record.name)
        body = experiment(record, media, "h2") + '<p class="soft"><a href="#experiments">All experiments</a></p>'
        parts.append(f'<article id="{here}" aria-labelledby="{here}-title">{body}</article>')
    parts += [f'<article id="{anchor(name)}">{broken(name, why, "h2")}</article>' for name, why in found.errors.items()]
    rows = [(record, v) for record in found.records.values() for v in record.verdicts]
    every = details("Every claim in one table", verdict_table(rows, pages), "verdicts")
    note = ""
    if media.skipped:
        films = "film is" if len(media.skipped) == 1 else "films are"
        note = f"<p>To keep this file small {len(media.skipped)} {films} left out; all pictures are here.</p>"
    return page_frame(TITLE, "\n".join([*parts, _rest(found), every]), _footer(note))


# --- parts of both ------------------------------------------------------------------------------------------------


def _footer(more: str = "") -> str:
    return f'<footer class="soft">{more}<p>Made by <code>metastable reproduce</code> from its records.</p></footer>'


def _rest(found: Contents) -> str:
    """Experiments without a record: not run, or without a model."""
    known = {*found.records, *found.errors}
    slots = [slot for slot in SLOTS if slot.name not in known]
    names = [name for name in found.names if name not in known and name not in {slot.name for slot in SLOTS}]
    return absent(names) + "".join(_slots(slots, found))


def _slots(slots: Sequence[Slot], found: Contents) -> list[str]:
    if not slots:
        return []
    first = next(iter(found.records.values()), None)
    preset, overrides = ("default", {}) if first is None else (first.preset, first.overrides)
    heading = '<h2 id="models">Figures that need a pretrained model</h2>'
    return [heading] + [
        f'<article class="slot"><h3>{escaped(slot.shows)}</h3>'
        f'<p class="soft">{escaped(slot.figure)}</p><p>{_why(found.skipped.get(slot.name))}</p>'
        f"<pre>{escaped(command([slot.name], preset, overrides))}</pre></article>"
        for slot in slots
    ]


def _why(skipped: str | None) -> str:
    """Why a slot is empty, up to the command that fills it."""
    if skipped is None:
        return f"{chip('not-run', 'not run')} Add the figure to this page, with the same --out, by"
    return f"{chip('not-run', 'skipped')} {escaped(skipped)} Once that is mended, with the same --out:"
