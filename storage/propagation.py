"""Memories that are raised to groups and to all users: new ones, their messages, similar ones, lost copies."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from mnemic.state.records import Memory, Message
from mnemic.storage.transaction import ScopedTransaction, first_column, load_statements

_SQL = load_statements("propagation")


class Position(NamedTuple):
    """How far a scope key was propagated, as revisions of the agent's history."""

    seen: int
    #: Newest revision of the history.
    newest: int


class Pair(NamedTuple):
    """A memory, and one of another scope key."""

    memory_id: UUID
    peer_id: UUID
    peer_key: str


async def read_position(tx: ScopedTransaction, key: str) -> Position:
    """Return the last propagated revision of a scope key, and the newest of the agent."""
    ((seen, newest),) = await tx.tuples(_SQL["read_position"], {"key": key})
    return Position(seen, newest)


async def save_position(tx: ScopedTransaction, key: str, newest: int) -> None:
    """Record the revision up to which a scope key was propagated."""
    await tx.execute(_SQL["save_position"], {"key": key, "revision": newest})


async def read_new_memories(
    tx: ScopedTransaction, key: str, since: int, personal: Iterable[str], *, tag: str | None
) -> list[Memory]:
    """Return the new memories of a scope key that are neither private nor of a personal category.

    Args:
        tx: sees the scope key.
        key: the scope key.
        since: row of the history after which they came.
        personal: categories that are a person's own.
        tag: tag that they must have; None: any.
    """
    values = {"key": key, "since": since, "personal": sorted(personal), "tag": tag}
    return await tx.rows(Memory, _SQL["read_new_memories"], values)


async def read_shareable(tx: ScopedTransaction, ids: Sequence[UUID], personal: Iterable[str]) -> list[Memory]:
    """Return these memories, as far as they are still kept and may be shared."""
    return await tx.rows(Memory, _SQL["read_shareable"], {"ids": list(ids), "personal": sorted(personal)})


async def typed_messages(tx: ScopedTransaction, ids: Sequence[UUID]) -> Mapping[UUID, list[Message]]:
    """Return the visible messages of users that each of these memories rests on, also through merges."""
    by_memory: dict[UUID, list[Message]] = defaultdict(list)
    for row in await tx.rows(dict, _SQL["typed_messages"], {"ids": list(ids)}):
        by_memory[row.pop("memory_id")].append(Message(**row))
    return by_memory


async def session_groups(tx: ScopedTransaction, sessions: Iterable[str], user_id: str) -> dict[str, str]:
    """Return the group of each of these sessions in which every run had exactly one, and the user is a member."""
    return dict(await tx.call("session_groups", sorted(set(sessions)), user_id))


async def similar_claims(tx: ScopedTransaction, ids: Sequence[UUID], limit: int) -> list[Pair]:
    """Return memories of other groups, and candidates of other users, with words of these memories.

    Args:
        tx: sees the memories.
        ids: of the memories.
        limit: maximum number of results for each memory.
    """
    return [Pair(*row) for row in await tx.call("similar_claims", list(ids), limit)]


async def filter_similar(
    tx: ScopedTransaction, pairs: Sequence[Pair], model: str, min_similarity: float
) -> list[tuple[UUID, UUID]]:
    """Return the ids of the pairs that are at least so similar, the most similar first.

    Args:
        tx: sees both memories of each pair.
        pairs: of memories.
        model: name of the embedding model.
        min_similarity: cosine similarity.
    """
    ids: list[UUID] = []
    peers: list[UUID] = []
    for pair in pairs:
        ids.append(pair.memory_id)
        peers.append(pair.peer_id)
    values = {"ids": ids, "peers": peers, "model": model, "least": min_similarity}
    return [(memory_id, peer_id) for memory_id, peer_id, _ in await tx.tuples(_SQL["filter_similar"], values)]


async def speaker_keys(tx: ScopedTransaction, ids: Sequence[UUID]) -> list[str]:
    """Return the scope keys of the messages that memories rest on."""
    return first_column(await tx.call("speaker_keys", list(ids)))


async def are_strangers(tx: ScopedTransaction, one: str, other: str) -> bool:
    """Return whether two users have neither a group nor a session in common."""
    ((result,),) = await tx.call("are_strangers", one, other)
    return bool(result)


async def copies_to_withdraw(tx: ScopedTransaction, key: str) -> list[UUID]:
    """Return the copies in a scope key with a source that is closed or private."""
    return first_column(await tx.call("copies_to_withdraw", tx.stored_key(key)))


async def reactivate_after_withdrawal(tx: ScopedTransaction, copies: Sequence[UUID]) -> None:
    """Reactivate the memories that copies had replaced; the open operation has withdrawn the copies."""
    await tx.call_with_head("reactivate_after_withdrawal", list(copies))
