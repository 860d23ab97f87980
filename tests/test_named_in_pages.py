"""Methods, settings and errors that the pages name in their text exist."""

import builtins
import re
from typing import Any

from mnemic import Administration, Mnemic
from mnemic.service.governance.history import BlindHistory
from mnemic.state import errors
from mnemic.state.settings import Settings
from tests.support.server import Clone
from tests.support.snippets import PAGES

TEXTS = {page.name: page.read_text(encoding="utf-8") for page in PAGES}


def named(pattern: str) -> list[tuple[str, str]]:
    return [(page, name) for page, text in TEXTS.items() for name in re.findall(pattern, text)]


def has(target: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(target, name):
            return False
        target = getattr(target, name)
    return True


async def test_each_method_of_the_pages_exists(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash", background=False) as memory:
        listed = named(r"\bmemory\.([a-z_]+(?:\.[a-z_]+)?)\(")
        assert len(listed) > 100
        assert [(page, path) for page, path in listed if not has(memory, path)] == []
    administrators = named(r"\bAdministration\.(?:history\.)?([a-z_]+)\(")
    assert [
        each for each in administrators if not has(Administration, each[1]) and not has(BlindHistory, each[1])
    ] == []


def test_each_setting_of_the_pages_exists() -> None:
    listed = named(r"\bMNEMIC_([A-Z_]+[A-Z])\b")
    assert len(listed) > 100
    assert [(page, name) for page, name in listed if name.lower() not in Settings.model_fields] == []


def test_each_error_of_the_pages_exists() -> None:
    listed = named(r"`([A-Z][A-Za-z]+Error)`")
    assert len(listed) > 20
    assert [(page, name) for page, name in listed if not hasattr(errors, name) and not hasattr(builtins, name)] == []
