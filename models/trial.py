"""Try the configured models with one small call for each capability that they need."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, get_args

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool

from mnemic.models.answers import cost_of
from mnemic.models.chat import ChatModels
from mnemic.models.embedders import make_embedder
from mnemic.models.failures import failure_of, stated
from mnemic.models.overrides import NO_OVERRIDES, ModelOverrides
from mnemic.models.structured import run_step
from mnemic.models.tool_calls import run_answer
from mnemic.prompts.loader import Step, StepOutput, load_prompt
from mnemic.state.errors import ConfigurationError, MnemicError
from mnemic.state.kinds import Usage
from mnemic.state.model_settings import OFFLINE, StructuredOutput, Tier
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread

_PROMPT: Final = load_prompt("try_model")
_FACT: Final = "Ana has 3 boats. Write down whose boats they are and how many."
_CALL: Final = "Look up what is known about boats, with the tool that you have."
_MAX_TOKENS: Final = 2000
_TALK: Final = "Count from one to twenty, in words."


class Boats(StepOutput):
    """The owner of boats, and their number."""

    owner: str
    boats: int


class _Task(NamedTuple):
    task: str

    def variables(self) -> dict[str, str]:
        return self._asdict()


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result of one call."""

    #: Such as `openai:gpt-5-mini, structured output`.
    name: str
    ok: bool
    seconds: float
    #: Tokens in and out, and dollars if the settings name a price.
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    #: The finding, or the remedy.
    note: str = ""


@tool
def look_up(subject: str) -> str:
    """Look up facts about a subject."""
    raise NotImplementedError  # the model only has to call it


async def try_models(settings: Settings, overrides: ModelOverrides = NO_OVERRIDES) -> AsyncIterator[Tried]:
    """Try each configured model once for every capability of its tiers, then the embedder.

    `fast` and `slow` need structured output, `agent` needs tools and a stream. If structured output fails, the other
    methods are tried, and the note names one that works.
    """
    # few tokens, so that a model caught in a loop ends soon; a model that thinks aloud needs some
    settings = settings.model_copy(update={"max_output_tokens": min(_MAX_TOKENS, settings.max_output_tokens)})
    models = ChatModels(settings, overrides.models)
    done: set[tuple[str, bool]] = set()
    for tier in get_args(Tier):
        name, is_agent = settings.model_for(tier), tier == "agent"
        if name == OFFLINE or (name, is_agent) in done:
            continue
        done.add((name, is_agent))
        if is_agent:
            yield await _tried(f"{name}, tools", settings, lambda: _tools(models))
            yield await _tried(f"{name}, a stream", settings, lambda: _stream(models))
        else:
            yield await _structured(name, settings, overrides, tier)
    yield await _tried(settings.embedder or "embedder", settings, lambda: _embedder(settings, overrides))


async def _structured(name: str, settings: Settings, overrides: ModelOverrides, tier: Tier) -> Tried:
    step = Step[_Task, Boats](_PROMPT, Boats, tier)

    def trying(method: StructuredOutput) -> Callable[[], Awaitable[tuple[str, Usage | None]]]:
        async def call() -> tuple[str, Usage | None]:
            models = ChatModels(settings.model_copy(update={"structured_output": method}), overrides.models)
            answer, spent = await run_step(step, _Task(_FACT), models)
            return f"by {method}; read: {answer.boats}", spent

        return call

    label = f"{name}, structured output"
    first = await _tried(label, settings, trying(settings.structured_output))
    if first.ok:
        return first
    for method in get_args(StructuredOutput):
        if method != settings.structured_output and (await _tried(label, settings, trying(method))).ok:
            return Tried(name=label, ok=False, seconds=first.seconds, note=f"set MNEMIC_STRUCTURED_OUTPUT={method}")
    return first


async def _tools(models: ChatModels) -> tuple[str, Usage | None]:
    answer, spent = await run_answer([SystemMessage(_PROMPT.system), HumanMessage(_CALL)], [look_up], models)
    if not answer.tool_calls:
        raise ConfigurationError("it answered without calling the tool: choose a MNEMIC_AGENT_MODEL that calls tools")
    return f"called {answer.tool_calls[0]['name']}", spent


async def _stream(models: ChatModels) -> tuple[str, Usage | None]:
    call = await models.for_call("agent", "try_model", shown=True)
    if call.model is None:
        raise ConfigurationError("the offline rules have no stream")
    pieces = 0
    try:
        async with asyncio.timeout(call.deadline):
            async for piece in call.model.astream([SystemMessage(_PROMPT.system), HumanMessage(_TALK)]):
                pieces += bool(piece.text)
    except Exception as error:  # noqa: BLE001 - as in `ask`: every provider has errors of its own
        problem = stated(failure_of(error, call.endpoint))
    else:
        return f"{pieces} pieces", None
    raise ConfigurationError(problem)


async def _embedder(settings: Settings, overrides: ModelOverrides) -> tuple[str, Usage | None]:
    embedder = await in_thread(make_embedder, settings, overrides.embeddings)
    vectors = await embedder.embed(["Ana has three boats.", "The invoice is due."])
    return f"{embedder.name}, {len(vectors[0])} dimensions", None


async def _tried(name: str, settings: Settings, call: Callable[[], Awaitable[tuple[str, Usage | None]]]) -> Tried:
    began = time.monotonic()
    try:
        note, spent = await call()
    except MnemicError as error:
        return Tried(name=name, ok=False, seconds=time.monotonic() - began, note=str(error))
    seconds = time.monotonic() - began
    if spent is None:
        return Tried(name=name, ok=True, seconds=seconds, note=note)
    return Tried(
        name=name,
        ok=True,
        seconds=seconds,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost=cost_of(spent, settings.model_prices),
        note=note,
    )
