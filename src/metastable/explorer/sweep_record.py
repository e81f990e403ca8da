"""A recorded sweep as a page: pictures of its observables, and its table."""

import html
import tempfile
from pathlib import Path

from metastable.errors import InputError
from metastable.plots.figure_files import save_figure
from metastable.sweeps.sweep_results import SweepTable, read_table

MOST_PICTURES, MOST_ROWS = 6, 200
_STYLE = (
    "body{font:14px/1.4 system-ui,sans-serif;margin:20px;max-width:1100px;color:#1d2126;background:#fff}"
    "svg{max-width:100%;height:auto}figure{margin:18px 0}figcaption{color:#5d6873}"
    "div{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:3px 9px;border-bottom:1px solid #dfe3e8;text-align:right}"
)


def sweep_record(folder: Path, name: str) -> str:
    """The page of a sweep, of an unfinished one with what there is so far."""
    table = read_table(folder, partial=True)
    facts = (
        f"{table['run'].nunique():,} runs, {len(table):,} rows; swept: {', '.join(table.parameters) or 'nothing'}; "
        f"observed: {', '.join(table.observed) or 'nothing'}."
    )
    shown = min(len(table), MOST_ROWS)
    more = f"The first {shown:,} of {len(table):,} rows; the table is table.parquet in {folder}."
    return (
        f"<!doctype html><meta charset=utf-8><title>{html.escape(name)}</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(name)}</h1><p>{html.escape(facts)}</p>"
        + "".join(_picture(table, value) for value in table.observed[:MOST_PICTURES])
        + f"<h2>Table</h2><p>{html.escape(more)}</p><div>{table.head(MOST_ROWS).to_html(border=0, index=False)}</div>"
    )


def _picture(table: SweepTable, value: str) -> str:
    """A heatmap of an observable, or lines where it has no second axis; a sentence where it has neither."""
    for kind in ("heatmap", "lines"):
        try:
            figure = table.plot(kind, value=value, size="page")
        except InputError as error:
            said = str(error)
            continue
        with tempfile.TemporaryDirectory() as place:
            path = save_figure(figure, Path(place) / "picture.svg")
            text = path.read_text(encoding="utf-8")
        return f"<figure>{text[text.index('<svg') :]}<figcaption>{html.escape(value)}</figcaption></figure>"
    return f"<p>{html.escape(value)}: {html.escape(said)}</p>"
