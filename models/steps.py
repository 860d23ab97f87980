"""The model steps: jobs that a language model does for a graph, each with the rule that does it without one."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from mnemic.prompts import (
    decide,
    extract_facts,
    extract_observations,
    extract_reflections,
    refine,
    write_consolidation,
)
from mnemic.prompts.decide import DecideInput, DecideOutput
from mnemic.prompts.extract_facts import ExtractFactsInput, ExtractFactsOutput
from mnemic.prompts.extract_observations import ExtractObservationsInput, ExtractObservationsOutput
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, ExtractReflectionsOutput
from mnemic.prompts.loader import Prompt
from mnemic.prompts.refine import RefineInput
from mnemic.prompts.write_consolidation import WriteConsolidationInput, WriteConsolidationOutput
from mnemic.state.kinds import Usage
from mnemic.state.refinement import Turn
from mnemic.state.settings import Tier

In = TypeVar("In")
Out = TypeVar("Out", bound=BaseModel)
Answer = TypeVar("Answer")


class Step(NamedTuple, Generic[In, Out]):
    """One model step with everything it takes."""

    name: str
    prompt: Prompt
    #: The values of the prompt's slots for an input.
    variables: Callable[[In], dict[str, str]]
    output: type[Out]
    tier: Tier
    #: The pure rule that stands in where no model is configured.
    offline: Callable[[In], Out]
    #: The schema that a model is held to for an input; None: the output's own.
    schema: Callable[[In], dict[str, Any]] | None = None


class ToolStep(NamedTuple, Generic[In]):
    """One step in which a model acts by calling tools, turn by turn."""

    name: str
    prompt: Prompt
    #: The values of the prompt's slots for an input.
    variables: Callable[[In], dict[str, str]]
    tier: Tier
    #: The pure rule that takes the next turn where no model is configured.
    offline: Callable[[In], Turn]


class StepResult(NamedTuple, Generic[Answer]):
    """What a step, a turn of one or a chat model answered, and what it cost."""

    output: Answer
    usage: Usage


def prompt_of(step: Step[In, Any] | ToolStep[In], step_input: In) -> list[BaseMessage]:
    """The messages that a model is asked with."""
    system, user = step.prompt.render(**step.variables(step_input))
    return [SystemMessage(system), HumanMessage(user)]


def _rule(name: str) -> Callable[[Any], Any]:
    """The offline rule of this name, imported when it is first asked: 0.1 s that a configured model never needs."""

    def rule(step_input: Any) -> Any:
        return getattr(import_module("mnemic.models.offline"), name)(step_input)

    return rule


EXTRACT_FACTS = Step[ExtractFactsInput, ExtractFactsOutput](
    name="extract_facts",
    prompt=extract_facts.PROMPT,
    variables=extract_facts.variables,
    output=ExtractFactsOutput,
    schema=extract_facts.schema,
    tier="fast",
    offline=_rule("extract_facts"),
)

DECIDE = Step[DecideInput, DecideOutput](
    name="decide",
    prompt=decide.PROMPT,
    variables=decide.variables,
    output=DecideOutput,
    tier="fast",
    offline=_rule("decide"),
)

EXTRACT_REFLECTIONS = Step[ExtractReflectionsInput, ExtractReflectionsOutput](
    name="extract_reflections",
    prompt=extract_reflections.PROMPT,
    variables=extract_reflections.variables,
    output=ExtractReflectionsOutput,
    schema=extract_reflections.schema,
    tier="slow",
    offline=_rule("extract_reflections"),
)

EXTRACT_OBSERVATIONS = Step[ExtractObservationsInput, ExtractObservationsOutput](
    name="extract_observations",
    prompt=extract_observations.PROMPT,
    variables=extract_observations.variables,
    output=ExtractObservationsOutput,
    schema=extract_observations.schema,
    tier="fast",
    offline=_rule("extract_observations"),
)

WRITE_CONSOLIDATION = Step[WriteConsolidationInput, WriteConsolidationOutput](
    name="write_consolidation",
    prompt=write_consolidation.PROMPT,
    variables=write_consolidation.variables,
    output=WriteConsolidationOutput,
    tier="slow",
    offline=_rule("write_consolidation"),
)

REFINE = ToolStep[RefineInput](
    name="refine",
    prompt=refine.PROMPT,
    variables=refine.variables,
    tier="agent",
    offline=_rule("refine"),
)
