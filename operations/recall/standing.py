"""The standing part as one role gets it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from mnemic.operations.run.resources import Resources
from mnemic.policy.recall.budget import fit
from mnemic.policy.text.tokens import count_tokens
from mnemic.prompts.memory_context import memory_line
from mnemic.state.query import MAX_TOP_K
from mnemic.state.records import Found, Memory, Standing, StandingPart
from mnemic.state.settings import Settings
from mnemic.storage import memories
from mnemic.storage.database import Scoped

#: The shortest line of a fact, a date and hardly more, has 16 characters.
_LEAST_TOKENS = 4


async def read_standing(scoped: Scoped, resources: Resources, role: str) -> StandingPart:
    """What is always in context for a role.

    Standing texts come to roles marked so; facts of a category that is always in context, to every role whose
    allowlist has it, within the tokens that the texts leave.

    Raises:
        CategoryRefusedError: the role has no allowlist.
    """
    allowlist, budget = resources.categories.of_role(role), resources.settings.standing_tokens
    part = await memories.standing(
        scoped,
        kinds=memories.STANDING if allowlist.standing else (),
        always=[name for name in resources.categories.always if name in allowlist.categories],
        most=budget // _LEAST_TOKENS,
    )
    return part._replace(scopes=tuple(fit_facts(part.scopes, budget)))


def with_shown(most: int, standing: Sequence[Standing]) -> int:
    """How many results to search for, so that `most` are left where the facts in context are among them."""
    return min(MAX_TOP_K, most + len(_shown(standing)))


def not_shown(found: Sequence[Found], standing: Sequence[Standing], *, most: int) -> list[Found]:
    """The best `most` results that do not stand in the context already, and what came along with them."""
    shown = _shown(standing)
    fresh = [item for item in found if item.item_id not in shown]
    best = [item for item in fresh if item.related_to is None][:most]
    kept = {item.item_id for item in best}
    return [*best, *(item for item in fresh if item.related_to in kept)]


def _shown(standing: Sequence[Standing]) -> set[UUID]:
    return {fact.id for part in standing for fact in part.facts}


def over_budget(standing: Sequence[Standing], settings: Settings) -> list[str]:
    """Scope keys whose core memory has outgrown its budget: it is time for a refinement (seed C)."""
    return [part.scope_key for part in standing if part.tokens > settings.refinement_budget_tokens]


def fit_facts(scopes: Sequence[Standing], budget: int) -> Iterator[Standing]:
    """The scopes with the facts that fit: over all of them the most important first, then the newest."""
    left = budget - sum(part.tokens for part in scopes)
    ranked = sorted((fact for part in scopes for fact in part.facts), key=_rank)
    chosen = fit(ranked, tokens=lambda fact: count_tokens(memory_line(fact)), budget=left)
    for part in scopes:
        facts = tuple(fact for fact in chosen if fact.scope_key == part.scope_key)
        if facts or part.texts:
            yield replace(part, facts=facts)


def _rank(fact: Memory) -> tuple[int, float, str]:
    return -fact.importance, -fact.valid_from.timestamp(), str(fact.id)
