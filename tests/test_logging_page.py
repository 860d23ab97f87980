"""docs/logging.md lists each line that the code logs, with its level and its ids."""

import ast
import json
import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from mnemic.memory.runtime.identity import log_ids
from mnemic.state.background import Target
from mnemic.state.identity import Identity
from tests.support.wheel import ROOMS, ROOT

PAGE = ROOT / "docs" / "logging.md"
#: Fields of a call or of an object that the code adds as a whole.
WHOLE = {"log_ids": set(log_ids(Identity(agent_id="guide"))), "_asdict": set(Target._fields)}


class Line(NamedTuple):
    place: str
    level: str
    #: The parts of the message between its arguments.
    words: tuple[str, ...]
    fields: frozenset[str]


class _Calls(ast.NodeVisitor):
    """The lines of one module, each with the names that its function has assigned."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: list[Line] = []
        self._assigned: dict[str, ast.expr] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._assigned[target.id] = node.value
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and node.value is not None:
            self._assigned[node.target.id] = node.value
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "_LOG":
            self.lines.append(self._line(called.attr, node))
        self.generic_visit(node)

    def _line(self, level: str, node: ast.Call) -> Line:
        text = ast.literal_eval(self._resolved(node.args[0]))
        extra = [keyword.value for keyword in node.keywords if keyword.arg == "extra"]
        fields = self._fields(extra[0]) if extra else set()
        place = f"{self.file.relative_to(ROOT)}:{node.lineno}"
        return Line(place, level, tuple(filter(None, re.split(r"%[.\d]*[sdf]", text))), frozenset(fields))

    def _resolved(self, node: ast.expr) -> ast.expr:
        return self._assigned.get(node.id, node) if isinstance(node, ast.Name) else node

    def _fields(self, node: ast.expr) -> set[str]:
        node = self._resolved(node)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            return WHOLE[name]
        if not isinstance(node, ast.Dict):
            return set()  # a parameter: the fields of the work, which the caller names
        fields: set[str] = set()
        for key, value in zip(node.keys, node.values, strict=True):
            fields |= {ast.literal_eval(key)} if key is not None else self._fields(value)
        return fields


def modules() -> Iterator[Path]:
    for room in ROOMS.values():
        yield from sorted((ROOT / room).rglob("*.py"))


@cache
def logged() -> list[Line]:
    lines: list[Line] = []
    for file in modules():
        calls = _Calls(file)
        calls.visit(ast.parse(file.read_text(encoding="utf-8")))
        lines += calls.lines
    return lines


def rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if re.match(r"\| (debug|info|warning|error) \|", line)]


def is_listed(line: Line, row: str) -> bool:
    named = set(re.findall(r"`([a-z_]+)`", row.rsplit("|", 2)[1]))
    pattern = ".*".join(map(re.escape, line.words))
    return f"| {line.level} |" in row and re.search(pattern, row) is not None and named >= line.fields


def unlisted(page: str) -> list[Line]:
    return [line for line in logged() if not any(is_listed(line, row) for row in rows(page))]


def test_the_page_lists_each_line_with_its_level_and_fields() -> None:
    assert len(logged()) > 20
    assert unlisted(PAGE.read_text(encoding="utf-8")) == []


def test_the_page_lists_no_line_that_the_code_lacks() -> None:
    lines = logged()
    listed = rows(PAGE.read_text(encoding="utf-8"))
    assert [row for row in listed if not any(is_listed(line, row) for line in lines)] == []


def test_all_lines_are_logged_under_one_name() -> None:
    names: set[str] = set()
    for file in modules():
        names |= set(re.findall(r"_LOG(?:: [^=]+)? = logging.getLogger\((.*?)\)", file.read_text(encoding="utf-8")))
    assert names == {'"mnemic"'}


@pytest.mark.parametrize("part", ["| error |", "`session_id`", "Could not"])
def test_a_page_without_a_part_is_noticed(part: str) -> None:
    assert unlisted(PAGE.read_text(encoding="utf-8").replace(part, "| other |"))


def test_the_shown_configuration_prints_the_shown_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = re.findall(r"```(?:python|json)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    logger = logging.getLogger("mnemic")
    before = (logger.level, logger.propagate)
    try:
        exec(compile(code, str(PAGE), "exec"), {})
    finally:
        logger.handlers.clear()
        logger.level, logger.propagate = before
    printed, shown = json.loads(capsys.readouterr().err), json.loads(line)
    assert printed | {"time": None} == shown | {"time": None}
