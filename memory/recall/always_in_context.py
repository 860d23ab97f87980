"""The memories that are always in context for a role, within their budget of tokens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mnemic.memory.runtime.categories import Allowlist
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import count_tokens, fit
from mnemic.prompts.recall.memory_context import memory_line
from mnemic.state.kinds import CONTEXT_KINDS
from mnemic.state.records import ContextPart, Memory, ScopeContext
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction

#: Tokens of the shortest line of a fact: a date and hardly more, 16 characters.
_MIN_FACT_TOKENS: Final = 4


async def read_always_in_context(tx: ScopedTransaction, resources: Resources, allowlist: Allowlist) -> ContextPart:
    """Return the memories that are always in context for a role, and the settings that the agent overrides.

    Consolidations, reflections and core memories are for roles with `standing` alone. Facts of a category that is
    always in context are for every role with that category, within the tokens that the other texts leave.
    """
    budget = resources.settings.standing_tokens
    part = await memories.read_context(
        tx,
        kinds=CONTEXT_KINDS if allowlist.standing else (),
        fact_categories=[name for name in resources.categories.always if name in allowlist.categories],
        max_facts=budget // _MIN_FACT_TOKENS,
    )
    return part._replace(scopes=tuple(fit_facts(part.scopes, budget, tx.identity.user_id)))


def fit_facts(scopes: Sequence[ScopeContext], budget: int, reader: str | None = None) -> list[ScopeContext]:
    """Return the scopes with the facts that fit; over all scopes the most important come first, then the newest.

    A scope without any text is left out.
    """
    left = budget
    facts: list[Memory] = []
    for scope in scopes:
        left -= scope.tokens
        facts += scope.facts
    facts.sort(key=_importance_and_age)
    chosen = fit(facts, tokens=lambda fact: count_tokens(memory_line(fact, reader)), budget=left)
    fitted: list[ScopeContext] = []
    for scope in scopes:
        in_scope = tuple(fact for fact in chosen if fact.scope_key == scope.scope_key)
        if in_scope or scope.texts:
            fitted.append(replace(scope, facts=in_scope))
    return fitted


def _importance_and_age(fact: Memory) -> tuple[int, float, str]:
    return -fact.importance, -fact.valid_from.timestamp(), str(fact.id)
