"""What a host may set for a scope key."""

from dataclasses import replace

from mnemic.policy.hygiene import require_text
from mnemic.state.errors import InvalidInputError
from mnemic.state.records import ScopeSettings

MAX_NUMBER = 100_000


def checked_overrides(overrides: ScopeSettings) -> ScopeSettings:
    """What a host sets for a scope key, with clean texts and possible numbers.

    Raises:
        InvalidInputError: an empty or too long text, or a number outside 1..100,000.
    """
    for number in (overrides.threshold, overrides.word_limit):
        if number is not None and not 1 <= number <= MAX_NUMBER:
            raise InvalidInputError(f"threshold and word_limit are numbers from 1 to {MAX_NUMBER}")
    return replace(
        overrides,
        name=_checked_text(overrides.name, "name"),
        extraction_guidance=_checked_text(overrides.extraction_guidance, "extraction_guidance"),
        consolidation_guidance=_checked_text(overrides.consolidation_guidance, "consolidation_guidance"),
    )


def _checked_text(text: str | None, what: str) -> str | None:
    return None if text is None else require_text(text, what=what)
