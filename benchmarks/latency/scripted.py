"""A chat model inside the process that finds three facts in every conversation, so that no call waits for a model."""

import re
from collections.abc import Callable, Sequence
from typing import Any, get_args

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from benchmarks.latency.facts import COMMON, TURNS
from mnemic.models.chat import ChatModels
from mnemic.prompts.formation.decide import DecideOutput, Decision
from mnemic.prompts.formation.extraction import ExtractFactsOutput, ExtractReflectionsOutput, FactDraft
from mnemic.state.model_settings import Tier
from mnemic.state.settings import Settings

_NOTHING = ExtractReflectionsOutput(agent=[], group=[], user=[], session=[], episode="", nothing_else=True)
#: The number of a new fact in the request for decisions.
_NEW_FACT = re.compile(r"^new (\d+) \[", re.MULTILINE)
_USED = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}


class ScriptedModels(ChatModels):
    """The same model for every tier."""

    def __init__(self, settings: Settings, text: Callable[[], str]) -> None:
        scripted = ScriptedChat(text=text)
        models: dict[tuple[Tier, str], BaseChatModel] = {}
        for tier in get_args(Tier):
            models[tier, settings.model_for(tier)] = scripted
        super().__init__(settings, models)


class ScriptedChat(BaseChatModel):
    """Answers by the name of the schema it is asked for."""

    text: Callable[[], str]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, AIMessage]:
        """Return the model with its scripted answers."""
        return self.bind(schema_name=tools[0]["title"])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **given: Any,
    ) -> ChatResult:
        name = given["schema_name"]
        output = self._answer(name, messages[-1].text)
        call = {"name": name, "args": output.model_dump(), "id": "1", "type": "tool_call"}
        answer = AIMessage(content="", tool_calls=[call], usage_metadata=_USED)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **given: Any,
    ) -> ChatResult:
        return self._generate(messages, **given)  # the default hops to a thread

    def _answer(self, schema_name: str, request: str) -> BaseModel:
        if schema_name == ExtractFactsOutput.__name__:
            return self._facts()
        if schema_name == DecideOutput.__name__:
            return DecideOutput(decisions=[_added(int(number)) for number in _NEW_FACT.findall(request)])
        if schema_name == ExtractReflectionsOutput.__name__:
            return _NOTHING
        raise LookupError(f"the scripted model has no answer of the schema {schema_name}")

    def _facts(self) -> ExtractFactsOutput:
        own = [number for number, role in enumerate(TURNS, start=1) if role == "user"]
        return ExtractFactsOutput(facts=[_fact(self.text(), number) for number in own], nothing_else=True)


def _added(number: int) -> Decision:
    return Decision(fact=number, reason="It is new.", event="ADD", known=[], text="")


def _fact(text: str, number: int) -> FactDraft:
    return FactDraft(
        content=text,
        subject="Ana",
        scope="user",
        category=COMMON[number],
        importance=3,
        private=False,
        provenance="asserted",
        messages=[number],
    )
