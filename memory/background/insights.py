"""Draws insights about a user from new memories: at most three, at most once in 24 hours."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.background.owners import owner_identity
from mnemic.memory.runtime.embedding import embed_memories
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.usage import track_usage
from mnemic.memory.text.shape import clean_text
from mnemic.memory.text.writing import check_text
from mnemic.models.structured import run_step
from mnemic.prompts.background.insights import INSIGHTS, MAX_INSIGHTS, InsightDraft, InsightsInput
from mnemic.state.background import Target
from mnemic.state.identity import Identity, display_name, split_scope_key
from mnemic.state.model_settings import OFFLINE
from mnemic.state.records import Memory, NewMemory, Relation
from mnemic.storage import insights, memories, scopes
from mnemic.storage.insights import KeptMessage
from mnemic.storage.transaction import ScopedTransaction

CATEGORY: Final = "relationship_dynamic"
MAX_EPISODES: Final = 5
MAX_FACTS: Final = 3
#: Maximum characters of the conversation in the prompt.
MAX_SNIPPET_CHARS: Final = 1000
_MAX_MESSAGES: Final = 20
MAX_TAGS: Final = 3
MAX_TAG_CHARS: Final = 30


class _Material(NamedTuple):
    """The model's input, and the lineage of the insights from it."""

    step_input: InsightsInput
    relations: tuple[Relation, ...]
    message_ids: tuple[UUID, ...]


async def draw_insights(resources: Resources, target: Target) -> None:
    """Draw insights about a user if something is new and none were drawn in the last 24 hours.

    An answer without a usable insight counts as drawn, too.

    Raises:
        ModelError: if the model failed; nothing was stored.
        DatabaseUnavailableError: if the database cannot be reached; nothing was stored.
        ConcurrentChangeError: if the transaction was given up; nothing was stored.
    """
    identity, key = owner_identity(target), target.scope_key
    material = await _read_material(resources, identity, key)
    if material is None:
        return
    answer, _ = await track_usage(resources, identity, run_step(INSIGHTS, material.step_input, resources.models))
    insights_drawn = _usable_insights(answer.insights, key, resources.now(identity), material)
    await _save(resources, identity, key, insights_drawn)


async def _read_material(resources: Resources, identity: Identity, key: str) -> _Material | None:
    """Return the input about the user, or None if no insights are due."""
    if resources.settings.model_for("fast") == OFFLINE:
        return None
    async with resources.database.transaction(identity, only=key) as tx:
        settings = resources.settings.overridden(await scopes.agent_settings(tx))
        if not settings.insights or not await insights.are_insights_due(tx, key):
            return None
        episodes = await memories.list_memories(tx, ["episode"], limit=MAX_EPISODES)
        facts = await memories.list_memories(tx, ["fact"], limit=MAX_FACTS)
        earlier = await memories.list_memories(tx, ["insight"], limit=MAX_EPISODES)
        messages = _newest_messages(await insights.recent_messages(tx, key, _MAX_MESSAGES))
    step_input = InsightsInput(
        user=display_name(split_scope_key(key)[1]),
        episodes=_contents(episodes),
        facts=_contents(facts),
        insights=_contents(earlier),
        said=_snippet(messages),
    )
    relations: list[Relation] = []
    # earlier insights too: the model may repeat one
    for memory in [*episodes, *facts, *earlier]:
        relations.append(Relation(to_id=memory.id, strength=1.0, relation_type="drawn_from"))
    return _Material(step_input, tuple(relations), tuple(message.id for message in messages))


def _contents(rows: Sequence[Memory]) -> list[str]:
    return [memory.content for memory in rows]


def _newest_messages(messages: Sequence[KeptMessage]) -> list[KeptMessage]:
    """Return the newest messages that fit into the snippet, the last of them in part."""
    fitting: list[KeptMessage] = []
    chars = 0
    for message in messages:
        if chars >= MAX_SNIPPET_CHARS:
            break
        fitting.append(message)
        chars += len(f"{message.author}: {message.content}\n")
    return fitting


def _snippet(messages: Sequence[KeptMessage]) -> str:
    """Return the newest messages, oldest first, cut at their beginning."""
    lines = [f"{message.author}: {message.content}" for message in reversed(messages)]
    return "\n".join(lines)[-MAX_SNIPPET_CHARS:]


def _usable_insights(drafts: Sequence[InsightDraft], key: str, now: datetime, material: _Material) -> list[NewMemory]:
    """Return the drafts that have the form of an insight, at most three."""
    usable: list[NewMemory] = []
    for draft in drafts[:MAX_INSIGHTS]:
        text = check_text(draft.summary, kind="insight").text
        if text is None:
            continue
        insight = replace(
            new_memory("insight", CATEGORY, key, text, now),
            provenance="inferred",
            importance=min(5, max(1, draft.importance)),
            tags=_clean_tags(draft.tags),
            private=True,
            relations=material.relations,
            source_message_ids=material.message_ids,
        )
        usable.append(insight)
    return usable


def _clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    cleaned: dict[str, None] = {}
    for tag in tags:
        name = " ".join(clean_text(tag).split())
        if 0 < len(name) <= MAX_TAG_CHARS:
            cleaned[name] = None
    return tuple(cleaned)[:MAX_TAGS]


async def _save(resources: Resources, identity: Identity, key: str, new: Sequence[NewMemory]) -> None:
    vectors = await embed_memories(resources, new)

    async def store(tx: ScopedTransaction) -> None:
        # the second of two concurrent runs sees the record of the first one and stores nothing
        if not await insights.note_insights(tx, key) or not new:
            return
        await tx.begin_operation("insights")
        await memories.insert(tx, new, model=resources.embedder.name, vectors=vectors, run_id=None)

    await resources.database.write(identity, store)
