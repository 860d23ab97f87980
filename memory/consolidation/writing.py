"""The new text of a consolidation: a model writes it, and mends it once."""

from typing import Final, NamedTuple

from mnemic.memory.consolidation.checks import judge_draft
from mnemic.memory.runtime.graph import release_lease
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.usage import track_usage
from mnemic.memory.text.shape import clean_text
from mnemic.models.answers import spent_on
from mnemic.models.structured import run_step
from mnemic.prompts.consolidation.write_consolidation import WRITE_CONSOLIDATION, WriteConsolidationInput
from mnemic.state.consolidation import ConsolidationSnapshot
from mnemic.state.graphs import ConsolidationState, Lease, RefusedText, StepUsage
from mnemic.state.identity import Identity, split_scope_key

#: Calls of the model: the draft, and one repair.
_MAX_CALLS: Final = 2


class _Draft(NamedTuple):
    """A usable draft."""

    text: str
    #: Share of the sources' details that it keeps.
    share: float


class _Written(NamedTuple):
    """The best draft of a run; without one the problem of the last."""

    best: _Draft | None
    problem: RefusedText | None
    spent: list[StepUsage]


async def write(
    resources: Resources, identity: Identity, lease: Lease, snapshot: ConsolidationSnapshot
) -> ConsolidationState:
    """Return the new text, in at most two calls: the second one mends a draft with problems.

    A text over the limit, empty, degenerate, with a stale sentence or without most of its sources is refused. Then
    nothing changes: the reflections stay in context, and the next run follows after a pause.
    """
    written = await _write(resources, identity, _step_input(resources, identity, lease.scope_key, snapshot))
    if written.best is None:
        await release_lease(resources, identity, lease, failure="unusable")
        return {
            "outcome": "refused",
            "problem": written.problem,
            "absorbed": 0,
            "kept_share": 1.0,
            "text": "",
            "spent": written.spent,
        }
    return {"text": written.best.text, "kept_share": round(written.best.share, 3), "spent": written.spent}


async def _write(resources: Resources, identity: Identity, step_input: WriteConsolidationInput) -> _Written:
    settings = resources.settings
    best: _Draft | None = None
    problem: RefusedText | None = None
    spent: list[StepUsage] = []
    for _ in range(_MAX_CALLS):
        running = run_step(WRITE_CONSOLIDATION, step_input, resources.models)
        answer, usage = await track_usage(resources, identity, running)
        spent += spent_on(usage, settings.model_prices)
        text = clean_text(answer.text)
        problem, retained, to_mend = judge_draft(text, step_input, settings.consolidation_min_kept_share)
        if problem is None and (best is None or retained.share > best.share):
            best = _Draft(text, retained.share)
        if not to_mend:
            break
        step_input = step_input._replace(draft=text, problems=to_mend)
    return _Written(best, problem, spent)


def _step_input(
    resources: Resources, identity: Identity, key: str, snapshot: ConsolidationSnapshot
) -> WriteConsolidationInput:
    zone = resources.zone_of(identity)
    today = resources.today(zone)
    text, written = "", None
    if snapshot.current:
        text = snapshot.current.content
        written = min(snapshot.current.updated_at.astimezone(zone).date(), today)
    return WriteConsolidationInput(
        scope=split_scope_key(key)[0],
        owner=snapshot.owner,
        current=text,
        reflections=sorted(snapshot.reflections, key=lambda memory: (memory.valid_from, memory.id)),
        word_limit=snapshot.word_limit,
        guidance=snapshot.guidance,
        today=today,
        written=written,
        stale=snapshot.stale,
        persona=snapshot.persona,
    )
