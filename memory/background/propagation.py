"""Raises memories: those of a user to a group, and those of a group, or candidates of a user, to all users.

Code finds the memories that may be raised, by the sentences that people typed. A model only chooses among them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.background.owners import owner_identity
from mnemic.memory.background.propagation_rules import (
    Claim,
    Evidence,
    agent_evidence,
    group_evidence,
    independent_pair,
)
from mnemic.memory.runtime.embedding import embed_memories
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.usage import track_usage
from mnemic.models.structured import run_step
from mnemic.prompts.background.propagate import PROPAGATE, PropagateInput
from mnemic.state.background import Target
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.records import CANDIDATE, Memory, NewMemory, Relation
from mnemic.state.settings import Settings
from mnemic.storage import memories, propagation, scopes
from mnemic.storage.propagation import Position
from mnemic.storage.transaction import ScopedTransaction

#: Maximum number of memories in one call of the model.
_MAX_SHOWN: Final = 40
#: Maximum number of other memories that a memory is compared with.
_MAX_PEERS: Final = 30


class Raise(NamedTuple):
    """A memory that may be raised, with the reason."""

    memory: Memory
    #: Scope key to which it is raised.
    scope_key: str
    evidence: Sequence[Evidence]
    #: Memories with that content.
    sources: Sequence[UUID]
    #: Content of the other memory; empty for a group.
    elsewhere: str = ""


@dataclass(frozen=True)
class _Propagation:
    """One run on a user's or group's scope key."""

    resources: Resources
    identity: Identity
    key: str
    #: The agent's own settings.
    settings: Settings
    #: The part of the history that earlier runs have read.
    position: Position

    @property
    def personal(self) -> frozenset[str]:
        """Categories that are a person's own."""
        return self.resources.categories.personal


async def propagate(resources: Resources, target: Target) -> None:
    """Raise new memories of a user's or group's scope key, and record the position in the history.

    Raises:
        MnemicError: if a model or the database failed, or a memory changed since it was read; nothing was raised.
    """
    identity, key = owner_identity(target), target.scope_key
    async with resources.database.transaction(identity) as tx:
        settings = resources.settings.overridden(await scopes.agent_settings(tx))
        position = await propagation.read_position(tx, key)
    run = _Propagation(resources, identity, key, settings, position)
    proposed: list[Raise] = []
    if settings.propagation:
        proposed += await _for_groups(run)
        proposed += await _for_all_users(run)
    await _store(run, await _choose(run, proposed))


async def _for_groups(run: _Propagation) -> list[Raise]:
    """Return the user's new memories that one of the user's groups may have; none if the identity has no user."""
    user = run.identity.user_id
    if not user or not run.settings.share_with_group:
        return []
    async with run.resources.database.transaction(run.identity) as tx:
        memories_of_user = await propagation.read_new_memories(
            tx, scope_key("user", user), run.position.seen, run.personal, tag=None
        )
        messages = await propagation.typed_messages(tx, _ids(memories_of_user))
        sessions: set[str] = set()
        for typed in messages.values():
            sessions.update(message.session_id for message in typed)
        session_groups = await propagation.session_groups(tx, sessions, user)
    proposed: list[Raise] = []
    for memory in memories_of_user:
        claim = Claim(memory, messages.get(memory.id, ()))
        for group in sorted(set(session_groups.values())):
            evidence = group_evidence(claim, group, session_groups, run.personal)
            if evidence:
                proposed.append(Raise(memory, scope_key("group", group), evidence, (memory.id,)))
    return proposed


async def _for_all_users(run: _Propagation) -> list[Raise]:
    """Return memories that two groups, or two users without a common group or session, typed independently."""
    if run.settings.share_with_agent == "off":
        return []
    # of a user only memories that formation proposed for the agent scope
    tag = CANDIDATE if split_scope_key(run.key)[0] == "user" else None
    database = run.resources.database
    async with database.transaction(run.identity) as tx:
        new = await propagation.read_new_memories(tx, run.key, run.position.seen, run.personal, tag=tag)
        if not new:
            return []
        ids = _ids(new)
        pairs = await propagation.similar_claims(tx, ids, _MAX_PEERS)
        if not pairs:
            return []
        peer_ids: list[UUID] = []
        keys: set[str] = set()
        for pair in pairs:
            peer_ids.append(pair.peer_id)
            keys.add(pair.peer_key)
        keys.update(await propagation.speaker_keys(tx, [*ids, *peer_ids]))
    embedder = run.resources.embedder
    async with database.transaction(run.identity, also=sorted(keys)) as tx:
        near = await propagation.filter_similar(tx, pairs, embedder.name, embedder.bands.check)
        return await _confirmed(tx, new, near, run.personal)


async def _confirmed(
    tx: ScopedTransaction, new: Sequence[Memory], near: Sequence[tuple[UUID, UUID]], personal: frozenset[str]
) -> list[Raise]:
    """Return the memories with independent evidence, each once."""
    peers = await propagation.read_shareable(tx, [peer for _, peer in near], personal)
    memories_of_pairs = [*new, *peers]
    messages = await propagation.typed_messages(tx, _ids(memories_of_pairs))
    claims: dict[UUID, Claim] = {}
    for memory in memories_of_pairs:
        claims[memory.id] = Claim(memory, messages.get(memory.id, ()))
    proposed: dict[UUID, Raise] = {}
    for memory_id, peer_id in near:
        if peer_id in claims and memory_id not in proposed:
            raised = await _raise_of_pair(tx, claims[memory_id], claims[peer_id], personal)
            if raised:
                proposed[memory_id] = raised
    return list(proposed.values())


async def _raise_of_pair(tx: ScopedTransaction, claim: Claim, peer: Claim, personal: frozenset[str]) -> Raise | None:
    """Return the older of two memories with a text that was typed independently for both; None without one."""
    key = scope_key("agent", tx.identity.agent_id)
    for memory in sorted((claim.memory, peer.memory), key=lambda memory: (memory.valid_from, memory.id)):
        evidence = agent_evidence(memory.content, claim, personal)
        peer_evidence = agent_evidence(memory.content, peer, personal)
        strangers = await _find_strangers(tx, evidence, peer_evidence)
        pair = independent_pair(evidence, peer_evidence, strangers)
        if pair:
            other = peer.memory if memory is claim.memory else claim.memory
            return Raise(memory, key, pair, (claim.memory.id, peer.memory.id), other.content)
    return None


async def _find_strangers(
    tx: ScopedTransaction, first_evidence: Iterable[Evidence], second_evidence: Iterable[Evidence]
) -> set[tuple[str, str]]:
    """Return the pairs of an author of the first and one of the second evidence that share no group or session."""
    strangers: set[tuple[str, str]] = set()
    for first, second in product(_authors(first_evidence), _authors(second_evidence)):
        if await propagation.are_strangers(tx, first, second):
            strangers.add((first, second))
    return strangers


def _authors(evidence: Iterable[Evidence]) -> set[str]:
    return {one.author for one in evidence}


async def _choose(run: _Propagation, proposed: Sequence[Raise]) -> list[Raise]:
    """Return the memories that the model chooses; numbers that it was not shown count for nothing."""
    by_key: dict[str, list[Raise]] = defaultdict(list)
    for raised in proposed:
        by_key[raised.scope_key].append(raised)
    models = run.resources.models
    chosen: list[Raise] = []
    for key, raises in by_key.items():
        scope, owner = split_scope_key(key)
        group = display_name(owner) if scope == "group" else ""
        for start in range(0, len(raises), _MAX_SHOWN):
            shown = raises[start : start + _MAX_SHOWN]
            step_input = PropagateInput(group, [(raised.memory, raised.elsewhere) for raised in shown])
            answer, _ = await track_usage(run.resources, run.identity, run_step(PROPAGATE, step_input, models))
            for number, raised in enumerate(shown, start=1):
                if number in answer.numbers:
                    chosen.append(raised)
    return chosen


async def _store(run: _Propagation, chosen: Sequence[Raise]) -> None:
    """Store the copies, each with its lineage, unless something changed since it was read."""
    copies: list[NewMemory] = []
    sources: set[UUID] = set()
    keys: set[str] = set()
    for raised in chosen:
        copies.append(_copy(raised))
        sources.update(raised.sources)
        keys.add(raised.scope_key)
        for evidence in raised.evidence:
            keys |= {evidence.scope_key, evidence.message.scope_key}
    vectors = await embed_memories(run.resources, copies)

    async def store(tx: ScopedTransaction) -> None:
        if copies:
            await tx.begin_operation("propagation")
            await _require_unchanged(tx, run, sorted(sources))
            await memories.insert(tx, copies, model=run.resources.embedder.name, vectors=vectors, run_id=None)
        else:
            await scopes.ensure_agent(tx)
        await propagation.save_position(tx, run.key, run.position.newest)

    also = sorted(keys - set(run.identity.scope_keys))
    await run.resources.database.write(run.identity, store, also=also)


async def _require_unchanged(tx: ScopedTransaction, run: _Propagation, sources: Sequence[UUID]) -> None:
    """Refuse the save if another run has read the scope key, or if a source was closed or made private.

    Raises:
        ConcurrentChangeError: if something changed.
    """
    if (await propagation.read_position(tx, run.key)).seen != run.position.seen:
        raise ConcurrentChangeError
    if len(await propagation.read_shareable(tx, sources, run.personal)) != len(sources):
        raise ConcurrentChangeError


def _ids(rows: Iterable[Memory]) -> list[UUID]:
    return [memory.id for memory in rows]


def _copy(raised: Raise) -> NewMemory:
    """Return the memory for its new scope key, in the words of its author, with the typed sentence of that author."""
    source = raised.memory
    new = new_memory(source.kind, source.category, raised.scope_key, source.content, source.valid_from, source.subject)
    evidence = raised.evidence[0]
    for other in raised.evidence:
        if other.author == source.actor_id:
            evidence = other
            break
    message_ids: dict[UUID, None] = {}
    for one in raised.evidence:
        message_ids[one.message.id] = None
    relations: list[Relation] = []
    for source_id in raised.sources:
        relations.append(Relation(to_id=source_id, strength=1.0, relation_type="propagated_from"))
    return replace(
        new,
        importance=source.importance,
        provenance=source.provenance,
        source_message_ids=tuple(message_ids),
        relations=tuple(relations),
        actor_id=evidence.author,
        said=evidence.said,
    )


async def withdraw(resources: Resources, target: Target) -> None:
    """Soft-delete the copies in a scope key without a valid source; memories that they replaced hold again.

    Raises:
        DatabaseUnavailableError: if the database cannot be reached; nothing was withdrawn.
        ConcurrentChangeError: if the transaction was given up; nothing was withdrawn.
    """
    await resources.database.write(owner_identity(target), partial(_withdraw, key=target.scope_key))


async def _withdraw(tx: ScopedTransaction, key: str) -> None:
    if not await propagation.copies_to_withdraw(tx, key):
        return
    await tx.begin_operation("propagation")
    lost = await propagation.copies_to_withdraw(tx, key)
    for memory_id in lost:
        copy = await memories.find(tx, memory_id)
        if copy:
            await memories.forget(tx, copy)
    await propagation.reactivate_after_withdrawal(tx, lost)
