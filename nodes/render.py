"""Recall: fits the results into the budget and writes the context."""

from langgraph.runtime import Runtime

from mnemic.nodes.resources import Provider
from mnemic.nodes.typing import RecallNode
from mnemic.nodes.wire import from_plain, to_plain
from mnemic.policy.budget import fit
from mnemic.policy.names import display_name
from mnemic.policy.tokens import count_tokens
from mnemic.prompts.memory_context import found_line, render_context
from mnemic.state.graphs import RecallState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Found, Standing


def render(provide: Provider) -> RecallNode:
    """The budget bounds the retrieved lines; refinement bounds the standing part."""

    async def render(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        resources = await provide()
        budget = state.get("budget_tokens") or resources.settings.recall_budget_tokens
        standing = from_plain(Standing, state["standing"])
        found = fit(
            from_plain(Found, state["found"]), tokens=lambda item: count_tokens(found_line(item)), budget=budget
        )
        names = {part.scope_key: display_name(split_scope_key(part.scope_key)[1]) for part in standing}
        context = render_context(standing, found, names=names)
        return {"context": context, "memories": to_plain(Found, found), "tokens": count_tokens(context)}

    return render
