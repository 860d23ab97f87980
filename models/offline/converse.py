"""What the offline chat model says and does: rules on the last message and on what stands in the prompt."""

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from mnemic.models.offline.text import stem
from mnemic.policy.common_words import FUNCTION_WORDS
from mnemic.policy.words import folded_words
from mnemic.prompts.supervise import ALONE

_QUESTION = re.compile(
    r"\?\s*$|^\s*(?:what|who|whom|whose|where|when|why|how|which|do|does|did|is|are|was|were|can|could|will|would|should"
    r"|tell me|remind me)\b",
    re.IGNORECASE,
)
_FORGET = re.compile(r"^\s*(?:please\s+)?forget\b(?:\s+(?:that|about))?\s*(?P<what>.+)", re.IGNORECASE | re.DOTALL)
_DELEGATE = re.compile(
    r"^\s*(?:please\s+)?(?:ask|have|let)\s+the\s+(?P<who>planner|researcher|executor)\s+(?:to\s+)?(?P<task>.+)",
    re.IGNORECASE | re.DOTALL,
)
_LINE = re.compile(r"^- (?P<line>.+)$", re.MULTILINE)
_UPDATES = re.compile(r"<Updates\b.*?</Updates>", re.DOTALL)
#: A kept message, and no memory.
_SAID = re.compile(r"^(?:\[[^\]]*\] )?[^:]{1,200} said: ")
#: Lines told at once.
_MOST = 5


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
    if (forgotten := _FORGET.match(said)) and query:
        return "", [Call("memory_query", {"query": forgotten["what"].strip()[:2000], "top_k": 10}, len(messages))]
    if not _QUESTION.search(said) and not _is_task(messages):
        return "I see.", []
    known = _fitting(said, _shown(messages))
    if known and not _is_task(messages):
        return _told(known), []
    if query:
        return "", [Call("memory_query", {"query": said[:2000], "top_k": 10}, len(messages))]
    return "I do not know.", []


def _after_tools(said: str, messages: Sequence[BaseMessage], offered: Sequence[str]) -> tuple[str, list[Call]]:
    answers = _last_answers(messages)
    rows = [row for answer in answers if answer.name == "memory_query" for row in _rows(answer.text)]
    memories = [row for row in rows if row.get("category") != "message"]
    forgotten = _FORGET.match(said)
    if forgotten and rows and "forget" in offered:
        meant = [row for row in memories if _covers(str(row.get("text", "")), forgotten["what"])]
        if not meant:
            return "I remember nothing like that.", []
        return "", [Call("forget", {"id": meant[0]["id"]}, len(messages))]
    if forgotten and any(answer.name == "forget" for answer in answers):
        return ("I kept it." if answers[-1].status == "error" else "It is forgotten."), []
    others = [answer.text for answer in answers if answer.name != "memory_query"]
    lines = others or _fitting(said, [str(row.get("text", "")) for row in rows])
    return (_told(lines) if lines else "I do not know."), []


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


def _is_task(messages: Sequence[BaseMessage]) -> bool:
    """Whether another agent asks: then whatever it says is a question."""
    return isinstance(messages[0], SystemMessage) and messages[0].text.startswith(ALONE)


def _shown(messages: Sequence[BaseMessage]) -> list[str]:
    """The lines of the memory context."""
    system = messages[0].text if isinstance(messages[0], SystemMessage) else ""
    context = _UPDATES.sub("", system.partition("<MemoryContext>")[2])  # they say what changed, and not what is so
    return [unescape(found["line"]) for found in _LINE.finditer(context)]


def _fitting(said: str, lines: Sequence[str]) -> list[str]:
    """Lines that share a telling word with what was said, the most of them first; each once.

    Where memories fit, what was said on the way to them is left out: it may have been taken back since.
    """
    wanted = _telling(said)
    scored = [(len(wanted & _telling(line)), line) for line in dict.fromkeys(lines)]
    fitting = [line for score, line in sorted(scored, key=lambda pair: -pair[0]) if score]
    return ([line for line in fitting if not _SAID.search(line)] or fitting)[:_MOST]


def _covers(line: str, what: str) -> bool:
    wanted = _telling(what)
    return bool(wanted) and 2 * len(wanted & _telling(line)) >= len(wanted)


def _telling(text: str) -> set[str]:
    return {stem(word) for word in folded_words(text) if word not in FUNCTION_WORDS}


def _told(lines: Sequence[str]) -> str:
    return "\n".join(lines)
