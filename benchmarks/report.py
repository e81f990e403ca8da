"""Tables for the eye, and RESULTS.md."""

from pathlib import Path

from benchmarks import plot
from benchmarks.harness import OURS, Goal, Row, Table
from benchmarks.rounds import Spread


def seconds(value: float) -> str:
    """A time with three digits and a unit."""
    if value != value:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size or unit == "us":
            return f"{value / size:,.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
    raise AssertionError


def _line(row: Row, ours: Row | None, before: Spread | None) -> list[str]:
    if row.absent:
        return [row.engine, *["-"] * (len(HEAD) - 2), f"left out: {row.absent}"]
    note = row.note
    if row.share < 0.999:
        note = f"{note}; timed on {100 * row.share:.3g}% of the work, scaled".lstrip("; ")
    against = "1" if row.engine == OURS else "-" if ours is None or row.seconds != row.seconds else str(row.over(ours))
    agreed = f"{row.error:.0e} (of {row.tolerance:.0e})" if row.error == row.error else "-"
    then = "-" if before is None else str(before)
    return [row.engine, seconds(row.seconds), against, then, agreed, f"{row.megabytes:,.0f} MB", note]


HEAD = ["engine", "best time", "time / ours", "time / before", "difference (allowed)", "peak memory", "note"]


def tables(table: Table) -> list[str]:
    """The tables of a workload, case by case, in Markdown."""
    lines, then = [f"## {table.name}: {table.workload.title}", ""], table.against_before()
    if table.workload.note:
        lines += [table.workload.note, ""]
    for key, rows in {}.items() if table.workload.grid else table.rows.items():
        ours = next((row for row in rows if row.engine == OURS and not row.absent), None)
        shown = [_line(row, ours, then.get((key, row.engine))) for row in rows]
        head, shown = (HEAD, shown) if then else ([*HEAD[:3], *HEAD[4:]], [[*x[:3], *x[4:]] for x in shown])
        lines += [f"**{table.cases[key]}**", "", *markdown(head, shown), ""]
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
    rows = [_judged(table, goal, quick) for table in measured for goal in [*table.workload.goals, *_no_slower(table)]]
    return ["## Goals", "", *markdown(["workload", "what", "goal", "measured", "met"], rows), ""]


def _no_slower(table: Table) -> list[Goal]:
    """Each engine of ours against the version before: the quicker half of the rounds is within a tenth of it."""
    return [
        Goal(f"{case}, {engine}: time over before's (lower quartile)", lambda t, s=spread: s.low, 1.1, False)  # type: ignore[misc]
        for (case, engine), spread in table.against_before().items()
    ]


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


def machine(table: Table) -> list[str]:
    """What it was measured on."""
    rows = [[name, value] for name, value in table.facts.items() if name not in _EACH]
    rows += [[f"peak {name}", f"{rate / 1e9:.3g} G/s"] for name, rate in table.limits.items()]
    return ["## Machine", "", *markdown(["fact", "value"], rows), ""]


_EACH = ("date", "commit")  # facts that stand at every workload


def write(path: Path, measured: list[Table], quick: bool) -> None:
    """RESULTS.md: goals first, then every workload, then the machine of the one measured last."""
    lines = [
        "# Benchmark results",
        "",
        "Written by `python -m benchmarks`: interleaved rounds, each engine in a process of its own, after their",
        "answers were compared. Ratios are medians over the rounds, with their quartiles. Every workload says when and",
        "at which commit it was measured; the numbers themselves are in the folder of the same name.",
        "",
    ]
    if quick:
        lines += ["**A quick trial with small sizes: its ratios mean nothing.**", ""]
    lines += goals(measured, quick)
    for table in measured:
        title, *rest = tables(table)
        lines += [title, "", f"Measured {table.facts['date']} at commit {table.facts['commit']}.", *rest]
        if table.workload.grid and table.rows:
            plot.draw(table, path.with_name("cost.svg"))
            lines += ["![cost against n](cost.svg)", ""]
    lines += machine(max(measured, key=lambda table: table.facts["date"]))
    path.write_text("\n".join(lines).rstrip() + "\n")
