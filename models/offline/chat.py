"""The offline chat model: it answers with memories, forgets on request, and invents nothing."""

import json
import re
from collections.abc import Iterable, Sequence
from html import unescape
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.questions import is_bare_question
from mnemic.memory.text.shape import strip_recalled

_QUESTION = re.compile(r"\?\s*$|^\s*(?:who|what|where|when|why|how|which|tell me|remind me)\b", re.IGNORECASE)
_ABOUT_ME = re.compile(r"\b(?:know|remember) about me\b|\bwho (?:am I|I am)\b", re.IGNORECASE)
_FORGET = re.compile(r"\s*(?:please\s+)?forget\b(?:\s+(?:that|about))?\s*(.+)", re.IGNORECASE | re.DOTALL)
#: Text of a message in the results, and a bracket if it was an answer from the memory.
_SAID = re.compile(r' said: "(\[)?(.*)"$', re.DOTALL)
#: `Ana's brother ...`: a memory about another person.
_OF_ANOTHER = re.compile(r"(?:\[[^\]]*\] )?\S+['’]s ")
_MAX_LINES, _MAX_CHARS, _TOP_K = 5, 2000, 10


class OfflineChat(BaseChatModel):
    """Rules in place of a chat model, for a conversation without a key."""

    #: The names of the tools it may call.
    offered: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "mnemic-offline"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Self:
        """Return the same model with these tools."""
        names = tuple(convert_to_openai_tool(tool)["function"]["name"] for tool in tools)
        return self.model_copy(update={"offered": names})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        message = _answer(messages)
        if any(call["name"] not in self.offered for call in message.tool_calls):
            message = AIMessage("I do not know.")
        return ChatResult(generations=[ChatGeneration(message=message)])


def _answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """Return the answer to the last message, or the call of a tool."""
    request = strip_recalled(_last_human_text(messages))
    forget, last, turn = _FORGET.match(request), messages[-1], len(messages)
    if not isinstance(last, ToolMessage):
        return _first_answer(request, forget, turn)
    if last.name == "forget":
        if last.status == "error":
            return AIMessage("I kept it.")
        return AIMessage("It is forgotten.")
    rows = _results(last)
    memories = [line for line, row in rows.items() if row["category"] != "message"]
    if forget:
        for line in memories:
            if _has_all_words(line, forget[1]):
                return _call(turn, "forget", id=rows[line]["id"])
        return AIMessage("I remember nothing like that.")
    if not _ABOUT_ME.search(request):
        memories = _best(request, memories) or _best(request, filter(_is_statement, rows))
    return AIMessage("\n".join(memories[:_MAX_LINES]) or "I do not know.")


def _last_human_text(messages: Sequence[BaseMessage]) -> str:
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.text
    return ""


def _first_answer(request: str, forget: re.Match[str] | None, turn: int) -> AIMessage:
    """Return a search for a question or for the memory to forget, else a plain answer."""
    query = ""
    if forget:
        query = forget[1]
    elif _QUESTION.search(request):
        query = request
    if not query:
        return AIMessage("I see.")
    return _call(turn, "memory_query", query=query[:_MAX_CHARS], top_k=_TOP_K)


def _results(message: ToolMessage) -> dict[str, dict[str, Any]]:
    """Return the results of a search by their lines, without the category."""
    # the results are at the end; without results, or after a refusal, there is no list
    if not message.text.endswith("]"):
        return {}
    rows: dict[str, dict[str, Any]] = {}
    for row in json.loads(message.text[message.text.find("[") :]):
        rows[unescape(str(row["text"]).removeprefix(f"[{row['category']}] "))] = row
    return rows


def _call(turn: int, name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call_{turn}"}])


def _is_statement(line: str) -> bool:
    """Return whether a line is neither a bare question nor an answer from the memory."""
    said = _SAID.search(line)
    return said is None or not (said[1] or is_bare_question(said[2]))


def _best(request: str, lines: Iterable[str]) -> list[str]:
    """Return the lines that share most content words with the request."""
    is_about_speaker = re.search(r"\bI\b", request) and not re.search(r"\bmy\b", request)
    best: list[str] = []
    max_shared = 1
    for line in lines:
        shared = len(content_tokens(request) & content_tokens(line))
        if (is_about_speaker and _OF_ANOTHER.match(line)) or shared < max_shared:
            continue
        if shared > max_shared:
            best, max_shared = [], shared
        best.append(line)
    return best


def _has_all_words(line: str, request: str) -> bool:
    """Return whether a memory has every content word of the request, about the same person; False in doubt."""
    words = content_tokens(request.replace("n't", " not"))
    is_of_another = re.match(r"I\b", request) and _OF_ANOTHER.match(line)
    return bool(words) and words <= content_tokens(line) and not is_of_another
