"""Text that came with a message and was not typed: kept and found as an attachment, and never a memory by itself."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from mnemic.memory.formation.grounding import Attachments
from mnemic.memory.messages import incoming
from mnemic.prompts.messages.supervise import ATTACHED
from mnemic.service.cli.message_files import FileMessage, read_messages
from mnemic.service.memory import Mnemic
from mnemic.state.records import attachment_id
from tests.support.agents import agent, requests, says
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    decisions,
    fact,
    facts,
    last_prompt,
    observation,
    observations,
    reflection,
    reflections,
)
from tests.support.worlds import identity, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANA = identity("ana", session="s1", groups=["crew"], teaches=True)
CLAIM = "The crew hands the vault keys to Mallory every Friday."
#: Without a name or a number.
PLAIN = "Refunds are approved without any check."
TEXT = f"{CLAIM} {PLAIN}"
TYPED = "Please read this for me."

#: Parts that nobody typed, each with the text. Of LangChain, Chat Completions, the Responses API, Anthropic and a host.
PARTS: dict[str, dict[str, Any]] = {
    "plain text file": {"type": "text-plain", "text": TEXT, "mime_type": "text/plain"},
    "file with text": {"type": "file", "source_type": "text", "text": TEXT},
    "input file": {"type": "input_file", "filename": "notes.txt", "text": TEXT},
    "document": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": TEXT}},
    "document in parts": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": TEXT}]},
    },
    "tool result": {"type": "tool_result", "tool_use_id": "t1", "content": TEXT},
    "tool result in parts": {"type": "tool_result", "content": [{"type": "text", "text": TEXT}]},
    "tool result in strings": {"type": "tool_result", "content": [TEXT]},
    "output of a call": {"type": "function_call_output", "call_id": "c1", "output": TEXT},
    "reasoning": {"type": "reasoning", "reasoning": TEXT},
    "summary of reasoning": {"type": "reasoning", "summary": [{"type": "summary_text", "text": TEXT}]},
    "thinking": {"type": "thinking", "thinking": TEXT, "signature": "s"},
    "search result": {"type": "search_result", "title": "Keys", "content": [{"type": "text", "text": TEXT}]},
    "image with text": {"type": "image_url", "image_url": {"url": "data:,"}, "text": TEXT},
    "transcript": {"type": "input_audio", "input_audio": {"data": "UklGRg==", "transcript": TEXT}},
    "transcript of LangChain": {"type": "audio", "base64": "UklGRg==", "extras": {"transcript": TEXT}},
    "unknown type": {"type": "canvas", "text": TEXT},
    "non-standard": {"type": "non_standard", "value": {"kind": "memo", "content": TEXT}},
    "no type": {"text": TEXT},
    "no string as type": {"type": ["text"], "text": TEXT},
    "text of a model": {"type": "output_text", "text": TEXT},
    "text with a source": {"type": "text", "text": TEXT, "source": "https://example.org"},
    "text with a citation": {"type": "text", "text": TEXT, "citations": [{"type": "char_location"}]},
    "text with an annotation": {"type": "text", "text": TEXT, "annotations": [{"type": "citation"}]},
    "text with extras": {"type": "text", "text": TEXT, "extras": {"filename": "a.txt"}},
    "text with a document within": {"type": "text", "text": "", "document": {"content": TEXT}},
}
#: Parts that are typed, whatever empty or technical fields they have.
TYPED_PARTS: dict[str, Any] = {
    "string": TEXT,
    "text": {"type": "text", "text": TEXT},
    "input text": {"type": "input_text", "text": TEXT},
    "cached": {"type": "text", "text": TEXT, "id": "p1", "index": 0, "cache_control": {"type": "ephemeral"}},
    "empty annotations": {"type": "text", "text": TEXT, "annotations": [], "citations": None},
}
some_parts = ("plain text file", "tool result in parts", "unknown type", "text with a source")


def obey(model: LoopbackModel, *texts: str) -> None:
    """Let the model draft the texts in every scope and category, citing the words, the attachment, and both."""
    drafted = []
    for text in texts:
        for cited in ([1], [2], [1, 2]):
            drafted += [(text, cited, {"scope": "user", "category": "profile"})]
            drafted += [
                (text, cited, {"scope": scope, "category": "knowledge"}) for scope in ("user", "group", "agent")
            ]
    model.answer(FACTS, facts(*(fact(text, *cited, **given) for text, cited, given in drafted)))
    model.answer(DECISIONS, decisions())
    drawn = [reflection(text, *cited) for text in texts for cited in ([1], [2], [1, 2])]
    model.answer(REFLECTIONS, reflections(agent=drawn, group=drawn, user=drawn, session=drawn, episode=texts[-1]))
    model.answer(OBSERVATIONS, observations(*(observation(text, *cited, **given) for text, cited, given in drafted)))


def memories(superuser: psycopg.Connection) -> set[str]:
    """Return what the memories of all scopes say."""
    return {content for (content,) in superuser.execute("select content from mnemic.memories").fetchall()}


async def found(memory: Mnemic) -> set[tuple[str, str | None]]:
    """Return kind and role of the search results that hold the claim."""
    results = await memory.query(ANA, "Who gets the vault keys every Friday?")
    return {(item.kind, item.role) for item in results if "Mallory" in item.content}


@pytest.mark.parametrize("part", PARTS)
async def test_untyped_text_is_stored_as_an_attachment_and_never_as_a_memory(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, part: str
) -> None:
    obey(model, CLAIM, PLAIN)
    await memory.observe(ANA, [HumanMessage([{"type": "text", "text": TYPED}, PARTS[part]])])
    await memory.form(ANA)

    assert memories(superuser) == set()
    assert await found(memory) == {("message", "attachment")}
    assert "Ana (attachment): " in last_prompt(model, FACTS)
    recalled = await memory.recall(ANA, "Who gets the vault keys every Friday?", search="always")
    assert 'Ana attached: "' in text_of(recalled.context)


@pytest.mark.parametrize("part", TYPED_PARTS)
async def test_control_typed_text_is_a_memory(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, part: str
) -> None:
    obey(model, CLAIM, PLAIN)
    await memory.observe(ANA, [HumanMessage([TYPED_PARTS[part]])])
    await memory.form(ANA)

    assert {CLAIM, PLAIN} <= memories(superuser)


@pytest.mark.parametrize("part", some_parts)
async def test_control_without_the_rule_for_parts_it_is_a_memory(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(incoming, "is_written", lambda *_: True)
    obey(model, CLAIM, PLAIN)
    await memory.observe(ANA, [HumanMessage([{"type": "text", "text": TYPED}, PARTS[part]])])
    await memory.form(ANA)

    assert {CLAIM, PLAIN} <= memories(superuser)


async def test_control_a_draft_that_cites_words_alone_needs_the_attachment_rule(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attachments, "supply", lambda *_: False)
    obey(model, PLAIN)
    await memory.observe(ANA, [HumanMessage([{"type": "text", "text": TYPED}, PARTS["document"]])])
    await memory.form(ANA)

    rows = superuser.execute("select distinct scope_key from mnemic.memories where content = %s", (PLAIN,)).fetchall()
    assert ("user:ana",) in rows


async def test_what_the_user_types_beside_an_attachment_is_theirs(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    own = "Ana keeps bees behind the harbour office."
    model.answer(FACTS, facts(fact(own, category="profile"), fact(f"{own[:-1]} with Mallory.", category="profile")))
    model.answer(REFLECTIONS, reflections())
    typed = "I keep bees behind the harbour office, and here is a note."
    await memory.observe(ANA, [HumanMessage([{"type": "text", "text": typed}, PARTS["document"]])])
    await memory.form(ANA)

    assert memories(superuser) == {own}
    rows = superuser.execute(
        "select m.role from mnemic.sources s join mnemic.messages m on m.id = s.message_id order by m.place"
    ).fetchall()
    assert rows == [("user",), ("attachment",)]  # so that an erasure of the fact takes both


async def test_an_attachment_goes_with_the_erased_message(memory: Mnemic, superuser: psycopg.Connection) -> None:
    await memory.observe(ANA, [HumanMessage([{"type": "text", "text": TYPED}, PARTS["document"]])])
    await memory.form(ANA)
    (typed,) = [message for message in await memory.privacy.messages(ANA) if message.role == "user"]
    await memory.privacy.erase(ANA, typed.id)

    assert await memory.privacy.messages(ANA) == []
    assert superuser.execute("select count(*) from mnemic.entries").fetchone() == (0,)


@pytest.mark.parametrize("is_apart", [False, True], ids=["", "in a session kept apart from another person's"])
async def test_an_attachment_goes_with_a_message_that_an_erasure_takes_along(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, is_apart: bool
) -> None:
    if is_apart:
        await memory.observe(identity("bo", session="s1"), [HumanMessage("Good morning.")])
    model.answer(FACTS, facts(fact("Ana named her dinghy Petrel.", 1, category="profile")))
    model.answer(REFLECTIONS, reflections())
    said = [
        HumanMessage("I named my dinghy Petrel."),
        HumanMessage([{"type": "text", "text": "A map."}, PARTS["document"]]),
    ]
    await memory.observe(ANA, said)
    await memory.form(ANA)
    rows = superuser.execute("select id, attached_to from mnemic.messages where role = 'attachment'").fetchall()
    assert [attachment_id(parent) for _, parent in rows] == [own for own, _ in rows]
    assert await found(memory) == {("message", "attachment")}

    (known,) = await memory.memories(ANA, ["fact"])
    await memory.privacy.erase(ANA, known.id)

    assert await found(memory) == set()
    assert await memory.privacy.messages(ANA) == []


#: Other messages with parts that nobody typed, as a host, an agent and a tool send them.
OTHERS: dict[str, list[BaseMessage | dict[str, Any]]] = {
    "a mapping": [{"role": "user", "content": [{"type": "input_text", "text": TYPED}, PARTS["document"]]}],
    "a single part": [{"role": "user", "content": TYPED}, {"role": "user", "content": PARTS["document"]}],
    "spoken, beside the content": [HumanMessage(TYPED, additional_kwargs={"audio": {"transcript": TEXT}})],
    "an answer with a file": [HumanMessage(TYPED), AIMessage([{"type": "text", "text": "Here."}, PARTS["document"]])],
    "a tool's message": [
        HumanMessage(TYPED),
        AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "c1"}]),
        ToolMessage([{"type": "text", "text": "Read."}, PARTS["file with text"]], tool_call_id="c1"),
    ],
}


@pytest.mark.parametrize("sent", OTHERS)
async def test_it_is_so_in_messages_of_every_shape(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, sent: str
) -> None:
    obey(model, CLAIM, PLAIN)
    await memory.observe(ANA, OTHERS[sent])
    await memory.observe(ANA, OTHERS[sent])  # hosts send the list again
    await memory.form(ANA)

    assert [text for text in memories(superuser) if "Mallory" in text] == []
    assert await found(memory) == {("message", "attachment")}
    attached = superuser.execute("select count(*) from mnemic.messages where role = 'attachment'").fetchone()
    assert attached == (1,)


async def test_it_is_so_in_a_file_of_messages(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    file = tmp_path / "s1.jsonl"
    parts = [{"type": "text", "text": TYPED}, PARTS["document"], PARTS["text with a source"], PARTS["no type"]]
    file.write_text(json.dumps({"session": "s1", "role": "user", "content": parts}))
    lines = [line.fields() for line in read_messages([file]) if isinstance(line, FileMessage)]
    obey(model, CLAIM, PLAIN)
    await memory.observe(ANA, lines)
    await memory.form(ANA)

    assert memories(superuser) == set()
    assert await found(memory) == {("message", "attachment")}


@pytest.mark.usefixtures("superuser")
async def test_an_assistants_thoughts_and_calls_are_not_stored(memory: Mnemic) -> None:
    inner = [PARTS["reasoning"], PARTS["thinking"], {"type": "tool_use", "id": "t", "input": {"text": TEXT}}]
    await memory.observe(ANA, [HumanMessage("Hello."), AIMessage([*inner, {"type": "text", "text": "Hi."}])])

    assert [message.content for message in await memory.privacy.messages(ANA)] == ["Hi.", "Hello."]


@pytest.mark.usefixtures("superuser")
async def test_what_a_recall_returned_is_not_stored_as_an_attachment(memory: Mnemic) -> None:
    await memory.remember(ANA, "Ana keeps bees on the quay.", category="activity")
    context = await memory.recall(ANA, "Where does Ana keep bees?", search="always")
    assert "bees on the quay" in text_of(context.context)
    result = {"type": "tool_result", "content": text_of(context.context)}
    await memory.observe(ANA, [HumanMessage([{"type": "text", "text": TYPED}, result])])

    assert [message.content for message in await memory.privacy.messages(ANA)] == [TYPED]


async def test_it_is_so_through_the_middleware_of_a_hosts_agent(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    obey(model, CLAIM, PLAIN)
    says(model, "I read it.")
    sent = HumanMessage([{"type": "text", "text": TYPED}, PARTS["image with text"], PARTS["text with a source"]])
    await agent(memory, model).ainvoke({"messages": [sent]}, context=ANA)
    await memory.form(ANA)

    assert memories(superuser) == set()
    assert await found(memory) == {("message", "attachment")}


async def test_supervisor_marks_attachments_and_shows_them_so_in_later_turns(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    obey(model, CLAIM, PLAIN)
    says(model, "I read it.", "Bye.")
    graph: Any = memory.graphs.supervisor(InMemorySaver())
    config = {"configurable": {"thread_id": "s1"}}
    first = {"type": "human", "content": [{"type": "text", "text": TYPED}, PARTS["text with a source"]]}
    await graph.ainvoke({"messages": [first]}, config, context=ANA)
    await graph.ainvoke({"messages": [HumanMessage("Thanks.")]}, config, context=ANA)
    await memory.form(ANA)

    assert memories(superuser) == set()
    earlier = next(text for text in map(str, requests(model)[-1]["messages"]) if TYPED in text)
    assert earlier.index(TYPED) < earlier.index(ATTACHED) < earlier.index(CLAIM)
