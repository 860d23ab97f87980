"""How a named statement reaches the server: its values numbered once, and vectors never as text."""

import math
import random
import re
from array import array

import pytest
from pgvector import HalfVector

from mnemic.state.errors import InvalidInputError
from mnemic.storage.database import Database
from mnemic.storage.transaction import (
    HalfVectors,
    array_text,
    half_vectors,
    load_statements,
    numbered,
    with_parts,
)
from tests.support.worlds import identity

CACHED_BY_PSYCOPG = 4096


def test_values_are_numbered_in_the_order_of_their_first_mention() -> None:
    sent = numbered("select %(b)s, %(a)b::halfvec, %(b)s where 7 %% 2 = 1")
    assert sent.text == b"select $1, $2::halfvec, $1 where 7 % 2 = 1"
    assert sent.names == ("b", "a")


def test_a_statement_too_long_for_psycopgs_own_memory_is_read_once() -> None:
    search = load_statements("search")["search"]
    assert len(search) > CACHED_BY_PSYCOPG
    assert numbered(search) is numbered(search)
    assert b"%(" not in numbered(search).text


async def test_values_come_to_their_places(db: Database) -> None:
    async with db.scoped(identity()) as scoped:
        cursor = await scoped.execute(
            "select %(b)s::text, %(agent_id)s::text, %(a)s::text, %(b)s::text", {"a": "first", "b": "second"}
        )
        assert await cursor.fetchall() == [("second", "harbor", "first", "second")]


async def test_vectors_travel_in_binary(db: Database) -> None:
    vectors = half_vectors([(1.0, 0.5), None, (0.25, 2.0)])
    async with db.scoped(identity()) as scoped:
        cursor = await scoped.execute("select unnest(%(vectors)b::halfvec[])", {"vectors": vectors})
        rows = await cursor.fetchall()
        assert cursor._query is not None
        assert [int(form) for form in cursor._query.formats or ()] == [1]
        assert [row[0] for row in rows] == [HalfVector([1.0, 0.5]), None, HalfVector([0.25, 2.0])]

        plain = await scoped.execute("select %(vectors)b::halfvec[]", {"vectors": [*HalfVectors(vectors)]})
        assert plain._query is not None
        assert [int(form) for form in plain._query.formats or ()] == [0]  # a plain list, which the above would be


async def test_the_server_rounds_a_vector_as_python_does(db: Database) -> None:
    numbers = random.Random(7)
    vectors = [array("f", [numbers.gauss(0, 1) * 10 ** -numbers.randrange(9) for _ in range(384)]) for _ in range(20)]
    async with db.scoped(identity()) as scoped:
        cursor = await scoped.execute("select unnest(%(vectors)b::halfvec[])", {"vectors": half_vectors(vectors)})
        assert [row[0] for row in await cursor.fetchall()] == [HalfVector(list(vector)) for vector in vectors]


@pytest.mark.parametrize("number", [70_000.0, 1e300, math.inf, math.nan])
async def test_a_number_that_is_no_half_float_is_refused(db: Database, number: float) -> None:
    with pytest.raises(InvalidInputError, match="cannot be stored"):
        async with db.scoped(identity()) as scoped:
            await scoped.execute("select %(vectors)b::halfvec[]", {"vectors": half_vectors([(1.0, number)])})


async def test_an_array_as_text_is_read_as_what_it_was(db: Database) -> None:
    names = ("plain", "", "NULL", 'a"b', "a\\b", '\\"', "{a,b}", "a,b", " edge ", "ü€", "'", "%s", "a\nb")
    async with db.scoped(identity()) as scoped:
        cursor = await scoped.execute("select %(names)s::text[]", {"names": array_text(names)})
        assert await cursor.fetchall() == [([*names],)]
        cursor = await scoped.execute("select %(names)s::text[]", {"names": array_text(())})
        assert await cursor.fetchall() == [([],)]


def test_a_part_is_in_the_statement_only_where_it_is_wanted() -> None:
    statement = "select 1/*more*/, 2\n/*end*/ from t /*other*/where a/*end*/"
    assert with_parts(statement) == "select 1 from t "
    assert with_parts(statement, "more", "other") == "select 1, 2\n from t where a"
    search = load_statements("search")["search"]
    assert "fitting" in with_parts(search, "filtered")
    assert not {"fitting", "%(threshold)s", "/*"} & {*re.findall(r"fitting|%\(threshold\)s|/\*", with_parts(search))}
