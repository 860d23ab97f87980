"""Whoever names what belongs to others, at any entrance, learns and changes nothing; what a session's holders share."""

import re
from typing import get_args

import psycopg
import pytest

from mnemic.service.memory import Mnemic
from mnemic.state.errors import InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.kinds import SearchType
from mnemic.storage import history, memories, search
from tests.support.loopback import LoopbackModel
from tests.support.rollbacks import everything
from tests.support.scripted import (
    FACTS,
    REFLECTIONS,
    asked,
    fact,
    facts,
    last_prompt,
    reflection,
    reflections,
    say,
    scripted_memory,
    turns,
)
from tests.support.server import Clone
from tests.support.worlds import identity, text_of

ANA = identity("ana", groups=["crew"], session="s-ana", teaches=True)
BO = identity("bo", session="s-bo")
OWN = "Ana keeps bees on the north quay."
SHARED = "The crew of the north quay meets on Monday."
EVERYONES = "The harbor office closes at noon."
TASK = "The sail plan of the north quay is open."
#: The condition on scope keys that every statement carries beside the policies.
_CONDITION = re.compile(r"(?:\w\.)?(?:to_)?scope_key = any\(%\(scope_keys\)s\)")
SAID = (OWN, SHARED, EVERYONES, TASK)


@pytest.fixture
async def known(memory: Mnemic, model: LoopbackModel) -> Mnemic:
    await speak(memory, model)
    return memory


async def speak(memory: Mnemic, model: LoopbackModel) -> None:
    """Memories of Ana alone, of her group, of the agent and of her session."""
    model.answer(
        FACTS,
        facts(
            fact(OWN, 1),
            fact(SHARED, 2, scope="group"),
            fact(EVERYONES, 3, scope="agent"),
        ),
    )
    model.answer(REFLECTIONS, reflections(session=[reflection(TASK, 4)]))
    await say(memory, ANA, *SAID, "Well.", "Good.")  # of six messages three facts are taken


async def seen_by(memory: Mnemic, who: Identity) -> set[str]:
    """Which of the texts any way to read shows to somebody."""
    texts = [item.content for item in await memory.memories(who, with_closed=True)]
    for search_type in get_args(SearchType):
        texts += [item.content for item in await memory.query(who, "north quay office bees", search_type=search_type)]
    texts.append(text_of((await memory.recall(who, "north quay office bees", search="always")).context))
    return {text for text in SAID if any(text in shown for shown in texts)}


async def test_each_scope_is_seen_by_those_who_belong_to_it(known: Mnemic) -> None:
    assert await seen_by(known, ANA) == {*SAID}
    assert await seen_by(known, BO) == {EVERYONES}
    assert await seen_by(known, identity("bo", groups=["crew"])) == {SHARED, EVERYONES}
    assert await seen_by(known, identity("ana", agent="museum", groups=["crew"], session="s-ana")) == set()


@pytest.mark.thorough
@pytest.mark.parametrize("fallen", ["policies", "conditions", "policies and conditions"])
async def test_policies_and_the_conditions_of_the_statements_are_two_walls(
    fresh_db: Clone, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, fallen: str
) -> None:
    """Each of them alone keeps everything; with both of them gone the same questions show what is not one's own."""
    if "conditions" in fallen:
        for module in (memories, search, history):
            open_statements = {name: _CONDITION.sub("true", text) for name, text in module._SQL.items()}
            monkeypatch.setattr(module, "_SQL", open_statements)
    async with scripted_memory(fresh_db, model) as memory:
        await speak(memory, model)
        if "policies" in fallen:
            with fresh_db.as_superuser() as connection:
                for table in ("memories", "messages", "entries", "history", "history_contents"):
                    connection.execute(f"alter table mnemic.{table} disable row level security")
        own = next(item for item in await memory.memories(ANA, ["fact"]) if item.content == OWN)
        seen, told = await seen_by(memory, BO), await memory.history.events(BO, own.id)

    if fallen == "policies and conditions":
        assert seen == {*SAID}
        assert told
    else:
        assert seen == {EVERYONES}
        assert told == []


async def test_session_id_opens_the_session_and_not_the_people_who_spoke_in_it(
    known: Mnemic, model: LoopbackModel
) -> None:
    """The host names a session's members: they share the session's own memories and nothing more."""
    guest = identity("bo", session="s-ana")

    assert await seen_by(known, guest) == {EVERYONES}
    await known.observe(ANA.model_copy(update={"members": ("bo",)}), [])
    assert await seen_by(known, guest) == {EVERYONES, TASK}
    for one in await known.memories(ANA, ["fact"]):
        is_seen = one.content == EVERYONES
        assert bool(await known.history.events(guest, one.id)) == is_seen


async def test_pending_messages_are_formed_for_their_author_by_session_runs(
    memory: Mnemic, model: LoopbackModel
) -> None:
    """A session's messages are formed together, whoever starts the run; each user's memories stay that user's own."""
    await memory.observe(ANA.model_copy(update={"members": ("bo",)}), turns(*SAID))
    assert await memory.form(BO) == []
    assert (await memory.observe(BO, turns("Well."))).pending == 1
    assert await seen_by(memory, BO) == set()
    assert asked(model) == []

    guest = identity("bo", session="s-ana")
    model.answer(FACTS, facts(fact(OWN, 1)))
    (run,) = await memory.form(guest)
    assert run.formed == len(SAID)
    assert OWN in last_prompt(model, FACTS)
    assert [item.content for item in await memory.memories(ANA, ["fact"])] == [OWN]
    assert await memory.memories(guest, ["fact"]) == []


async def test_a_foreign_scope_key_is_refused_like_one_that_does_not_exist(
    known: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    before = everything(superuser)
    model.chat_requests.clear()
    for key in (*("user:ana", "group:crew", "session:s-ana", "agent:museum"), *("user:x", "group:x", "session:x")):
        with pytest.raises(InvalidInputError, match="scope_key: use one of this identity"):
            await known.admin.configure_scope(BO, key, threshold=1)
        with pytest.raises(InvalidInputError, match="scope_key: use one of this identity"):
            await known.admin.consolidate(BO, key, force=True)
    assert asked(model) == []
    assert everything(superuser) == before


async def test_what_others_overrode_and_spent_stays_with_their_agent(known: Mnemic, model: LoopbackModel) -> None:
    await known.admin.configure_agent(identity("ana", agent="museum"), rag=False)
    await known.admin.configure_scope(ANA, "user:ana", extraction_guidance="Note Ana's bees.")
    assert await known.usage.tokens(identity("ana", agent="museum")) == []
    model.answer(FACTS, facts(fact("Bo likes tea.")))
    model.answer(REFLECTIONS, reflections())
    await say(known, BO, "I like tea.", "Well.")

    assert "Note Ana's bees." not in last_prompt(model, FACTS)
