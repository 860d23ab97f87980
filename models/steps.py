"""The model steps of Mnemic."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mnemic.models.step import Step, ToolStep
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
from mnemic.prompts.refine import RefineInput
from mnemic.prompts.write_consolidation import WriteConsolidationInput, WriteConsolidationOutput


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
