"""Verdicts as HTML tables, theorems apart from observations and readings, and as a Markdown table for documents."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from metastable.report.experiment_record import Record, command
from metastable.report.sections import chip, details, escaped, number, sentence
from metastable.theory.verdicts import STATUSES, Row, Verdict

# kind -> (heading, what such a claim is)
KINDS: dict[str, tuple[str, str]] = {
    "theorem": ("Theorems", "proved; one that fails means an error, in the theorem or in the code"),
    "conjecture": ("Conjectures", "stated without a proof"),
    "observation": ("Observations", "seen in a figure or measured, and claimed in words"),
    "reading": ("Readings", "words that had to be made precise first"),
}
_COLUMNS = ("Verdict", "Claim and criterion", "Measured", "Instances")


def counts(verdicts: Iterable[Verdict]) -> str:
    """How many of each status, as coloured words."""
    found = Counter(v.status for v in verdicts)
    many = {"holds": "hold", "fails": "fail"}
    words = {word: word if found[word] == 1 else many.get(word, word) for word in STATUSES}
    return " ".join(chip(word, f"{found[word]} {words[word]}") for word in STATUSES if found[word])


def overview(verdicts: Sequence[Verdict]) -> str:
    """Kinds of claims against statuses, in numbers."""
    head = "".join(f'<th scope="col">{chip(word)}</th>' for word in STATUSES)
    body = ""
    for kind, (heading, meaning) in KINDS.items():
        found = Counter(v.status for v in verdicts if v.kind == kind)
        if found:
            cells = "".join(f"<td>{found[word] or '·'}</td>" for word in STATUSES)
            body += f'<tr><th scope="row">{heading} <span class="soft">{meaning}</span></th>{cells}</tr>'
    return (
        '<table class="overview" aria-label="Kinds of claims against statuses"><thead><tr><td></td>'
        f"{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def folded(record: Record) -> str:
    """All verdicts of an experiment in a table that opens."""
    title = f"Verdicts {counts(record.verdicts)}" if record.verdicts else "No verdicts"
    return details(title, verdict_table([(record, v) for v in record.verdicts]))


def verdict_table(found: Sequence[tuple[Record, Verdict]], pages: Mapping[str, str] | None = None) -> str:
    """Verdicts grouped by their kind; with ``pages``, each with a link to its experiment."""
    groups = []
    for kind, (heading, meaning) in KINDS.items():
        rows = "".join(_rows(record, v, pages) for record, v in found if v.kind == kind)
        if rows:
            title = f'<tr class="group"><th colspan="4" scope="rowgroup">{heading} <span>{meaning}</span></th></tr>'
            groups.append(f"<tbody>{title}{rows}</tbody>")
    head = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    return f'<table class="wide verdicts"><thead><tr>{head}</tr></thead>{"".join(groups)}</table>' if groups else ""


def _rows(record: Record, v: Verdict, pages: Mapping[str, str] | None) -> str:
    where = f' <a href="{pages[record.name]}">{escaped(record.name)}</a>' if pages else ""
    claim = f'{escaped(v.claim)} <span class="soft">({escaped(v.source)}){where}</span>'
    more = f'<span class="criterion">Criterion: {sentence(v.criterion)} {sentence(v.notes)}</span>'
    more += "" if v.rows else _seeds(v, record)
    first = _cells(chip(v.status), claim + more, v)
    return f"<tr>{first}</tr>" + "".join(_reading(row, record) for row in v.rows)


def _reading(row: Row, record: Record) -> str:
    """One row of a verdict, with the instances that break it: where one reading fails another may hold."""
    text = f'{escaped(row.reading)}<span class="criterion">{sentence(row.notes)}</span>{_seeds(row, record)}'
    return f'<tr class="reading">{_cells(chip(row.status), text, row)}</tr>'


def _cells(status: str, text: str, v: Verdict | Row) -> str:
    return (
        f'<td>{status}</td><td>{text}</td><td class="number" data-label="Measured:">{measured(v)}</td>'
        f'<td class="number" data-label="Instances:">{_instances(v)}</td>'
    )


def _instances(v: Verdict | Row) -> str:
    """How many satisfied the hypotheses, of how many."""
    return f"{v.eligible:,}" if v.eligible == v.instances else f"{v.eligible:,} of {v.instances:,}"


def measured(v: Verdict | Row) -> str:
    """The measured number with its interval."""
    if not math.isfinite(v.measured):
        return "\N{EN DASH}"
    low, high = v.interval
    known = math.isfinite(low) and math.isfinite(high)
    ends = f' <span class="interval">[{number(low)}, {number(high)}]</span>' if known else ""
    return f"{number(v.measured)}{ends}"


def _seeds(v: Verdict | Row, record: Record) -> str:
    """Instances that break the claim, and how to replay the first."""
    if not v.failing_seeds:
        return ""
    seeds = ", ".join(map(str, v.failing_seeds[:200])) + (", ..." if len(v.failing_seeds) > 200 else "")
    again = command([record.name], record.preset, {"instances": 1, "seed": v.failing_seeds[0]})
    few = len(v.failing_seeds)
    return details(
        f"{few} instance{'s break' if few > 1 else ' breaks'} it",
        f"<p>Seeds {seeds}. Replay one: <code>{escaped(again)} --out replay</code></p>",
    )


def markdown(records: Iterable[Record], title: str) -> str:
    """All verdicts as a Markdown document, for keeping beside the code."""
    lines = [f"# {title}", ""]
    for record in records:
        lines += [f"## {record.about['title']} (`{record.name}`)", "", f"{record.about['source']}.", ""]
        lines += ["| verdict | kind | claim | measured, interval | instances |", "| --- | --- | --- | --- | --- |"]
        for v in record.verdicts:
            lines.append(_line(v.status, v.kind, v.claim, v))
            lines += [_line(row.status, "", f"row: {row.reading}", row) for row in v.rows]
        lines.append("")
    return "\n".join(lines)


def _line(status: str, kind: str, text: str, v: Verdict | Row) -> str:
    low, high = v.interval
    value = f"{v.measured:.4g} [{low:.4g}, {high:.4g}]" if math.isfinite(v.measured) else ""
    return f"| {status} | {kind} | {text.replace('|', '/')} | {value} | {_instances(v)} |"
