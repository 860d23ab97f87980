"""Draws insights about a user from new memories: at most three, at most once in 24 hours."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.background.owners import owner_identity
from mnemic.memory.runtime.embedding import embed_to_store
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
from mnemic.state.records import NewMemory, Relation
from mnemic.storage import insights, memories, scopes
from mnemic.storage.insights import KeptMessage
from mnemic.storage.transaction import ScopedTransaction

CATEGORY: Final = "relationship_dynamic"
MAX_EPISODES: Final = 5
MAX_FACTS: Final = 3
#: Characters of the conversation that the model is shown.
MAX_SNIPPET_CHARS: Final = 1000
_MESSAGES: Final = 20
MAX_TAGS: Final = 3
MAX_TAG_CHARS: Final = 30


class _Read(NamedTuple):
    """The model's input, and the lineage of what is drawn from it."""

    step_input: InsightsInput
    relations: tuple[Relation, ...]
    message_ids: tuple[UUID, ...]


async def draw_insights(resources: Resources, target: Target) -> None:
    """Draw insights about a user if something is new and none were drawn in the last 24 hours.

    An answer without a usable insight counts as drawn, too.

    Raises:
        ModelError, DatabaseUnavailableError, ConcurrentChangeError: nothing was stored.
    """
    identity = owner_identity(target)
    read = await _read(resources, identity, target.scope_key)
    if read is None:
        return
    answer, _ = await track_usage(resources, identity, run_step(INSIGHTS, read.step_input, resources.models))
    drawn = _usable(resources, identity, target.scope_key, answer.insights)
    found = [replace(new, relations=read.relations, source_message_ids=read.message_ids) for new in drawn]
    await _save(resources, identity, target.scope_key, found)


async def _read(resources: Resources, identity: Identity, key: str) -> _Read | None:
    """Return the input about the user; None if no insights are due."""
    if resources.settings.model_for("fast") == OFFLINE:
        return None
    async with resources.database.transaction(identity, only=key) as tx:
        settings = resources.settings.overridden(await scopes.agent_settings(tx))
        if not settings.insights or not await insights.are_insights_due(tx, key):
            return None
        episodes = await memories.list_memories(tx, ["episode"], limit=MAX_EPISODES)
        facts = await memories.list_memories(tx, ["fact"], limit=MAX_FACTS)
        known = await memories.list_memories(tx, ["insight"], limit=MAX_EPISODES)
        messages = _shown(await insights.recent_messages(tx, key, _MESSAGES))
    step_input = InsightsInput(
        user=display_name(split_scope_key(key)[1]),
        episodes=[memory.content for memory in episodes],
        facts=[memory.content for memory in facts],
        insights=[memory.content for memory in known],
        said=_snippet(messages),
    )
    # an earlier insight that was shown may be repeated
    shown = [*episodes, *facts, *known]
    relations = tuple(Relation(to_id=memory.id, strength=1.0, relation_type="drawn_from") for memory in shown)
    return _Read(step_input, relations, tuple(message.id for message in messages))


def _shown(messages: Sequence[KeptMessage]) -> list[KeptMessage]:
    """Return the newest messages that fit into the snippet, the last of them in part."""
    shown: list[KeptMessage] = []
    chars = 0
    for message in messages:
        if chars >= MAX_SNIPPET_CHARS:
            break
        shown.append(message)
        chars += len(f"{message.author}: {message.content}\n")
    return shown


def _snippet(messages: Sequence[KeptMessage]) -> str:
    """Return the newest messages in the order in which they were said, cut at their beginning."""
    lines = [f"{message.author}: {message.content}" for message in reversed(messages)]
    return "\n".join(lines)[-MAX_SNIPPET_CHARS:]


def _usable(resources: Resources, identity: Identity, key: str, drafts: Sequence[InsightDraft]) -> list[NewMemory]:
    """Return the drafts that are written as an insight must be, at most three."""
    found: list[NewMemory] = []
    now = resources.now(identity)
    for draft in drafts[:MAX_INSIGHTS]:
        text = check_text(draft.summary, kind="insight").text
        if text is None:
            continue
        new = new_memory("insight", CATEGORY, key, text, now)
        importance = min(5, max(1, draft.importance))
        found.append(replace(new, provenance="inferred", importance=importance, tags=_tags(draft.tags), private=True))
    return found


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    cleaned = (" ".join(clean_text(tag).split()) for tag in tags)
    return tuple(dict.fromkeys(tag for tag in cleaned if 0 < len(tag) <= MAX_TAG_CHARS))[:MAX_TAGS]


async def _save(resources: Resources, identity: Identity, key: str, found: Sequence[NewMemory]) -> None:
    vectors = await embed_to_store(resources, [new.search_text for new in found]) if found else []
    by_id = dict(zip([new.id for new in found], vectors, strict=True))

    async def act(tx: ScopedTransaction) -> None:
        # of two runs at once the second one finds the first one's record and stores nothing
        if not await insights.note_insights(tx, key) or not found:
            return
        await tx.begin_operation("insights")
        await memories.insert(tx, found, model=resources.embedder.name, vectors=by_id, run_id=None)

    await resources.database.write(identity, act)
