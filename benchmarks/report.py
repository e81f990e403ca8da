"""Tables for the eye, and RESULTS.md."""

from pathlib import Path

from benchmarks import plot
from benchmarks.harness import OURS, Goal, Row, Table


def seconds(value: float) -> str:
    """A time with three digits and a unit."""
    if value != value:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size or unit == "us":
            return f"{value / size:,.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
    raise AssertionError


def _line(row: Row, ours: float) -> list[str]:
    if row.absent:
        return [row.engine, "-", "-", "-", "-", f"left out: {row.absent}"]
    note = row.note
    if row.share < 0.999:
        note = f"{note}; timed on {100 * row.share:.3g}% of the work, scaled".lstrip("; ")
    against = "1" if row.engine == OURS else _number(row.seconds / ours, "")
    agreed = f"{row.error:.0e} (of {row.tolerance:.0e})" if row.error == row.error else "-"
    return [row.engine, seconds(row.seconds), against, agreed, f"{row.megabytes:,.0f} MB", note]


HEAD = ["engine", "time", "time / ours", "difference (allowed)", "peak memory", "note"]


def tables(table: Table) -> list[str]:
    """The tables of a workload, case by case, in Markdown."""
    lines = [f"## {table.name}: {table.workload.title}", ""]
    if table.workload.note:
        lines += [table.workload.note, ""]
    for key, rows in {}.items() if table.workload.grid else table.rows.items():
        ours = next((row.seconds for row in rows if row.engine == OURS and not row.absent), float("nan"))
        lines += [f"**{table.cases[key]}**", "", *markdown(HEAD, [_line(row, ours) for row in rows]), ""]
    if table.workload.grid:
        lines += [*grid(table), ""]
    if table.failure:
        lines += [f"**Failed: {table.failure}** Nothing was timed from there on.", ""]
    return lines


def grid(table: Table) -> list[str]:
    """One line per engine: its time in every case, and the exponent of n."""
    sizes = [f"n = {case['n']:,}" for case in table.cases.values()]
    rows = []
    for name, (n, times) in plot.curves(table).items():
        cells = {f"n = {int(k):,}": seconds(t) for k, t in zip(n, times)}
        rows.append([name, *(cells.get(size, "-") for size in sizes), f"{plot.slope(n, times):.2f}"])
    return markdown(["engine", *sizes, "slope"], rows)


def markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table whose columns also line up as plain text."""
    widths = [max(len(line[k]) for line in [head, *rows]) for k in range(len(head))]
    lined = ["| " + " | ".join(word.ljust(w) for word, w in zip(line, widths)) + " |" for line in [head, *rows]]
    return [lined[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lined[1:]]


def goals(measured: list[Table], quick: bool) -> list[str]:
    """goal / measured / met, from the numbers of this run; small sizes are not judged."""
    rows = [_judged(table, goal, quick) for table in measured for goal in table.workload.goals]
    return ["## Goals", "", *markdown(["workload", "what", "goal", "measured", "met"], rows), ""]


def _judged(table: Table, goal: Goal, quick: bool) -> list[str]:
    asked = f"{'at least' if goal.at_least else 'at most'} {_number(goal.bound, goal.unit)}"
    try:
        value = goal.measure(table)
    except KeyError:  # its engine or case is not there
        return [table.name, goal.text, asked, "not measured", "-"]
    met = value >= goal.bound if goal.at_least else value <= goal.bound
    return [table.name, goal.text, asked, _number(value, goal.unit), "-" if quick else "yes" if met else "no"]


def _number(value: float, unit: str) -> str:
    if value != value:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}{unit}"
    return f"{value:.3g}{unit}"


def machine(facts: dict[str, str], limits: dict[str, float]) -> list[str]:
    """What it was measured on."""
    rows = [[name, value] for name, value in facts.items()]
    rows += [[f"peak {name}", f"{rate / 1e9:.3g} G/s"] for name, rate in limits.items()]
    return ["## Machine", "", *markdown(["fact", "value"], rows), ""]


def write(path: Path, facts: dict[str, str], limits: dict[str, float], measured: list[Table], quick: bool) -> None:
    """RESULTS.md: goals first, then every workload, then the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["# Benchmark results", "", "Written by `python -m benchmarks`; times are the best of several interleaved"]
    lines += ["rounds, each engine in a process of its own, after their answers were compared.", ""]
    if quick:
        lines += ["**A quick trial with small sizes: its ratios mean nothing.**", ""]
    lines += goals(measured, quick)
    for table in measured:
        lines += tables(table)
        if table.workload.grid and table.rows:
            plot.draw(table, path.with_name("cost.svg"))
            lines += ["![cost against n](cost.svg)", ""]
    lines += machine(facts, limits)
    path.write_text("\n".join(lines).rstrip() + "\n")
