"""The offline chat model: it says what it was shown of the memory, and calls tools where the words ask for them."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from mnemic.models.offline.converse import Call, converse

_WORD = re.compile(r"\S+\s*|\s+")


class OfflineChat(BaseChatModel):
    """Rules in the place of a chat model, for a conversation without a key. It invents nothing."""

    #: The names of the tools it may call.
    offered: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "mnemic-offline"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Self:
        """The same model with these tools."""
        names = tuple(convert_to_openai_tool(tool)["function"]["name"] for tool in tools)
        return self.model_copy(update={"offered": names})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        text, calls = converse(messages, self.offered)
        message = AIMessage(content=text, tool_calls=[_tool_call(call, place) for place, call in enumerate(calls)])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        """Word by word, as other models do."""
        message = self._generate(messages).generations[0].message
        chunks = [AIMessageChunk(content=word) for word in _WORD.findall(str(message.content))]
        if isinstance(message, AIMessage) and message.tool_calls:
            chunks.append(AIMessageChunk(content="", tool_calls=message.tool_calls))
        for chunk in chunks or [AIMessageChunk(content="")]:
            generation = ChatGenerationChunk(message=chunk)
            if run_manager:
                await run_manager.on_llm_new_token(str(chunk.content), chunk=generation)
            yield generation


def _tool_call(call: Call, place: int) -> Any:
    return {"name": call.name, "args": call.arguments, "id": f"call_{call.turn}_{place}", "type": "tool_call"}
