"""Code of the pages: whole programs, parts of the program that docs/index.md shows, and commands of a shell."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.wheel import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: The page with the program that a part belongs to, and the place of the part in it.
FRAME_PAGE = "docs/index.md"
_PLACE = "    ...\n"
_FENCE = re.compile(
    r"(?:<!-- needs: (?P<needs>[^>]*) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_SPAN = re.compile(r"`((?:\.venv/bin/)?mnemic [^`]*)`")
_COMMAND = re.compile(r"(?:^|[|;&(]\s*|\s)(?:\.venv/bin/)?mnemic\s+(?P<words>[^|;&>\n]*)", re.MULTILINE)
#: Names in parts that stand for the reader's own objects.
YOURS = ["PROMPT", "answer", "answer_again", "client", "config", "given", "graph", "model", "revision"]
YOURS += ["source", "state"]


@dataclass(frozen=True)
class Snippet:
    """A block of code of a page."""

    place: str
    language: str
    code: str
    #: What a program needs beside Mnemic; None if the tests can run it.
    needs: str | None

    @property
    def is_whole(self) -> bool:
        """Whether it begins with its imports, and so is a program."""
        return self.code.startswith(("import ", "from "))

    @property
    def file_name(self) -> str:
        return re.sub(r"\W", "_", self.place) + ".py"


def snippets(*languages: str) -> list[Snippet]:
    found: list[Snippet] = []
    for page in PAGES:
        text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
        for block in _FENCE.finditer(text):
            line = text.count("\n", 0, block.start("code"))
            if block["language"] in languages:
                found.append(Snippet(f"{name}:{line}", block["language"], block["code"], block["needs"]))
    return found


def write_programs(into: Path) -> dict[str, Snippet]:
    """Write each Python snippet as a program, a part at its place in the frame, and return them by their files."""
    python = snippets("python")
    (frame,) = [each.code for each in python if each.place.startswith(FRAME_PAGE)]
    yours = "".join(f"    {name}: Any = None,\n" for name in YOURS)
    frame = frame.replace("**yours: Any", f"\n{yours}", 1)
    assert frame.count(_PLACE) == 1
    written: dict[str, Snippet] = {}
    for each in python:
        code = each.code
        if not each.is_whole:
            code = frame.replace(_PLACE, textwrap.indent(code, "    "))
        (into / each.file_name).write_text(code, encoding="utf-8")
        written[each.file_name] = each
    return written


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the words after each `mnemic`, in blocks and in lines of text, with the page."""
    for block in snippets("sh", "console", "bash"):
        for found in _COMMAND.finditer(block.code.replace("\\\n", " ")):
            yield block.place, shlex.split(found["words"], comments=True)
    for page in PAGES:
        for span in _SPAN.findall(page.read_text(encoding="utf-8")):
            for found in _COMMAND.finditer(span):
                yield f"{page.name}: {span}", found["words"].split()
