"""The next message of a chat model in a conversation: the agent's own words, streamed where its host streams."""

import asyncio
import json
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk

from mnemic.models.answers import Aftermath, Flaw, ask, stopped
from mnemic.models.chat import HIDDEN, ChatModels
from mnemic.models.steps import StepResult
from mnemic.models.tool_calls import TAKES_NO_TOOLS, offering, readable_calls
from mnemic.policy.text.shape import whole_characters
from mnemic.state.errors import ModelOutputError
from mnemic.state.kinds import Usage

if TYPE_CHECKING:  # 30 ms that the offline rules of formation never need; a test holds it
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from mnemic.models.offline.chat import OfflineChat

_AFTERMATH = Aftermath(left="the conversation is as it was before this answer", check=TAKES_NO_TOOLS)


async def run_answer(
    messages: Sequence[BaseMessage], tools: Sequence["BaseTool"], models: ChatModels, subagent: str | None = None
) -> StepResult[AIMessage]:
    """The agent's next message in a conversation, by its model, or by the offline rules where there is none.

    What `converse` says of answers and failures holds here.

    Args:
        messages: the conversation.
        tools: what the model may call.
        models: the agent's own.
        subagent: as whom it speaks, under whose name its tokens are recorded and whose words no host shows; None: as
            the agent.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request, or there is nothing to show or do in the answer.
        ConfigurationError: the model cannot be made, or takes no tools.
    """
    model, spent = await models.for_call("agent", subagent or "converse", shown=subagent is None)
    if model is None:
        rules = (await asyncio.to_thread(_offline_chat))(**(HIDDEN if subagent else {})).bind_tools(tools)
        return StepResult(output=await rules.ainvoke(list(messages)), usage=spent)
    return await converse(model, messages, tools, spent=spent)


def _offline_chat() -> "type[OfflineChat]":
    from mnemic.models.offline.chat import OfflineChat  # 30 ms that few processes need

    return OfflineChat


async def converse(
    model: "BaseChatModel", messages: Sequence[BaseMessage], tools: Sequence["BaseTool"], *, spent: Usage
) -> StepResult[AIMessage]:
    """The model's next message, with calls of these tools where it makes any, and `spent` with its call added.

    Without tools it calls none, whatever it answers. Every call in it can be sent back and told from the others of the
    conversation. One whose arguments cannot be read, or broke off, has none; each of our tools refuses that and says
    what is missing.

    Raises:
        ModelError: no answer came over the wire; the message names the kind of failure.
        ModelOutputError: the provider refused the request, or there is nothing to show or do in the answer.
        ConfigurationError: the model takes no tools.
    """
    streamed = _Streamed()
    listened = model.model_copy(update={"callbacks": [streamed]})
    bound = offering(listened, list(tools)) if tools else listened  # providers refuse an empty list
    answer, spent = await ask(bound, messages, spent, _AFTERMATH)
    flaw = answer if isinstance(answer, Flaw) else stopped(answer)
    if isinstance(answer, Flaw) or (flaw and not answer.text):
        raise ModelOutputError(
            f"{spent.model} gave no usable answer for {spent.step}: {flaw.kind if flaw else ''}; {_AFTERMATH.left}. "
            "Say it again, or in other words",
            spent=spent,
        )
    if not tools:  # a call that was not offered is none
        return StepResult(output=AIMessage(answer.content, id=answer.id), usage=spent)
    return StepResult(output=_with_calls(answer, streamed.broken(), messages), usage=spent)


def _with_calls(answer: AIMessage, broken: set[str], messages: Sequence[BaseMessage]) -> AIMessage:
    """The answer as it is where every call in it is sound; otherwise its text, with the calls made sound."""
    taken = {str(call["id"]) for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
    whole = [{**call, "args": {} if call["id"] in broken else call["args"]} for call in answer.tool_calls]
    calls: list[Any] = [
        {"name": call.name, "args": dict(call.arguments or {}), "id": call.id}
        for call in readable_calls(answer.model_copy(update={"tool_calls": whole}), taken)
    ]
    made = [{"name": call["name"], "args": call["args"], "id": call["id"]} for call in answer.tool_calls]
    if calls == made and not answer.invalid_tool_calls:
        return answer
    return AIMessage(
        whole_characters(answer.text),
        id=answer.id,
        tool_calls=calls,
        usage_metadata=answer.usage_metadata,
        response_metadata=answer.response_metadata,
    )


class _Streamed(AsyncCallbackHandler):
    """Keeps the calls as they came where a host makes the model stream.

    langchain-core completes arguments that broke off (`parse_partial_json`), and half of a memory would pass for the
    whole of it.
    """

    def __init__(self) -> None:
        self._chunks: list[AIMessageChunk] = []

    async def on_llm_new_token(
        self, token: object, *, chunk: GenerationChunk | ChatGenerationChunk | None = None, **_: Any
    ) -> None:
        message = chunk.message if isinstance(chunk, ChatGenerationChunk) else None
        if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
            self._chunks.append(AIMessageChunk(content="", tool_call_chunks=message.tool_call_chunks))

    def broken(self) -> set[str]:
        """The ids of calls whose arguments are no whole JSON."""
        whole = reduce(add, self._chunks) if self._chunks else AIMessageChunk(content="")
        return {str(call["id"]) for call in whole.tool_call_chunks if not _is_json(call["args"] or "{}")}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
