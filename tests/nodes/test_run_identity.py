"""Whose run it is: as the host says, and where a server authenticated somebody, theirs alone."""

from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.runtime import ExecutionInfo, Runtime, ServerInfo
from typing_extensions import TypedDict

from mnemic.memory.messages.incoming import to_messages
from mnemic.memory.runtime.identity import BoundIdentity, acting_for, identity_of, require_own_scope
from mnemic.service.memory import Mnemic
from mnemic.state.errors import RefusedIdentityError
from mnemic.state.identity import Identity
from tests.support.loopback import LoopbackModel, schema_name
from tests.support.scripted import (
    CONSOLIDATION,
    FACTS,
    REFLECTIONS,
    consolidation,
    facts,
    reflection,
    reflections,
    turns,
)
from tests.support.threads import in_sequence

ASKED: dict[str, Any] = {"agent_id": "guide"}


class User(dict[str, Any]):
    """An authenticated user as LangGraph Server has one."""

    display_name = ""
    permissions = ()

    def __init__(self, identity: str, *, is_authenticated: bool = True, **fields: Any) -> None:
        super().__init__(fields)
        self.identity, self.is_authenticated = identity, is_authenticated


ANA = User("ana", agents=["guide", "clerk"], groups=["harbor", "pier"])


def run(context: Any = ASKED, user: User | None = ANA, thread: str | None = "t1") -> Runtime[Any]:
    return Runtime(
        context=context,
        server_info=ServerInfo("", "", user),
        execution_info=ExecutionInfo("", "", "", thread_id=thread),
    )


def test_a_run_is_the_authenticated_users_on_its_thread() -> None:
    expected = BoundIdentity(
        agent_id="guide", user_id="ana", actor_id="ana", session_id="t1", group_ids=("harbor", "pier")
    )
    for context in (
        ASKED,
        Identity(agent_id="guide"),
        SimpleNamespace(agent_id="guide"),
        {**ASKED, "user_id": "ana", "actor_id": "ana", "session_id": "t1", "group_ids": ["harbor", "pier"]},
    ):
        assert identity_of(run(context)) == identity_of(run(context), in_turn=True) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user_id", "bea"),
        ("actor_id", "administrator"),
        ("session_id", "t2"),
        ("agent_id", "other"),
        ("group_ids", ["harbor", "quay"]),
        ("role", "owner"),
        ("teaches_agent", True),
        ("members", ("mallory",)),
    ],
)
def test_run_that_names_a_foreign_id_is_refused_without_naming_its_owner(field: str, value: Any) -> None:
    with pytest.raises(RefusedIdentityError, match=field) as refused:
        identity_of(run({**ASKED, field: value}))
    assert "ana" not in str(refused.value)
    assert str(value) not in str(refused.value)


@pytest.mark.parametrize("user", [None, User("local", is_authenticated=False)])
def test_where_nobody_was_authenticated_the_host_says_whose_run_it_is(user: User | None) -> None:
    """The control of the test above: only an authenticated user binds."""
    named = {**ASKED, "user_id": "bea", "session_id": "t2", "group_ids": ["quay"]}
    assert identity_of(run({**named, "role": "planner"}, user)) == Identity(**named, role="planner")


def test_server_thread_is_the_session_and_in_a_host_graph_that_of_the_turn() -> None:
    served, info = run(ASKED, None), ExecutionInfo("", "", "", thread_id="t1")
    hosted: Runtime[Any] = Runtime(context=Identity(**ASKED), execution_info=info)
    assert identity_of(served).session_id == identity_of(served, in_turn=True).session_id == "t1"
    assert identity_of(hosted).session_id is None
    assert identity_of(hosted, in_turn=True).session_id == "t1"


def test_without_a_session_of_its_own_a_run_has_none_and_may_name_none() -> None:
    assert identity_of(run(thread=None)).session_id is None
    with pytest.raises(RefusedIdentityError, match="session_id"):
        identity_of(run({**ASKED, "session_id": "t1"}, thread=None))


def test_somebody_authenticated_in_another_way_has_no_groups_and_any_agent() -> None:
    other = User("ana")
    assert identity_of(run({"agent_id": "any"}, other)).group_ids == ()
    with pytest.raises(RefusedIdentityError, match="group_ids"):
        identity_of(run({**ASKED, "group_ids": ["harbor"]}, other))


def test_acting_principal_of_a_run_stays_fixed_and_no_request_creates_one() -> None:
    own = identity_of(run({**ASKED, "timezone": "Europe/Lisbon"}))
    bo = acting_for(own, "user:bo")
    assert (own.timezone, bo.timezone) == ("Europe/Lisbon", None)
    assert (bo.user_id, bo.actor_id, bo.session_id) == ("bo", "ana", "t1")
    assert identity_of(run(bo)) is bo
    with pytest.raises(RefusedIdentityError, match="user_id"):
        identity_of(run(bo.model_dump()))
    with pytest.raises(RefusedIdentityError, match="user_id"):
        identity_of(run(Identity(**bo.model_dump())))


class Turn(TypedDict, total=False):
    formed: dict[str, Any]


async def form(memory: Mnemic, thread: str, user: User) -> Any:
    """The formation graph inside a host's graph on a server, which has authenticated this user."""

    async def node(_: Turn, runtime: Runtime[Any]) -> Turn:
        inner: Any = memory.graphs.formation
        return {"formed": await inner.ainvoke({"force": True}, context=runtime.context)}

    config: Any = {"configurable": {"thread_id": thread, "langgraph_auth_user": user, "graph_id": "host"}}
    return await in_sequence(Turn, {"form": node}).compile().ainvoke({}, config, context=ASKED)


async def spoken(memory: Mnemic, model: LoopbackModel) -> list[Identity]:
    """A session in which Ana and Bo spoke, with a wish of each that a consolidation is due for."""
    model.answer(FACTS, facts())
    wishes = [reflection("Ana wants short answers."), reflection("Bo wants long answers.", 2)]
    model.answer(REFLECTIONS, reflections(user=wishes))
    model.answer(CONSOLIDATION, consolidation("Wants answers: Ana short ones, Bo long ones."))
    both = [Identity(agent_id="guide", user_id=user, session_id="t1", members=("ana", "bo")) for user in ("ana", "bo")]
    for speaker in both:
        await memory.admin.configure_scope(speaker, f"user:{speaker.user_id}", threshold=1)
        await memory.observe(speaker, turns(f"I am {speaker.user_id}."))
    return both


@pytest.mark.parametrize("only_own", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["", "control"])
async def test_formation_consolidates_each_speaker_key_in_an_authenticated_run(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, only_own: bool
) -> None:
    """The control acts as the run's user for every key."""
    if only_own:
        monkeypatch.setattr("mnemic.memory.formation.steps.acting_for", lambda who, _: who)
    both = await spoken(memory, model)
    formed = (await form(memory, "t1", ANA))["formed"]
    for request in (request for request in model.chat_requests if schema_name(request) == CONSOLIDATION):
        assert str(request["messages"]).count("answers.") == 1  # the wish of whose text it is, and of nobody else
    outcomes = {item["scope_key"]: item["outcome"] for item in formed["consolidations"]}
    assert outcomes == {"user:ana": "saved", "user:bo": "failed" if only_own else "saved"}
    assert [len(await memory.memories(item, ["consolidation"])) for item in both] == [1, 0 if only_own else 1]


@pytest.mark.parametrize("field", ["user", "author"])
def test_whoever_was_authenticated_speaks_for_nobody_else(field: str) -> None:
    """Whose words they are decides whose memories they become; the control is a host that says that several speak."""
    said = [{"role": "user", "content": "I moved to Oslo.", field: "bob"}]
    for several in (False, True):
        with pytest.raises(RefusedIdentityError, match="speaks for no other user"):
            to_messages(said, identity_of(run()), several_speakers=several)
    hosted = Identity(agent_id="guide", user_id="ana", session_id="t1")
    assert [item.user_id for item in to_messages(said, hosted, several_speakers=True)] == ["bob"]
    own = [{"role": "user", "content": "I moved to Oslo."}, {"role": "user", "content": "Yes.", field: "ana"}]
    assert [item.user_id for item in to_messages(own, identity_of(run()))] == ["ana", "ana"]


def test_what_others_share_is_no_requests_to_change() -> None:
    asked = identity_of(run())
    require_own_scope(asked, "user:ana")
    require_own_scope(asked, "session:t1")
    for key in ("agent:guide", "group:pier"):
        with pytest.raises(RefusedIdentityError, match="shared with others"):
            require_own_scope(asked, key)
        require_own_scope(Identity(agent_id="guide", group_ids=("pier",)), key)
