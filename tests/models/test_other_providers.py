"""Chat models of other providers raise errors of their own; every one becomes typed, and quotes nothing."""

import asyncio
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError, ModelRateLimitError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from mnemic.models.chat import ChatModels
from mnemic.models.structured import structured
from mnemic.models.tool_calls import tool_turn
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ModelError, ModelOutputError
from mnemic.state.settings import Tier
from mnemic.state.usage import Usage
from tests.support.scripted import scripted_model, scripted_resources, turns
from tests.support.server import Clone
from tests.support.worlds import identity

SECRET = "Mara's diagnosis"


class Note(BaseModel):
    """A note."""

    text: str


class BrassError(Exception):
    """A provider's own error, which knows nothing of langchain-core."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(f"400: {SECRET}")
        vars(self).update(attributes)


class BrassTimeoutError(BrassError):
    """Likewise."""


class BrassConnectError(BrassError):
    """Likewise."""


class BrassChat(BaseChatModel):
    """A provider's chat model, as its package would bring it: asked by a tool call."""

    behave: Callable[[], AIMessage]
    waits: bool = False

    @property
    def _llm_type(self) -> str:
        return "brass"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.behave())])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.waits:
            await asyncio.Event().wait()
        return self._generate(messages)


def failing(error: BaseException) -> Callable[[], AIMessage]:
    def behave() -> AIMessage:
        raise error

    return behave


async def ask(model: BrassChat) -> Note:
    spent = Usage(step="note", model="brass:m")
    note, _ = await structured(model, Note, [HumanMessage(SECRET)], method="function_calling", spent=spent)
    return note


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BrassError(), "BrassError"),
        (BrassError(status_code=429), r"rate limit \(HTTP 429\)"),
        (BrassError(status_code=529, code="overloaded"), r"server error \(HTTP 529, overloaded\)"),
        (BrassError(status_code=451), r"request refused \(HTTP 451\)"),
        (BrassError(response=SimpleNamespace(status_code=401)), r"key refused \(HTTP 401\)"),
        (BrassError(code=SECRET), "BrassError"),
        (BrassTimeoutError(), "timeout"),
        (BrassConnectError(), "no connection"),
        (ModelRateLimitError(SECRET), "rate limit"),
        (RuntimeError(SECRET), "RuntimeError"),
        (ConnectionResetError(SECRET), "no connection"),
    ],
)
async def test_any_error_of_a_provider_is_a_typed_failure_without_contents(error: Exception, kind: str) -> None:
    with pytest.raises(ModelError, match=f"^brass:m could not be used for note: {kind}; the messages stay") as caught:
        await ask(BrassChat(behave=failing(error)))

    assert type(caught.value) is ModelError
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "error",
    [
        ContextOverflowError(SECRET),
        BrassError(status_code=400, code="content_filter"),
        BrassError(status_code=400, code="context_length_exceeded"),
        BrassError(status_code=400, code=400),
        BrassError(status_code=413),
        BrassError(response=SimpleNamespace(status_code=422)),
        ModelInvalidRequestError(SECRET),
    ],
)
async def test_what_will_be_refused_again_counts_as_an_answer_that_cannot_be_used(error: Exception) -> None:
    with pytest.raises(ModelOutputError) as caught:
        await ask(BrassChat(behave=failing(error)))

    assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_a_good_answer_of_another_provider_is_read() -> None:
    call = {"name": "Note", "args": {"text": "Mara swims."}, "id": "1", "type": "tool_call"}

    assert await ask(BrassChat(behave=lambda: AIMessage("", tool_calls=[call]))) == Note(text="Mara swims.")


async def test_a_turn_of_another_provider_is_read() -> None:
    calls = [{"name": "f", "args": args, "id": "1", "type": "tool_call"} for args in ({"a": 1}, {"a": object()})]
    model = BrassChat(behave=lambda: AIMessage("", tool_calls=calls))

    turn, _ = await tool_turn(model, [HumanMessage(SECRET)], (), (), spent=Usage(step="note", model="brass:m"))

    assert [call.arguments for call in turn.calls] == [{"a": 1}, None]


async def test_a_cancelled_call_stays_cancelled() -> None:
    task = asyncio.create_task(ask(BrassChat(behave=lambda: AIMessage(""), waits=True)))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


class _Brass(ChatModels):
    def get(self, tier: Tier, *, shown: bool = False) -> BaseChatModel:
        return BrassChat(behave=failing(BrassError(status_code=500)))


async def test_an_error_of_another_provider_leaves_the_messages_pending(clean_db: Clone) -> None:
    who = identity("ana", session="s1")
    with scripted_model() as model:
        async with scripted_resources(clean_db, model) as resources:
            failing_memory = Mnemic(replace(resources, models=_Brass(resources.settings)))
            await failing_memory.observe(who, turns("I keep bees"))
            with pytest.raises(ModelError, match="server error"):
                await failing_memory.form(who)

            assert [run["formed"] for run in await Mnemic(resources).form(who)] == [1]
