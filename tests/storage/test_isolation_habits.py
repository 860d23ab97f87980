"""Two habits that isolation rests on, read from the code: settings end with the transaction, one way to the pool."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("state", "policy", "prompts", "models", "storage", "operations", "nodes", "tools", "graphs", "service")
#: The last argument of a call, which may hold calls itself.
_SET_CONFIG = re.compile(r"set_config\((?:[^()]|\([^()]*\))*,\s*(\w+)\s*\)")
_SET = re.compile(r"\bset\s+(?:session\s|mnemic\.)", re.IGNORECASE)


def lasting_settings(text: str) -> list[str]:
    """What sets something beyond the transaction."""
    lasting = [call.group() for call in _SET_CONFIG.finditer(text) if call.group(1) != "true"]
    return lasting + [found.group() for found in _SET.finditer(text)]


def sources() -> Iterator[tuple[str, str]]:
    """Every file of code by its path, but what has no scope to lose: one's own connection of an administrator."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".py", ".sql") and path.name != "migrate.py":
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_no_setting_outlives_its_transaction() -> None:
    found = {path: lasting for path, text in sources() if (lasting := lasting_settings(text))}
    assert found == {}
    assert sum("set_config" in text for _, text in sources()) >= 3  # the pool, the schema, its migration


def test_connections_are_taken_from_the_pool_in_one_place() -> None:
    assert [path for path, text in sources() if re.search(r"\.connection\(|\.getconn\(", text)] == ["storage/pool.py"]
    (pool,) = [text for path, text in sources() if path == "storage/pool.py"]
    assert len(re.findall(r"\.connection\(|\.getconn\(", pool)) == 1


def test_only_storage_knows_the_checkpointers_library() -> None:
    assert {path.partition("/")[0] for path, text in sources() if "checkpoint.postgres" in text} == {"storage"}


@pytest.mark.parametrize(
    "statement",
    [
        "select set_config('mnemic.agent_id', %(agent_id)s, false)",
        "select set_config('mnemic.op_session', coalesce(p_session, ''), false)",
        "await connection.execute('set mnemic.agent_id = x')",
        "set session mnemic.scope_keys = 'user:ana'",
    ],
)
def test_a_setting_that_would_last_is_noticed(statement: str) -> None:
    assert lasting_settings(statement)
