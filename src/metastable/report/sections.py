"""Parts of pages, as HTML: the page around them, text, statuses, numbers, pictures, films, tables."""

import base64
import html
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

BUDGET = 24_000_000  # bytes of embedded pictures and films; films beyond it are left out, pictures never
_PIXELS = 1.45  # CSS pixels for a point of a picture


@dataclass
class Media:
    """Files embedded in one page, so far; ``left`` bytes are for films, of which pictures have had theirs."""

    left: int = BUDGET
    skipped: list[str] = field(default_factory=list)

    def address(self, path: Path, kind: str) -> str:
        """A picture as a data address: a page that is mailed has all of them, however many there are."""
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"

    def film(self, path: Path) -> str:
        """A film as a data address; nowhere once the budget is spent."""
        size = embedded_size(path)
        if size > self.left:
            self.skipped.append(path.name)
            return ""
        self.left -= size
        return self.address(path, "video/mp4")

    def whole(self, path: Path) -> str:
        """Where the picture can be opened by itself; nowhere, for what is embedded."""
        return ""


@dataclass
class Linked(Media):
    """Files that lie beside a page in ``home``."""

    home: Path = Path()

    def address(self, path: Path, kind: str) -> str:
        """The file as seen from the page."""
        return quote(Path(os.path.relpath(path, self.home)).as_posix())

    def film(self, path: Path) -> str:
        """The same."""
        return self.address(path, "video/mp4")

    def whole(self, path: Path) -> str:
        """The same: a picture opens by itself."""
        return self.address(path, "")


def embedded_size(path: Path) -> int:
    """Bytes of a file as a data address."""
    return 4 * math.ceil(path.stat().st_size / 3)


# --- the page -----------------------------------------------------------------------------------------------------

_POLICY = "default-src 'none'; img-src data: 'self' file:; media-src data: 'self' file:; style-src 'unsafe-inline'"


def page_frame(title: str, body: str, footer: str = "", style: str = "", first: str = "") -> str:
    """A whole page around its body, offline and without scripts; ``first`` stands before all else, for keyboards."""
    common = files("metastable.report").joinpath("style.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escaped(title)}</title>
<link rel="icon" href="data:,">
<style>
{common}{style}</style>
</head>
<body>
{first}
<main>
{body}
</main>
{footer}
</body>
</html>
"""


# --- text ---------------------------------------------------------------------------------------------------------


def escaped(value: Any) -> str:
    """Text as HTML."""
    return html.escape(str(value))


def paragraphs(text: str) -> str:
    """Text with empty lines between its paragraphs."""
    return "".join(f"<p>{escaped(p)}</p>" for p in text.split("\n\n") if p.strip())


def sentence(text: str) -> str:
    """Text that begins with a capital, unless it is a formula, and ends with one full stop, as HTML.

    >>> sentence("few instances: 3 of 20"), sentence("beta = 9"), sentence("")
    ('Few instances: 3 of 20.', 'beta = 9.', '')
    """
    words = text.split(maxsplit=2)
    if not words:
        return ""
    formula = len(words[0]) == 1 or "=" in "".join(words[:2])
    first = text.strip() if formula else words[0][:1].upper() + text.strip()[1:]
    return escaped(first.rstrip(".")) + "."


_SIGNS = {
    r"\top": "T",
    r"\langle": "\N{MATHEMATICAL LEFT ANGLE BRACKET}",
    r"\rangle": "\N{MATHEMATICAL RIGHT ANGLE BRACKET}",
    r"\lambda": "\N{GREEK SMALL LETTER LAMDA}",
    r"\varphi": "\N{GREEK SMALL LETTER PHI}",
    r"\beta": "\N{GREEK SMALL LETTER BETA}",
    r"\leq": "\N{LESS-THAN OR EQUAL TO}",
    r"\geq": "\N{GREATER-THAN OR EQUAL TO}",
    r"\pm": "\N{PLUS-MINUS SIGN}",
    r"\times": "\N{MULTIPLICATION SIGN}",
}


def spelt_out(text: str) -> str:
    r"""The formulas of a picture's text in letters that every page has.

    >>> spelt_out(r"$\lambda_1(V) > 0$, simple")
    'λ_1(V) > 0, simple'
    """
    for sign, letter in _SIGNS.items():
        text = text.replace(sign, letter)
    return text.replace("$", "")


def chip(word: str, text: str = "") -> str:
    """A status as a coloured word, or as ``text`` in its colour."""
    return f'<span class="status {word.replace(" ", "-")}">{escaped(text or word)}</span>'


def number(value: float) -> str:
    """A number in at most four digits.

    >>> number(-0.000123456)
    '−0.0001235'
    """
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def details(title: str, body: str, name: str = "") -> str:
    """What is folded until it is wanted; ``title`` and ``body`` are HTML."""
    place = f' id="{name}"' if name else ""
    return f"<details{place}><summary>{title}</summary>{body}</details>" if body else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], label: str) -> str:
    """A plain table whose cells stand below each other where the screen is narrow."""
    head = "".join(f'<th scope="col">{escaped(c)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f'<td data-label="{escaped(c)}">{escaped(v)}</td>' for c, v in zip(columns, row)) + "</tr>"
        for row in rows
    )
    return (
        f'<table class="stacked" aria-label="{escaped(label)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def picture(path: Path, alt: str, caption: str, media: Media) -> str:
    """A figure with its caption (HTML); where it lies beside the page it opens by itself when it is touched."""
    width = _points(path)
    size = f' width="{_PIXELS * width:.0f}"' if width else ""
    kind = "image/png" if path.suffix == ".png" else "image/svg+xml"
    image = f'<img src="{media.address(path, kind)}" alt="{escaped(alt)}"{size} loading="lazy">'
    whole = media.whole(path)
    image = f'<a class="whole" href="{whole}">{image}</a>' if whole else image
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def film(path: Path, label: str, caption: str, media: Media) -> str:
    """A film with controls and its caption (HTML); it does not play by itself. Where a page has no room: a word."""
    address = media.film(path)
    shown = (
        f'<video controls muted playsinline loop preload="metadata" width="400" aria-label="{escaped(label)}" '
        f'src="{address}"></video>'
        if address
        else '<p class="soft">Left out to keep this file small: the film lies in the folder of the records.</p>'
    )
    return f"<figure>{shown}<figcaption>{caption}</figcaption></figure>"


def _points(path: Path) -> float:
    """The width of an SVG of matplotlib's in points, 0 if it does not say."""
    with path.open("rb") as file:
        head = file.read(2000).decode(errors="replace")
    _, found, after = head.partition('width="')
    points = after.partition("pt")[0]
    return float(points) if found and points.replace(".", "", 1).isdigit() else 0.0
