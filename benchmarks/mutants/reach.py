"""Which tests execute a mutant's line: each is marked by a call that writes down the current test, once.

Lighter than coverage.py, whose measure of every line slows the suite and does not follow it into other processes.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.mutants.mutant import Edit, restore
from benchmarks.mutants.suite import Run, run_tests

_FILE = "MUTANTS_REACH"
_PROBE = f"""
import os
_seen = set()
_file = os.open(os.environ.get("{_FILE}", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK)
def hit(name):
    key = f"{{name}}\\t{{os.environ.get('PYTEST_CURRENT_TEST', '')}}\\n"
    if key not in _seen:
        _seen.add(key)
        os.write(_file, key.encode())
"""


def reach(tree: Path, edits: Sequence[Edit], workers: int, notes: Path) -> tuple[dict[str, list[str]], Run]:
    """Runs the whole suite; gives the tests of each mutant, none for one of the schema, and how the tests ended."""
    rows: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for edit in edits:
        for path, row in _rows(tree, edit):
            rows[path][row].add(edit.mutant.id)
    originals = {path: (tree / path).read_text(encoding="utf-8") for path in rows}
    probe = tree / "mnemic/_probe.py"
    notes.unlink(missing_ok=True)
    try:
        probe.write_text(_PROBE)
        for path, text in originals.items():
            (tree / path).write_text(_probed(text, rows[path]), encoding="utf-8")
        run = run_tests(tree, None, timeout=7200, stop=False, workers=workers, **{_FILE: str(notes)})
    finally:
        restore(tree, originals)
        probe.unlink(missing_ok=True)
    tests: dict[str, list[str]] = defaultdict(list)
    for line in notes.read_text(encoding="utf-8").splitlines():
        name, test = line.split("\t")
        if (test := test.rpartition(" (")[0]) and test not in tests[name]:
            tests[name].append(test)
    return tests, run


def _rows(tree: Path, edit: Edit) -> Iterator[tuple[str, int]]:
    """Rows of Python to mark, counted from 1: of a statement's mutant, where the statement is used."""
    if edit.path.endswith(".py"):
        yield edit.path, edit.first + 1
        return
    noun = Path(edit.path).stem
    for path in (tree / "storage").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if f'load_statements("{noun}")' in text:
            for number, line in enumerate(text.splitlines(), start=1):
                if f'"{edit.mutant.function}"' in line:
                    yield str(path.relative_to(tree)), number


def _probed(text: str, rows: dict[int, set[str]]) -> str:
    lines = text.splitlines()
    calls: dict[tuple[int, int], set[str]] = defaultdict(set)
    for row, names in rows.items():
        for place in _places(ast.parse(text), row, lines):
            calls[place] |= names
    for (row, column), names in sorted(calls.items(), reverse=True):
        hits = "; ".join(f'__import__("mnemic._probe", fromlist=["hit"]).hit("{name}")' for name in sorted(names))
        lines.insert(row - 1, " " * column + hits)
    return "\n".join(lines) + "\n"


def _places(module: ast.Module, row: int, lines: list[str]) -> list[tuple[int, int]]:
    """Before the innermost statement of a function; outside of functions, at the beginning of each of the module."""
    inside, all_first = None, []
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            if body and not lines[body[0].lineno - 1][: body[0].col_offset].strip():
                all_first.append(_start(body[0]))
            for statement in ast.walk(function):
                if isinstance(statement, ast.stmt) and statement is not function:
                    (start, column), end = _start(statement), statement.end_lineno or 0
                    before, code = lines[start - 1][:column].strip(), lines[start - 1][column:]
                    if start <= row <= end and not before and not code.startswith("elif"):
                        inside = max(inside or (0, 0), (start, column))
    return [inside] if inside else all_first


def _start(statement: ast.stmt) -> tuple[int, int]:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)]), statement.col_offset
