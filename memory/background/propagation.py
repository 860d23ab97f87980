"""Raises memories: those of a user to a group, and those of a group, or candidates of a user, to all users.

Code finds what may be raised, by the sentences that people typed. A model only chooses among it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
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
from mnemic.memory.runtime.embedding import embed_to_store
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

#: Memories shown to the model in one call.
_SHOWN_AT_ONCE: Final = 40
#: Memories of others that a memory is compared with.
_PEERS: Final = 30


class Raise(NamedTuple):
    """A memory that may be raised, and why."""

    memory: Memory
    #: Scope key to which it is raised.
    scope_key: str
    evidence: Sequence[Evidence]
    #: Memories with that content.
    sources: Sequence[UUID]
    #: Content of the other memory; empty for a group.
    elsewhere: str = ""


async def propagate(resources: Resources, target: Target) -> None:
    """Raise what is new in a user's or group's scope key, and record up to where it was looked at.

    Raises:
        MnemicError: a model or the database failed, or a memory changed meanwhile; nothing was raised.
    """
    identity, key = owner_identity(target), target.scope_key
    async with resources.database.transaction(identity) as tx:
        settings = resources.settings.overridden(await scopes.agent_settings(tx))
        position = await propagation.read_position(tx, key)
    proposed: list[Raise] = []
    if settings.propagation:
        proposed = await _for_groups(resources, identity, settings, position)
        proposed += await _for_all_users(resources, identity, settings, key, position)
    chosen = await _choose(resources, identity, proposed)
    await _save(resources, identity, key, position, chosen)


async def _for_groups(resources: Resources, identity: Identity, settings: Settings, position: Position) -> list[Raise]:
    """Return the user's new memories that one of the user's groups may have; none if the identity has no user."""
    user = identity.user_id
    if not user or not settings.share_with_group:
        return []
    personal = resources.categories.personal
    async with resources.database.transaction(identity) as tx:
        found = await propagation.read_new_memories(tx, scope_key("user", user), position.seen, personal, tag=None)
        messages = await propagation.typed_messages(tx, [memory.id for memory in found])
        sessions = {message.session_id for said in messages.values() for message in said}
        groups = await propagation.session_groups(tx, sessions, user)
    proposed: list[Raise] = []
    for memory in found:
        claim = Claim(memory, messages.get(memory.id, ()))
        for group in sorted(set(groups.values())):
            evidence = group_evidence(claim, group, groups, personal)
            if evidence:
                proposed.append(Raise(memory, scope_key("group", group), evidence, (memory.id,)))
    return proposed


async def _for_all_users(
    resources: Resources, identity: Identity, settings: Settings, key: str, position: Position
) -> list[Raise]:
    """Return what two groups, or two users without a common group, typed independently of each other."""
    if settings.share_with_agent == "off":
        return []
    database, personal = resources.database, resources.categories.personal
    # of a user only memories that formation proposed for the agent scope
    tag = CANDIDATE if split_scope_key(key)[0] == "user" else None
    async with database.transaction(identity) as tx:
        found = await propagation.read_new_memories(tx, key, position.seen, personal, tag=tag)
        if not found:
            return []
        ids = [memory.id for memory in found]
        pairs = await propagation.similar_claims(tx, ids, _PEERS)
        if not pairs:
            return []
        speakers = await propagation.speaker_keys(tx, [*ids, *(pair.peer_id for pair in pairs)])
    keys = sorted({pair.peer_key for pair in pairs} | set(speakers))
    embedder = resources.embedder
    async with database.transaction(identity, also=keys) as tx:
        near = await propagation.filter_similar(tx, pairs, embedder.name, embedder.bands.check)
        return await _confirmed(tx, found, near, personal)


async def _confirmed(
    tx: ScopedTransaction, found: Sequence[Memory], near: Sequence[tuple[UUID, UUID]], personal: frozenset[str]
) -> list[Raise]:
    """Return the memories that have independent evidence, each once."""
    ids = [memory.id for memory in found]
    peers = await propagation.read_shareable(tx, [peer for _, peer in near], personal)
    messages = await propagation.typed_messages(tx, [*ids, *(memory.id for memory in peers)])
    claims = {memory.id: Claim(memory, messages.get(memory.id, ())) for memory in [*found, *peers]}
    proposed: dict[UUID, Raise] = {}
    for own, peer in near:
        if peer in claims and own not in proposed:
            raised = await _raised(tx, claims[own], claims[peer], personal)
            if raised:
                proposed[own] = raised
    return list(proposed.values())


async def _raised(tx: ScopedTransaction, own: Claim, peer: Claim, personal: frozenset[str]) -> Raise | None:
    """Return the older of two memories whose text was typed independently for both; None if neither was."""
    key = scope_key("agent", tx.identity.agent_id)
    for memory in sorted((own.memory, peer.memory), key=lambda memory: (memory.valid_from, memory.id)):
        first, second = agent_evidence(memory.content, own, personal), agent_evidence(memory.content, peer, personal)
        strangers = set()
        for one in {evidence.author for evidence in first}:
            for other in {evidence.author for evidence in second}:
                if await propagation.are_strangers(tx, one, other):
                    strangers.add((one, other))
        pair = independent_pair(first, second, strangers)
        if pair:
            elsewhere = peer.memory if memory is own.memory else own.memory
            return Raise(memory, key, pair, (own.memory.id, peer.memory.id), elsewhere.content)
    return None


async def _choose(resources: Resources, identity: Identity, proposed: Sequence[Raise]) -> list[Raise]:
    """Return those that the model chooses. Numbers that it was not shown count for nothing."""
    by_key: dict[str, list[Raise]] = defaultdict(list)
    for raised in proposed:
        by_key[raised.scope_key].append(raised)
    chosen: list[Raise] = []
    for key, rows in by_key.items():
        scope, owner = split_scope_key(key)
        group = display_name(owner) if scope == "group" else ""
        for start in range(0, len(rows), _SHOWN_AT_ONCE):
            shown = rows[start : start + _SHOWN_AT_ONCE]
            step_input = PropagateInput(group, [(raised.memory, raised.elsewhere) for raised in shown])
            answer, _ = await track_usage(resources, identity, run_step(PROPAGATE, step_input, resources.models))
            chosen += [raised for number, raised in enumerate(shown, start=1) if number in answer.numbers]
    return chosen


async def _save(
    resources: Resources, identity: Identity, key: str, position: Position, chosen: Sequence[Raise]
) -> None:
    """Store the copies, each with its lineage, unless something changed since it was read."""
    copies = [_copy(raised) for raised in chosen]
    vectors = await embed_to_store(resources, [copy.search_text for copy in copies]) if copies else []
    by_id = dict(zip([copy.id for copy in copies], vectors, strict=True))
    personal, model = resources.categories.personal, resources.embedder.name
    sources = sorted({source for raised in chosen for source in raised.sources})
    keys = {evidence.scope_key for raised in chosen for evidence in raised.evidence}
    keys |= {raised.scope_key for raised in chosen}
    keys |= {evidence.message.scope_key for raised in chosen for evidence in raised.evidence}

    async def act(tx: ScopedTransaction) -> None:
        if copies:
            await tx.begin_operation("propagation")
            # another run may have raised the same, and a source may have been closed or made private
            if (await propagation.read_position(tx, key)).seen != position.seen:
                raise ConcurrentChangeError
            if len(await propagation.read_shareable(tx, sources, personal)) != len(sources):
                raise ConcurrentChangeError
            await memories.insert(tx, copies, model=model, vectors=by_id, run_id=None)
        else:
            await scopes.ensure_agent(tx)
        await propagation.save_position(tx, key, position.newest)

    await resources.database.write(identity, act, also=sorted(keys - set(identity.scope_keys)))


def _copy(raised: Raise) -> NewMemory:
    """Return the memory for its new scope key, in the words of its author, with the typed sentence of that author."""
    source = raised.memory
    new = new_memory(source.kind, source.category, raised.scope_key, source.content, source.valid_from, source.subject)
    typed = {evidence.message.id: evidence.author for evidence in raised.evidence}
    authors = list(typed.values())
    author = source.actor_id if source.actor_id in authors else authors[0]
    return replace(
        new,
        importance=source.importance,
        provenance=source.provenance,
        source_message_ids=tuple(typed),
        relations=tuple(Relation(to_id=each, strength=1.0, relation_type="propagated_from") for each in raised.sources),
        actor_id=author,
        said=next(evidence.said for evidence in raised.evidence if evidence.author == author),
    )


async def withdraw(resources: Resources, target: Target) -> None:
    """Soft-delete the copies in a scope key whose source no longer holds; what they replaced is in force again.

    Raises:
        DatabaseUnavailableError, ConcurrentChangeError: nothing was withdrawn.
    """
    identity = owner_identity(target)

    async def act(tx: ScopedTransaction) -> None:
        if not await propagation.copies_to_withdraw(tx, target.scope_key):
            return
        await tx.begin_operation("propagation")
        lost = await propagation.copies_to_withdraw(tx, target.scope_key)
        for memory_id in lost:
            copy = await memories.find(tx, memory_id)
            if copy:
                await memories.forget(tx, copy)
        await propagation.reactivate_after_withdrawal(tx, lost)

    await resources.database.write(identity, act)
