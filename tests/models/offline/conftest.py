"""Conversations for the offline model."""

import pytest

from mnemic.models import offline
from mnemic.prompts.extract_facts import ExtractFactsInput, FactDraft
from mnemic.prompts.extract_reflections import ExtractReflectionsInput, ExtractReflectionsOutput, StandingText
from mnemic.state.records import Role
from tests.models.offline.speech import FactsOf, ReflectionsOf, lines_of


@pytest.fixture
def facts_of() -> FactsOf:
    def extract(
        *texts: str, group: str | None = None, role: Role = "user", max_facts: int = 25, speaker: str = "Mara"
    ) -> list[FactDraft]:
        lines = lines_of(texts, speaker, role)
        given = ExtractFactsInput(lines=lines, group=group, guidance="", max_facts=max_facts)
        return offline.extract_facts(given).facts

    return extract


@pytest.fixture
def reflections_of() -> ReflectionsOf:
    def extract(
        *texts: str, group: str | None = None, standing: str = "", new_facts: tuple[str, ...] = ()
    ) -> ExtractReflectionsOutput:
        context = (StandingText(scope="user", name="Mara", text=standing),) if standing else ()
        return offline.extract_reflections(
            ExtractReflectionsInput(
                lines=lines_of(texts, "Mara"), standing=context, new_facts=new_facts, group=group, guidance=""
            )
        )

    return extract
