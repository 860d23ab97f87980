"""Near duplicates among facts: a model judges pairs of similar facts. They are merged, replaced or linked."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final
from uuid import UUID

from mnemic.memory.background.maintenance.pair_rules import is_worth_asking, may_update, merged_text
from mnemic.memory.background.maintenance.step import Maintenance, StepOutcome
from mnemic.memory.background.owners import owner_identity
from mnemic.memory.background.work import MAX_TARGETS
from mnemic.memory.refinement.merging import merged_category
from mnemic.memory.runtime.budget import require_tokens
from mnemic.memory.runtime.embedding import embed_to_store
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.prices import spent_on
from mnemic.models.structured import run_step
from mnemic.prompts.background.judge_pairs import JUDGE_PAIRS, JudgePairsInput, PairVerdict, ShownPair
from mnemic.state.attribution import is_shared
from mnemic.state.background import FactPair, Target
from mnemic.state.errors import ConcurrentChangeError, ModelOutputError
from mnemic.state.graphs import StepUsage
from mnemic.state.identity import Identity
from mnemic.state.records import CANDIDATE, Memory, NewMemory, Relation, Supersession
from mnemic.storage import memories, pairs
from mnemic.storage.transaction import ScopedTransaction

_LOG = logging.getLogger("mnemic")
#: Reason of the operations, as the audit names it.
_REASON: Final = "maintenance"


async def merge_pairs(run: Maintenance) -> StepOutcome:
    """Judge the pairs of similar facts in each scope key of an agent, and apply the verdicts.

    A second run on the same day judges only pairs with changed facts. A dry run counts the pairs that would be judged.

    Returns:
        Counts of pairs by name: `pairs` found, and of them `judged`; `merged`, `updated`, `linked` or left `apart`;
        `refused`, if the verdict may not be applied; `changed`, if a fact was changed meanwhile.

    Raises:
        BudgetSpentError: The tenant has used the tokens of the day.
        ModelError: The model cannot be used for now. What was judged before stays.
        DatabaseUnavailableError: The database cannot be reached.
    """
    resources, counts, after = run.resources, Counter[str](), ""
    database, settings, agent_id = resources.database, resources.settings, run.identity.agent_id
    spent: list[StepUsage] = []
    if not run.is_dry_run:
        await require_tokens(resources, agent_id)
    while keys := await pairs.list_scope_keys(database, agent_id, after, settings, MAX_TARGETS):
        for key in keys:
            scope = _Scope(resources, owner_identity(Target(agent_id, key)), key, str(run.run_id), spent)
            counts.update(await _merge_in_scope(scope, dry_run=run.is_dry_run))
        after = keys[-1]
    if not run.is_dry_run:
        await database.write(run.identity, lambda tx: pairs.prune(tx, settings.pair_rest_days))
    return StepOutcome(counts, spent)


@dataclass(frozen=True)
class _Scope:
    """One scope key, and what a run works on it with."""

    resources: Resources
    identity: Identity
    key: str
    run_id: str
    #: Takes what the models used.
    spent: list[StepUsage]


async def _merge_in_scope(scope: _Scope, *, dry_run: bool) -> Counter[str]:
    found = await _find(scope)
    counts = Counter({"pairs": len(found)})
    closed: set[UUID] = set()
    size = scope.resources.settings.pairs_per_prompt
    for start in range(0, 0 if dry_run else len(found), size):
        # a pair of which a fact was closed by this run is judged anew with its successor by the next one
        batch = [pair for pair in found[start : start + size] if closed.isdisjoint(pair.ids)]
        if batch:
            counts.update(await _judge(scope, batch, closed))
    return counts


async def _find(scope: _Scope) -> list[FactPair]:
    """Return the pairs to judge, as many as the day allows."""
    resources = scope.resources
    settings, embedder = resources.settings, resources.embedder
    async with resources.database.transaction(scope.identity, only=scope.key) as tx:
        left = settings.pairs_per_user_and_day - await pairs.checked_today(tx, scope.key)
        if left <= 0:
            return []
        found = await pairs.find(tx, scope.key, embedder.name, embedder.bands, settings)
    worth = (pair for pair in found if is_worth_asking(*pair.contents, pair.later.subject))
    return list(islice(worth, left))


async def _judge(scope: _Scope, batch: Sequence[FactPair], closed: set[UUID]) -> Counter[str]:
    """Judge a batch in one call, apply the verdicts, and record the pairs as judged."""
    resources = scope.resources
    shown = tuple(_shown(number, pair) for number, pair in enumerate(batch, start=1))
    verdicts: list[PairVerdict] = []
    try:
        judging = run_step(JUDGE_PAIRS, JudgePairsInput(shown), resources.models)
        answer, used = await track_usage(resources, scope.identity, judging)
        verdicts = answer.verdicts
        scope.spent.extend(spent_on(used, resources.settings.model_prices))
    except ModelOutputError as error:  # an answer that cannot be used is not paid for again each day
        _LOG.warning("%d pairs of facts stay as they are: %s", len(batch), error, extra={"run_id": scope.run_id})
    counts = Counter({"judged": len(batch)})
    first = {verdict.pair: verdict for verdict in reversed(verdicts)}
    for number, pair in enumerate(batch, start=1):
        if number in first and closed.isdisjoint(pair.ids):
            counts[await _apply(scope, pair, first[number], closed)] += 1
    await resources.database.write(scope.identity, lambda tx: pairs.note_checked(tx, scope.key, batch))
    return counts


def _shown(number: int, pair: FactPair) -> ShownPair:
    earlier, later = pair.earlier, pair.later
    days = earlier.valid_from.date(), later.valid_from.date()
    return ShownPair(number, later.subject, earlier.content, days[0], later.content, days[1])


async def _apply(scope: _Scope, pair: FactPair, verdict: PairVerdict, closed: set[UUID]) -> str:
    """Apply a verdict in one operation, and return the name of its count."""
    try:
        if verdict.verdict == "SAME" and (text := _merged_text(scope, pair, verdict.text)):
            await _merge(scope, pair, text)
            closed.update(pair.ids)
            return "merged"
        if verdict.verdict == "UPDATE" and _is_later(pair):
            await _update(scope, pair)
            closed.add(pair.earlier.id)
            return "updated"
        if verdict.verdict == "LINK" and not pair.is_linked:
            await _link(scope, pair)
            return "linked"
    except ConcurrentChangeError:
        return "changed"
    return "refused" if verdict.verdict in ("SAME", "UPDATE") else "apart"


def _merged_text(scope: _Scope, pair: FactPair, text: str) -> str | None:
    """Return the text that may replace both facts; one that others read is the text of one of the two."""
    merged = merged_text(text, *pair.contents)
    return None if is_shared(scope.key) and merged not in pair.contents else merged


def _is_later(pair: FactPair) -> bool:
    """Return whether the later fact may replace the earlier one."""
    earlier, later = pair.earlier, pair.later
    return earlier.valid_from < later.valid_from and may_update(*pair.contents, later.subject)


async def _merge(scope: _Scope, pair: FactPair, text: str) -> None:
    """Store one fact that replaces both and rests on the messages of both.

    Raises:
        ConcurrentChangeError: One of them was changed meanwhile, or another fact has the same text.
        EmbeddingError: A setting of the embedder is wrong.
    """
    resources, settings = scope.resources, scope.resources.settings
    new = _merged_fact(pair, text, merged_category([pair.later.category, pair.earlier.category], resources.categories))
    (vector,) = await embed_to_store(resources, [new.search_text])

    async def act(tx: ScopedTransaction) -> None:
        await _begin(scope, tx, pair)
        related = tuple(await pairs.read_neighbours(tx, pair.ids, settings.neighbours))
        sources = await pairs.read_sources(tx, pair.ids)
        # closed first, for the new fact may have the text of one of them
        await memories.supersede(tx, [Supersession(old.id, old.version, new.id, None) for old in pair.facts])
        stored = replace(new, relations=related, source_message_ids=sources)
        model = resources.embedder.name
        if not await memories.insert(tx, [stored], model=model, vectors={new.id: vector}, run_id=scope.run_id):
            raise ConcurrentChangeError
        for old_id in pair.ids:
            await pairs.relate(tx, new.id, Relation(to_id=old_id, strength=1.0, relation_type="merged_from"))
        if any(old.pinned for old in pair.facts):
            await pairs.pin(tx, new.id)

    await resources.database.write(scope.identity, act, only=scope.key)


def _merged_fact(pair: FactPair, text: str, category: str) -> NewMemory:
    """Return the fact that says what both say, since the earlier one became true."""
    earlier, later = pair.earlier, pair.later
    of_one_actor = (earlier.actor_id, earlier.provenance) == (later.actor_id, later.provenance)
    of_one_session = earlier.source_session_id == later.source_session_id
    if is_shared(later.scope_key):
        kept = later if later.content == text else earlier
        author, provenance, said = kept.actor_id, kept.provenance, kept.said
    else:
        author = later.actor_id if of_one_actor else None
        provenance, said = later.provenance if of_one_actor else "consolidated", None
    new = new_memory("fact", category, later.scope_key, text, earlier.valid_from, later.subject)
    return replace(
        new,
        subject_user_id=later.subject_user_id,
        importance=max(earlier.importance, later.importance),
        private=earlier.private or later.private,
        tags=_merged_tags(earlier, later),
        provenance=provenance,
        actor_id=author,
        said=said,
        source_session_id=later.source_session_id if of_one_session else None,
    )


def _merged_tags(earlier: Memory, later: Memory) -> tuple[str, ...]:
    """Return the tags of both. A fact is a candidate for a wider scope only if both are."""
    first, second = set(earlier.tags or ()), set(later.tags or ())
    return tuple(sorted((first | second) - {CANDIDATE} | (first & second)))


async def _update(scope: _Scope, pair: FactPair) -> None:
    """Close the earlier fact since the later one became true."""
    earlier, later = pair.earlier, pair.later

    async def act(tx: ScopedTransaction) -> None:
        await _begin(scope, tx, pair)
        await memories.supersede(tx, [Supersession(earlier.id, earlier.version, later.id, later.valid_from)])
        if earlier.pinned and not later.pinned:
            await pairs.pin(tx, later.id)

    await scope.resources.database.write(scope.identity, act, only=scope.key)


async def _link(scope: _Scope, pair: FactPair) -> None:
    """Relate the later fact to the earlier one."""

    async def act(tx: ScopedTransaction) -> None:
        await _begin(scope, tx, pair)
        await pairs.relate(tx, pair.later.id, Relation(to_id=pair.earlier.id, strength=min(1.0, pair.similarity)))

    await scope.resources.database.write(scope.identity, act, only=scope.key)


async def _begin(scope: _Scope, tx: ScopedTransaction, pair: FactPair) -> None:
    """Begin the operation of one pair.

    Raises:
        ConcurrentChangeError: One of the facts was changed since the pair was found.
    """
    await tx.begin_operation(_REASON, run_id=scope.run_id)
    await pairs.require_unchanged(tx, pair)
