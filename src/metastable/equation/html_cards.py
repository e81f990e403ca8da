"""Cards for notebooks: a title, a few facts and a small picture as inline SVG, readable on light and dark pages."""

from collections.abc import Sequence
from html import escape

import numpy as np

_SIDE = 112.0  # of a picture, in pixels
_MOST_CELLS = 24  # rows and columns of a matrix that are drawn
_MOST_DOTS = 400
_BLUE, _RED, _INK = (0x2F, 0x5D, 0xA8), (0xC2, 0x41, 0x3A), "#2f5da8"
_CARD = (
    "display:inline-flex;flex-wrap:wrap;gap:14px;align-items:flex-start;"
    "border:1px solid rgba(128,128,128,.35);border-radius:8px;"
    "padding:10px 14px;font:13px/1.45 system-ui,sans-serif;max-width:44em"
)
_CELL = "padding:0 12px 0 0;text-align:left;vertical-align:top;border:0;background:none"


def card(title: str, facts: Sequence[tuple[str, str]], picture: str = "") -> str:
    """HTML of a card; ``facts`` are pairs of words (empty ones are left out), ``picture`` is SVG.

    >>> "<b>Weights</b>" in card("Weights", [("heads", "1")])
    True
    """
    rows = "".join(
        f"<tr style='background:none'><td style='{_CELL};opacity:.65;white-space:nowrap'>{escape(name)}</td>"
        f"<td style='{_CELL}'>{escape(text)}</td></tr>"
        for name, text in facts
        if text
    )
    table = f"<table style='border-collapse:collapse;margin:4px 0 0;border:0'>{rows}</table>"
    return f"<div style='{_CARD}'>{picture}<div style='flex:1 1 18em'><b>{escape(title)}</b>{table}</div></div>"


def svg(shapes: str, label: str) -> str:
    """An SVG picture with words for those who cannot see it."""
    return (
        f"<svg role='img' aria-label='{escape(label, quote=True)}' width='{_SIDE:.0f}' height='{_SIDE:.0f}' "
        f"viewBox='0 0 {_SIDE:.0f} {_SIDE:.0f}' style='flex:none'>{shapes}</svg>"
    )


def matrix_picture(A: np.ndarray, label: str) -> str:
    """A matrix (m, n) as cells: blue above 0, red below; of a large one some rows and columns."""
    A = np.nan_to_num(np.asarray(A, float))
    A = A[np.ix_(*(np.unique(np.linspace(0, size - 1, min(size, _MOST_CELLS)).astype(int)) for size in A.shape))]
    top = float(np.abs(A).max(initial=0.0)) or 1.0
    side = _SIDE / max(A.shape)
    cells = [
        f"<rect x='{j * side:.2f}' y='{i * side:.2f}' width='{side:.2f}' height='{side:.2f}' fill='{_shade(v / top)}'/>"
        for i, row in enumerate(A)
        for j, v in enumerate(row)
    ]
    return svg("".join(cells), label)


def _shade(value: float) -> str:
    full = _BLUE if value >= 0 else _RED
    share = min(1.0, abs(value))
    red, green, blue = (round(246 + share * (c - 246)) for c in full)
    return f"rgb({red},{green},{blue})"


def curve_picture(values: np.ndarray, label: str) -> str:
    """Values (T,) as a line, the least at the bottom; where all are above 0 and span 100, by their logarithms."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if values.size and values.min() > 0 and values.max() > 100 * values.min():
        values = np.log(values)
    values = values[np.unique(np.linspace(0, max(0, values.size - 1), 200).astype(int))] if values.size else values
    low, span = (values.min(), np.ptp(values) or 1.0) if values.size else (0.0, 1.0)
    across = np.linspace(6, _SIDE - 6, max(values.size, 1))
    points = " ".join(f"{a:.1f},{_SIDE - 6 - (_SIDE - 12) * (v - low) / span:.1f}" for a, v in zip(across, values))
    side = f"{_SIDE - 1:.0f}"
    frame = f"<rect x='.5' y='.5' width='{side}' height='{side}' fill='none' stroke='gray' stroke-opacity='.5'/>"
    return svg(f"{frame}<polyline points='{points}' fill='none' stroke='{_INK}' stroke-width='1.6'/>", label)


def token_picture(x: np.ndarray, sphere: bool, label: str) -> str:
    """Tokens (n, d) by their first two coordinates, a third one by size; within the unit circle on a sphere."""
    x = np.asarray(x, float)[:_MOST_DOTS]
    across = x[:, 0]
    up = x[:, 1] if x.shape[1] > 1 else np.zeros(len(x))
    depth = np.clip(x[:, 2], -1, 1) if x.shape[1] == 3 and sphere else np.zeros(len(x))
    middle, reach = (0.0, 0.0), 1.0
    if not sphere:
        middle = ((across.max() + across.min()) / 2, (up.max() + up.min()) / 2)
        reach = max(float(np.ptp(across)), float(np.ptp(up))) / 2 or 1.0
    half = _SIDE / 2
    scale = (half - 6) / reach
    ring = f"<circle cx='{half}' cy='{half}' r='{half - 6}' fill='none' stroke='gray' stroke-opacity='.5'/>"
    dots = [
        f"<circle cx='{half + scale * (a - middle[0]):.1f}' cy='{half - scale * (b - middle[1]):.1f}' "
        f"r='{2.6 + c:.1f}' fill='{_INK}' fill-opacity='{0.65 + 0.3 * c:.2f}'/>"
        for a, b, c in zip(across, up, depth)
    ]
    return svg((ring if sphere else "") + "".join(dots), label)
