"""`{verdicts} NAME`: an experiment as `reproduce --quick` leaves it: what it asks, its leading figure, its verdicts."""

from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from metastable.cli import main
from metastable.report.experiment_record import Record, read

RECORDS = Path(__file__).parents[1] / "_build" / "records" / "papers"


@cache
def record(name: str) -> Record:
    """The record of an experiment; it is made where it is missing."""
    if main(["reproduce", name, "--quick", "--quiet", "--out", str(RECORDS / name)]) not in (0, 1):
        raise RuntimeError(f"metastable reproduce {name} --quick failed")
    return read(RECORDS / name / name)


class Verdicts(Directive):
    """The figure with its caption, and a list of verdicts, each with what was measured."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        found = record(self.arguments[0])
        out: list[nodes.Node] = [nodes.paragraph(text=found.about["text"])]
        if found.leading is not None:
            place = (found.folder / found.leading.file).relative_to(RECORDS.parents[2])
            figure = nodes.figure("", nodes.image(uri=f"/{place}", alt=found.leading.title))
            figure += nodes.caption(text=found.leading.words)
            out.append(figure)
        listed = nodes.bullet_list()
        for verdict in found.verdicts:
            line = nodes.paragraph()
            said = f": {verdict.claim} ({verdict.source}; {verdict.kind}) "
            line += [nodes.strong(text=verdict.status), nodes.Text(said)]
            line += nodes.Text(f"Measured {_number(verdict.measured)} over {verdict.eligible} instances.")
            listed += nodes.list_item("", line)
        return [*out, listed]


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("verdicts", Verdicts)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
