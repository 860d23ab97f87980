"""Settings of Sphinx for the pages of docs/ and the reference of the public names: `make docs`."""

from typing import Any

from mnemic import __version__

project = "Mnemic"
release = __version__
html_title = f"Mnemic {release}"
html_theme = "furo"

# the source is the whole checkout, because pages link to files of the code
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"]
exclude_patterns = [".*", "build", "tests", "models", "examples"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # mermaid, which GitHub draws

default_role = "code"  # one backtick in a docstring, as in Markdown
autodoc_member_order = "bysource"


def keep_first_line(  # noqa: PLR0913 - Sphinx calls it with these arguments
    app: Any, kind: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep the first line of an attribute's docstring; napoleon would read the text before a colon as its type."""
    if kind in ("attribute", "property"):
        lines.insert(0, "\\ ")  # shows as nothing


def setup(app: Any) -> None:
    """Connect the changes of docstrings to Sphinx."""
    app.connect("autodoc-process-docstring", keep_first_line, priority=400)  # before napoleon
