"""Near duplicates among facts: a model judges pairs of similar facts, which are merged, replaced or linked."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.background.maintenance.pair_rules import may_be_same, may_update, merged_text
from mnemic.memory.background.maintenance.step import Maintenance, StepOutcome
from mnemic.memory.background.owners import owner_identity
from mnemic.memory.background.work import MAX_TARGETS
from mnemic.memory.refinement.merging import merged_category
from mnemic.memory.runtime.budget import require_tokens
from mnemic.memory.runtime.embedding import embed_to_store
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.answers import spent_on
from mnemic.models.embedders.vectors import Vector
from mnemic.models.structured import run_step
from mnemic.prompts.background.judge_pairs import JUDGE_PAIRS, JudgePairsInput, PairVerdict, ShownPair
from mnemic.state.background import FactPair, Target
from mnemic.state.errors import ConcurrentChangeError, ModelOutputError
from mnemic.state.graphs import StepUsage
from mnemic.state.identity import Identity, is_shared
from mnemic.state.kinds import Provenance
from mnemic.state.records import CANDIDATE, Memory, NewMemory, Relation, Supersession
from mnemic.storage import memories, pairs
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: Reason of the operations, as the audit names it.
_REASON: Final = "maintenance"


@dataclass(frozen=True)
class _Run:
    """One scope key in a run of the maintenance."""

    resources: Resources
    identity: Identity
    key: str
    run_id: str
    is_dry_run: bool
    #: Usage of the models, which the run adds to.
    spent: list[StepUsage]
    #: Facts that the run has closed.
    closed: set[UUID] = field(default_factory=set)

    def is_open(self, pair: FactPair) -> bool:
        """Return whether the run has closed neither fact. The next run judges the successor of a closed one."""
        return self.closed.isdisjoint(pair.ids)


class _Origin(NamedTuple):
    """Author, provenance and typed sentence of a merged fact."""

    actor_id: str | None
    provenance: Provenance
    said: str | None = None


async def merge_pairs(run: Maintenance) -> StepOutcome:
    """Judge the pairs of similar facts in each scope key of an agent, and apply the verdicts.

    A second run on the same day judges only pairs with changed facts. A dry run counts the pairs that would be judged.

    Returns:
        Counts of pairs by name: `pairs` found, and of them `judged`; `merged`, `updated`, `linked` or left `apart`;
        `refused`, if the verdict may not be applied; `changed`, if a fact was changed since it was read.

    Raises:
        BudgetSpentError: if the tenant has used the tokens of the day.
        ModelError: if the model cannot be used for now; verdicts that were applied before stay.
        DatabaseUnavailableError: if the database cannot be reached.
    """
    resources, counts, after = run.resources, Counter[str](), ""
    database, settings, agent_id = resources.database, resources.settings, run.identity.agent_id
    spent: list[StepUsage] = []
    if not run.is_dry_run:
        await require_tokens(resources, agent_id)
    while keys := await pairs.list_scope_keys(database, agent_id, after, settings, MAX_TARGETS):
        for key in keys:
            identity = owner_identity(Target(agent_id, key))
            counts.update(await _merge_in_scope(_Run(resources, identity, key, str(run.run_id), run.is_dry_run, spent)))
        after = keys[-1]
    if not run.is_dry_run:
        await database.write(run.identity, partial(pairs.prune, rest_days=settings.pair_rest_days))
    return StepOutcome(counts, spent)


async def _merge_in_scope(run: _Run) -> Counter[str]:
    similar = await _find(run)
    counts = Counter({"pairs": len(similar)})
    if run.is_dry_run:
        return counts
    size = run.resources.settings.pairs_per_prompt
    for start in range(0, len(similar), size):
        batch = [pair for pair in similar[start : start + size] if run.is_open(pair)]
        if batch:
            counts.update(await _judge(run, batch))
    return counts


async def _find(run: _Run) -> list[FactPair]:
    """Return the pairs to judge, as many as the day allows."""
    settings, embedder = run.resources.settings, run.resources.embedder
    async with run.resources.database.transaction(run.identity, only=run.key) as tx:
        left = settings.pairs_per_user_and_day - await pairs.checked_today(tx, run.key)
        if left <= 0:
            return []
        similar = await pairs.find(tx, run.key, embedder.name, embedder.bands, settings)
    to_judge: list[FactPair] = []
    for pair in similar:
        if len(to_judge) == left:
            break
        if may_be_same(*pair.contents, pair.later.subject):
            to_judge.append(pair)
    return to_judge


async def _judge(run: _Run, batch: Sequence[FactPair]) -> Counter[str]:
    """Judge a batch in one call, apply the verdicts, and record the pairs as judged."""
    verdicts = await _verdicts(run, batch)
    counts = Counter({"judged": len(batch)})
    for number, pair in enumerate(batch, start=1):
        if number in verdicts and run.is_open(pair):
            counts[await _apply(run, pair, verdicts[number])] += 1
    await run.resources.database.write(run.identity, partial(pairs.note_checked, key=run.key, pairs=batch))
    return counts


async def _verdicts(run: _Run, batch: Sequence[FactPair]) -> dict[int, PairVerdict]:
    """Return the model's first verdict on each pair by its number; none if its answer cannot be used."""
    resources = run.resources
    shown = [_shown_pair(number, pair) for number, pair in enumerate(batch, start=1)]
    judging = run_step(JUDGE_PAIRS, JudgePairsInput(tuple(shown)), resources.models)
    try:
        answer, usage = await track_usage(resources, run.identity, judging)
    except ModelOutputError as error:  # the batch is recorded as judged, so that it is not paid for again each day
        ids = {"agent_id": run.identity.agent_id, "scope_key": run.key, "run_id": run.run_id}
        _LOG.warning("%d pairs of facts stay as they are: %s", len(batch), error, extra=ids)
        return {}
    run.spent.extend(spent_on(usage, resources.settings.model_prices))
    verdicts: dict[int, PairVerdict] = {}
    for verdict in answer.verdicts:
        verdicts.setdefault(verdict.pair, verdict)
    return verdicts


def _shown_pair(number: int, pair: FactPair) -> ShownPair:
    earlier, later = pair.earlier, pair.later
    return ShownPair(
        number=number,
        subject=later.subject,
        earlier=earlier.content,
        earlier_on=earlier.valid_from.date(),
        later=later.content,
        later_on=later.valid_from.date(),
    )


async def _apply(run: _Run, pair: FactPair, verdict: PairVerdict) -> str:
    """Apply a verdict in one operation, and return the name of its count."""
    try:
        match verdict.verdict:
            case "SAME":
                return await _merge(run, pair, verdict.text)
            case "UPDATE":
                return await _update(run, pair)
            case "LINK":
                return await _link(run, pair)
            case "APART":
                return "apart"
    except ConcurrentChangeError:
        return "changed"


async def _merge(run: _Run, pair: FactPair, text: str) -> str:
    """Store one fact that replaces both and rests on the messages of both, if the text may replace them.

    Raises:
        ConcurrentChangeError: if one of them was changed since it was read, or if another fact has the same text.
        EmbeddingError: if a setting of the embedder is wrong.
    """
    merged = merged_text(text, *pair.contents)
    # readers of a shared fact get typed sentences
    if merged is None or (is_shared(run.key) and merged not in pair.contents):
        return "refused"
    resources = run.resources
    category = merged_category([pair.later.category, pair.earlier.category], resources.categories)
    new = _merged_fact(pair, merged, category)
    (vector,) = await embed_to_store(resources, [new.search_text])
    await _operate(run, pair, partial(_store_merged, run=run, pair=pair, new=new, vector=vector))
    run.closed.update(pair.ids)
    return "merged"


async def _store_merged(
    tx: ScopedTransaction, run: _Run, pair: FactPair, new: NewMemory, vector: Vector | None
) -> None:
    resources = run.resources
    related = tuple(await pairs.read_neighbours(tx, pair.ids, resources.settings.neighbours))
    sources = await pairs.read_sources(tx, pair.ids)
    # closed first, for the new fact may have the text of one of them
    earlier, later = pair.facts
    changes = [
        Supersession(earlier.id, earlier.version, new.id, None),
        Supersession(later.id, later.version, new.id, None),
    ]
    await memories.supersede(tx, changes)
    stored = replace(new, relations=related, source_message_ids=sources)
    model = resources.embedder.name
    if not await memories.insert(tx, [stored], model=model, vectors={new.id: vector}, run_id=run.run_id):
        raise ConcurrentChangeError
    for old_id in pair.ids:
        await pairs.relate(tx, new.id, Relation(to_id=old_id, strength=1.0, relation_type="merged_from"))
    if earlier.pinned or later.pinned:
        await pairs.pin(tx, new.id)


def _merged_fact(pair: FactPair, text: str, category: str) -> NewMemory:
    """Return the fact with the content of both, valid since the earlier one."""
    earlier, later = pair.earlier, pair.later
    origin = _origin_of_merged(pair, text)
    session_id = later.source_session_id
    if earlier.source_session_id != session_id:
        session_id = None
    new = new_memory("fact", category, later.scope_key, text, earlier.valid_from, later.subject)
    return replace(
        new,
        subject_user_id=later.subject_user_id,
        importance=max(earlier.importance, later.importance),
        private=earlier.private or later.private,
        tags=_merged_tags(earlier, later),
        provenance=origin.provenance,
        actor_id=origin.actor_id,
        said=origin.said,
        source_session_id=session_id,
    )


def _origin_of_merged(pair: FactPair, text: str) -> _Origin:
    """Return the origin of a merged fact: that of the fact with the text if it is shared, else that of both."""
    earlier, later = pair.earlier, pair.later
    if is_shared(later.scope_key):
        same = later if later.content == text else earlier
        return _Origin(same.actor_id, same.provenance, same.said)
    if (earlier.actor_id, earlier.provenance) == (later.actor_id, later.provenance):
        return _Origin(later.actor_id, later.provenance)
    return _Origin(None, "consolidated")


def _merged_tags(earlier: Memory, later: Memory) -> tuple[str, ...]:
    """Return the tags of both. A fact is a candidate for a wider scope only if both are."""
    first, second = set(earlier.tags or ()), set(later.tags or ())
    return tuple(sorted((first | second) - {CANDIDATE} | (first & second)))


async def _update(run: _Run, pair: FactPair) -> str:
    """Close the earlier fact since the later one became true, if both can be values of one attribute."""
    earlier, later = pair.earlier, pair.later
    if earlier.valid_from >= later.valid_from or not may_update(*pair.contents, later.subject):
        return "refused"

    async def close(tx: ScopedTransaction) -> None:
        await memories.supersede(tx, [Supersession(earlier.id, earlier.version, later.id, later.valid_from)])
        if earlier.pinned and not later.pinned:
            await pairs.pin(tx, later.id)

    await _operate(run, pair, close)
    run.closed.add(earlier.id)
    return "updated"


async def _link(run: _Run, pair: FactPair) -> str:
    """Relate the later fact to the earlier one, if they are not related yet."""
    if pair.is_linked:
        return "apart"
    relation = Relation(to_id=pair.earlier.id, strength=min(1.0, pair.similarity))
    await _operate(run, pair, partial(pairs.relate, from_id=pair.later.id, relation=relation))
    return "linked"


async def _operate(run: _Run, pair: FactPair, change: Callable[[ScopedTransaction], Awaitable[None]]) -> None:
    """Run a change as one operation on a pair.

    Raises:
        ConcurrentChangeError: if one of the facts was changed since it was read.
    """

    async def operation(tx: ScopedTransaction) -> None:
        await tx.begin_operation(_REASON, run_id=run.run_id)
        await pairs.require_unchanged(tx, pair)
        await change(tx)

    await run.resources.database.write(run.identity, operation, only=run.key)
