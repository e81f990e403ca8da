"""Sphinx: pages in MyST markdown, formulas as MathML (no network and no LaTeX), the API from docstrings."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

from reachable import unreachable  # noqa: E402

from metastable import __version__  # noqa: E402
from metastable.models.zoo import fetch  # noqa: E402

project = "metastable"
author = "The metastable authors"
copyright = "The metastable authors. MIT licence"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "mathml",
    "parts",
    "verdicts",
    "plain_docstrings",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints", "README.md"]
templates_path = []

# pages
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # notebooks hold no outputs: they are executed when they or the cache are new
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_execution_excludepatterns = []
for notebook, why in unreachable(fetch).items():
    print(f"{notebook} is not executed: {why}")
    nb_execution_excludepatterns.append(notebook)

# API
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "code"
suppress_warnings = ["ref.python"]  # words for types in docstrings are words, not links

# looks
html_theme = "furo"
html_title = f"metastable {version}"
html_static_path = ["_static"]
html_css_files = ["metastable.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2f5da8", "color-brand-content": "#2f5da8"},
    "dark_css_variables": {"color-brand-primary": "#8ab0ea", "color-brand-content": "#8ab0ea"},
}
