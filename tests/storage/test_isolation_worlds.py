"""Small random worlds of users, groups, sessions and agents: every way to read returns exactly what is visible."""

import uuid
from dataclasses import dataclass
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemic.state.identity import Identity
from mnemic.state.kinds import Kind, SearchType
from mnemic.state.query import MemoryQuery
from mnemic.state.records import NewMemory
from mnemic.storage import memories
from mnemic.storage.database import Database
from tests.support.asking import searched
from tests.support.worlds import MODEL, direction, memory

USERS, GROUPS, SESSIONS = ("ana", "bob", "carl"), ("pier", "yard"), ("s1", "s2")
FACT_KEYS = [f"user:{user}" for user in USERS] + [f"group:{group}" for group in GROUPS]
KEYS = FACT_KEYS + [f"session:{session}" for session in SESSIONS]
QUESTION = "Where does the ferry leave?"


@dataclass(frozen=True)
class World:
    """Memories of two agents, as (agent, kind, scope key), and who asks the first agent."""

    stored: list[tuple[str, Kind, str]]
    user: str | None
    groups: list[str]
    session: str | None


def worlds() -> st.SearchStrategy[World]:
    facts = st.tuples(st.sampled_from(["first", "second"]), st.just("fact"), st.sampled_from([*FACT_KEYS, "agent"]))
    others = st.tuples(st.sampled_from(["first", "second"]), st.just("reflection"), st.sampled_from([*KEYS, "agent"]))
    return st.builds(
        World,
        stored=st.lists(st.one_of(facts, others), min_size=1, max_size=12),
        user=st.sampled_from([None, *USERS]),
        groups=st.lists(st.sampled_from(GROUPS), unique=True),
        session=st.sampled_from([None, *SESSIONS]),
    )


async def _store(db: Database, agents: dict[str, str], world: World) -> list[tuple[str, NewMemory]]:
    """The world's memories by agent; each has its own sentence and nearly the same meaning as all others."""
    stored: list[tuple[str, NewMemory]] = []
    for name, agent in agents.items():
        new = [
            memory(f"The ferry leaves from quay {place}.", kind=kind, key=f"agent:{agent}" if key == "agent" else key)
            for place, (owner, kind, key) in enumerate(world.stored)
            if owner == name
        ]
        async with db.scoped(Identity(agent_id=agent), also=KEYS) as scoped:
            await scoped.execute("insert into agents (agent_id) values (%(agent_id)s)", {})
            await scoped.begin_operation("formation")
            vectors = {one.id: direction(place) for place, one in enumerate(new)}
            await memories.insert(scoped, new, model=MODEL, vectors=vectors, run_id=None)
        stored += [(name, one) for one in new]
    return stored


@pytest.mark.thorough
@given(world=worlds())
async def test_every_way_to_read_returns_exactly_what_is_visible(db: Database, world: World) -> None:
    agents = {name: f"{name}-{uuid.uuid4().hex}" for name in ("first", "second")}
    stored = await _store(db, agents, world)
    who = Identity(
        agent_id=agents["first"], user_id=world.user, group_ids=tuple(world.groups), session_id=world.session
    )
    visible = [one for name, one in stored if name == "first" and one.scope_key in who.scope_keys]
    facts = {one.id for one in visible if one.kind == "fact"}
    reflections = {one.id for one in visible if one.kind == "reflection"}
    async with db.scoped(who) as scoped:
        living = await memories.living(scoped, ["fact", "reflection"], most=50)
        standing = (await memories.standing(scoped)).scopes
        asked_keys = [*KEYS, *(f"agent:{agent}" for agent in agents.values())]
        similar = await memories.similar(scoped, asked_keys, [direction(0)] * len(asked_keys), model=MODEL, most=50)
        found = [
            await searched(
                scoped,
                MemoryQuery(query=QUESTION, top_k=50, search_type=search_type),
                direction(0),
                ["profile", "message"],
            )
            for search_type in get_args(SearchType)
        ]
    assert {one.id for one in living} == facts | reflections
    assert {one.id for part in standing for one in part.reflections} == reflections
    assert {one.id for one in similar} == facts
    assert [{one.item_id for one in results} for results in found] == [facts] * 3
