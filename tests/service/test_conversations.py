"""Every fact that a person tells an agent is stored or refused with a reason, whatever its shape, language and host."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIDetectionError,
    PIIMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from mnemic import Mnemic
from mnemic.service.hosts import middleware
from mnemic.state.identity import Identity
from tests.support.agents import agent, is_agent, thread
from tests.support.conversations import Conversation, careful_reader, conversations
from tests.support.loopback import LoopbackModel, Request, calling
from tests.support.middlewares import (
    Editing,
    chat_model,
    drop_all_but_last,
    drop_two,
    drop_users,
    only_recall,
    rewrite,
    summarizing,
)
from tests.support.scripted import FACTS, contents
from tests.support.worlds import identity

#: Added to each message that a middleware of this name changes or refuses.
MARKS = {"conceal": "ana@harbour.example", "block": "https://harbour.example/ana"}
OTHERS: dict[str, Callable[[LoopbackModel], AgentMiddleware[Any, Any, Any]]] = {
    "drop two": lambda _: Editing(drop_two),
    "drop users": lambda _: Editing(drop_users),
    "drop all": lambda _: Editing(drop_all_but_last),
    "summarize": summarizing,
    "rewrite": lambda _: Editing(rewrite),
    "conceal": lambda _: PIIMiddleware("email", strategy="redact"),
    "block": lambda _: PIIMiddleware("url", strategy="block"),
    "edit context": lambda _: ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)]),
    "approve": lambda _: HumanInTheLoopMiddleware({"look": True}),
    "retry tool": lambda _: ToolRetryMiddleware(max_retries=1, initial_delay=0),
    "retry model": lambda _: ModelRetryMiddleware(max_retries=1, initial_delay=0),
    "second model": lambda model: ModelFallbackMiddleware(chat_model(model, "gpt-agent")),
    "limit models": lambda _: ModelCallLimitMiddleware(run_limit=1),
    "limit tools": lambda _: ToolCallLimitMiddleware(thread_limit=1, exit_behavior="end"),
    "to-do list": lambda _: TodoListMiddleware(),
}
REMOVING = ("drop two", "drop users", "drop all", "summarize")


class Host:
    """An agent with memory and other middleware, and the person who talks to it."""

    def __init__(
        self, memory: Mnemic, model: LoopbackModel, *, before: Sequence[str] = (), behind: Sequence[str] = ()
    ) -> None:
        self._memory, self._model = memory, model
        self._others = {*before, *behind}
        self._calls = 0
        order = [OTHERS[name](model) for name in before]
        order.append(memory.middleware(form=False))
        order += [OTHERS[name](model) for name in behind]
        saver = InMemorySaver()
        self._agent = agent(memory, model, middleware=order, tools=[self._tool()], checkpointer=saver)

    def _tool(self) -> BaseTool:
        @tool
        def look() -> str:
            """Looks at the quay."""
            if self._fails("retry tool"):
                raise RuntimeError
            return "The quay is open."

        return look

    def _fails(self, *repeating: str) -> bool:
        """Whether this call fails: every second one does if one of these middlewares repeats it."""
        if self._others.isdisjoint(repeating):
            return False
        self._calls += 1
        return self._calls % 2 == 1

    async def form(self, talk: Conversation) -> tuple[list[str], Counter[str]]:
        """Have the conversation and form it; return the missing facts, and the refused ones by their reasons."""
        self._model.answer(lambda request: request["model"] == "gpt-summary", "They spoke of the harbour.")
        self._model.answer(is_agent, lambda request: self._answer(request, talk.thanks))
        self._model.answer(FACTS, careful_reader(talk.known))
        who = identity("ana", agent=talk.name, session=talk.name)
        if talk.by_turn:
            await self._memory.admin.configure_agent(who, formation_mode="per_turn")
        for text in talk.typed:
            await self._say(who, text)
        runs = await self._memory.form(who)
        stored = await contents(self._memory, who)
        missing = [statement for statement in talk.known.values() if statement not in stored]
        return missing, sum((Counter(run.refused) for run in runs), Counter())

    def _answer(self, request: Request, thanks: str) -> Any:
        if self._fails("retry model", "second model"):
            return 500
        if self._others and request["messages"][-1]["role"] != "tool":
            return calling(("look", {}))
        return thanks

    async def _say(self, who: Identity, text: str) -> None:
        """Take one turn; the person approves each call of a tool."""
        text = "\n".join([text, *(mark for name, mark in MARKS.items() if name in self._others)])
        step: Any = {"messages": [HumanMessage(text)]}
        with suppress(PIIDetectionError):
            while step:
                turn = await self._agent.ainvoke(step, thread(), context=who)
                step = None
                if "__interrupt__" in turn:
                    step = Command(resume={"decisions": [{"type": "approve"}]})


@pytest.mark.parametrize("number", [5, pytest.param(100, marks=pytest.mark.thorough)])
async def test_every_fact_is_stored_or_refused_with_a_reason(memory: Mnemic, model: LoopbackModel, number: int) -> None:
    for talk in conversations(number, seed=33):
        require_all(talk, *await Host(memory, model).form(talk))


@pytest.mark.parametrize("number", [len(OTHERS), pytest.param(100, marks=pytest.mark.thorough)])
async def test_so_it_is_with_other_middleware(memory: Mnemic, model: LoopbackModel, number: int) -> None:
    chance = random.Random(33)
    for place, talk in enumerate(conversations(number, seed=34)):
        one = [*OTHERS][place % len(OTHERS)]
        more = chance.sample([name for name in OTHERS if name != one], chance.randint(0, 2))
        others = chance.sample([one, *more], 1 + len(more))
        cut = chance.randint(0, len(others))
        host = Host(memory, model, before=others[:cut], behind=others[cut:])
        require_all(talk, *await host.form(talk), others)


def require_all(talk: Conversation, missing: list[str], refused: Counter[str], others: Sequence[str] = ()) -> None:
    """Require a reason for each missing fact. All of a batch are stored, a single turn can have more than its limit."""
    assert len(missing) == refused.total(), (talk, missing, refused, others)
    assert set(refused) <= ({"over_limit"} if talk.by_turn else set()), (talk, missing, refused, others)


@pytest.mark.parametrize(
    "other", ["drop two", *(pytest.param(name, marks=pytest.mark.thorough) for name in REMOVING[1:])]
)
async def test_control_without_the_store_at_the_start_facts_are_lost(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setattr(middleware, "begin_turn", only_recall)
    (talk,) = conversations(1, seed=35)
    missing, refused = await Host(memory, model, behind=[other]).form(talk)
    assert len(missing) > refused.total()
