"""Core memories that have outgrown their budget: from conversations' annotated facts, and from the examples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from benchmarks.corpus.forming import form_corpus
from benchmarks.recall_quality.locomo import Conversation, Observation, Question
from mnemic.memory.text.shape import count_tokens

#: A core memory is taken at the moment at which it comes to be refined.
OUTGROWN_TOKENS = 8000
TARGET_TOKENS = 5000


@dataclass(frozen=True, kw_only=True)
class ModelOverrides:
    """One memory, and the turns that count as found with it."""

    text: str
    subject: str
    subject_user_id: str
    category: str
    dated: datetime
    turn_ids: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Core:
    """A core memory, with the questions that it can answer."""

    name: str
    memories: tuple[ModelOverrides, ...]
    target: int
    questions: tuple[Question, ...] = field(default=())

    @property
    def tokens(self) -> int:
        """Of all memories."""
        return sum(count_tokens(memory.text) for memory in self.memories)


def of_conversations(conversations: Sequence[Conversation]) -> Iterator[Core]:
    """Of each two that follow one another, their facts in order of time until there are more than 8,000 tokens.

    A single conversation stands alone; where all there is stays below, the target is lower in the same proportion.
    """
    pairs: list[tuple[Conversation, ...]] = [*pairwise(conversations)]
    for pair in pairs or [(one,) for one in conversations]:
        observed = sorted(
            ((conversation, one) for conversation in pair for one in conversation.observations),
            key=lambda found: found[1].dated,
        )
        memories = _outgrown(observed)
        known = frozenset[str]().union(*(memory.turn_ids for memory in memories))
        yield Core(
            name=" + ".join(conversation.id for conversation in pair),
            memories=memories,
            target=_target(memories),
            questions=tuple(_answerable(pair, known)),
        )


async def of_examples(**settings: Any) -> Core:
    """Form the example conversations, and return all memories as one context memory."""
    formed = await form_corpus(**settings)
    found: dict[str, ModelOverrides] = {}
    for memory in formed.memories:
        if memory.state == "active":
            found[memory.content] = ModelOverrides(
                text=memory.content,
                subject=memory.subject,
                subject_user_id=memory.subject_user_id or memory.subject.lower(),
                category=memory.category,
                dated=memory.valid_from,
                turn_ids=frozenset(),
            )
    return Core(name="example conversations", memories=tuple(found.values()), target=_target(tuple(found.values())))


def _outgrown(observed: Sequence[tuple[Conversation, Observation]]) -> tuple[ModelOverrides, ...]:
    """Each sentence once, with the turns of all its occurrences."""
    found: dict[str, ModelOverrides] = {}
    tokens = 0
    for conversation, one in observed:
        if tokens > OUTGROWN_TOKENS:
            break
        turns = {turn_of(conversation, turn) for turn in one.turn_ids}
        earlier = found.get(one.text)
        found[one.text] = ModelOverrides(
            text=one.text,
            subject=one.subject,
            subject_user_id=f"{conversation.id}-{one.subject.lower()}",
            category="knowledge",
            dated=earlier.dated if earlier else one.dated,
            turn_ids=frozenset(turns | (earlier.turn_ids if earlier else set())),
        )
        tokens += 0 if earlier else count_tokens(one.text)
    return tuple(found.values())


def _answerable(pair: Sequence[Conversation], known: frozenset[str]) -> Iterator[Question]:
    """Questions whose evidence is in the core memory, at least in part; only that part counts."""
    for conversation in pair:
        for question in conversation.questions:
            evidence = known.intersection(turn_of(conversation, turn) for turn in question.evidence)
            if evidence:
                yield replace(question, evidence=evidence)


def turn_of(conversation: Conversation, turn_id: str) -> str:
    """Return a turn's id among those of several conversations."""
    return f"{conversation.id} {turn_id}"


def _target(memories: Sequence[ModelOverrides]) -> int:
    tokens = sum(count_tokens(memory.text) for memory in memories)
    return TARGET_TOKENS if tokens > OUTGROWN_TOKENS else tokens * TARGET_TOKENS // OUTGROWN_TOKENS
