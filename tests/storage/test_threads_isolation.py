"""Whose thread is whose: two people may name theirs alike, and neither finds, changes or deletes the other's."""

from collections.abc import Sequence
from itertools import permutations

import psycopg
import pytest

from mnemic.storage.database import Database
from mnemic.storage.threads import ThreadOwner
from tests.support.server import Clone
from tests.support.threads import TABLES, answering, at, counts, everything, misplaced, said, saver_of, words
from tests.support.worlds import identity

#: What a foreign user might call Ana's thread.
NAMES = ("t", "harbor/ana/t", "ana/t", "../ana/t", "%2Fana%2Ft", "../../harbor/ana/t", "%")
#: Everything that the service's role can see of a table.
SEEN = "select distinct {} from {}"
OWN = dict.fromkeys(TABLES, "thread_id") | {"supervisor_checkpoints": "agent_id || '/' || user_id || '/' || thread_id"}


async def talk(db: Database) -> None:
    for user in ("ana", "bo"):
        for name in ("t", "u"):
            await answering(saver_of(db, user)).ainvoke(said(f"I am {user}"), at(name))


async def seen(db: Database, owner: str, table: str) -> set[str]:
    async with db.threads(owner) as cursor:
        await cursor.execute(SEEN.format(OWN[table], table).encode())
        return {next(iter(row.values())) for row in await cursor.fetchall()}


async def test_two_people_with_the_same_thread_id_have_a_thread_each(db: Database) -> None:
    await talk(db)
    for user in ("ana", "bo"):
        host = answering(saver_of(db, user))
        assert words(await host.ainvoke(said("Who?"), at("t")))[0] == f"I am {user}"
        assert [words(one.values)[0] async for one in host.aget_state_history(at("t")) if one.values.get("messages")]
        assert {one.thread_id for one in await saver_of(db, user).standings()} == {"t", "u"}
    listed = [one async for one in saver_of(db).alist(None)]
    assert {one.config["configurable"]["thread_id"] for one in listed} == {"t", "u"}
    assert "bo" not in str(listed)


@pytest.mark.parametrize("name", NAMES[1:])
async def test_nobody_reaches_a_foreign_thread_by_any_name(
    db: Database, superuser: psycopg.Connection, name: str
) -> None:
    await answering(saver_of(db)).ainvoke(said("I am ana"), at("t"))
    before, own = counts(superuser), await everything(saver_of(db), "t")
    bo = saver_of(db, "bo")
    for one in own:
        assert await bo.aget_tuple(at(name, checkpoint_id=one[1])) is None
    assert await bo.aget_tuple(at(name)) is None
    assert [one async for one in bo.alist(at(name))] == []
    assert [one async for one in bo.alist(None)] == []
    await bo.acopy_thread(name, "mine")
    await bo.adelete_thread(name)
    for strategy in ("keep_latest", "delete"):
        await bo.aprune([name, "t"], strategy=strategy)
    assert await bo.standings() == []
    assert counts(superuser) == before
    assert await everything(saver_of(db), "t") == own


async def test_what_somebody_writes_under_a_foreign_name_is_their_own(db: Database) -> None:
    await talk(db)
    own = await everything(saver_of(db), "t")
    for name in NAMES[1:]:
        await answering(saver_of(db, "bo")).ainvoke(said("Mine."), at(name))
    assert await everything(saver_of(db), "t") == own


async def test_a_bare_select_sees_the_owners_rows_and_none_without_an_owner(db: Database) -> None:
    await talk(db)
    for table in TABLES:
        assert await seen(db, "harbor/ana/", table) == {"harbor/ana/t", "harbor/ana/u"}
        assert await seen(db, "", table) == set()
        assert await seen(db, "harbor/an/", table) == set()
        async with db.scoped(identity("ana")) as scoped:
            assert await (await scoped.execute(f"select 1 from {table}", {})).fetchall() == []


@pytest.mark.thorough
@pytest.mark.parametrize("table", TABLES)
async def test_control_without_its_policy_a_table_shows_everybodys_rows(fresh_db: Clone, table: str) -> None:
    with fresh_db.as_superuser() as superuser:
        superuser.execute(f"drop policy service on mnemic.{table}")
        superuser.execute(f"create policy service on mnemic.{table} to mnemic_app using (true)")
    async with fresh_db.database() as db:
        await talk(db)
        assert await seen(db, "harbor/ana/", table) > {"harbor/ana/t", "harbor/bo/t"}
        assert await seen(db, "", table) > {"harbor/ana/t", "harbor/bo/t"}


@pytest.mark.thorough
async def test_control_without_its_policy_the_saver_lists_everybodys_threads(fresh_db: Clone) -> None:
    with fresh_db.as_superuser() as superuser:
        superuser.execute("drop policy service on mnemic.checkpoints")
        superuser.execute("create policy service on mnemic.checkpoints to mnemic_app using (true)")
    async with fresh_db.database() as db:
        await talk(db)
        found = [one.config["configurable"]["thread_id"] async for one in saver_of(db).alist(None)]
    assert {"t", "harbor/bo/t"} <= {*found}


PARTS = ("a", "a/b", "b", "", "%", "%2F", "a%2Fb", "/", "Ünal", "a b")


async def test_awkward_ids_stay_apart_and_are_written_down_as_they_are(
    db: Database, superuser: psycopg.Connection
) -> None:
    owners: Sequence[tuple[str, str]] = [pair for pair in permutations(PARTS, 2) if pair[0]]
    assert len({ThreadOwner(*pair).prefix for pair in owners}) == len(owners)
    for agent, user in owners[::7]:
        saver = saver_of(db, user, agent)
        for thread in ("t", "a/b", "%2F"):
            await answering(saver).ainvoke(said(f"{agent} {user}"), at(thread))
        found = {words(one.checkpoint["channel_values"])[0] async for one in saver.alist(None)
                 if one.checkpoint["channel_values"].get("messages")}  # fmt: skip
        assert found == {f"{agent} {user}"}
        assert {one.thread_id for one in await saver.standings()} == {"t", "a/b", "%2F"}
    rows = superuser.execute("select distinct agent_id, user_id from mnemic.supervisor_checkpoints").fetchall()
    assert {*rows} == {*owners[::7]}
    assert misplaced(superuser) == []
