"""`{parts} KIND`: a table of parts, read from the package's own tables, as `metastable list KIND` prints it."""

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from metastable.cli.list_command import table_entries


class Parts(Directive):
    """Names and what they are."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        rows = nodes.tbody()
        for name, does in table_entries(self.arguments[0]).items():
            cells = (nodes.literal(text=name), nodes.Text(does))
            rows += nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (30, 70)), rows, cols=2)
        return [nodes.table("", group)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("parts", Parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
