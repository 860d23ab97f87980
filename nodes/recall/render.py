"""Recall: fits the results into the budget and writes the context."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.node_types import RecallNode
from mnemic.operations.run.resources import Provider
from mnemic.operations.run.serialization import from_plain, to_plain
from mnemic.policy.recall.budget import fit
from mnemic.policy.text.names import display_name
from mnemic.policy.text.tokens import count_tokens
from mnemic.prompts.memory_context import found_line, render_context
from mnemic.state.changes import Delta
from mnemic.state.graphs import RecallState
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Found, Standing


def render(provide: Provider) -> RecallNode:
    """The budget bounds the retrieved lines; refinement bounds the standing part. What was retrieved counts as used."""

    async def render(state: RecallState, runtime: Runtime[Identity]) -> RecallState:
        rendered, found = _rendered(state)
        if found:
            used = [item.item_id for item in found if item.kind != "message"]
            (await provide()).note_uses(identity_of(runtime), used)
        return rendered

    return render


def _rendered(state: RecallState) -> tuple[RecallState, list[Found]]:
    standing = from_plain(Standing, state["standing"])
    found = fit(
        _once(from_plain(Found, state["found"])),
        tokens=lambda item: count_tokens(found_line(item)),
        budget=state["budget"],
    )
    names = {part.scope_key: display_name(split_scope_key(part.scope_key)[1]) for part in standing}
    delta = next(iter(from_plain(Delta, state["delta"])), None)
    context = render_context(standing, found, names=names, delta=delta)
    return {"context": context, "memories": to_plain(Found, found), "tokens": count_tokens(context)}, found


def _once(found: Sequence[Found]) -> list[Found]:
    """Without what says the same of the same: a sentence said twice needs no second line."""
    return list({(item.subject, item.content): item for item in reversed(found)}.values())[::-1]
