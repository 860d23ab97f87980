"""One mutant: a few lines of one function or SQL object made wrong; and finding these lines in any checkout."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

LIST = Path(__file__).with_name("mutants.jsonl")

_STATEMENT = re.compile(r"-- (\w+) --$")
_CREATE = re.compile(r"create (?:or replace )?(function|table|view|trigger|policy|index|unique index) (\w+)")
_TOP_LEVEL = re.compile(r"(create|alter|drop|grant|revoke|insert|update|do|comment)\b")


@dataclass(kw_only=True)
class Mutant:
    """The lines `old` become `new`; they are the `nth` of `count` equal ones in the function.

    `function` is the qualified name of a function or class, the name of a statement, or kind and name of an SQL object.
    """

    id: str
    path: str
    function: str
    operator: str
    old: list[str]
    new: list[str]
    nth: int = 0
    count: int = 1
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Edit:
    """Where a mutant goes: lines of a file, counted from 0."""

    path: str
    first: int
    mutant: Mutant

    @property
    def lines(self) -> set[tuple[str, int]]:
        """Paths and numbers of the lines that the mutant changes."""
        return {(self.path, self.first + n) for n in range(len(self.mutant.old))}


class NotFoundError(Exception):
    """The lines of a mutant stand nowhere, or in several places."""


def load_mutants(path: Path = LIST) -> list[Mutant]:
    """Return the list, in its order."""
    return [Mutant(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def save_mutants(mutants: Sequence[Mutant], path: Path = LIST) -> None:
    """Write the list."""
    lines = (json.dumps(asdict(mutant), ensure_ascii=False) for mutant in mutants)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def product_files(tree: Path, suffix: str) -> Iterator[str]:
    """Files of the product, relative to the checkout."""
    rooms = sorted(path.name for path in (tree / "mnemic").iterdir() if path.is_symlink())
    for room in rooms:
        yield from sorted(str(path.relative_to(tree)) for path in (tree / room).rglob(f"*{suffix}"))


def find(tree: Path, mutant: Mutant) -> list[Edit]:
    """All places of the mutant: one for Python; for SQL each copy, as a schema beside its migrations.

    Looked for in the same function of the same file, then in a function of that name in any file, then anywhere.

    Raises:
        NotFoundError: it stands nowhere, or it cannot be said where.
    """
    suffix = Path(mutant.path).suffix
    blocks = {path: list(_blocks(tree / path, mutant)) for path in product_files(tree, suffix)}
    name = mutant.function.rpartition(".")[2]
    same_file = [
        (path, at) for path, at, function in _flat(blocks) if (path, function) == (mutant.path, mutant.function)
    ]
    same_name = [(path, at) for path, at, function in _flat(blocks) if name and function.rpartition(".")[2] == name]
    anywhere = [(path, at) for path, at, _ in _flat(blocks)]
    for places in (same_name, anywhere) if suffix == ".sql" else (same_file, same_name, anywhere):
        files = {path: [at for other, at in places if other == path] for path, _ in places}
        if len(files) > 1 and (suffix == ".py" or places is anywhere):
            raise NotFoundError("ambiguous: " + ", ".join(files))
        if files:
            return [Edit(path, _choose(equal, mutant), mutant) for path, equal in files.items()]
    raise NotFoundError("not found")


def apply(tree: Path, edits: Sequence[Edit]) -> dict[str, str]:
    """Write the mutants into the checkout; return the files as they were, for `restore`."""
    originals = {edit.path: (tree / edit.path).read_text(encoding="utf-8") for edit in edits}
    for path, text in originals.items():
        lines = text.splitlines()
        for edit in sorted((edit for edit in edits if edit.path == path), key=lambda edit: -edit.first):
            first = lines[edit.first]
            indent = first[: len(first) - len(first.lstrip())]
            lines[edit.first : edit.first + len(edit.mutant.old)] = [indent + line for line in edit.mutant.new]
        (tree / path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return originals


def restore(tree: Path, originals: dict[str, str]) -> None:
    """Restore the files that `apply` returned."""
    for path, text in originals.items():
        (tree / path).write_text(text, encoding="utf-8")


def functions(path: Path) -> list[str]:
    """For each line of a file the function, class or SQL object that it belongs to; '' for none."""
    text = path.read_text(encoding="utf-8")
    names = [""] * (text.count("\n") + 1)
    if path.suffix == ".py":
        _name_lines(ast.parse(text), "", names)
        return names
    name = ""
    for number, line in enumerate(text.splitlines()):
        if statement := _STATEMENT.match(line):
            name = statement[1]
        elif created := _CREATE.match(line):
            on = re.search(r"\bon (\w+)", line) if created[1] in ("trigger", "policy") else None
            name = f"{created[1]} {created[2]}" + (f" on {on[1]}" if on else "")
        elif altered := re.match(r"alter table (\w+)", line):
            name = f"table {altered[1]}"
        elif _TOP_LEVEL.match(line):
            name = ""
        names[number] = name
    return names


def _name_lines(node: ast.AST, prefix: str, names: list[str]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{prefix}.{child.name}".lstrip(".")
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            names[first - 1 : child.end_lineno] = [inner] * ((child.end_lineno or first) - first + 1)
        _name_lines(child, inner, names)


def _blocks(path: Path, mutant: Mutant) -> Iterator[tuple[int, str]]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    old = [line.strip() for line in mutant.old]
    starts = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    if starts:
        names = functions(path)
        yield from ((at, names[at]) for at in starts)


def _flat(blocks: dict[str, list[tuple[int, str]]]) -> Iterator[tuple[str, int, str]]:
    return ((path, at, function) for path, found in blocks.items() for at, function in found)


def _choose(found: list[int], mutant: Mutant) -> int:
    if len(found) == 1 and mutant.count == 1:
        return found[0]
    if len(found) == mutant.count:
        return found[mutant.nth]
    raise NotFoundError(f"ambiguous: {len(found)} equal places")
