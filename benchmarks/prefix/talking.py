"""The example conversations go on with the supervisor, whose model's words are those of the conversation."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.prefix.shares import Pair, Request, pairs_of
from mnemic.memory.text.shape import count_tokens
from mnemic.models.replay import Exchange, Replay, read_record
from mnemic.service.cli.talks import TEAM, Talks
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings

#: Turns of each person that are measured, at most and at least.
_MOST, _LEAST = 12, 5
_ASKS = "Do you remember what I told you about that?"
_REMEDY = "conversations or settings have changed; record anew as benchmarks/corpus/recorded/README.md tells"
#: More than any thread here has: what is formed meanwhile would change the standing part.
_NEVER = 10**6


class Talker:
    """The supervisor's model: notes what it is sent; in a turn that says so, it calls a tool first."""

    def __init__(self) -> None:
        self.calls = False
        self.answer = ""
        self.sent: list[Request] = []

    def __call__(self, _: Exchange, request: Request) -> dict[str, Any] | None:
        """Return the message that answers; None for a request of another person."""
        if not request.get("tools"):
            return None
        self.sent.append(request)
        if self.calls:
            self.calls = False
            call = {"name": "memory_query", "arguments": '{"query": "what was said"}'}
            return {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "type": "function", "function": call}],
            }
        return {"role": "assistant", "content": self.answer}


async def talked(tokens: int, **settings: Any) -> list[Pair]:
    """Return the measured pairs of all people with enough messages.

    Args:
        tokens: of the thread when the measured turns begin.
        settings: of the `Mnemic`.
    """
    talks, talker, agent_id = Talks(), Talker(), f"prefix-{uuid4().hex[:8]}"
    pairs: list[Pair] = []
    with Replay(read_record(talks.record), _REMEDY, talker) as replay:
        given = {**replay.settings(), "agent_model": "openai:recorded", **settings}
        async with Mnemic.open(settings=Settings(**given)) as memory:
            for session in talks.messages:
                await talks.form(memory, agent_id, session)
            await memory.admin.configure_agent(
                Identity(agent_id=agent_id), formation_messages=_NEVER, formation_tokens=_NEVER
            )
            for person in talks.people():
                groups = (TEAM,) if person in talks.team else ()
                who = Identity(agent_id=agent_id, user_id=person, group_ids=groups, session_id=f"prefix-{person}")
                pairs += pairs_of([turn async for turn in _turns(memory, who, [*_said(talks, person)], talker, tokens)])
    return pairs


def _said(talks: Talks, person: str) -> Iterator[tuple[str, str]]:
    """Return a person's messages with their answers, in all conversations of that person alone."""
    alone = [talks.messages[session] for session in talks.messages if talks.people(session) == (person,)]
    lines = (line for talk in alone for line in talk if line["role"] in ("user", "assistant"))
    texts = ["\n".join(line["content"] for line in group) for _, group in groupby(lines, key=lambda line: line["role"])]
    yield from zip(texts[::2], texts[1::2], strict=False)


async def _turns(memory: Mnemic, who: Identity, said: list[tuple[str, str]], talker: Talker, tokens: int) -> Any:
    """Return the requests of each turn behind a thread of so many tokens; none if the person wrote too little."""
    graph, config = memory.graphs.supervisor(InMemorySaver()), memory.threads.config(who)
    begun = 0
    while begun < len(said) and sum(count_tokens(text) for pair in said[:begun] for text in pair) < tokens:
        begun += 1
    thread = [message for asked, told in said[:begun] for message in (HumanMessage(asked), AIMessage(told))]
    if len(said) - begun < _LEAST:
        return
    await graph.aupdate_state(config, {"messages": thread}, as_node="observe")
    for number, (asked, told) in enumerate(said[begun : begun + _MOST]):
        talker.sent, talker.answer, talker.calls = [], told, number % 4 == 3
        text = f"{asked} {_ASKS}" if number % 4 in (1, 2) else asked
        await graph.ainvoke({"messages": [HumanMessage(text)]}, config, context=who)
        yield talker.sent
