"""cost.svg: time of one velocity against the number of tokens, with slopes."""

from pathlib import Path

import numpy as np

from benchmarks.harness import Table, is_before

COLOURS = ("#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#666666", "#CC79A7", "#999999", "#009E73")
MARKERS = "os^vDPX*"


def curves(table: Table) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each engine n and seconds, where they were timed."""
    found: dict[str, list[tuple[float, float]]] = {}
    for key, rows in table.rows.items():
        for row in rows:
            if not np.isnan(row.seconds) and not is_before(row.engine):
                found.setdefault(row.engine, []).append((table.cases[key]["n"], row.seconds))
    return {name: tuple(np.array(points).T) for name, points in found.items()}  # type: ignore[misc]


def slope(n: np.ndarray, seconds: np.ndarray) -> float:
    """The exponent of n, from the three largest sizes."""
    return float(np.polyfit(np.log(n[-3:]), np.log(seconds[-3:]), 1)[0]) if len(n) > 1 else float("nan")


def draw(table: Table, path: Path) -> None:
    """The picture of W9."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    ax = figure.subplots()
    for (name, (n, seconds)), colour, marker in zip(curves(table).items(), COLOURS, MARKERS):
        note = table.workload.engines[name].note
        label = f"{name}{note and f' ({note})'}: slope {slope(n, seconds):.2f}"
        ax.loglog(n, seconds, color=colour, marker=marker, ms=5, lw=1.5, label=label)
    ax.set_xlabel("tokens n")
    ax.set_ylabel("seconds for one velocity")
    ax.set_title("One velocity on $S^2$, $\\beta = 9$, float64", fontsize=10)
    ax.grid(True, which="major", color="#dddddd", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=8, frameon=False)
    figure.savefig(path)
