"""What the offline chat model says and does: rules on the last message and on what stands in the prompt."""

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from mnemic.models.offline.lines import FORGET, HEARD, NOT_KEPT, QUESTION, UNKNOWN, fitting, says_it, telling
from mnemic.prompts.supervise import ALONE

_DELEGATE = re.compile(
    r"^\s*(?:please\s+)?(?:ask|have|let)\s+the\s+(?P<who>planner|researcher|executor)\s+(?:to\s+)?(?P<task>.+)",
    re.IGNORECASE | re.DOTALL,
)
_LINE = re.compile(r"^- (?P<line>.+)$", re.MULTILINE)
_UPDATES = re.compile(r"<Updates\b.*?</Updates>", re.DOTALL)
#: No question: it is remembered without being asked.
_KEEP = re.compile(
    r"\b(?:can|could|will|would) you (?:please )?(?:remember|note|keep) (?:that|this)[^?]{0,80}\?", re.IGNORECASE
)
#: Characters of a question to the memory.
_LONGEST = 2000
#: What is said to words that tell nothing.
_COURTESIES = (
    (r"(?:hello|hi|hey|hallo|good (?:morning|afternoon|evening))(?: there| again)?", "Hello."),
    (r"(?:thanks|thank you|many thanks|danke)(?: so much| very much| a lot| again)?", "You are welcome."),
    (r"(?:bye|goodbye|good night|see you|tschüss)(?: bye| later| soon| tomorrow)?", "Goodbye."),
    (
        r"help|(?:can|could) you help(?: me)?|(?:who|what|how) are you|what can you do",
        "I am a few rules, without a language model. I remember what you tell me, say it when you ask, and forget it "
        "when you say so.",
    ),
)


class Call(NamedTuple):
    """A tool call."""

    name: str
    arguments: Mapping[str, Any]
    #: How many messages there were, so that ids stay apart.
    turn: int


def converse(messages: Sequence[BaseMessage], offered: Sequence[str]) -> tuple[str, list[Call]]:
    """The answer to the last message: what is said, and which of the offered tools are called."""
    said = next((one.text for one in reversed(messages) if isinstance(one, HumanMessage)), "")
    if isinstance(messages[-1], ToolMessage):
        return _after_tools(said, messages, offered)
    if (wanted := _DELEGATE.match(said)) and wanted["who"].lower() in offered:
        return "", [Call(wanted["who"].lower(), {"task": wanted["task"].strip()}, len(messages))]
    query = "memory_query" in offered
    if (forgotten := FORGET.match(said)) and query:
        if not telling(forgotten["what"]):
            return "Say what I am to forget, one thing at a time.", []
        return "", [Call("memory_query", {"query": forgotten["what"].strip()[:_LONGEST], "top_k": 10}, len(messages))]
    if (told := _courtesy(said)) and not _is_task(messages):
        return told, []
    if not QUESTION.search(_KEEP.sub("", said)) and not _is_task(messages):
        return HEARD, []
    known = fitting(said, _shown(messages))
    if known and not _is_task(messages):
        return _told(known), []
    if query:
        return "", [Call("memory_query", {"query": said[:_LONGEST], "top_k": 10}, len(messages))]
    return UNKNOWN, []


def _after_tools(said: str, messages: Sequence[BaseMessage], offered: Sequence[str]) -> tuple[str, list[Call]]:
    answers = _last_answers(messages)
    rows = [row for answer in answers if answer.name == "memory_query" for row in _rows(answer.text)]
    forgotten = FORGET.match(said)
    if forgotten and any(answer.name == "forget" for answer in answers):
        return ("I kept it." if answers[-1].status == "error" else "It is forgotten."), []
    if forgotten and "forget" in offered:
        return _forgetting(forgotten["what"][:_LONGEST], rows, len(messages))
    others = [answer.text for answer in answers if answer.name != "memory_query"]
    lines = others or fitting(said, [_line(row) for row in rows])
    return (_told(lines) if lines else UNKNOWN), []


def _forgetting(what: str, rows: Sequence[Mapping[str, Any]], turn: int) -> tuple[str, list[Call]]:
    meant = [row for row in rows if says_it(_line(row), what)]
    memory = next((row for row in meant if row.get("category") != "message"), None)
    if memory is not None:
        return "", [Call("forget", {"id": memory["id"]}, turn)]
    return f"{NOT_KEPT} It was said, and what was said I cannot forget." if meant else NOT_KEPT, []


def _courtesy(said: str) -> str | None:
    words = said.casefold().strip(" \n.!?,")
    return next((answer for shape, answer in _COURTESIES if re.fullmatch(shape, words)), None)


def _last_answers(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Those of the last calls."""
    answers: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            answers.insert(0, message)
    return answers


def _rows(text: str) -> list[dict[str, Any]]:
    """The rows of `memory_query`'s answer; none where it found or could do nothing."""
    start = text.find("[")
    try:
        rows = json.loads(text[start:]) if start >= 0 else []
    except ValueError:
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _line(row: Mapping[str, Any]) -> str:
    """What a row says, as the memory context would show it."""
    return unescape(str(row.get("text", "")).removeprefix(f"[{row.get('category')}] "))


def _is_task(messages: Sequence[BaseMessage]) -> bool:
    """Whether another agent asks: then whatever it says is a question."""
    return isinstance(messages[0], SystemMessage) and messages[0].text.startswith(ALONE)


def _shown(messages: Sequence[BaseMessage]) -> list[str]:
    """The lines of the memory context."""
    system = messages[0].text if isinstance(messages[0], SystemMessage) else ""
    context = _UPDATES.sub("", system.partition("<MemoryContext>")[2])  # they say what changed, and not what is so
    return [unescape(found["line"]) for found in _LINE.finditer(context)]


def _told(lines: Sequence[str]) -> str:
    return "\n".join(lines)
