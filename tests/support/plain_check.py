"""Check that the project is written plainly: `python -m tests.support.plain_check [--worst N]`, part of `make check`.

It counts words of a private dialect in docstrings, comments and pages, and folded code in modules. A figure above its
limit ends the check with exit status 1. `--worst N` lists the places to rewrite first.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: Words that this project once used ten times as often as comparable ones, with the reason to avoid each group.
DIALECT: Final = {
    "what who whom whose whoever whatever": "a clause in place of a noun: name the thing",
    "somebody someone nobody anybody everybody": "an actor without a role: caller, host, user, worker, model",
    "beside stand stands stood": "an image in place of a relation: next to, with, is in",
    "tell tells told say says said ask asks asked": "speech of a thing that does not speak: return, report, record",
}
_WORD: Final = re.compile(r"[A-Za-z']+")
_DIALECT_WORD: Final = re.compile(rf"\b(?:{'|'.join(' '.join(DIALECT).split())})\b", re.IGNORECASE)
_CODE_BLOCK: Final = re.compile(r"```.*?```", re.DOTALL)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: Folders whose Python is not part of the package.
_NOT_PACKAGED: Final = ("tests/", "benchmarks/", "examples/", "docs/", "build/")

#: Highest figure for each 1,000 words, or 1,000 lines of code.
LIMITS: Final = {
    "dialect in docstrings and comments": 6.0,
    "dialect in pages": 12.0,
    "comprehensions": 18.0,
    "comprehensions within another": 0.5,
    "conditional expressions": 10.0,
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Line with words of the dialect or with folded code."""

    path: str
    line: int
    text: str
    hits: int


@dataclass
class Counts:
    """Words, lines and findings of all files that were read."""

    prose_words: int = 0
    prose_dialect: int = 0
    page_words: int = 0
    page_dialect: int = 0
    lines: int = 0
    comprehensions: int = 0
    nested: int = 0
    conditionals: int = 0
    places: list[Place] = field(default_factory=list)

    def add_module(self, path: str, source: str) -> None:
        """Count the docstrings, comments and folded code of a module."""
        tree = ast.parse(source)
        for line, text in [*_docstring_lines(tree), *_comments(source)]:
            self._add_prose(path, line, text)
        self.lines += source.count("\n")
        for node in ast.walk(tree):
            self._add_node(path, node)

    def add_sql(self, path: str, source: str) -> None:
        """Count the comments of an SQL file."""
        for number, line in enumerate(source.splitlines(), 1):
            _, is_comment, text = line.partition("--")
            if is_comment:
                self._add_prose(path, number, text)

    def add_page(self, path: str, source: str) -> None:
        """Count the words of a Markdown page outside of code blocks."""
        prose = _CODE_BLOCK.sub(_as_blank_lines, source)
        for number, text in enumerate(prose.splitlines(), 1):
            hits = self._place(path, number, text)
            self.page_dialect += hits
            self.page_words += len(_WORD.findall(text))

    def figures(self) -> dict[str, float]:
        """Return each figure of `LIMITS`."""
        values = [
            _per_thousand(self.prose_dialect, self.prose_words),
            _per_thousand(self.page_dialect, self.page_words),
            _per_thousand(self.comprehensions, self.lines),
            _per_thousand(self.nested, self.lines),
            _per_thousand(self.conditionals, self.lines),
        ]
        return dict(zip(LIMITS, values, strict=True))

    def _add_prose(self, path: str, line: int, text: str) -> None:
        self.prose_dialect += self._place(path, line, text)
        self.prose_words += len(_WORD.findall(text))

    def _add_node(self, path: str, node: ast.AST) -> None:
        if isinstance(node, ast.IfExp):
            self.conditionals += 1
        if not isinstance(node, _COMPREHENSIONS):
            return
        self.comprehensions += 1
        inner = [child for child in ast.walk(node) if isinstance(child, _COMPREHENSIONS)]
        if len(inner) > 1:
            self.nested += 1
            self.places.append(Place(path=path, line=node.lineno, text="comprehension within another", hits=2))

    def _place(self, path: str, line: int, text: str) -> int:
        hits = len(_DIALECT_WORD.findall(text))
        if hits:
            self.places.append(Place(path=path, line=line, text=text.strip(), hits=hits))
        return hits


def _docstring_lines(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            assert isinstance(first.value, ast.Constant)
            for offset, line in enumerate(str(first.value.value).splitlines()):
                yield first.lineno + offset, line


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def _as_blank_lines(block: re.Match[str]) -> str:
    return "\n" * block.group().count("\n")


def _per_thousand(hits: int, total: int) -> float:
    return 1000 * hits / max(total, 1)


def count_checkout(root: Path) -> Counts:
    """Count all files that git tracks in a checkout."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "*.py", "*.md", "*.sql"], capture_output=True, text=True, check=True
    )
    counts = Counts()
    for name in listed.stdout.splitlines():
        path = root / name
        if path.is_file() and not path.is_symlink():
            _add_file(counts, name, path.read_text(encoding="utf-8"))
    return counts


def _add_file(counts: Counts, name: str, source: str) -> None:
    is_page = name.startswith("docs/") or "/" not in name
    if name.endswith(".py") and not name.startswith(_NOT_PACKAGED):
        counts.add_module(name, source)
    elif name.endswith(".sql"):
        counts.add_sql(name, source)
    elif name.endswith(".md") and is_page:
        counts.add_page(name, source)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures and the worst places; return 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(description="Check that the project is written plainly.")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N places with the most findings")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="checkout to read")
    options = parser.parse_args(arguments)
    counts = count_checkout(options.root)
    is_plain = True
    for name, figure in counts.figures().items():
        is_within = figure <= LIMITS[name]
        is_plain = is_plain and is_within
        print(f"{name}: {figure:.1f} of 1,000, limit {LIMITS[name]:g}{'' if is_within else ': TOO MANY'}")
    places = sorted(counts.places, key=lambda place: (-place.hits, place.path, place.line))
    for place in places[: options.worst]:
        print(f"  {place.path}:{place.line}  {place.text[:120]}")
    if not is_plain:
        print("Words to avoid, and the reason:")
        for words, reason in DIALECT.items():
            print(f"  {words}: {reason}")
    return 0 if is_plain else 1


if __name__ == "__main__":
    sys.exit(main())
