"""`Mnemic.open` with settings that nobody should write: a typed error, and the database is left alone."""

from typing import Any

import psycopg
import pytest

from mnemic import Administration, Mnemic, MnemicError
from mnemic.state.errors import InvalidInputError
from tests.hostile.bad_values import BAD
from tests.hostile.cells import counts, quoted
from tests.support.matrix import mostly_thorough
from tests.support.server import Clone

KINDS = ["a null character", "a lone surrogate", "two lines", "130 bytes", "SQL", "an empty string", "a path", "bytes"]


@pytest.mark.parametrize(
    "setting",
    mostly_thorough(
        ["database_url", "base_url", "fast_model", "embedder", "api_key", "minilm_path", "anchor_key", "server_key"],
        "database_url",
        "anchor_key",
    ),
)
async def test_a_bad_setting_opens_nothing_or_is_harmless(
    clean_db: Clone, superuser: psycopg.Connection, setting: str
) -> None:
    good: dict[str, Any] = {"database_url": clean_db.service_dsn, "embedder": "hash", "pool_timeout_seconds": 0.2}
    before = counts(superuser)
    for kind in KINDS:
        found: MnemicError | None = None
        try:
            async with Mnemic.open(**{**good, setting: BAD[kind]()}) as memory:
                memory.describe()
        except MnemicError as error:
            found = error
        # names of models and files are quoted, for they are no secret and nobody's words
        assert found is None or not quoted(found) or setting in ("fast_model", "embedder", "minilm_path"), kind
        assert counts(superuser) == before


@pytest.mark.thorough
async def test_a_bad_dsn_of_administrators_opens_nothing_or_is_harmless(
    clean_db: Clone, superuser: psycopg.Connection
) -> None:
    before = counts(superuser)
    for kind in KINDS:
        with pytest.raises(MnemicError) as found:
            async with Administration.open(admin_url=BAD[kind](), pool_timeout_seconds=0.2):
                pass
        assert not quoted(found.value), kind
        assert counts(superuser) == before


async def test_an_actor_without_a_usable_name_opens_nothing(clean_db: Clone) -> None:
    for kind in KINDS:
        if kind not in ("SQL", "a path"):  # printable: any name will do
            with pytest.raises(InvalidInputError) as found:
                async with Administration.open(admin_url=clean_db.administrator_dsn, actor=BAD[kind]()):
                    pass
            assert not quoted(found.value), kind
