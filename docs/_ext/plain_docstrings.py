"""Docstrings are plain text with formulas such as |x|: what reStructuredText would take for markup is escaped."""

import re
from typing import Any

from sphinx.application import Sphinx

_CODE_OR_BAR = re.compile(r"(``.*?``)|\|")


def escape_bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[k] = _CODE_OR_BAR.sub(lambda found: found[1] or r"\|", line)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
