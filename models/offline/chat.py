"""The offline chat model: it quotes what its user told it, keeps and forgets on request, and invents nothing."""

import json
import re
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import takewhile
from typing import Any, NamedTuple, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.questions import folded, is_question, repeats, spoken_sentences, without_questions
from mnemic.memory.text.shape import clip_text, strip_recalled
from mnemic.memory.text.words import sentences
from mnemic.models.offline.statements import asked_sentences, asked_words, order_rest, says_plainly

NOTICE = "Without a language model I only quote what you told me; set MNEMIC_API_KEY for real answers."
_CANNOT_FORGET = "I can only forget memories. This is a message: `mnemic erase` removes it."
_NOTHING = "I have nothing on that: I only quote what you told me."
#: Reasons of an automatic recall that make a message a question without a question mark.
_REQUESTED = frozenset({"phrase", "past_question", "own_question"})
#: Words of a question that name the act of remembering, not its object.
_ACTS = content_tokens(
    "know known remember recall remind tell told say said mention mentioned mean keep kept talk talked not"
)
_MEMORY = re.compile(r"<UserMemory\b[^>]*>\n(.*)\n</UserMemory>", re.DOTALL)
_TAG = re.compile(r"</?[A-Z][A-Za-z]*>")
_DATED = re.compile(r"(?:- )?(?:\[(\d{1,2} \w+ \d{4})\] )?(.+)", re.DOTALL)
_SAID = re.compile(r'([^"]+?) said: "(.*)"', re.DOTALL)
#: The end of a remark such as `Nice weather, isn't it?`, which needs no answer.
_QUESTION_TAG = re.compile(r"(?i)(?<=\w), \w+n['’]t \w+\W*$")
#: A word with a capital within a sentence.
_NAME = re.compile(r"\w,? [A-ZÀ-Þ]\w")
#: `Ana's brother ...`: a memory about another person.
_OF_ANOTHER = re.compile(r"\S+['’]s ")
#: Share of a question's words that a sure answer has, and the share below which a line is not worth a quotation.
_SURE, _CLOSE = 0.7, 0.3
_MAX_ANSWERS, _MAX_LISTED, _MAX_QUOTED, _MAX_QUERY, _MAX_GREETING_WORDS, _TOP_K = 2, 12, 300, 2000, 2, 50


class Remembered(NamedTuple):
    """A memory, or a message of the user."""

    id: str
    #: Day such as `3 May 2026`; empty if unknown.
    date: str
    text: str
    #: Name of the speaker of a message; empty for a memory.
    speaker: str = ""
    #: Time in ISO format; empty if unknown.
    time: str = ""


class OfflineChat(BaseChatModel):
    """Rules in place of a chat model, for a conversation without a key."""

    #: The names of the tools it may call.
    offered: tuple[str, ...] = ()
    #: Name of the user in memories and messages; only this user's messages are quoted.
    user: str = "The user"
    #: Reason of the automatic search of this turn.
    searched: str | None = None

    @property
    def _llm_type(self) -> str:
        return "mnemic-offline"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Self:
        """Return the same model with these tools."""
        names = tuple(convert_to_openai_tool(tool)["function"]["name"] for tool in tools)
        return self.model_copy(update={"offered": names})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        message = self._answer(messages)
        if any(call["name"] not in self.offered for call in message.tool_calls):
            message = AIMessage(f"{_NOTHING} {NOTICE}")
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Return the answer to the last message of the user, or the call of a tool."""
        request, last = strip_recalled(_last_human_text(messages)), messages[-1]
        has_notice = any(NOTICE in message.text for message in messages if isinstance(message, AIMessage))
        if not isinstance(last, ToolMessage):
            return self._first_answer(request, len(messages), has_notice=has_notice)
        if last.name != "memory_query":
            return AIMessage(_outcome(last))
        found = [*_results(messages), *_standing(messages)]
        forget = order_rest("forget", request)
        if forget:
            return self._forgetting(forget, found, len(messages))
        answer = self._quoted(request, found)
        if answer == _NOTHING and not has_notice:
            answer = f"{answer} {NOTICE}"
        return AIMessage(answer)

    def _first_answer(self, request: str, turn: int, *, has_notice: bool) -> AIMessage:
        """Return a search for a question or for a memory to forget, the memory to keep, or a plain answer."""
        if self.searched in (None, "follow_up"):
            request = _QUESTION_TAG.sub(".", request)
        query = order_rest("forget", request)
        kept = order_rest("keep", request)
        if self._is_asked(request):
            query = " ".join([_asked(request), *asked_sentences(_tokens(request))])
        elif kept and not says_plainly(request, self.user):
            content = f'{self.user} asked to remember: "{_single_quoted(kept)}."'
            return _call(turn, "remember", {"content": content, "category": "knowledge", "importance": 3})
        if query and (self.searched or _tokens(query)):
            search = {"query": query[:_MAX_QUERY], "top_k": _TOP_K, "returns": "full"}
            # the second search is for memories alone: a message counts as 2
            return _call(turn, "memory_query", search, {**search, "filters": {"importance_min": 3}})
        plain = "I am here." if _is_small(request) or _asks(request) else "Noted."
        return AIMessage(plain if has_notice else f"{plain} {NOTICE}")

    def _is_asked(self, request: str) -> bool:
        if order_rest("forget", request) or order_rest("keep", request):
            return False
        return self.searched in _REQUESTED or _asks(request)

    def _forgetting(self, order: str, found: Sequence[Remembered], turn: int) -> AIMessage:
        """Return the call that forgets the memory with all words of the order."""
        for memory in found:
            if memory.id and not memory.speaker and _has_all_words(memory.text, order):
                return _call(turn, "forget", {"id": memory.id})
        for message in found:
            if message.speaker and self._may_quote(message, order) and _has_all_words(message.text, order):
                return AIMessage(f"{_quotation(message)}\n{_CANNOT_FORGET}")
        return AIMessage("I remember nothing like that.")

    def _quoted(self, request: str, found: Sequence[Remembered]) -> str:
        """Return quotations that answer the request."""
        known = list({item.text: item for item in found if self._may_quote(item, request)}.values())
        asked = _tokens(request)
        shares = {item: _share(_asked(request), asked, item) for item in known}
        best = max(shares.values(), default=0.0)
        answers = [item for item in known if shares[item] == best]
        answers.sort(key=lambda item: ("name" in asked and bool(_NAME.search(item.text)), item.time), reverse=True)
        memories = [item for item in answers if not item.speaker]
        if best >= _CLOSE:
            lines = [_quotation(item) for item in (memories or answers)[:_MAX_ANSWERS]]
            return "\n".join(lines if best >= _SURE else ["The closest that I have:", *lines])
        if self.searched != "phrase":
            return _NOTHING
        lines = [f"- {_quotation(item)}" for item in sorted(known, key=lambda item: bool(item.speaker))[:_MAX_LISTED]]
        return "\n".join(["This is all that I remember:", *lines]) if lines else "I know nothing about you yet."

    def _may_quote(self, item: Remembered, request: str) -> bool:
        """Return whether a line is a memory, or a statement of this user that does not repeat the request."""
        if not item.speaker:
            return True
        if item.speaker != self.user or repeats(item.text, request) or _is_small(item.text):
            return False
        is_order = any(order_rest(name, item.text) for name in ("keep", "forget"))
        # the fact is quoted instead, unless it holds no longer
        return not is_order and not all(says_plainly(sentence, self.user) for sentence in spoken_sentences(item.text))


def _quotation(item: Remembered) -> str:
    if item.speaker:
        return f'You told me on {item.date}: "{clip_text(" ".join(item.text.split()), _MAX_QUOTED)}"'
    return f"{item.text} ({item.date})" if item.date else item.text


def _asks(request: str) -> bool:
    return bool(order_rest("ask", request)) or any(map(is_question, spoken_sentences(request)))


def _stated(message: str) -> str:
    """Return the sentences of a message that ask nothing."""
    statements = spoken_sentences(without_questions(message))
    return " ".join(sentence for sentence in statements if not order_rest("ask", sentence))


def _is_small(text: str) -> bool:
    """Return whether a text is a greeting or the like; words of other scripts may have no spaces."""
    return text.isascii() and len(folded(text)) <= _MAX_GREETING_WORDS


def _outcome(last: ToolMessage) -> str:
    """Return the answer after a memory was kept or forgotten."""
    if last.name == "forget":
        return "I kept it." if last.status == "error" else "It is forgotten."
    if last.status == "error":
        return "I could not make a memory of that; your message itself is kept."
    return "I will remember that."


def _last_human_text(messages: Sequence[BaseMessage]) -> str:
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.text
    return ""


def _results(messages: Sequence[BaseMessage]) -> Iterator[Remembered]:
    """Yield the results of the searches of this turn, the best of each first."""
    for message in takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages)):
        # the results are the last line; after a refusal there is no list
        line = message.text.rpartition("\n")[2]
        rows = json.loads(line) if line.startswith("[") and line.endswith("]") else []
        for row in rows:
            dated = _DATED.fullmatch(unescape(str(row["text"]).removeprefix(f"[{row['category']}] ")))
            said = _SAID.fullmatch(dated[2]) if dated else None
            if said and dated and row["category"] == "message":
                yield Remembered(str(row["id"]), dated[1] or "", _stated(said[2]), said[1], row.get("dated", ""))
            elif dated and row["category"] != "message":
                yield Remembered(str(row["id"]), dated[1] or "", dated[2], time=row.get("dated", ""))


def _standing(messages: Sequence[BaseMessage]) -> Iterator[Remembered]:
    """Yield the memories of this user that are always in context and that no search finds."""
    for message in takewhile(lambda message: isinstance(message, SystemMessage), messages):
        memory = _MEMORY.search(message.text)
        for line in memory[1].splitlines() if memory else ():
            dated = _DATED.fullmatch(unescape(line))
            for text in sentences(dated[2]) if dated and not _TAG.fullmatch(line) else ():
                yield Remembered("", dated[1] or "" if dated else "", text)


def _call(turn: int, name: str, *calls: dict[str, Any]) -> AIMessage:
    made: list[ToolCall] = []
    for number, arguments in enumerate(calls, start=1):
        made.append(ToolCall(name=name, args=arguments, id=f"call_{turn}_{number}"))
    return AIMessage("", tool_calls=made)


def _single_quoted(text: str) -> str:
    return text.strip().rstrip(".!").replace('"', "'")


def _asked(request: str) -> str:
    """Return the questions of a message, or the whole message if none has a question mark."""
    return " ".join(filter(is_question, spoken_sentences(request))) or request


def _tokens(request: str) -> frozenset[str]:
    """Return the content words of the questions of a message, without those for the act of remembering."""
    return content_tokens(re.sub(r"(?i)\b(?:called|named)\b", "name", _asked(request))) - _ACTS


def _share(question: str, asked: frozenset[str], item: Remembered) -> float:
    """Return the share of the asked words, by their letters, that an item has; a question word counts for nothing."""
    if re.search(r"\bI\b", question) and not re.search(r"(?i)\bmy\b", question) and _OF_ANOTHER.match(item.text):
        return 0.0
    present = asked & asked_words(item.text, asked)
    first = content_tokens(folded(question)[0]) - present if folded(question) else frozenset()
    letters = len("".join(asked - first))
    if not letters or (present == {"name"} and present != asked):
        return 0.0
    return len("".join(present)) / letters


def _has_all_words(line: str, request: str) -> bool:
    """Return whether a memory has every content word of the request, about the same person; False in doubt."""
    words = content_tokens(request.replace("n't", " not"))
    is_of_another = re.match(r"I\b", request) and _OF_ANOTHER.match(line)
    return bool(words) and words <= content_tokens(line) and not is_of_another
