"""The model steps of Mnemic."""

from mnemic.models import offline
from mnemic.models.step import Step
from mnemic.prompts import decide, extract_facts, extract_observations, extract_reflections, write_consolidation
from mnemic.prompts.decide import DecideInput, DecideOutput
from mnemic.prompts.extract_facts import ExtractFactsInput, ExtractFactsOutput
from mnemic.prompts.extract_observations import ExtractObservationsInput, ExtractObservationsOutput
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, ExtractReflectionsOutput
from mnemic.prompts.write_consolidation import WriteConsolidationInput, WriteConsolidationOutput

EXTRACT_FACTS = Step[ExtractFactsInput, ExtractFactsOutput](
    name="extract_facts",
    prompt=extract_facts.PROMPT,
    variables=extract_facts.variables,
    output=ExtractFactsOutput,
    tier="fast",
    offline=offline.extract_facts,
)

DECIDE = Step[DecideInput, DecideOutput](
    name="decide",
    prompt=decide.PROMPT,
    variables=decide.variables,
    output=DecideOutput,
    tier="fast",
    offline=offline.decide,
)

EXTRACT_REFLECTIONS = Step[ExtractReflectionsInput, ExtractReflectionsOutput](
    name="extract_reflections",
    prompt=extract_reflections.PROMPT,
    variables=extract_reflections.variables,
    output=ExtractReflectionsOutput,
    tier="slow",
    offline=offline.extract_reflections,
)

EXTRACT_OBSERVATIONS = Step[ExtractObservationsInput, ExtractObservationsOutput](
    name="extract_observations",
    prompt=extract_observations.PROMPT,
    variables=extract_observations.variables,
    output=ExtractObservationsOutput,
    tier="fast",
    offline=offline.extract_observations,
)

WRITE_CONSOLIDATION = Step[WriteConsolidationInput, WriteConsolidationOutput](
    name="write_consolidation",
    prompt=write_consolidation.PROMPT,
    variables=write_consolidation.variables,
    output=WriteConsolidationOutput,
    tier="slow",
    offline=offline.write_consolidation,
)
