"""Parts of a page about models: the frame, figures, films, tables, all offline and without scripts."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metastable.report.sections import Media, escaped, page_frame

_STYLE = """
.facts { display: flex; flex-wrap: wrap; gap: .4rem 1.5rem; list-style: none; padding: 0; margin: .75rem 0; }
.facts b { font-weight: 650; }
.scroll { overflow-x: auto; }
.scroll table { width: auto; }
.scroll td:nth-child(n) { min-width: 0; }
.scroll.named td:first-child { min-width: 8.5rem; }
.scroll.wordy td:not(:first-child) { min-width: 10.5rem; }
td, th { padding-right: 1.1rem; }
ol.findings { max-width: 52rem; padding-left: 1.4rem; }
ol.findings li { margin: .45rem 0; }
ul.said { max-width: 47rem; padding-left: 1.2rem; }
ul.said li { margin: .35rem 0; }
h2 .number { color: var(--soft); font-weight: 400; margin-right: .4rem; }
figcaption code { font-size: .8em; white-space: nowrap; }
.figures figure { flex: 0 1 auto; }
video { aspect-ratio: 18 / 19; }
.film { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.film figcaption { flex: 1 1 18rem; max-width: 26rem; }
nav ol.findings { columns: auto; }
h3 { margin-top: 2.5rem; }
.rule { color: var(--soft); font-size: .9rem; }
"""
_PIXELS = 1.36  # CSS pixels for a point of a picture: three columns beside each other on a wide screen


def model_page(title: str, parts: Sequence[str]) -> str:
    """A whole page around its parts."""
    first = '<a class="skip" href="#short">To the findings</a>'
    return page_frame(title, "".join(parts), style=_STYLE, first=first)


def paragraphs(sentences: Sequence[str]) -> str:
    """Sentences as one paragraph."""
    text = unbroken(escaped(" ".join(sentence for sentence in sentences if sentence)))
    return f"<p>{text}</p>\n" if text else ""


_READABLE = 5  # sentences that one paragraph may have; more are a list


def sayings(sentences: Sequence[str]) -> str:
    """Sentences as one paragraph, or one below the other where they are too many for that."""
    if len(sentences) <= _READABLE:
        return paragraphs(sentences)
    return '<ul class="said">' + "".join(f"<li>{unbroken(escaped(one))}</li>" for one in sentences) + "</ul>\n"


def rule(text: str) -> str:
    """How something was judged, in small letters."""
    return f'<p class="rule">{escaped(text)}</p>\n' if text else ""


def figures(home: Path, pictures: Mapping[str, str], media: Media) -> str:
    """Those pictures (name -> caption) that are in ``home``, side by side while there is room."""
    found = [_figure(home / f"{name}.svg", name, caption, media) for name, caption in pictures.items()]
    return f'<div class="figures">{"".join(found)}</div>\n' if any(found) else ""


def _figure(path: Path, name: str, caption: str, media: Media) -> str:
    if not path.exists():
        return ""
    width, height = (points * _PIXELS for points in _points(path))
    return (
        f'<figure id="figure-{escaped(name)}"><img src="{media.address(path, "image/svg+xml")}" '
        f'alt="{escaped(caption)}" width="{width:.0f}" height="{height:.0f}" loading="lazy">'
        f"<figcaption>{escaped(caption)} <code>{escaped(name)}</code></figcaption></figure>"
    )


def film(path: Path, poster: Path, caption: str, media: Media, more: str = "") -> str:
    """A film with controls, which does not play by itself and shows a picture until then.

    ``more`` is HTML that is added to its caption.
    """
    if not path.exists():
        return ""
    before = f'poster="{media.address(poster, "image/svg+xml")}" ' if poster.exists() else ""
    return (
        f'<figure class="film"><video controls muted playsinline loop preload="metadata" width="460" {before}'
        f'aria-label="{escaped(caption)}" src="{media.address(path, "video/mp4")}"></video>'
        f"<figcaption>{escaped(caption)}{f'<p>{more}</p>' if more else ''}</figcaption></figure>\n"
    )


def _points(path: Path) -> tuple[float, float]:
    """Width and height of an SVG of matplotlib's in points, so that a page does not jump when it is drawn."""
    with path.open("rb") as file:
        head = file.read(2000).decode(errors="replace")
    found = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', head)
    return (float(found[1]), float(found[2])) if found else (245.0, 245.0)


_WORDS = 16  # letters of a row's name that need more room than a narrow screen would leave it
_SENTENCE = 40  # letters of a cell that is read as a sentence


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table that scrolls by itself where the screen is narrow; its caption stays in place."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escaped(c)}</th>' for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{escaped(number(v))}</td>" for v in row) + "</tr>" for row in rows)
    named = " named" if any(len(str(row[0])) > _WORDS for row in rows) else ""
    named += " wordy" if any(len(str(cell)) > _SENTENCE for row in rows for cell in row) else ""
    return (
        f'<p class="soft">{escaped(caption)}</p><div class="scroll{named}" tabindex="0" role="region" '
        f'aria-label="{escaped(caption)}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n'
    )


def details(caption: str, body: str) -> str:
    """What is folded away until it is wanted."""
    return f"<details><summary>{escaped(caption)}</summary>{body}</details>\n" if body else ""


def unbroken(text: str) -> str:
    """Powers of ten that no line break can part."""
    return re.sub(r"(\d)e-(\d)", "\\1e\N{MINUS SIGN}\\2", text)


def number(value: Any) -> str:
    """Numbers short, nan as a dash, text as it is.

    >>> number(-0.12345), number(float("nan")), number("a"), number(3)
    ('−0.123', '–', 'a', '3')
    """
    if value is None:
        return "–"
    if isinstance(value, (float, np.floating)):
        return f"{value:.3g}".replace("-", "\N{MINUS SIGN}") if np.isfinite(value) else "–"
    return str(value)
