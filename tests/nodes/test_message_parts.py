"""What is stored of a message that is not one text: plain text as words, an attachment as a mark, its text apart."""

from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage

from mnemic import Mnemic
from mnemic.memory.messages.incoming import last_question
from mnemic.memory.runtime.transcript import transcript
from mnemic.prompts.messages.supervise import WORDLESS
from mnemic.state.errors import InvalidInputError
from tests.support.worlds import identity

ANA = identity("ana", session="s1")
TEXT: Any = {"type": "text", "text": "Look at my boat."}
IMAGE: Any = {"type": "image_url", "image_url": {"url": "data:,"}}
SPEECH = "I moved to Ghent."


def of_user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


KEYS = "The crew hands over the keys."
#: A message, and what is stored of it: its words and marks, and the text of its attachments.
MESSAGES: list[tuple[Any, *tuple[str, ...]]] = [
    ({"role": "user", "content": TEXT}, "Look at my boat."),
    (HumanMessage([TEXT, IMAGE]), "Look at my boat.\n[image]"),
    (of_user({"type": "image", "url": "https://example.org/1.png"}), "[image]"),
    (
        of_user({"type": "input_text", "text": "Read this."}, {"type": "input_file", "file_id": "f1"}),
        "Read this.\n[file]",
    ),
    (of_user({"type": "text-plain", "text": KEYS}), "[file]", KEYS),
    (of_user({"type": "tool_result", "text": KEYS}), KEYS),
    (of_user({"type": "tool_call", "name": "look", "args": {}}),),
    (of_user({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}), "[audio]"),
    (of_user({"type": "input_audio", "transcript": SPEECH}), "[audio]", SPEECH),
    (HumanMessage([{"type": "audio", "base64": "UklGRg==", "extras": {"transcript": SPEECH}}]), "[audio]", SPEECH),
    ({"role": "assistant", "content": None, "audio": {"id": "a1", "transcript": "Lovely."}}, "Lovely."),
    (AIMessage("", additional_kwargs={"audio": {"id": "a2", "transcript": "Lovely, too."}}), "Lovely, too."),
    (AIMessage([{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "I see."}]), "I see."),
]


async def test_words_are_stored_and_an_attachment_leaves_a_mark(memory: Mnemic, superuser: psycopg.Connection) -> None:
    await memory.observe(ANA, [message for message, *_ in MESSAGES])
    rows = superuser.execute("select content from mnemic.messages order by place").fetchall()
    assert [content for (content,) in rows] == [text for _, *texts in MESSAGES for text in texts]


def test_a_question_has_no_marks() -> None:
    assert last_question([HumanMessage([TEXT, IMAGE])]).text == "Look at my boat."
    assert last_question([HumanMessage([IMAGE])]).text == ""


def test_a_spoken_question_is_searched_for_though_it_is_not_typed() -> None:
    spoken = HumanMessage([{"type": "input_audio", "input_audio": {"transcript": "Where is my boat?"}}])
    assert last_question([spoken]).text == "Where is my boat?"


def test_a_summary_of_the_history_is_no_message_of_the_user() -> None:
    summary = HumanMessage("Ana asked for a boat.", additional_kwargs={"lc_source": "summarization"})
    unusable = HumanMessage("A boat.").model_copy(update={"content": 5})
    asked = HumanMessage("And the oars?")
    assert last_question([HumanMessage("Where is it?"), summary, asked]).previous == "Where is it?"
    assert last_question([unusable, asked]) == ("And the oars?", "", None)


@pytest.mark.parametrize("part", [{}, {"type": "text", "text": ["I keep bees."]}, {"text": 1}])
def test_a_part_that_cannot_be_read_does_not_end_a_thread(part: Any) -> None:
    messages: list[Any] = [HumanMessage([TEXT, part]), HumanMessage("Well?")]
    shown = transcript("You are a guide.", messages, {})
    assert "Look at my boat." in str(shown[1].content)


def test_a_message_without_content_does_not_end_a_thread() -> None:
    messages: list[Any] = [HumanMessage.model_construct(content=None), HumanMessage("Well?")]
    shown = transcript("You are a guide.", messages, {})
    assert [message.content for message in shown[1:]] == [WORDLESS, "Well?"]


async def test_half_a_character_costs_no_question_and_no_memory(memory: Mnemic) -> None:
    half = "\ud800"
    kept = await memory.remember(ANA, f"Ana keeps{half} bees on the quay.", category="activity")
    assert [item.id for item in await memory.query(ANA, f"bees{half} on the quay")] == [kept.id]
    await memory.correct(ANA, kept.id or "", f"Ana keeps goats{half} on the quay.")
    await memory.remember(
        ANA, f"Milk{half} the goats", kind="procedure", steps=[f"Fetch{half} the pail.", "Milk them."]
    )
    texts = [item.content for item in await memory.memories(ANA.model_copy(update={"role": "owner"}))]
    assert any("goats on the quay" in text for text in texts)
    assert half not in str(texts)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"role": "user", "content": "I keep bees.", "timestamp": "2026-01-01T10:00:00+01:00"}, "timestamp.*time"),
        ({"role": "user", "content": "I keep bees.", "user_id": "bo"}, "user_id.*user"),
        ({"role": "user", "text": "I keep bees."}, "content"),
        ({"role": "user", "content": {"words": "I keep bees."}}, "content"),
        ({"role": "user", "content": "I keep bees.", "time": 1760000000}, "time.*ISO"),
    ],
    ids=["a misspelt time", "a misspelt user", "no content", "a part without a type", "a number as time"],
)
async def test_a_message_whose_words_date_or_speaker_would_be_lost_is_refused(
    memory: Mnemic, message: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidInputError, match=named):
        await memory.observe(ANA, [message])


async def test_a_langchain_message_may_bring_its_time_as_an_attribute(memory: Mnemic) -> None:
    await memory.observe(ANA, [HumanMessage("I keep bees.", time="2026-03-02T07:30:00+08:00")])
    (kept,) = await memory.privacy.messages(ANA)
    assert kept.said_at.isoformat() == "2026-03-02T07:30:00+08:00"
