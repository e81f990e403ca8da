"""The gallery: one HTML file made from the records of experiments, and from nothing else.

It opens offline and loads nothing: the style is inside, pictures and films are data (each SVG in an image of its
own, so that names inside two of them cannot clash). It reads records and never runs anything, so it can be made again
at any time: `gallery(folder)`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.report.experiment_record import Record, command, read
from metastable.report.sections import Media, anchor, broken, chip, escaped, measured, section
from metastable.theory.verdicts import Verdict


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
)


def gallery(
    folder: str | Path,
    names: Sequence[str] | Mapping[str, Any],
    errors: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
) -> str:
    """The gallery of the records in ``folder`` as one HTML page.

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
    found = {name: record for name in names if (record := _record(home / name)) is not None}
    filled = {slot.name: record for slot in SLOTS if (record := _record(home / slot.name)) is not None}
    media, failures = Media(), dict(errors or {})
    shown = {**found, **{k: v for k, v in filled.items() if k not in found}}
    parts = [
        _summary(shown, failures),
        _contents(list(names), shown, failures),
        _table(shown),
        '<h2 id="experiments">Experiments</h2>',
        *(section(record, media) for record in shown.values()),
        *(broken(name, sentence) for name, sentence in failures.items() if name not in shown),
        _absent([name for name in names if name not in {*shown, *failures, *(slot.name for slot in SLOTS)}]),
        *_slots([slot for slot in SLOTS if slot.name not in {*shown, *failures}], shown, skipped or {}),
    ]
    return _page("\n".join(part for part in parts if part), _footer(shown, media))


def _record(folder: Path) -> Record | None:
    try:
        return read(folder) if (folder / "done").exists() else None
    except InputError:
        return None


_POLICY = "default-src 'none'; img-src data: 'self'; media-src data: 'self'; style-src 'unsafe-inline'"


def _page(body: str, footer: str) -> str:
    style = files("metastable.report").joinpath("style.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Clustering in transformers, measured</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#verdicts">To the verdicts</a>
<main>
{body}
</main>
{footer}
</body>
</html>
"""


# --- the top ------------------------------------------------------------------------------------------------------


def _summary(records: Mapping[str, Record], failures: Mapping[str, str]) -> str:
    verdicts = [v for record in records.values() for v in record.verdicts]
    counts = [(sum(v.status == word for v in verdicts), word) for word in ("holds", "fails", "undecided")]
    items = [f'<li><b>{count}</b><span class="status {word}">{word}</span></li>' for count, word in counts]
    if failures:
        items.append(f'<li><b>{len(failures)}</b><span class="status error">errors</span></li>')
    theorems = [v for v in verdicts if v.kind == "theorem"]
    lost = sum(v.status == "fails" for v in theorems)
    text = f"{len(theorems)} of the {len(verdicts)} claims are theorems; " + (
        f"<strong>{lost} of them failed</strong>." if lost else "none of them failed."
    )
    return f"""<h1>Clustering in transformers, measured</h1>
<p>Tokens that move under self-attention are an interacting particle system, and two papers say where they end up:
<i>Clustering in Transformers</i> (the first paper) and <i>The emergence of clusters in self-attention dynamics</i>
(the second). Here each of their claims is tested on random instances, against a criterion fixed before measuring.
A claim <span class="status holds">holds</span> or <span class="status fails">fails</span> only if the whole 95%
interval is on one side of its criterion; otherwise it is <span class="status undecided">undecided</span> at this
horizon.</p>
<ul class="counts">{"".join(items)}</ul>
<p class="soft">{text} {_preset(records)}</p>"""


def _preset(records: Mapping[str, Record]) -> str:
    """Which command made the page, and what that means for its numbers."""
    if not records:
        return ""
    first = next(iter(records.values()))
    few = " This is a first look at few instances: intervals are wide." if first.preset == "quick" else ""
    return f"Made by <code>{escaped(command((), first.preset, first.overrides))}</code>.{few}"


def _contents(names: Sequence[str], records: Mapping[str, Record], failures: Mapping[str, str]) -> str:
    items = []
    for name in [*names, *(n for n in records if n not in names)]:
        if name in records:
            items.append(f'<li><a href="#{anchor(name)}">{escaped(records[name].about["title"])}</a></li>')
        elif name in failures:
            items.append(
                f'<li><a href="#{anchor(name)}">{escaped(name)}</a> <span class="status error">error</span></li>'
            )
    return f'<nav aria-label="Experiments"><ol>{"".join(items)}</ol></nav>'


def _table(records: Mapping[str, Record]) -> str:
    rows = "\n".join(_row(record, v) for record in records.values() for v in record.verdicts)
    return f"""<h2 id="verdicts">Verdicts</h2>
<table class="wide">
<caption>Measured numbers with 95% intervals; instances that satisfy the hypotheses, of all that were run.</caption>
<thead><tr><th scope="col">Verdict</th><th scope="col">Claim and criterion</th><th scope="col">Measured</th>
<th scope="col">Instances</th><th scope="col">Kind</th><th scope="col">Experiment</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>"""


def _row(record: Record, v: Verdict) -> str:
    return (
        f"<tr><td>{chip(v.status)}</td>"
        f'<td>{escaped(v.claim)} <span class="soft">({escaped(v.source)})</span>'
        f'<span class="criterion">Criterion: {escaped(v.criterion)}</span></td>'
        f'<td class="number" data-label="Measured:">{measured(v)}</td>'
        f'<td class="number" data-label="Instances:">{v.eligible} of {v.instances}</td>'
        f'<td data-label="Kind:">{v.kind}</td>'
        f'<td data-label="Experiment:"><a href="#{anchor(record.name)}">{escaped(record.name)}</a></td></tr>'
    )


def _absent(names: Sequence[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(f"<code>{escaped(name)}</code>" for name in names)
    how = "Run <code>metastable reproduce</code> with the same --out to add them."
    return f'<p class="soft">Not run yet: {listed}. {how}</p>'


def _slots(slots: Sequence[Slot], records: Mapping[str, Record], skipped: Mapping[str, str]) -> list[str]:
    if not slots:
        return []
    first = next(iter(records.values()), None)
    preset, overrides = ("default", {}) if first is None else (first.preset, first.overrides)
    heading = '<h2 id="models">Figures that need a pretrained model</h2>'
    return [heading] + [
        f'<article class="slot" id="{anchor(slot.name)}"><h3>{escaped(slot.shows)}</h3>'
        f'<p class="soft">{escaped(slot.figure)}</p><p>{_why(skipped.get(slot.name))}</p>'
        f"<pre>{escaped(command([slot.name], preset, overrides))}</pre></article>"
        for slot in slots
    ]


def _why(skipped: str | None) -> str:
    """Why a slot is empty, up to the command that fills it."""
    if skipped is None:
        return '<span class="status none">not run</span> Add the figure to this page, with the same --out, by'
    return f'<span class="status none">skipped</span> {escaped(skipped)} Once that is mended, with the same --out:'


def _footer(records: Mapping[str, Record], media: Media) -> str:
    seconds = sum(record.seconds for record in records.values())
    text = f"{len(records)} experiments, {seconds:.0f} s of work."
    if media.skipped:
        text += f" {len(media.skipped)} pictures are linked instead of embedded to keep this file small."
    return f'<footer class="soft"><p>{text} Made by <code>metastable reproduce</code> from its records.</p></footer>'
