"""One experiment as HTML: its finding, its figures, a short text, its verdicts and settings folded."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metastable.progress import duration
from metastable.report.experiment_record import Picture, Record, command
from metastable.report.sections import (
    Media,
    details,
    escaped,
    film,
    paragraphs,
    picture,
    sentence,
    spelt_out,
    table,
)
from metastable.report.verdict_table import counts, folded


def anchor(name: str) -> str:
    """An experiment's place in the single file."""
    return f"experiment-{escaped(name)}"


def experiment(record: Record, media: Media, heading: str = "h1") -> str:
    """The whole of one experiment, under a heading of the given rank."""
    about = record.about
    drawn = "" if about["figures"] in about["source"] or about["figures"].startswith("none") else about["figures"]
    drawn = f" · {'Figs ' if drawn[:1].isdigit() else ''}{escaped(drawn)}" if drawn else ""
    films = "".join(_film(record, one, media) for one in record.films)
    return f"""<header><{heading} id="{anchor(record.name)}-title">{escaped(about["title"])}</{heading}>
<p class="soft">{escaped(about["source"])}{drawn} · {counts(record.verdicts)}</p></header>
{_finding(record)}
<div class="figures">{"".join(_figure(record, one, media) for one in record.figures)}</div>
<div class="figures films">{films}</div>
{paragraphs(about["text"])}
{left_out(record)}
{unchecked(record)}
{folded(record)}
{_making(record)}"""


def _finding(record: Record) -> str:
    found = record.finding
    return "" if found is None else claimed_and_measured(found.claimed, found.measured)


def claimed_and_measured(claimed: str, measured: str) -> str:
    """The two sentences of a finding."""
    return (
        f'<dl class="finding"><dt>Claimed</dt><dd>{sentence(claimed)}</dd>'
        f"<dt>Measured</dt><dd>{sentence(measured)}</dd></dl>"
    )


def left_out(record: Record) -> str:
    """What a first look leaves out, where it is left out."""
    text = record.about.get("leaves_out", "")
    if record.preset != "quick" or not text:
        return ""
    return f'<p class="leaves-out"><b>Left out with <code>--quick</code>:</b> {sentence(text)}</p>'


def unchecked(record: Record) -> str:
    """What has to be said of an experiment whose self-check had nothing to compare."""
    if record.checks:
        return ""
    return (
        '<p class="leaves-out"><b>No self-check:</b> with these settings, or for this model, no small instance was '
        "compared with a second computation in plain NumPy.</p>"
    )


def _figure(record: Record, one: Picture, media: Media) -> str:
    """A picture; a table is shown as one."""
    path = record.folder / one.file
    if not path.exists():
        return ""
    caption = _caption(one)
    cells = _cells(path.with_suffix(".json"))
    if cells is not None:
        columns, rows = cells
        return f'<figure class="table">{table(columns, rows, one.words)}<figcaption>{caption}</figcaption></figure>'
    return picture(path, f"{record.about['title']}: {one.words}", caption, media)


def _film(record: Record, one: Picture, media: Media) -> str:
    path = record.folder / one.file
    if not path.exists():
        return ""
    player = path.with_suffix(".html")
    place = media.whole(player) if player.exists() else ""
    more = f' <a href="{place}">Play it yourself: turn, zoom, scrub, colour by cluster.</a>' if place else ""
    return film(path, f"Film: {record.about['title']}: {one.words}", f"<b>Film.</b> {_caption(one)}{more}", media)


def _caption(one: Picture) -> str:
    return f"<b>{sentence(one.words)}</b> {sentence(one.caption)}"


def _cells(path: Path) -> tuple[Sequence[str], Sequence[Sequence[str]]] | None:
    """Column names and rows of a picture that is a table."""
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return [spelt_out(c) for c in found["columns"]], [[spelt_out(c) for c in row] for row in found["rows"]]


def _making(record: Record) -> str:
    """Settings, and the command that makes the experiment again."""
    again = command([record.name], record.preset, record.overrides)
    items = "".join(f"<li><code>{escaped(k)} = {escaped(_short(v))}</code></li>" for k, v in record.params.items())
    made = f"{record.made.get('time', '')}, metastable {record.made.get('metastable', '')}"
    checks = "; ".join(f"{name}: {apart:.1g} ({allowed:.1g} allowed)" for name, apart, allowed in record.checks)
    checked = f"Differences of a small instance from the same by plain NumPy: {checks}." if checks else ""
    return details(
        f'Made in {duration(record.seconds)} by <code>{escaped(again)}</code> <span class="soft">settings</span>',
        f'<ul class="params">{items}</ul><p class="soft">{escaped(checked)}</p>'
        f'<p class="soft">{escaped(made)}. The numbers behind the pictures: '
        f"<code>{escaped(record.name)}/data.npz</code>.</p>",
    )


def broken(name: str, sentence_: str, heading: str = "h1") -> str:
    """An experiment that ended in an error."""
    return (
        f'<header><{heading}>{escaped(name)}</{heading}></header><p><span class="status error">error</span> '
        f"{escaped(sentence_)}</p><pre>{escaped(f'metastable reproduce {name}')}</pre>"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
