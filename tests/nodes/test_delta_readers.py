"""Several people and roles in one session: each is told of what it may see, whatever the others were told."""

from dataclasses import replace

from mnemic.operations.run.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.graphs import RecallOutput
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from tests.support.worlds import identity, remember
from tests.support.worlds import memory as made

ANA = identity("ana", session="room")


def goal(content: str, *, key: str = "user:ana", category: str = "goals") -> NewMemory:
    return replace(made(content, key=key), category=category)


async def told(memory: Mnemic, who: Identity) -> RecallOutput:
    recalled = await memory.context(who)
    await memory.observe(who, [], revision=recalled["revision"])
    return recalled


async def test_what_one_person_was_told_is_not_kept_from_another(memory: Mnemic, resources: Resources) -> None:
    bob = identity("bob", session="room")
    await told(memory, ANA)
    await told(memory, bob)
    await remember(resources.database, identity("ana", session="x"), goal("Ana means to row to Ryd."))
    await remember(resources.database, identity("bob", session="x"), goal("Bob means to swim.", key="user:bob"))

    assert "swim" in (await told(memory, bob))["context"]
    shown = (await told(memory, ANA))["context"]
    assert ("Ryd" in shown, "swim" in shown) == (True, False)
    assert (await told(memory, ANA))["updates"] == []


async def test_nor_what_one_role_was_told_from_another(memory: Mnemic, resources: Resources) -> None:
    planner = ANA.model_copy(update={"role": "planner"})
    await told(memory, ANA)
    await told(memory, planner)
    elsewhere = identity("ana", session="x")
    await remember(resources.database, elsewhere, goal("Ana knows knots.", category="knowledge"))
    await remember(resources.database, elsewhere, goal("Ana means to swim."))

    shown = (await told(memory, planner))["context"]
    assert ("swim" in shown, "knots" in shown) == (True, False)
    assert "knots" in (await told(memory, ANA))["context"]


async def test_who_joins_a_group_is_not_told_its_history_as_news(memory: Mnemic, resources: Resources) -> None:
    await told(memory, ANA)
    crew = [goal(f"The crew means to build boat {number}.", key="group:crew") for number in range(5)]
    await remember(resources.database, identity("carl", session="y", groups=["crew"]), *crew)
    await told(memory, ANA)

    member = identity("ana", session="room", groups=["crew"])
    assert (await told(memory, member))["updates"] == []
    await remember(resources.database, member, goal("The crew means to sail.", key="group:crew"))
    assert "sail" in (await told(memory, member))["context"]
