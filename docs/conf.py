"""Builds the pages of docs/ and the reference of the public names with Sphinx: `make docs`."""

from typing import Any

from mnemic import __version__

project = "Mnemic"
release = __version__
html_title = f"Mnemic {release}"
html_theme = "furo"

# the source is the whole checkout, for pages link to the files that they speak of
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"]
exclude_patterns = [".*", "build", "tests", "models", "examples"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # mermaid, which the repository's own pages draw

default_role = "code"  # one backtick in a docstring, as in Markdown
autodoc_member_order = "bysource"


def keep_first_line(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Napoleon would take what stands before a colon in an attribute's first line for its type."""
    if what in ("attribute", "property"):
        lines.insert(0, "\\ ")  # shows as nothing


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.connect("autodoc-process-docstring", keep_first_line, priority=400)  # before napoleon
