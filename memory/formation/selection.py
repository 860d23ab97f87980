"""What a run stores of its new memories: how many, how related, what they repeat; and what accounts for its words."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.transcript import speakers
from mnemic.state.formation import Coverage, DuplicateDraft
from mnemic.state.identity import Identity, display_name, scope_key
from mnemic.state.records import Memory, Message, NewMemory, Supersession
from mnemic.state.settings import Settings
from mnemic.storage import inbox, scopes

#: Characters of a shared fact with the sentences that it renews; a longer one would fill a context.
_MAX_JOINED_CHARS: Final = 1200


def most_important(new: Sequence[NewMemory], most: int) -> list[NewMemory]:
    """So many memories, the most important ones, in the order given; among equals the first."""
    ranked = sorted(new, key=lambda memory: -memory.importance)
    kept = {memory.id for memory in ranked[:most]}
    return [memory for memory in new if memory.id in kept]


def within_cap(
    new: Sequence[NewMemory], closing: Sequence[Supersession], most: int | None
) -> tuple[list[NewMemory], list[Supersession]]:
    """What is stored of a run, and the closings by what is; without a cap all is stored."""
    kept = [*new] if most is None else most_important(new, most)
    ids = {memory.id for memory in kept}
    return kept, [row for row in closing if row.new_id in ids]


def with_former(new: NewMemory, old: Memory) -> NewMemory | None:
    """Return a shared memory with the typed sentence of the one that it renews, or None if both are too long.

    The former sentence follows on a line of its own, with its author if that is another one.
    """
    former = old.said or old.content
    if old.author != new.actor_id:
        former = f"{display_name(old.author or old.subject)}: {former}"
    content = f"{new.content}\n{former}"
    return None if len(content) > _MAX_JOINED_CHARS else replace(new, content=content, said=content)


def crowded_out(account: Coverage, drafted: Iterable[NewMemory], kept: Iterable[NewMemory]) -> Coverage:
    """The account once some of the drafts had to give way: what only they rested on is open again."""
    lost = _sources(drafted) - _sources(kept)
    return replace(account, cited=account.cited - lost, open=account.open | lost)


def accounted(batch: Iterable[Message], account: Coverage) -> set[UUID]:
    """The messages that something stored or known rests on, or of which every step said that they hold nothing."""
    return {
        message.id
        for message in batch
        if message.id in account.cited or (account.nothing_else and message.id not in account.open)
    }


def _sources(memories: Iterable[NewMemory]) -> set[UUID]:
    """What they cite; an episode cites nothing."""
    return {source for memory in memories if memory.kind != "episode" for source in memory.source_message_ids}


def related_to_living(new: Sequence[NewMemory], closing: Sequence[Supersession]) -> list[NewMemory]:
    """The memories without relations from or to what the run closes, for that is known by its successor."""
    closed = {change.old_id for change in closing}
    return [
        replace(memory, relations=tuple(row for row in memory.relations if closed.isdisjoint([memory.id, row.to_id])))
        for memory in new
    ]


def further_sources(
    repeats: Sequence[DuplicateDraft], new: Iterable[NewMemory], batch: Iterable[Message]
) -> list[tuple[UUID, UUID]]:
    """Memories, each with a message that says it again; what was repeated by what was itself dropped, at its end.

    What is shared rests on those alone who told it first: who only agrees can be erased without it.
    """
    own_keys = {message.id: message.user_id and scope_key("user", message.user_id) for message in batch}
    made = {memory.id for memory in new}

    def ends(row: DuplicateDraft, passed: frozenset[UUID] = frozenset()) -> set[UUID]:
        """What a row leads to that is stored in the end; two may have been taken for repeats of one another."""
        if row.is_stored or row.known_id in made:
            return {row.known_id}
        further = (other for other in repeats if other.new.id == row.known_id and row.known_id not in passed)
        return {end for other in further for end in ends(other, passed | {row.known_id})}

    return sorted(
        {
            (end, message)
            for row in repeats
            if row.scope_key.startswith(("user:", "session:"))
            for end in ends(row)
            for message in row.new.source_message_ids
            if own_keys.get(message, "") in (None, row.scope_key)
        }
    )


def quota_scope_key(messages: Iterable[Message], identity: Identity) -> str | None:
    """The scope key on whose day a turn counts: the run's own user, else the turn's first speaker, if one spoke."""
    user = identity.user_id or next(iter(speakers(messages)), None)
    return scope_key("user", user) if user else None


async def writes_left(resources: Resources, identity: Identity, settings: Settings, *, retry: bool) -> int | None:
    """Memories that turns may still bring today; None where sessions are formed in batches: always, or to midnight."""
    if settings.formation_mode == "batch":
        return None
    messages: tuple[Message, ...] = ()
    if not identity.user_id:
        async with resources.database.transaction(identity) as scoped:
            most = settings.formation_batch_messages
            messages = (await inbox.read_inbox(scoped, session_of(identity), limit=most, quarantined=retry)).messages
    used, key = 0, quota_scope_key(messages, identity)
    if key:
        async with resources.database.transaction(identity, also=[key]) as scoped:
            used = await scopes.turn_writes_today(scoped, key)
    left = settings.writes_per_user_and_day - used
    return left if left > 0 else None
