"""Stores a conversation as the product does: turns as messages, annotated facts with their source messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal
from uuid import UUID, uuid4

from benchmarks.recall_quality.locomo import Conversation, Turn
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import pieces, search_text
from mnemic.state.identity import Identity, scope_key
from mnemic.state.records import IndexedText, Message, NewMemory
from mnemic.storage import inbox, memories
from mnemic.storage.transaction import ScopedTransaction

#: What is searched: facts with the messages they came from, facts and all messages, or all messages alone.
Kept = Literal["messages", "sources", "all"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row that may be found: its item, the text it is indexed by, and the turns that count as found with it."""

    item_id: UUID
    text: str
    turn_ids: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A conversation in the database: who may ask, and the rows."""

    identity: Identity
    rows: tuple[Row, ...]


async def store(resources: Resources, conversation: Conversation, kept: Kept) -> Stored:
    """Store a conversation under an agent of its own, as the memory of one user; both speakers' words are theirs."""
    user = conversation.id
    who = Identity(agent_id=f"quality-{uuid4().hex[:12]}", user_id=user)
    messages = {turn.id: _message(turn, user) for turn in conversation.turns}
    facts = [] if kept == "messages" else _facts(conversation, messages, user)
    sources = {source for fact in facts for source in fact.source_message_ids}
    texts = [
        IndexedText(item_id=said.id, piece=number, text=search_text(said.said_at, said.author, piece))
        for said in messages.values()
        if kept != "sources" or said.id in sources
        for number, piece in enumerate(pieces(said.content))
    ]
    await _write(resources, who, list(messages.values()), facts, texts)
    turn_of = {said.id: turn_id for turn_id, said in messages.items()}
    rows = [
        Row(item_id=fact.id, text=fact.search_text, turn_ids=frozenset(turn_of[id_] for id_ in fact.source_message_ids))
        for fact in facts
    ]
    rows += [Row(item_id=text.item_id, text=text.text, turn_ids=frozenset({turn_of[text.item_id]})) for text in texts]
    return Stored(identity=who, rows=tuple(rows))


def _message(turn: Turn, user: str) -> Message:
    return Message(
        id=uuid4(),
        session_id=f"{user}-{turn.session}",
        role="user",
        author=turn.speaker,
        user_id=user,
        content=turn.text,
        said_at=turn.said_at,
    )


def _facts(conversation: Conversation, messages: dict[str, Message], user: str) -> list[NewMemory]:
    """Each sentence once, as the store keeps it, with the sources of all its occurrences."""
    found: dict[str, NewMemory] = {}
    for observed in conversation.observations:
        earlier = found.get(observed.text)
        ids = [messages[turn_id].id for turn_id in observed.turn_ids]
        found[observed.text] = NewMemory(
            id=uuid4(),
            kind="fact",
            scope_key=scope_key("user", user),
            category="knowledge",
            content=observed.text,
            search_text=search_text(observed.dated, observed.subject, observed.text),
            subject=observed.subject,
            valid_from=observed.dated,
            source_message_ids=tuple(dict.fromkeys([*(earlier.source_message_ids if earlier else ()), *ids])),
        )
    return list(found.values())


async def _write(
    resources: Resources,
    who: Identity,
    messages: Sequence[Message],
    facts: Sequence[NewMemory],
    texts: Sequence[IndexedText],
) -> None:
    vectors = await resources.embedder.embed([*(fact.search_text for fact in facts), *(text.text for text in texts)])
    by_id = {fact.id: vector for fact, vector in zip(facts, vectors, strict=False)}
    embedded = [
        IndexedText(item_id=text.item_id, piece=text.piece, text=text.text, vector=vector)
        for text, vector in zip(texts, vectors[len(facts) :], strict=True)
    ]
    for session, said in groupby(messages, lambda one: one.session_id):
        async with resources.database.transaction(who.model_copy(update={"session_id": session})) as tx:
            await inbox.observe(tx, session, list(said))

    async def act(tx: ScopedTransaction) -> None:
        op_id = await tx.begin_operation("formation")
        await inbox.settle(tx, op_id, messages, read_revision=0)
        await memories.insert(tx, facts, model=resources.embedder.name, vectors=by_id, run_id=None)
        await inbox.index_messages(tx, resources.embedder.name, embedded)

    await resources.database.write(who, act)
