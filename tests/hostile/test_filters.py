"""Two thousand adversarial filter sets of two users: no foreign row, and others' ids answer as unknown ones do."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from pydantic import ValidationError

from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryFilters
from mnemic.state.records import IndexedText
from mnemic.storage import inbox, search
from tests.support.loopback import LoopbackModel
from tests.support.matrix import few_first
from tests.support.scripted import scripted_resources
from tests.support.searching import fact, know
from tests.support.server import Clone
from tests.support.worlds import MORNING, identity, message

Row = dict[str, Any]
#: Ids of others, and in their places such as nobody has.
FOREIGN = {"<user>": "carl", "<agent>": "museum", "<run>": "run-carl", "<actor>": "carl-bot"}
UNKNOWN = {"<user>": "nobody", "<agent>": "nowhere", "<run>": "run-none", "<actor>": "no-bot"}
_INJECTED = ("ana' or '1'='1", "%", "*", "user:bo", "$.** ? (1==1)", "%(agent_id)s", "{bo,carl}", "bо", " bo", "bo\x00")
_KEYS = ("scope_key", "user_id'--", "$or", "user_id__ne", "category", "agent", "", "state")
_VALUES: Mapping[str, Sequence[Any]] = {
    "user_id": ("ana", "bo", *["<user>"] * 8, *_INJECTED),
    "agent_id": ("harbor", "harbor", *["<agent>"] * 3, *_INJECTED[:6]),
    "run_id": ("run-ana", "run-bo", *["<run>"] * 3, *_INJECTED[:6]),
    "actor_id": ("ana", "bo", "ana-bot", *["<actor>"] * 3, *_INJECTED[:6]),
    "role": ("supervisor", "planner", "user", "assistant", "owner", "mnemic_owner", *_INJECTED[:4]),
    "pinned": (True, False, False, 1, "true"),
    "importance_min": (1, 2, 3, 0, "1", 2.0),
    "importance_max": (5, 4, 3, 9, True),
    "updated_after": ("2026-01-01", "2026-03-15", "2026-06-01T00:00:00+02:00", "0001-01-01", "now()", "infinity"),
    "updated_before": ("2026-12-31", "2026-05-01", "9999-12-31T23:59:59Z", "2026-02-30", 10**18, "-infinity"),
}


def filter_sets(count: int) -> list[dict[str, Any]]:
    """So many different sets of one to four conditions, some with keys and values of no filter; always the same."""
    dice = random.Random(6)
    found: dict[str, dict[str, Any]] = {}
    while len(found) < count:
        names = dice.sample(sorted(_VALUES), dice.choice((1, 1, 2, 2, 3, 4)))
        wanted: dict[str, Any] = {name: dice.choice(_VALUES[name]) for name in names}
        if dice.random() < 0.08:
            wanted[dice.choice(_KEYS)] = dice.choice(_INJECTED)
        if dice.random() < 0.05:
            wanted[dice.choice(names)] = dice.choice(({"$ne": ""}, ["ana", "bo"], {"or": [{"user_id": "bo"}]}, {}))
        found.setdefault(repr(sorted(wanted.items())), wanted)
    return list(found.values())


def with_ids(wanted: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """The set with these ids in the places of others'."""
    return {name: ids.get(value, value) if isinstance(value, str) else value for name, value in wanted.items()}


def is_refused(wanted: Mapping[str, Any]) -> bool:
    """Whether a set is none that can be asked."""
    try:
        MemoryFilters.model_validate(wanted)
    except ValidationError:
        return True
    return any(isinstance(value, str) and "\x00" in value for value in wanted.values())


def everything(superuser: psycopg.Connection) -> list[Row]:
    """What filters look at, of all memories and messages of everybody."""
    cursor = superuser.cursor(row_factory=dict_row)
    return cursor.execute(
        "select id, agent_id, scope_key, subject_user_id as user_id, run_id, actor_id, role, pinned, importance,"
        " updated_at from mnemic.memories"
        " union all"
        " select id, agent_id, scope_key, user_id, null, user_id, role, false, 2, said_at from mnemic.messages"
    ).fetchall()


def meets(row: Row, wanted: MemoryFilters) -> bool:
    """Whether it meets every condition."""
    return (
        all(getattr(wanted, name) in (None, row[name]) for name in ("agent_id", "run_id", "actor_id", "role", "pinned"))
        and (wanted.user_id is None or f"user:{wanted.user_id}" == row["scope_key"] or wanted.user_id == row["user_id"])
        and (wanted.importance_min or 1) <= row["importance"] <= (wanted.importance_max or 5)
        and (wanted.updated_after is None or row["updated_at"] >= wanted.updated_after)
        and (wanted.updated_before is None or row["updated_at"] < wanted.updated_before)
    )


def expected(rows: Sequence[Row], who: Identity, wanted: Mapping[str, Any]) -> set[UUID] | None:
    """What an identity has to get; None: a refusal."""
    if is_refused(wanted):
        return None
    conditions = MemoryFilters.model_validate(wanted).in_zone(UTC)
    seen = [row for row in rows if row["agent_id"] == who.agent_id and row["scope_key"] in who.scope_keys]
    return {row["id"] for row in seen if meets(row, conditions)}


ANA = identity("ana", groups=["crew"], session="s-ana")
BO = identity("bo", groups=["crew", "yard"], session="s-bo")
#: Nothing of Carl's is shared, and another agent of Ana's is none of this one's business.
CARL = identity("carl", groups=["attic"], session="s-carl")
ELSEWHERE = identity("ana", agent="museum", groups=["crew"], session="s-ana")
#: Every text has the word, so that only scopes and filters decide.
QUESTION = "catalogue"
SETS = filter_sets(2000)
#: Each user asks half of them.
HALVES = {"ana": (ANA, SETS[::2]), "bo": (BO, SETS[1::2])}
#: In the text of the statement; the sabotage below widens it wherever it stands.
SCOPED = "scope_key = any(%(scope_keys)s)"


async def live(resources: Resources, who: Identity) -> None:
    """Memories in every scope of an identity, of several roles, actors, runs and importances, and a kept message."""
    assert who.user_id
    assert who.session_id
    acting = [
        (who, f"run-{who.user_id}"),
        (who.model_copy(update={"role": "planner", "actor_id": f"{who.user_id}-bot"}), None),
    ]
    shared = () if who is CARL else (f"agent:{who.agent_id}",)
    keys = (*shared, *(key for key in who.scope_keys if not key.startswith("agent:")))
    for actor, run_id in acting:
        new = [
            fact(
                f"The catalogue of {key} is number {place} for {actor.role}, says {who.user_id}.",
                ("tasks", "goals", "preferences")[place % 3],
                key=key,
                importance=place % 5 + 1,
                subject_user_id=who.user_id if place % 2 else None,
                kind="episode" if key.startswith("session:") else "fact",
            )
            for place, key in enumerate(keys)
        ]
        await know(resources, actor, *new, run_id=run_id)
    kept = message("The catalogue is late.", session=who.session_id, user=who.user_id)
    async with resources.database.transaction(who) as tx:
        await inbox.observe(tx, who.session_id, [kept])
        await inbox.index_messages(tx, resources.embedder.name, [IndexedText(item_id=kept.id, text=kept.content)])


async def world(resources: Resources, superuser: psycopg.Connection) -> list[Row]:
    """Everybody's memories; some pinned, and changed at different times."""
    for who in (ANA, BO, CARL, ELSEWHERE):
        await live(resources, who)
    with superuser.transaction():
        superuser.execute("set local session_replication_role = replica")
        superuser.execute(
            "update mnemic.memories set pinned = importance > 3, updated_at = %s + importance * interval '30 days'",
            (MORNING - timedelta(days=45),),
        )
    return everything(superuser)


async def found(memory: Mnemic, who: Identity, wanted: Mapping[str, Any]) -> set[UUID] | str:
    """What a request gets: its rows, or the type and words of its refusal."""
    try:
        rows = await memory.query(who, QUESTION, filters=wanted, search_type="text", top_k=100)
    except InvalidInputError as error:
        return str(error)
    return {row.id for row in rows}


async def astray(memory: Mnemic, rows: Sequence[Row], who: Identity, sets: Sequence[dict[str, Any]]) -> list[Any]:
    """The sets that found anything else than they have to."""
    wrong = []
    for wanted in sets:
        got, due = await found(memory, who, wanted), expected(rows, who, wanted)
        if (isinstance(got, str) and due is not None) or (not isinstance(got, str) and got != due):
            wrong.append((wanted, got, due))
    return wrong


@pytest.mark.parametrize("every", few_first([20, 1], 1))
@pytest.mark.parametrize("user", HALVES)
async def test_every_filter_set_finds_its_rows_and_foreign_ids_act_as_unknown(
    resources: Resources, superuser: psycopg.Connection, user: str, every: int
) -> None:
    rows = await world(resources, superuser)
    memory, (who, sets) = Mnemic(resources), HALVES[user]
    assert await astray(memory, rows, who, [with_ids(wanted, FOREIGN) for wanted in sets[::every]]) == []
    for wanted in (wanted for wanted in sets[:: 2 * every] if with_ids(wanted, FOREIGN) != wanted):
        foreign, unknown = with_ids(wanted, FOREIGN), with_ids(wanted, UNKNOWN)
        assert await found(memory, who, foreign) == await found(memory, who, unknown), wanted


def test_about_half_of_the_sets_can_be_asked() -> None:
    assert 800 < sum(map(is_refused, SETS)) < 1200


# -- controls: what the checks above must see


def sabotage(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    statement = search._SQL["search"]
    assert old in statement
    monkeypatch.setattr(search, "_SQL", {"search": statement.replace(old, new)})


#: A statement that takes a filter's user for one whose memories may be seen.
WIDE = "scope_key = any(array_append(%(scope_keys)s::text[], 'user:' || %(user_id)s::text))"


@pytest.mark.thorough
async def test_a_statement_that_widens_leaks_where_no_policy_holds_it(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_resources(fresh_db, model) as resources:
        with fresh_db.as_superuser() as connection:
            rows = await world(resources, connection)
            for table in ("entries", "memories", "messages"):
                connection.execute(f"alter policy service on mnemic.{table} using (true)")
        memory, sets = Mnemic(resources), [{"user_id": "carl"}, {"user_id": "bo"}]
        assert await astray(memory, rows, ANA, sets) == []
        sabotage(monkeypatch, SCOPED, WIDE)
        assert len(await astray(memory, rows, ANA, sets)) == 2
        assert await found(memory, ANA, sets[0]) != await found(memory, ANA, {"user_id": "nobody"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i.pinned = %(pinned)s", "true"),
        ("i.run_id = %(run_id)s", "i.run_id is not null"),
        ("i.importance between %(importance_min)s and %(importance_max)s", "true"),
        ("i.updated_at < %(updated_before)s", "i.updated_at <= %(updated_before)s + interval '30 days'"),
    ],
)
async def test_a_filter_that_is_left_out_is_seen(
    resources: Resources, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    rows = await world(resources, superuser)
    sabotage(monkeypatch, old, new)
    assert await astray(Mnemic(resources), rows, ANA, SETS[:150]) != []
