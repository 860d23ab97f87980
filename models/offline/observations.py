"""The step `extract_observations` without a model: what the rules for reflections and for facts find, together."""

from collections.abc import Sequence

from mnemic.models.offline.facts import extract_facts
from mnemic.models.offline.reflections import extract_reflections, is_new, standing_stems
from mnemic.models.offline.regards import plain
from mnemic.models.offline.text import content_stems
from mnemic.prompts.extract_facts import ExtractFactsInput
from mnemic.prompts.extract_observations import (
    ExtractObservationsInput,
    ExtractObservationsOutput,
    ObservationDraft,
)
from mnemic.prompts.extract_reflections import ExtractReflectionsInput


def extract_observations(given: ExtractObservationsInput) -> ExtractObservationsOutput:
    """Reflections, and the facts that neither these nor the texts in context tell; the most important where there are
    more than allowed.
    """
    drawn = _reflections(given)
    told = [*standing_stems(given.standing), *(content_stems(plain(draft.content)) for draft in drawn)]
    found = [*drawn, *(draft for draft in _facts(given) if is_new(draft.content, told))]
    ranked = sorted(range(len(found)), key=lambda index: (-found[index].importance, index))
    kept = sorted(ranked[: max(given.max_observations, 0)])
    return ExtractObservationsOutput(observations=[found[index] for index in kept], nothing_else=True)


def _reflections(given: ExtractObservationsInput) -> Sequence[ObservationDraft]:
    output = extract_reflections(
        ExtractReflectionsInput(
            lines=given.lines, standing=given.standing, new_facts=(), group=given.group, guidance=given.guidance
        )
    )
    scoped = [*(("group", draft) for draft in output.group), *(("user", draft) for draft in output.user)]
    return [ObservationDraft.model_validate({**draft.model_dump(), "scope": scope}) for scope, draft in scoped]


def _facts(given: ExtractObservationsInput) -> Sequence[ObservationDraft]:
    output = extract_facts(
        ExtractFactsInput(
            lines=given.lines, group=given.group, guidance=given.guidance, max_facts=given.max_observations
        )
    )
    unknown_here = {"subject", "provenance"}
    return [ObservationDraft.model_validate(draft.model_dump(exclude=unknown_here)) for draft in output.facts]
