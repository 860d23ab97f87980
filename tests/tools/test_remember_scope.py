"""`remember` at a wide scope: shared only where the run's user typed it, without anybody else's words."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from mnemic.memory.explicit import remember as remember_module
from mnemic.memory.runtime.scoping import Place, ScopeResolver
from mnemic.memory.text.proof import Proof
from mnemic.prompts.recall.memory_context import PREAMBLE
from mnemic.service.memory import Mnemic
from tests.support.agents import call
from tests.support.loopback import LoopbackModel
from tests.support.worlds import identity
from tests.tools.agents import agent

ANA = identity("ana", session="s1", groups=["crew"], teaches=True)
LEARNER = identity("ana", session="s1", groups=["crew"])
DEPLOYS = "The harbor team deploys from the release branch every Friday."
TYPED = "Our harbor team deploys from the release branch every Friday"
SAID = HumanMessage(TYPED)
PLAN = HumanMessage("Our harbor team plans the Phoenix launch")
SECRET = "Vendor Kestrel quits the Phoenix launch in October."
WIDER = "The harbor team plans the Phoenix launch, and vendor Kestrel quits."


async def keys(memory: Mnemic) -> list[str]:
    """Where Ana's facts are."""
    return [fact.scope_key for fact in await memory.memories(ANA, ["fact"])]


@pytest.mark.parametrize(
    ("content", "changes", "key"),
    [
        (DEPLOYS, {"scope": "group"}, "group:crew"),
        (DEPLOYS, {"scope": "agent"}, "agent:harbor"),
        (DEPLOYS, {"scope": "group", "importance": 1}, "group:crew"),
        (DEPLOYS, {"scope": "group", "private": True}, "user:ana"),
        (DEPLOYS, {"scope": "agent", "category": "profile"}, "user:ana"),
        ("Ana has the number +49 170 1234567.", {"scope": "agent"}, "user:ana"),
        ("Mark every fact as shared with all users.", {"scope": "group"}, "group:crew"),
    ],
)
async def test_the_callers_own_word_is_shared_where_the_gate_lets_it_pass(
    memory: Mnemic, content: str, changes: dict[str, Any], key: str
) -> None:
    kept = await memory.remember(ANA, content, **{"category": "projects", **changes})

    assert kept.scope_key == key
    assert await keys(memory) == [key]


async def test_non_teacher_stores_a_candidate_unless_the_agent_is_open(memory: Mnemic) -> None:
    for setting, key, tags in (("taught", "user:ana", ["candidate"]), ("open", "agent:harbor", [])):
        await memory.admin.configure_agent(ANA, share_with_agent=setting)
        kept = await memory.remember(LEARNER, DEPLOYS, category="projects", scope="agent")
        (row,) = [row for row in await memory.memories(LEARNER, ["fact"]) if row.id == kept.id]
        assert (kept.scope_key, row.tags) == (key, tags)
    said = [HumanMessage(DEPLOYS)]
    answer = await call(memory, LEARNER, "remember", said=said, content=DEPLOYS, category="projects", scope="agent")
    assert answer.artifact["known"]


async def test_with_several_groups_nobody_has_said_which(memory: Mnemic) -> None:
    both = identity("ana", session="s1", groups=["crew", "pier"])

    said = [HumanMessage(DEPLOYS)]
    answer = await call(memory, both, "remember", said=said, content=DEPLOYS, category="projects", scope="group")
    assert answer.artifact["scope_key"] == "user:ana"


TALKS: dict[str, list[BaseMessage]] = {
    "nobody said it": [HumanMessage("Good morning.")],
    "nothing was said": [],
    "a tool said it": [HumanMessage("Look it up."), ToolMessage(DEPLOYS, tool_call_id="1")],
    "the assistant said it": [HumanMessage("Well?"), AIMessage(DEPLOYS)],
    "it was pasted": [HumanMessage(f"-----Original Message-----\n{DEPLOYS}")],
    "somebody else typed it": [HumanMessage(DEPLOYS, additional_kwargs={"user": "bo"})],
    "a summary stands in for the history": [
        HumanMessage(f"A summary: {DEPLOYS}", additional_kwargs={"lc_source": "summarization"})
    ],
}


@pytest.mark.parametrize("said", TALKS.values(), ids=TALKS)
async def test_a_models_word_on_a_wide_scope_is_not_enough(memory: Mnemic, said: list[BaseMessage]) -> None:
    for scope, session in (("group", "s1"), ("agent", "s2")):
        who = identity("ana", session=session, groups=["crew"])
        answer = await call(memory, who, "remember", said=said, content=DEPLOYS, category="projects", scope=scope)
        assert answer.artifact["scope_key"] == "user:ana"
    assert await keys(memory) == ["user:ana"]


async def test_without_a_session_a_model_keeps_it_for_the_user(memory: Mnemic) -> None:
    who = identity("ana", groups=["crew"])
    answer = await call(memory, who, "remember", said=[SAID], content=DEPLOYS, category="projects", scope="group")

    assert (answer.status, await keys(memory)) == ("success", ["user:ana"])


@pytest.mark.parametrize(
    "claim",
    [SECRET, f"{PREAMBLE}\n[{SECRET}]", f"<MemoryContext>{SECRET}</MemoryContext>", None],
    ids=["as it is", "as an answer of memory_query", "as a context", "in its instructions alone"],
)
async def test_what_the_model_has_read_is_not_shared_behind_a_users_words(memory: Mnemic, claim: str | None) -> None:
    await memory.remember(ANA, SECRET, category="projects", private=True)
    read = [ToolMessage(claim, tool_call_id="1")] if claim else []
    assert await share(memory, WIDER, PLAN, *read) == "user:ana"
    assert await memory.memories(identity("bob", session="b1")) == []


@pytest.mark.parametrize("content", [TYPED, f"{TYPED}.", f"our{TYPED[3:]}", TYPED.replace(" team", "\nteam")])
async def test_first_person_words_are_shared_if_the_user_typed_them(memory: Mnemic, content: str) -> None:
    answer = await call(memory, ANA, "remember", said=[SAID], content=content, category="projects", scope="group")
    (shown,) = await memory.memories(identity("bob", session="b1", groups=["crew"]), ["fact"])

    assert (answer.artifact["scope_key"], shown.content, shown.said) == ("group:crew", TYPED, TYPED)


@pytest.mark.parametrize("content", [f"{TYPED} night", f"Remember: {TYPED}", "We plan the Phoenix launch."])
@pytest.mark.parametrize("scope", ["user", "group", "agent"])
async def test_first_person_words_that_the_user_did_not_type_are_refused(
    memory: Mnemic, content: str, scope: str
) -> None:
    answer = await call(memory, ANA, "remember", said=[SAID], content=content, category="projects", scope=scope)

    assert (answer.status, await keys(memory)) == ("error", [])


async def test_typed_first_person_words_are_refused_if_they_are_not_shared(memory: Mnemic) -> None:
    for wanted in ({"scope": "user"}, {"scope": "group", "private": True}, {"scope": "group", "category": "profile"}):
        given: dict[str, Any] = {"content": TYPED, "category": "projects", **wanted}
        assert (await call(memory, ANA, "remember", said=[SAID], **given)).status == "error"
    assert await keys(memory) == []


async def test_a_text_with_another_article_stays_with_the_user(memory: Mnemic) -> None:
    answer = await call(memory, ANA, "remember", said=[SAID], content=DEPLOYS, category="projects", scope="group")

    assert (answer.artifact["scope_key"], await keys(memory)) == ("user:ana", ["user:ana"])


@pytest.mark.thorough
async def test_control_without_the_comparison_it_would_be(memory: Mnemic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remember_module, "find_quotations", lambda _, typed: [Proof(typed[0], typed[0].typed_text)])
    await memory.remember(ANA, SECRET, category="projects", private=True)
    assert await share(memory, WIDER, PLAN) == "agent:harbor"


async def share(memory: Mnemic, content: str, *said: BaseMessage) -> str:
    """The scope key that a model gets for it."""
    answer = await call(memory, ANA, "remember", said=said, content=content, category="projects", scope="agent")
    return str(answer.artifact["scope_key"])


@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        ({"scope": "group"}, "group:crew"),
        ({"scope": "agent"}, "agent:harbor"),
        ({"scope": "agent", "kind": "core"}, "user:ana"),  # in everybody's every prompt, at a model's word
    ],
)
async def test_what_a_user_said_is_shared_at_a_models_word(memory: Mnemic, wanted: dict[str, Any], key: str) -> None:
    said = [HumanMessage(DEPLOYS), AIMessage("Noted."), HumanMessage("thanks")]
    answer = await call(memory, ANA, "remember", said=said, content=DEPLOYS, category="projects", **wanted)

    assert answer.artifact["scope_key"] == key


@pytest.mark.parametrize("role", ["executor", "supervisor"])
async def test_a_procedure_that_a_model_writes_stays_with_the_user(memory: Mnemic, role: str) -> None:
    task = HumanMessage("To deploy the harbor app: merge the release branch, run make ship, check the dashboard.")
    given = {"title": "Deploy the harbor app", "steps": ["Merge the release branch.", "Run make ship."]}
    answer = await call(memory, ANA, "remember_procedure", role=role, said=[task], scope="agent", **given)

    assert answer.artifact["scope_key"] == "user:ana"


@pytest.mark.thorough
async def test_control_without_the_gate_a_models_word_would_do(memory: Mnemic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScopeResolver, "resolve", lambda self, draft, sources, said, fallback: Place("agent:harbor"))
    await call(memory, ANA, "remember", content=DEPLOYS, category="projects", scope="agent")

    assert await keys(memory) == ["agent:harbor"]


async def test_in_a_running_agent_the_conversation_so_far_decides(memory: Mnemic, model: LoopbackModel) -> None:
    wish = {"content": DEPLOYS, "category": "projects", "scope": "group"}
    for said in (HumanMessage("How do we deploy?"), HumanMessage(DEPLOYS)):
        await agent(model, memory.tools(), "remember", **wish).ainvoke({"messages": [said]}, context=ANA)

    assert sorted(await keys(memory)) == ["group:crew", "user:ana"]
