"""Formulas as MathML, which browsers draw themselves: pages work offline, without scripts and without LaTeX."""

from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def formula(text: str, display: bool) -> str:
    """MathML of a formula, with its LaTeX for those who copy it or read it aloud."""
    made = convert(" ".join(text.split()), display="block" if display else "inline")
    return made.replace("<math ", f'<math alttext="{escape(text, quote=True)}" ', 1)


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(formula(node.astext(), display=False))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})</span>')
    translator.body.append(formula(node.astext(), display=True) + "</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
