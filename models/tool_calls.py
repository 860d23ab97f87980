"""Get the next message of a model that may call tools: a turn of a refinement, or the agent's answer to its user.

Every call in it can be executed or refused, and sent back to the model.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, InvalidToolCall, ToolMessage
from langchain_core.messages import ToolCall as SentCall
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk
from pydantic_core import from_json

from mnemic.memory.text.shape import clean_text, clip_text, whole_characters
from mnemic.models.answers import Bound, StepResult, ask, is_unreasonable
from mnemic.models.chat import HIDDEN, ChatModels, offline
from mnemic.models.reading import leading_object
from mnemic.prompts.refinement.refine import REFINE, RefineInput
from mnemic.prompts.repair import FILTERED, REFUSED, ValidationIssue
from mnemic.state.errors import ConfigurationError, ModelOutputError
from mnemic.state.refinement import ToolCall, Turn
from mnemic.state.worker_threads import in_thread

if TYPE_CHECKING:  # 30 ms that the offline rules never need; a test holds it
    from langchain_core.tools import BaseTool

#: Function names and call ids that providers accept in a request.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
#: Replaces a name that could not be sent back; no tool has it.
NO_NAME = "unreadable"
#: Characters kept of the text around the calls. It helps only the model, and is sent back with every later turn.
MAX_TEXT_CHARS: Final = 2000
#: Maximum number of calls in one answer; a model caught in a loop makes hundreds.
_MAX_CALLS: Final = 16
#: Advice if the provider refuses every request with tools.
_CHECK: Final = "A model that takes no tools looks the same: check MNEMIC_AGENT_MODEL, or the agent's own agent_model,"
_AS_BEFORE: Final = "the conversation is as it was before this answer"


async def run_turn(step_input: RefineInput, tools: Sequence["BaseTool"], models: ChatModels) -> StepResult[Turn]:
    """Return the next turn of a refinement, from the agent's model or from the offline rule.

    The tools are shown to the model, not called. The turn holds every call, readable ones first. The arguments are None
    if they are no JSON object, are far too long, or belong to an answer that was cut off. An answer that is refused,
    filtered or empty is a turn without calls.

    Raises:
        ModelError: if no answer arrived; the message names the kind of failure.
        ModelOutputError: if the provider refused the request itself.
        ConfigurationError: if the model cannot be made, or takes no tools.
    """
    call = await models.for_call(REFINE.tier, REFINE.prompt.name)
    if call.model is None:
        # 20 ms for 350 memories, which must not block the event loop
        return StepResult(await in_thread(await offline("steps", REFINE.prompt.name), step_input), call.spent)
    messages = [*REFINE.messages(step_input), *_sent_back(step_input.turns)]
    bound, left = _offering(call.model, tools), "this turn changed nothing"
    answer, flaw, spent = await ask(call, bound, messages, call.spent, left=left, check=_CHECK)
    if flaw in (REFUSED, FILTERED):
        return StepResult(Turn(), spent)
    start = str(answer.text)[: 4 * MAX_TEXT_CHARS]  # the rest of a longer text is dropped without being cleaned
    text = clip_text(clean_text(start), MAX_TEXT_CHARS)
    used_ids: set[str] = set()
    for turn in step_input.turns:
        used_ids.update(call.id for call in turn.calls)
    return StepResult(Turn(text=text, calls=tuple(_calls(answer, flaw, used_ids))), spent)


class OfflineHints(NamedTuple):
    """Values that the offline rules need and that a request does not show."""

    #: Name of the user in memories and messages.
    user: str = "The user"
    #: Reason of the automatic search of the turn.
    searched: str | None = None


async def run_answer(
    messages: Sequence[BaseMessage],
    tools: Sequence["BaseTool"],
    models: ChatModels,
    subagent: str | None = None,
    hints: OfflineHints | None = None,
) -> StepResult[AIMessage]:
    """Return the agent's next message in a conversation, from its model or from the offline rules.

    The message has at most 16 calls, and none if no tools are offered. Every call can be sent back and has an id of its
    own in the conversation. A call has no arguments if they cannot be read or broke off; each of our tools then refuses
    it with an error that names the missing argument.

    Args:
        messages: the conversation.
        tools: the tools that the model may call.
        models: the agent's own.
        subagent: the subagent that the answer belongs to, for the usage record; its tokens are not streamed to the
            host. None for the agent itself.
        hints: values for the offline rules alone.

    Raises:
        ModelError: if no answer arrived; the message names the kind of failure.
        ModelOutputError: if the provider refused the request, or there is nothing to show or do in the answer.
        ConfigurationError: if the model cannot be made, or takes no tools.
    """
    call = await models.for_call("agent", subagent or "converse", shown=subagent is None)
    if call.model is None:
        rules = (await offline("chat", "OfflineChat"))(**(hints or OfflineHints())._asdict()).bind_tools(tools)
        if subagent:
            rules = rules.model_copy(update=dict(HIDDEN))
        return StepResult(await rules.ainvoke(list(messages)), call.spent)
    streamed = _Streamed()
    bound: Bound = call.model.model_copy(update={"callbacks": [streamed]})
    if tools:  # providers refuse an empty list
        bound = _offering(bound, tools)
    answer, flaw, spent = await ask(
        call, bound, messages, call.spent, left=_AS_BEFORE, check=_CHECK, begun=lambda: streamed.begun
    )
    if flaw and not answer.text:
        raise ModelOutputError(
            f"{spent.model} gave no usable answer for {spent.step}: {flaw.kind}; {_AS_BEFORE}. "
            "Say it again, or in other words",
            spent=spent,
        )
    if not tools:  # a call of a tool that was not offered is dropped
        return StepResult(AIMessage(answer.content, id=answer.id), spent)
    return StepResult(_with_usable_calls(answer, _calls(answer, flaw, _used_ids(messages), streamed.broken())), spent)


def _used_ids(messages: Iterable[BaseMessage]) -> set[str]:
    used_ids: set[str] = set()
    for message in messages:
        if isinstance(message, AIMessage):
            used_ids.update(str(call["id"]) for call in message.tool_calls)
    return used_ids


def _with_usable_calls(answer: AIMessage, usable: Iterable[ToolCall]) -> AIMessage:
    """Return the answer with these calls, as many as one answer may have; the answer itself if it has no others."""
    calls = [_sent(call) for call in islice(usable, _MAX_CALLS)]
    if calls == answer.tool_calls and not answer.invalid_tool_calls:
        return answer
    return AIMessage(
        whole_characters(answer.text),
        id=answer.id,
        tool_calls=calls,
        usage_metadata=answer.usage_metadata,
        response_metadata=answer.response_metadata,
    )


def _offering(model: Any, tools: Sequence["BaseTool"]) -> Bound:
    try:
        bound: Bound = model.bind_tools(tools)
        return bound
    except NotImplementedError:
        raise ConfigurationError(
            f"{type(model).__name__} takes no tools: choose another MNEMIC_AGENT_MODEL, or agent_model of the agent"
        ) from None


def _calls(
    answer: AIMessage, flaw: ValidationIssue | None, used_ids: set[str], broken: frozenset[str] = frozenset()
) -> Iterator[ToolCall]:
    """Return the calls of an answer, each with a name and an id that can be sent back.

    Args:
        answer: answer of a model.
        flaw: the reason if the answer is not complete.
        used_ids: ids of earlier calls, which no new call may have; the ids of these calls are added.
        broken: ids of calls with arguments that broke off.
    """
    if flaw in (REFUSED, FILTERED):
        return
    calls: list[ToolCall] = []
    for sent in answer.tool_calls:
        is_readable = flaw is None and sent["id"] not in broken
        calls.append(_call(sent, sent["args"] if is_readable else None))
    for invalid in answer.invalid_tool_calls:
        calls.append(_call(invalid, None if flaw else _leading_arguments(invalid)))
    for call in calls:
        call_id = call.id
        if not _ID.fullmatch(call_id) or call_id in used_ids:
            call_id = _free_id(used_ids)
        used_ids.add(call_id)
        yield call._replace(id=call_id)


def _free_id(used_ids: set[str]) -> str:
    number = 1
    while f"call_{number}" in used_ids:
        number += 1
    return f"call_{number}"


def _leading_arguments(call: InvalidToolCall) -> dict[str, Any] | None:
    """Return arguments that are complete in a code fence or before further text; None for an object that broke off."""
    text = call["args"] or ""
    if not call["name"] or is_unreasonable(text.encode(errors="replace")):
        return None
    return leading_object(text)


def _call(sent: SentCall | InvalidToolCall, arguments: dict[str, Any] | None) -> ToolCall:
    """Return a call in the form in which it can be sent back."""
    name = sent["name"]
    if not name or not _NAME.fullmatch(name):
        name = NO_NAME
    return ToolCall(id=sent["id"] or "", name=name, arguments=_plain_arguments(arguments))


def _plain_arguments(arguments: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return arguments as plain JSON, or None if they hold NaN, half characters, endless nesting or too much text."""
    try:
        text = json.dumps(arguments)
        if is_unreasonable(text.encode()):
            return None
        plain: dict[str, Any] | None = from_json(text, allow_inf_nan=False)
    except (TypeError, ValueError, RecursionError):  # a TypeError for values of a provider's own types
        return None
    return plain


def _sent_back(turns: Iterable[Turn]) -> Iterator[BaseMessage]:
    """Return the calls so far and their results. Arguments that could not be read are left out."""
    for turn in turns:
        if turn.calls:
            yield AIMessage(turn.text, tool_calls=[_sent(call) for call in turn.calls])
        for call in turn.calls:
            yield ToolMessage(call.answer, tool_call_id=call.id, name=call.name)


def _sent(call: ToolCall) -> SentCall:
    return tool_call(name=call.name, args=dict(call.arguments or {}), id=call.id)


class _Streamed(AsyncCallbackHandler):
    """Keep the arguments of calls as they arrived, if a host makes the model stream.

    langchain-core completes arguments that broke off (`parse_partial_json`), and half of a memory would pass for the
    whole.
    """

    def __init__(self) -> None:
        #: Whether a token has arrived, which a host may have shown.
        self.begun = False
        self._chunks: list[AIMessageChunk] = []

    async def on_llm_new_token(
        self, token: object, *, chunk: GenerationChunk | ChatGenerationChunk | None = None, **_: Any
    ) -> None:
        self.begun = True
        if not isinstance(chunk, ChatGenerationChunk):
            return
        message = chunk.message
        if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
            self._chunks.append(AIMessageChunk(content="", tool_call_chunks=message.tool_call_chunks))

    def broken(self) -> frozenset[str]:
        """Return the ids of calls with arguments that are no complete JSON."""
        whole = reduce(add, self._chunks, AIMessageChunk(content=""))
        return frozenset(str(call["id"]) for call in whole.tool_call_chunks if not _is_json(call["args"] or "{}"))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
