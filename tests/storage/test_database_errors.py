"""What comes out of a transaction that failed: an error of ours with Postgres' code for it, and no word of any row."""

import re
import traceback

import psycopg
import pytest

from mnemic.state.errors import (
    ConcurrentChangeError,
    DatabaseSetupError,
    DatabaseUnavailableError,
    InvalidInputError,
    MnemicError,
    RefusedError,
)
from mnemic.state.settings import Settings
from mnemic.storage import failures
from mnemic.storage.database import Database
from mnemic.storage.schema import bodies
from tests.support.server import Clone
from tests.support.worlds import identity, remember

CANARY = "Mara has diabetes"
ME = identity(session=CANARY)

_SESSION = f"insert into mnemic.sessions (agent_id, session_id, last_activity_at) values ('harbor', '{CANARY}', now())"
_MESSAGE = (
    "insert into mnemic.messages (agent_id, id, session_id, scope_key, place, role, author, said_at)"
    f" values ('harbor', gen_random_uuid(), '{CANARY}', 'user:ana', 1, 'user', '{CANARY}', now())"
)
_RAISE = f"do $$ begin raise exception '{CANARY}' using errcode = '%s'; end $$"
#: Statements that fail, by the code Postgres gives them; to a superuser, whom no policy binds, each quotes the canary.
QUOTING = {
    "23514": (_MESSAGE.replace("'user',", "'nobody',"), InvalidInputError),
    "23503": (_MESSAGE, InvalidInputError),
    "23505": (f"{_SESSION}, ('harbor', '{CANARY}', now())", ConcurrentChangeError),
    "22P02": (f"select '{CANARY}'::uuid", InvalidInputError),
    "22007": (f"select '{CANARY}'::timestamptz", InvalidInputError),
    "42P01": (f'select * from "{CANARY}"', DatabaseSetupError),
    **{state: (_RAISE % state, kind) for state, kind in {
        "P0001": RefusedError, "42501": RefusedError, "40001": ConcurrentChangeError, "40P01": ConcurrentChangeError,
        "55P03": DatabaseUnavailableError, "57014": DatabaseUnavailableError, "25P03": DatabaseUnavailableError,
        "53200": DatabaseUnavailableError, "54000": InvalidInputError, "0A000": MnemicError, "XX001": MnemicError,
    }.items()},
}  # fmt: skip


def everything(error: BaseException) -> str:
    return "\n".join([str(error), repr(error), *traceback.format_exception(error)])


@pytest.mark.parametrize("state", QUOTING)
async def test_an_error_says_what_it_is_and_quotes_nothing(db: Database, state: str) -> None:
    statement, kind = QUOTING[state]
    await remember(db, ME)
    with pytest.raises(MnemicError) as caught:
        async with db.scoped(ME) as scoped:
            await scoped.execute(statement, {})

    assert type(caught.value) is kind
    assert (caught.value.sqlstate, f"(SQLSTATE {state})" in str(caught.value)) == (state, True)
    assert CANARY not in everything(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize("state", QUOTING)
async def test_the_servers_own_error_would_have_quoted_it(
    db: Database, superuser: psycopg.Connection, state: str
) -> None:
    await remember(db, ME)
    with pytest.raises(psycopg.Error) as caught, superuser.transaction():
        superuser.execute(QUOTING[state][0])
    assert caught.value.sqlstate == state
    assert CANARY in everything(caught.value)


@pytest.mark.parametrize("ending", ["\0", "\ud800"], ids=["nul", "lone surrogate"])
async def test_text_that_cannot_be_sent_is_invalid_input(db: Database, ending: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be stored") as caught:
        async with db.scoped(ME) as scoped:
            await scoped.execute("select %(text)s", {"text": CANARY + ending})
    assert caught.value.sqlstate is None
    assert CANARY not in everything(caught.value)


async def test_text_too_large_for_the_search_is_invalid_input(db: Database) -> None:
    words = " ".join(f"of{CANARY.replace(' ', '')}{number}" for number in range(60_000))
    with pytest.raises(InvalidInputError) as caught:
        async with db.scoped(ME) as scoped:
            await scoped.execute("select to_tsvector('simple', %(words)s)", {"words": words})
    assert caught.value.sqlstate == "54000"
    assert CANARY.replace(" ", "") not in everything(caught.value)


async def test_a_standby_is_a_database_that_takes_changes_later(db: Database) -> None:
    with pytest.raises(DatabaseUnavailableError, match="read-only"):
        async with db.scoped(ME) as scoped:
            await scoped.connection.execute("set transaction_read_only = on; insert into agents values ('harbor')")


async def test_the_catalogs_errors_are_typed_too(db: Database) -> None:
    with pytest.raises(DatabaseSetupError, match="mnemic db migrate"):
        async with db.catalog() as connection:
            await connection.execute("select * from no_such_table")


async def test_a_value_of_a_type_that_has_no_place_in_a_database_is_typed(db: Database) -> None:
    with pytest.raises(MnemicError, match="driver refused"):
        async with db.scoped(ME) as scoped:
            await scoped.execute("select %(thing)s", {"thing": object()})


async def test_a_pool_that_is_used_up_says_which_setting_to_raise(clean_db: Clone) -> None:
    async with clean_db.database(Settings(pool_size=1, pool_timeout_seconds=0.1)) as db, db.scoped(ME):
        with pytest.raises(DatabaseUnavailableError, match="MNEMIC_POOL_SIZE"):
            async with db.scoped(ME):
                pass


async def test_a_closed_database_says_so(clean_db: Clone) -> None:
    async with clean_db.database() as db:
        pass
    with pytest.raises(DatabaseUnavailableError, match="async with"):
        async with db.scoped(ME):
            pass


def test_every_refusal_of_our_own_guards_has_its_words() -> None:
    raised = {words for body in bodies().values() for words in re.findall(r"raise exception '([^']+)'", body)}
    assert raised - set(failures._REASONS) == {
        "an operation needs a scoped transaction",  # only outside of scoped()
        "a person is erased in a transaction of their own",  # only by other statements than our own
        "a refinement begins and ends inside an operation",  # likewise
        "this reason is given by the function that does it",  # likewise
        "this is no act of a refinement",  # likewise
    }
