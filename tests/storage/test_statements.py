"""How a named statement reaches the server: its values numbered once, and vectors never as text."""

import re

from pgvector import HalfVector

from mnemic.storage.database import Database
from mnemic.storage.transaction import (
    array_text,
    half_vectors,
    load_statements,
    numbered,
    with_parts,
)
from tests.support.worlds import identity


def test_values_are_numbered_in_the_order_of_their_first_mention() -> None:
    sent = numbered("select %(b)s, %(a)b::halfvec, %(b)s where 7 %% 2 = 1")
    assert sent.text == b"select $1, $2::halfvec, $1 where 7 % 2 = 1"
    assert sent.names == ("b", "a")
    search = load_statements("search")["search"]
    assert numbered(search) is numbered(search)  # psycopg forgets what is as long as that


async def test_vectors_travel_in_binary(db: Database) -> None:
    vectors = half_vectors([(1.0, 0.5), None, (0.25, 2.0)])
    async with db.scoped(identity()) as scoped:
        for sent, is_binary in ((vectors, 1), ([*vectors], 0)):  # a plain list goes as text
            cursor = await scoped.execute("select unnest(%(vectors)b::halfvec[])", {"vectors": sent})
            assert await cursor.fetchall() == [(HalfVector([1.0, 0.5]),), (None,), (HalfVector([0.25, 2.0]),)]
            assert cursor._query is not None
            assert [int(form) for form in cursor._query.formats or ()] == [is_binary]


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
