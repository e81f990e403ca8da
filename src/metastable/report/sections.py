"""Parts of the gallery: one experiment, one verdict, one picture, each as HTML."""

import base64
import html
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metastable.report.experiment_record import Record, command
from metastable.theory.verdicts import Verdict

BUDGET = 24_000_000  # bytes of embedded pictures and films; what comes after is linked


@dataclass
class Media:
    """Files embedded so far."""

    left: int = BUDGET
    skipped: list[str] = field(default_factory=list)

    def address(self, path: Path, kind: str) -> str:
        """The file as a data address, or its place beside the page once the budget is spent."""
        data = path.read_bytes()
        size = 4 * math.ceil(len(data) / 3)
        if size > self.left:
            self.skipped.append(path.name)
            return f"{path.parent.name}/{path.name}"
        self.left -= size
        return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def section(record: Record, media: Media) -> str:
    """One experiment: what it is, its verdicts, pictures and films, its settings and the command."""
    about, here = record.about, anchor(record.name)
    drawn = "" if about["figures"] in about["source"] else about["figures"]
    drawn = f" · {'Figs ' if drawn[:1].isdigit() else ''}{escaped(drawn)}" if drawn else ""
    paragraphs = "".join(f"<p>{escaped(p)}</p>" for p in about["text"].split("\n\n") if p.strip())
    pictures = "".join(_figure(record, *picture, media) for picture in record.figures)
    films = "".join(_film(record, *film, media) for film in record.films)
    return f"""<article id="{here}" aria-labelledby="{here}-title">
<header><h3 id="{here}-title">{escaped(about["title"])}</h3><a class="soft" href="#verdicts">all verdicts</a></header>
<p class="soft">{escaped(about["source"])}{drawn}</p>
{paragraphs}
<div class="figures">{pictures}{films}</div>
<dl class="verdicts">{"".join(_verdict(v, record) for v in record.verdicts)}</dl>
{_making(record)}
</article>"""


def _making(record: Record) -> str:
    """Settings, and the command that makes every item of the section again."""
    again = command([record.name], record.preset, record.overrides)
    items = "".join(f"<li><code>{escaped(k)} = {escaped(_short(v))}</code></li>" for k, v in record.params.items())
    made = f"{record.made.get('time', '')}, {record.seconds:.1f} s, metastable {record.made.get('metastable', '')}."
    return f"""<h4>Made by</h4>
<pre>{escaped(again)}</pre>
<details><summary>Settings</summary>
<ul class="params">{items}</ul>
<p class="soft">{escaped(made)} The numbers behind the pictures: <code>{escaped(record.name)}/data.npz</code>.</p>
</details>"""


def _verdict(v: Verdict, record: Record) -> str:
    lines = [f"{measured(v)}; {v.eligible} of {v.instances} instances satisfy the hypotheses; {v.kind}."]
    lines.append(f"Criterion: {escaped(v.criterion)}.")
    if v.notes:
        lines.append(escaped(v.notes[:1].upper() + v.notes[1:].rstrip(".")) + ".")
    if v.failing_seeds:
        lines.append(_seeds(v, record))
    head = f"{chip(v.status)} {escaped(v.claim)} <span class='soft'>({escaped(v.source)})</span>"
    return f"<dt>{head}</dt><dd>{' '.join(lines)}</dd>"


def _seeds(v: Verdict, record: Record) -> str:
    """Instances that break the claim, and how to replay the first."""
    seeds = ", ".join(map(str, v.failing_seeds[:200])) + (", ..." if len(v.failing_seeds) > 200 else "")
    again = command([record.name], record.preset, {"instances": 1, "seed": v.failing_seeds[0]})
    return (
        f"<details><summary>{len(v.failing_seeds)} instances break it</summary><p>Seeds {seeds}. Replay one: "
        f"<code>{escaped(again)} --out replay</code></p></details>"
    )


def _figure(record: Record, file: str, shows: str, caption: str, media: Media) -> str:
    path = record.folder / file
    if not path.exists():
        return ""
    width = _points(path)
    size = f' width="{1.45 * width:.0f}"' if width else ""
    alt = escaped(f"{record.about['title']}: {_caption(shows)}")
    return (
        f'<figure><img src="{media.address(path, "image/svg+xml")}" alt="{alt}"{size} loading="lazy">'
        f"<figcaption>{escaped(_caption(shows))}. {escaped(caption)}</figcaption></figure>"
    )


def _film(record: Record, file: str, shows: str, caption: str, media: Media) -> str:
    path = record.folder / file
    if not path.exists():
        return ""
    label = escaped(f"Film: {record.about['title']}: {_caption(shows)}")
    return (
        f'<figure><video controls muted playsinline loop preload="metadata" width="400" aria-label="{label}" '
        f'src="{media.address(path, "video/mp4")}"></video>'
        f"<figcaption>Film: {escaped(_caption(shows))}. {escaped(caption)}</figcaption></figure>"
    )


def broken(name: str, sentence: str) -> str:
    """An experiment that ended in an error."""
    return (
        f'<article id="{anchor(name)}"><h3>{escaped(name)}</h3><p>{chip("error")} {escaped(sentence)}</p>'
        f"<pre>{escaped(f'metastable reproduce {name}')}</pre></article>"
    )


# --- small things -------------------------------------------------------------------------------------------------


def anchor(name: str) -> str:
    """An experiment's place on the page."""
    return f"experiment-{escaped(name)}"


def escaped(value: Any) -> str:
    """Text as HTML."""
    return html.escape(str(value))


def chip(word: str) -> str:
    """A status as a coloured word."""
    return f'<span class="status {word}">{word}</span>'


def measured(v: Verdict) -> str:
    """The measured number with its interval."""
    low, high = v.interval
    if not math.isfinite(v.measured):
        return "not measured"
    known = math.isfinite(low) and math.isfinite(high)
    ends = f' <span class="interval">[{_number(low)}, {_number(high)}]</span>' if known else ""
    return f"{_number(v.measured)}{ends}"


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _caption(shows: str) -> str:
    """A picture's name as words: names are slugs or sentences."""
    words = shows.replace("_", " ") if " " in shows else shows.replace("_", " ").replace("-", " ")
    return words[:1].upper() + words[1:]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."


def _points(path: Path) -> float:
    """The width of an SVG of matplotlib's in points, 0 if it does not say."""
    with path.open("rb") as file:
        head = file.read(2000).decode(errors="replace")
    _, found, after = head.partition('width="')
    number = after.partition("pt")[0]
    return float(number) if found and number.replace(".", "", 1).isdigit() else 0.0
