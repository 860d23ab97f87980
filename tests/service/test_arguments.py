"""Arguments of methods: a wrong one is refused with the allowed values, and none is ignored without a word."""

from typing import Any

import pytest
from langchain_core.messages import AnyMessage, ChatMessage, FunctionMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from mnemic import Identity, MemoryState, Mnemic, Settings
from mnemic.state.errors import (
    CategoryRefusedError,
    ClosedError,
    ConfigurationError,
    InvalidInputError,
    NotCorrectedError,
    NotUpdatedError,
)
from tests.support.loopback import LoopbackModel
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1", groups=["crew"]).model_copy(update={"role": "owner"})
DEPLOYS = "The harbor team deploys on Friday."


async def roles(memory: Mnemic, *messages: Any) -> list[str]:
    """Roles under which a new session stores these messages."""
    who = ANA.model_copy(update={"session_id": "roles", "role": "owner"})
    await memory.observe(who, messages)
    return [message.role for message in reversed(await memory.privacy.messages(who, session_id="roles"))]


async def test_an_unknown_role_is_refused_with_the_allowed_ones(memory: Mnemic) -> None:
    for role, parts in {
        "robot": ["'robot'", "user", "assistant", "tool", "system", "developer", "other"],
        "asistant": ["'asistant'", "the nearest is assistant"],
        "my pin is 4471": ["this value"],
        "my_pin_is_4471" * 5: ["this value"],
    }.items():
        with pytest.raises(InvalidInputError) as refused:
            await memory.observe(ANA, [{"role": role, "content": "Beep."}])
        assert [part for part in ["message 1", "role", *parts] if part not in str(refused.value)] == []
        assert "4471" not in str(refused.value)


async def test_roles_of_other_frameworks_are_read(memory: Mnemic) -> None:
    messages = [
        HumanMessage("One."),
        {"role": "model", "content": "Two."},
        FunctionMessage(content="Three.", name="look_up"),
        {"role": "function", "content": "Four."},
        ChatMessage(content="Five.", role="assistant"),
        ChatMessage(content="Six.", role="narrator"),
        {"role": "other", "content": "Seven."},
    ]
    assert await roles(memory, *messages) == ["user", "assistant", "tool", "tool", "assistant", "other", "other"]


async def test_a_scope_that_is_not_to_be_had_has_a_reason(memory: Mnemic) -> None:
    reasons: list[tuple[dict[str, Any], str | None]] = [
        ({"scope": "group"}, None),
        ({"scope": "group", "private": True}, "private"),
        ({"scope": "group", "category": "profile"}, "personal_category"),
        ({"scope": "agent"}, "not_teacher"),
        ({}, None),
    ]
    for number, (changes, reason) in enumerate(reasons):
        wanted = {"category": "projects", **changes}
        remembered = await memory.remember(ANA, f"The harbor team deploys on day {number}.", **wanted)
        assert (changes, remembered.not_shared) == (changes, reason)
    mail = await memory.remember(ANA, "Write to harbor@example.com.", category="projects", scope="group")
    assert (mail.not_shared, mail.scope_key) == ("contact_data", "user:ana")
    await memory.admin.configure_agent(ANA, share_with_group=False)
    procedure = await memory.remember(ANA, "Deploy", kind="procedure", steps=["Tag it."], scope="group")
    assert (procedure.not_shared, procedure.scope_key) == ("settings", "user:ana")


@pytest.mark.parametrize("groups", [(), ("crew", "pier")])
async def test_the_scope_group_needs_one_group(memory: Mnemic, groups: tuple[str, ...]) -> None:
    who = ANA.model_copy(update={"group_ids": groups})
    for kind in ("fact", "procedure"):
        values: dict[str, Any] = {"category": "projects"} if kind == "fact" else {"steps": ["Tag it."], "kind": kind}
        with pytest.raises(InvalidInputError, match="group"):
            await memory.remember(who, DEPLOYS, scope="group", **values)
    assert await memory.memories(who) == []


async def test_a_refused_category_comes_with_the_allowed_ones(memory: Mnemic) -> None:
    planner = ANA.model_copy(update={"role": "planner"})
    with pytest.raises(InvalidInputError, match=r"category.*goals, tasks, projects"):
        await memory.remember(planner, DEPLOYS)
    with pytest.raises(CategoryRefusedError, match=r"'project'.*nearest is projects.*goals, tasks, projects"):
        await memory.remember(planner, DEPLOYS, category="project")
    with pytest.raises(CategoryRefusedError, match=r"'boats' is no category.*goals, tasks, projects"):
        await memory.query(planner, "boats", categories=["boats"])
    with pytest.raises(CategoryRefusedError, match=r"planner: style;.*goals, tasks, projects"):
        await memory.query(planner, "boats", categories=["style"])
    with pytest.raises(CategoryRefusedError, match=r"'planer'.*nearest is planner.*supervisor"):
        await memory.recall(ANA.model_copy(update={"role": "planer"}))


async def test_a_memory_that_is_not_in_force_is_refused_with_the_way_on(memory: Mnemic) -> None:
    old = await memory.remember(ANA, "Ana sails to Faro.", category="activity")
    gone = await memory.remember(ANA, "Ana plays chess.", category="activity")
    assert old.id
    assert gone.id
    new = await memory.correct(ANA, old.id, "Ana sails to Sines.")
    await memory.forget(ANA, gone.id)
    for memory_id, part in ((old.id, str(new.id)), (gone.id, "forgotten")):
        with pytest.raises(NotUpdatedError, match=part):
            await memory.update(ANA, memory_id, pinned=True)
        with pytest.raises(NotCorrectedError, match=part):
            await memory.correct(ANA, memory_id, "Ana rows.")


async def test_an_update_is_logged_as_one_with_its_values(memory: Mnemic) -> None:
    remembered = await memory.remember(ANA, "Ana sails to Faro.", category="activity")
    assert remembered.id
    await memory.update(ANA, remembered.id, pinned=True, tags=["sea"])
    added, updated = await memory.history.events(ANA, remembered.id)
    assert (added.changes, updated.reason) == ({}, "update_values")
    assert updated.changes == {"pinned": [False, True], "tags": [[], ["sea"]]}


async def test_a_dry_run_counts_the_messages_too(memory: Mnemic) -> None:
    await memory.observe(ANA, [{"role": "user", "content": "I sail."}])
    assert (await memory.privacy.erase_person(ANA, dry_run=True)).messages == 1
    assert (await memory.privacy.erase_person(ANA)).messages == 1


async def test_a_closed_mnemic_is_no_memory_that_is_away(clean_db: Clone, model: LoopbackModel) -> None:
    async with scripted_memory(clean_db, model) as opened:
        pass
    for call in (
        lambda: opened.recall(ANA, "Where do I sail?"),
        lambda: opened.query(ANA, "sailing"),
        lambda: opened.observe(ANA, [{"role": "user", "content": "I sail."}]),
        lambda: opened.memories(ANA),
        lambda: opened.threads.list(ANA),
        lambda: opened.form(ANA),
    ):
        with pytest.raises(ClosedError):
            await call()


async def test_a_middleware_without_tools_still_recalls(memory: Mnemic) -> None:
    assert memory.middleware().tools
    assert memory.middleware(tools=False).tools == []


class WithoutMemory(MessagesState):
    """A host's state that does not inherit `MemoryState`."""


class WithMemory(MessagesState, MemoryState):
    """The control."""


@pytest.mark.parametrize("state", [WithMemory, WithoutMemory])
async def test_a_state_without_the_channels_is_refused(memory: Mnemic, state: type[Any]) -> None:
    builder = StateGraph(state, context_schema=Identity)
    builder.add_node("recall", memory.nodes.recall())
    builder.add_edge(START, "recall")
    builder.add_edge("recall", END)
    messages: list[AnyMessage] = [HumanMessage("Where do I sail?")]
    running = builder.compile().ainvoke({"messages": messages}, context=ANA)
    if state is WithMemory:
        assert (await running)["memory_context"]
        return
    with pytest.raises(InvalidInputError, match="MemoryState"):
        await running


def test_settings_are_refused_by_their_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMIC_POOLSIZE", "4")
    with pytest.raises(ConfigurationError, match=r"MNEMIC_POOLSIZE.*MNEMIC_POOL_SIZE"):
        Settings()
    monkeypatch.delenv("MNEMIC_POOLSIZE")
    monkeypatch.setenv("MNEMIC_FOO", "4")  # like no setting: the prefix alone is alike
    with pytest.raises(ConfigurationError, match=r"MNEMIC_FOO, which is no setting$"):
        Settings()
