"""Draws the list: Python mutants from a session of cosmic-ray, and SQL mutants from the operators of `sql`."""

import ast
import json
import random
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutant import Mutant, compared, restore
from benchmarks.mutants.sql import sql_mutants

_Place = tuple[str, int, int]


def pick(tree: Path, cosmic_ray: str, session: str, seed: int, python: int, sql: int) -> list[Mutant]:
    """So many mutants of each language.

    Drawn among places, and not among cosmic-ray's items: it makes eleven of each `+` and one of each `not`. Annotations
    are left out: any other operator in `str | None` fails at import.
    """
    chance = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    dumped = subprocess.run([cosmic_ray, "dump", session], capture_output=True, text=True, check=True).stdout  # noqa: S603
    items: dict[_Place, list[dict[str, Any]]] = defaultdict(list)
    for line in dumped.splitlines():
        item = json.loads(line)[0]["mutations"][0]
        items[item["module_path"], *item["start_pos"]].append(item)
    annotations = {path: list(_annotations(tree / path)) for path in {path for path, _, _ in items}}
    places = sorted(p for p in items if not any(start <= p[1:] < end for start, end in annotations[p[0]]))
    chance.shuffle(places)
    mutants: list[Mutant] = []
    for place in places:
        if len(mutants) == python:
            break
        item = chance.choice(sorted(items[place], key=lambda item: (item["operator_name"], item["occurrence"])))
        with suppress(SyntaxError):  # cosmic-ray takes the lone `*` of a signature for a multiplication
            mutants.append(_python_mutant(tree, cosmic_ray, f"py{len(mutants) + 1:02}", item))
    return [*mutants, *sql_mutants(tree, random.Random(seed), sql)]  # noqa: S311


def _annotations(path: Path) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        annotation = getattr(node, "returns", None) or getattr(node, "annotation", None)
        if isinstance(annotation, ast.expr):
            end = (annotation.end_lineno or 0, annotation.end_col_offset or 0)
            yield (annotation.lineno, annotation.col_offset), end


def _python_mutant(tree: Path, cosmic_ray: str, name: str, item: dict[str, Any]) -> Mutant:
    path, operator = item["module_path"], item["operator_name"]
    text = (tree / path).read_text(encoding="utf-8")
    try:
        command = [cosmic_ray, "apply", path, operator, str(item["occurrence"])]
        subprocess.run(command, cwd=tree, capture_output=True, check=True)  # noqa: S603
        changed = (tree / path).read_text(encoding="utf-8")
    finally:
        restore(tree, {path: text})
    ast.parse(changed)
    return compared(tree, name, path, operator.removeprefix("core/"), text.splitlines(), changed.splitlines())
