"""Consolidation: the model writes the new text; what is too long or loses details is sent back once."""

from collections.abc import Sequence
from typing import Literal

from langgraph.runtime import Runtime

from mnemic.models.steps import WRITE_CONSOLIDATION
from mnemic.models.structured import run_step
from mnemic.operations.run.graph import ConsolidationNode, give_back, metered
from mnemic.operations.run.identity import identity_of
from mnemic.operations.run.resources import Provider
from mnemic.policy.text.details import kept_share, missing_details
from mnemic.policy.text.hygiene import MAX_TEXT_BYTES, clean_text
from mnemic.policy.text.writing import is_degenerate
from mnemic.prompts.write_consolidation import (
    EMPTY_OR_REPEATING,
    DatedText,
    Revision,
    WriteConsolidationInput,
    lacking,
    too_long,
)
from mnemic.state.graphs import ConsolidationState
from mnemic.state.identity import Identity, split_scope_key

#: Newer wins, so an outdated detail may go; a draft that keeps less than this is sent back.
WANTED_SHARE = 0.9


def write_consolidation(provide: Provider) -> ConsolidationNode:
    """At most two calls. A text over the limit, empty or degenerate after the second is refused; nothing changes."""

    async def write_consolidation(state: ConsolidationState, runtime: Runtime[Identity]) -> ConsolidationState:
        resources = await provide()
        identity = identity_of(runtime)
        reflections = state["reflections"]
        current = state["current"].content if state["current"] else ""
        sources = [*([current] if current else []), *(memory.content for memory in reflections)]
        step_input = WriteConsolidationInput(
            scope=split_scope_key(state["scope_key"])[0],
            owner=state["owner"],
            current=current,
            reflections=tuple(DatedText(dated=memory.valid_from, content=memory.content) for memory in reflections),
            word_limit=state["word_limit"],
            guidance=state["guidance"],
        )
        drafts: list[str] = []
        problem: str | None = ""
        while problem is not None and len(drafts) < 2:
            revision = Revision(draft=drafts[-1], problem=problem) if drafts else None
            step_input = step_input._replace(revision=revision)
            writing = run_step(WRITE_CONSOLIDATION, step_input, resources.models)
            drafts.append(clean_text((await metered(resources, identity, writing)).output.text))
            problem = _problem(drafts[-1], sources, state["word_limit"])
        usable = [draft for draft in drafts if _refusal(draft, state["word_limit"]) is None]
        if not usable:
            await give_back(resources, identity, state["lease"], failure="unusable")
            why = _refusal(drafts[-1], state["word_limit"])
            return {"outcome": "refused", "problem": why, "absorbed": 0, "kept_share": 1.0, "text": ""}
        best = max(usable, key=lambda draft: kept_share(sources, draft))
        return {"text": best, "kept_share": round(kept_share(sources, best), 3)}

    return write_consolidation


def _refusal(draft: str, word_limit: int) -> Literal["too_long", "empty", "degenerate"] | None:
    """Why a draft cannot be stored; None: it can."""
    if len(draft.split()) > word_limit or len(draft.encode()) > MAX_TEXT_BYTES:
        return "too_long"
    if not draft:
        return "empty"
    return "degenerate" if is_degenerate(draft) else None


def _problem(draft: str, sources: Sequence[str], word_limit: int) -> str | None:
    """What the model should mend; None for a good draft."""
    if refusal := _refusal(draft, word_limit):
        return too_long(len(draft.split()), word_limit) if refusal == "too_long" else EMPTY_OR_REPEATING
    if kept_share(sources, draft) < WANTED_SHARE:
        return lacking(missing_details(sources, draft))
    return None
