"""SQL mutants: a comparison, a junction, a condition, a limit or an order made wrong, as Postgres still takes it."""

import random
import re
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import psycopg

from benchmarks.mutants.mutant import Mutant, NotFoundError, apply, compared, find, functions, restore
from mnemic.storage.embedded import EmbeddedPostgres
from mnemic.storage.migrate import ADMIN_ROLE, OWNER_ROLE, SERVICE_ROLE
from mnemic.storage.statements import numbered

SCHEMA = "storage/schema.sql"
#: What is replaced, by what; in code, and not in texts or comments.
OPERATORS: list[tuple[str, str, dict[str | None, str]]] = [
    ("comparison", r" (=|<>|<=|>=|<|>) ", {"=": "<>", "<>": "=", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    ("junction", r"\b(and|or)\b", {"and": "or", "or": "and"}),
    ("boolean", r"\b(true|false)\b", {"true": "false", "false": "true"}),
    ("null", r"\b(is null|is not null)\b", {"is null": "is not null", "is not null": "is null"}),
    ("negation", r"(?<!is )\b(not )(?!null|distinct)", {"not ": ""}),
    ("direction", r"\border by [\w.]+( desc)?\b", {" desc": "", None: " desc"}),
    ("limit", r"\blimit (1|%\(\w+\)s)(?=\W|$)", {"1": "2"}),
    ("condition", r"^ +(and .*[^;])$", {}),
]
_HIDDEN = re.compile(r"'[^']*'|--.*")


def sql_mutants(tree: Path, chance: random.Random, count: int) -> list[Mutant]:
    """So many mutants of the schema and the statements that Postgres takes.

    From the operators by turns: four fifths of all places are a comparison or a junction.
    """
    paths = [SCHEMA, *sorted(str(path.relative_to(tree)) for path in (tree / "storage/sql").glob("*.sql"))]
    found = [candidate for path in paths for candidate in _candidates(tree, path)]
    chance.shuffle(found)
    by_operator = [[candidate for candidate in found if candidate[2] == operator] for operator, _, _ in OPERATORS]
    candidates = [candidate for turn in zip_longest(*by_operator) for candidate in turn if candidate]
    chosen: list[Mutant] = []
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # Postgres does not run as root, but as somebody who has to get in
        with (
            EmbeddedPostgres(Path(directory) / "pg", durable=False) as server,
            psycopg.connect(server.dsn(), autocommit=True) as connection,
        ):
            connection.execute("create extension vector")
            for role in (SERVICE_ROLE, ADMIN_ROLE, OWNER_ROLE):
                connection.execute(f"create role {role}".encode())
            for path, line, operator, wrong in candidates:
                if len(chosen) == count:
                    break
                was = (tree / path).read_text(encoding="utf-8").splitlines()
                changed = [*was[:line], *([wrong] if wrong else []), *was[line + 1 :]]
                mutant = compared(tree, f"sql{len(chosen) + 1:02}", path, operator, was, changed)
                if _is_valid(tree, connection, mutant):
                    chosen.append(mutant)
    return chosen


def _candidates(tree: Path, path: str) -> Iterator[tuple[str, int, str, str]]:
    names = functions(tree / path)
    for number, line in enumerate((tree / path).read_text(encoding="utf-8").splitlines()):
        code = _HIDDEN.sub(lambda hidden: "~" * len(hidden[0]), line)
        if not names[number] or names[number].startswith(("index", "unique index")):
            continue
        for operator, pattern, swapped in OPERATORS:
            for match in re.finditer(pattern, code):
                start, end = match.span(1) if match[1] else (match.end(), match.end())
                if operator == "condition":
                    wrong = "" if match[1].count("(") == match[1].count(")") else line
                else:
                    wrong = line[:start] + swapped.get(match[1], f"{match[1]} + 1") + line[end:]
                if wrong != line:
                    yield path, number, operator, wrong


def _is_valid(tree: Path, connection: psycopg.Connection, mutant: Mutant) -> bool:
    try:
        edits = find(tree, mutant)
    except NotFoundError:
        return False
    if mutant.path == SCHEMA and len(edits) < 2:  # a fresh database is made by the migrations
        return False
    originals = apply(tree, edits)
    text = (tree / mutant.path).read_text(encoding="utf-8")
    schema = (tree / SCHEMA).read_text(encoding="utf-8")
    restore(tree, originals)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(f"create schema mnemic authorization {OWNER_ROLE}".encode())
            connection.execute(f"set local role {OWNER_ROLE}".encode())
            connection.execute("set local search_path = mnemic, public")
            connection.execute(schema.encode())
            if mutant.path != SCHEMA:
                statement = re.split(rf"^-- {mutant.function} --$", text, flags=re.MULTILINE)[1]
                statement = re.split(r"^-- \w+ --$", statement, flags=re.MULTILINE)[0]
                connection.execute("deallocate all")  # no rollback forgets a statement
                connection.execute(b"prepare checked as " + numbered(statement).text)
    except psycopg.Error:
        return False
    return True
