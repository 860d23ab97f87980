"""Stored facts that new ones may change: exact duplicates, and candidates that a model decides on."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import fsum, log, sqrt
from operator import mul
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.formation.extraction import scope_resolver
from mnemic.memory.runtime.embedding import embed_to_store, with_agents_embedder
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.scoping import ScopeResolver
from mnemic.memory.runtime.transcript import speakers
from mnemic.memory.text.bands import Bands, band_of_pair, nearest_relations
from mnemic.memory.text.details import content_tokens
from mnemic.memory.text.shape import count_tokens, fit
from mnemic.memory.text.words import sentences
from mnemic.models.embedders.vectors import Vector
from mnemic.prompts.formation.decide import DecideInput, ShownFact
from mnemic.state.formation import DuplicateDraft, ExactDuplicate, SimilarFact
from mnemic.state.graphs import FormationRun
from mnemic.state.identity import Identity, display_name, scope_key, split_scope_key
from mnemic.state.records import Memory, Message, NewMemory, ScopeContext
from mnemic.state.settings import Settings
from mnemic.state.worker_threads import in_thread
from mnemic.storage import memories

#: Stored facts by the id of the new fact that may change them, the likeliest first.
Candidates = Mapping[UUID, Sequence[SimilarFact]]

#: Divisor of the tokens of candidates; so many tokens are added for the context memory.
_CONTEXT_SHARE: Final = 16
#: Sum from which two facts are close. At 1.05 the step that read of a new flat was not shown the old one.
_CLOSE: Final = 1.0
#: Weight of the likeness of words beside that of meaning.
_WORDS_WEIGHT: Final = 1.5


async def find_similar(resources: Resources, identity: Identity, run: FormationRun) -> FormationRun:
    """Drop exact duplicates, relate the other facts to their neighbours, and select candidates for a decision.

    It takes one embedding batch, and one transaction that also reads the context memory for the next steps. Facts
    without a vector are compared by words and subject alone.
    """
    resources = await with_agents_embedder(resources, identity)
    embedder, settings = resources.embedder, resources.settings
    vectors = await embed_to_store(resources, [fact.search_text for fact in run.facts])
    keys = changeable_keys(run.facts, scope_resolver(resources, identity, run))
    limit = settings.candidates_per_fact
    async with resources.database.transaction(identity, also=speaker_keys(run)) as tx:
        stored = await memories.find_candidates(tx, run.facts, keys, vectors, model=embedder.name, limit=limit)
        context = await memories.read_context(tx, as_drafted=True, keys=identity.scope_keys)
    # in a thread, since 25 facts, each compared with all before it, take 20 ms
    comparison = await in_thread(compare_facts, run.facts, vectors, stored, embedder.bands, settings)
    limits = SelectionLimits(embedder.bands.fallback, min_facts=limit, max_tokens=settings.decision_tokens)
    return replace(
        run,
        facts=comparison.facts,
        vectors=comparison.vectors,
        embedder=embedder.name,
        duplicates=[*run.duplicates, *comparison.duplicates],
        repeated=run.repeated + len(comparison.dropped),
        context=context.scopes,
        candidates=select_candidates(comparison.facts, comparison.candidates, run.names, limits),
    )


def speaker_keys(run: FormationRun) -> list[str]:
    """Return the scope keys of the users who speak in the run's messages."""
    return _user_keys(run.batch)


def _user_keys(batch: Iterable[Message]) -> list[str]:
    return [scope_key("user", user_id) for user_id in speakers(batch)]


def changeable_keys(facts: Iterable[NewMemory], resolver: ScopeResolver) -> list[list[str]]:
    """Return for each new fact the scope keys in which it may close a stored one.

    A shared fact may close a fact that its speakers stated for themselves. A user's fact closes a group's only if it
    may take its place there. Otherwise the group would lose a fact and not see the new one.
    """
    users = _user_keys(resolver.batch)
    groups = [scope_key("group", group_id) for group_id in resolver.identity.group_ids]
    narrower: Mapping[str, list[str]] = {"agent": [*groups, *users], "group": users}
    keys: list[list[str]] = []
    for fact in facts:
        others = narrower.get(split_scope_key(fact.scope_key)[0]) or resolver.group_keys(fact)
        keys.append([fact.scope_key, *others])
    return keys


@dataclass
class Comparison:
    """Result of comparing new facts with stored ones and with one another."""

    #: Facts that are not known yet, related to their neighbours.
    facts: list[NewMemory] = field(default_factory=list)
    vectors: dict[UUID, list[float] | None] = field(default_factory=dict)
    candidates: dict[UUID, list[SimilarFact]] = field(default_factory=dict)
    duplicates: list[DuplicateDraft] = field(default_factory=list)
    #: Ids of the facts that are duplicates.
    dropped: set[UUID] = field(default_factory=set)

    def drop(self, fact: NewMemory, repeated: Sequence[SimilarFact]) -> None:
        """Drop a fact as a duplicate; no earlier fact of the batch may close the stored fact that it confirms."""
        confirmed = {old.id for old in repeated}
        self.dropped.add(fact.id)
        self.duplicates += duplicates_of(fact, repeated)
        self.candidates = _without(self.candidates, confirmed)


def compare_facts(
    facts: Sequence[NewMemory],
    vectors: Sequence[Vector | None],
    stored: Sequence[SimilarFact],
    bands: Bands,
    settings: Settings,
) -> Comparison:
    """Compare the facts of a batch, in the order of their messages, with stored ones and with one another.

    Facts of one batch come from one conversation and change nothing of one another.

    Args:
        facts: the new facts.
        vectors: their vectors, of length 1; None for a fact that has to wait for its vector.
        stored: stored facts that each may change, the likeliest first.
        bands: bands of the embedder.
        settings: number and minimum strength of the relations of a fact.
    """
    result = Comparison()
    earlier = _earlier_facts(facts, vectors)
    for place, (fact, vector) in enumerate(zip(facts, vectors, strict=True)):
        candidates = [old for old in stored if old.place == place]
        near: list[SimilarFact] = []
        repeated: list[SimilarFact] = []
        for old in [*candidates, *earlier[place]]:
            if old.scope_key != fact.scope_key or old.id in result.dropped:
                continue
            near.append(old)
            if band_of_pair(fact.content, old.content, old.similarity, bands) == "auto":
                repeated.append(old)
        if repeated:
            result.drop(fact, repeated)
            continue
        result.facts.append(replace(fact, relations=nearest_relations(near, bands, settings)))
        result.vectors[fact.id] = None if vector is None else list(vector)
        result.candidates[fact.id] = [old for old in candidates if not old.protected]
    result.candidates = _without(result.candidates, set())
    return result


def _without(candidates: Candidates, dropped: Set[UUID]) -> dict[UUID, list[SimilarFact]]:
    """Return the candidates without the dropped ones, and without new facts that have no candidate left."""
    left: dict[UUID, list[SimilarFact]] = {}
    for new_id, near in candidates.items():
        retained = [old for old in near if old.id not in dropped]
        if retained:
            left[new_id] = retained
    return left


def duplicates_of(new: NewMemory, repeated: Iterable[SimilarFact | ExactDuplicate]) -> list[DuplicateDraft]:
    """Return the new memory as a duplicate of each of these memories of its own scope key."""
    duplicates: list[DuplicateDraft] = []
    for old in repeated:
        is_stored = old.version > 0
        duplicates.append(DuplicateDraft(new=new, known_id=old.id, scope_key=new.scope_key, is_stored=is_stored))
    return duplicates


def _earlier_facts(facts: Sequence[NewMemory], vectors: Sequence[Vector | None]) -> list[list[SimilarFact]]:
    """Return for each fact the facts before it, in the form of stored ones."""
    earlier: list[list[SimilarFact]] = []
    for place, vector in enumerate(vectors):
        before: list[SimilarFact] = []
        for fact, other in zip(facts[:place], vectors[:place], strict=True):
            similarity = 0.0
            if other and vector:
                similarity = sum(map(mul, other, vector))
            before.append(_as_stored(fact, place, similarity))
        earlier.append(before)
    return earlier


def _as_stored(fact: NewMemory, place: int, similarity: float) -> SimilarFact:
    """Return a new fact in the form of a stored one, near the new fact at this place."""
    return SimilarFact(
        place=place,
        id=fact.id,
        version=0,
        scope_key=fact.scope_key,
        subject=fact.subject,
        subject_user_id=fact.subject_user_id,
        category=fact.category,
        content=fact.content,
        dated=fact.valid_from,
        protected=False,
        private=fact.private,
        importance=fact.importance,
        similarity=similarity,
    )


class SelectionLimits(NamedTuple):
    """Limits of the candidates in a prompt."""

    #: Band of the embedder from which two facts are related.
    fallback: float
    #: Number of facts up to which candidates are shown that are not close.
    min_facts: int
    #: Maximum tokens of all candidates.
    max_tokens: int


def select_candidates(
    facts: Sequence[NewMemory], candidates: Candidates, names: Mapping[str, str], limits: SelectionLimits
) -> dict[UUID, list[SimilarFact]]:
    """Return the candidates for the prompt: the likeliest of each new fact, then the next ones.

    Candidates that share neither words nor meaning with their new fact follow up to a minimum number of facts. A
    candidate of two new facts takes its tokens once. Of 75 facts that a careful reader's decisions named 72 are
    selected, in three quarters of the characters.
    """
    selected: dict[UUID, list[SimilarFact]] = {}
    shown: set[UUID] = set()
    tokens_left = limits.max_tokens
    pairs = _pairs(candidates)
    close = _close_pairs(facts, pairs, limits.fallback)
    for new_id, old in sorted(pairs, key=lambda pair: (pair[0], pair[1].id) not in close):
        tokens = 0
        if old.id not in shown:
            tokens = count_tokens(f"  known {_shown(999, old, names).line()}")
        is_wanted = (new_id, old.id) in close or len(shown) < limits.min_facts
        if tokens <= tokens_left and is_wanted:
            tokens_left -= tokens
            shown.add(old.id)
            selected.setdefault(new_id, []).append(old)
    return selected


def _pairs(candidates: Candidates) -> list[tuple[UUID, SimilarFact]]:
    """Return new facts and their candidates: the first candidate of each new fact, then the second ones, and so on."""
    pairs: list[tuple[UUID, SimilarFact]] = []
    for rank in zip_longest(*candidates.values()):
        for new_id, old in zip(candidates, rank, strict=True):
            if old is not None:
                pairs.append((new_id, old))
    return pairs


def _close_pairs(
    facts: Iterable[NewMemory], pairs: Sequence[tuple[UUID, SimilarFact]], fallback: float
) -> set[tuple[UUID, UUID]]:
    """Return the pairs of ids whose likeness of meaning, as a share of the band, and of rare words add up to enough."""
    texts = {fact.id: fact.content for fact in facts}
    for _, old in pairs:
        texts[old.id] = old.content
    words = _WordLikeness(texts)
    close: set[tuple[UUID, UUID]] = set()
    for new_id, old in pairs:
        if old.similarity / fallback + _WORDS_WEIGHT * words.likeness(new_id, old.id) >= _CLOSE:
            close.add((new_id, old.id))
    return close


class _WordLikeness:
    """Cosine similarities of texts by their words, where a word counts more the fewer texts have it."""

    def __init__(self, texts: Mapping[UUID, str]) -> None:
        self._words: dict[UUID, frozenset[str]] = {}
        frequencies: Counter[str] = Counter()
        for item_id, text in texts.items():
            words = content_tokens(text)
            self._words[item_id] = words
            frequencies.update(words)
        self._weights = {word: log(len(texts) / count) for word, count in frequencies.items()}
        self._totals = {item_id: self._weight(words) for item_id, words in self._words.items()}

    def likeness(self, first: UUID, second: UUID) -> float:
        """Return the likeness of two texts, 0 to 1."""
        norm = sqrt(self._totals[first] * self._totals[second])
        if norm == 0:
            return 0.0
        return self._weight(self._words[first] & self._words[second]) / norm

    def _weight(self, words: Iterable[str]) -> float:
        # fsum has the same result in any order of a set
        return fsum(self._weights[word] for word in words)


class NumberedFact(NamedTuple):
    """A new fact that needs a decision, with the stored facts that a decision may name, by their numbers."""

    fact: NewMemory
    candidates: Mapping[int, SimilarFact]


def numbered_facts(facts: Iterable[NewMemory], candidates: Candidates) -> list[NumberedFact]:
    """Return the facts that need a decision; a stored fact has one number, whichever new facts it is a candidate of."""
    numbers: dict[UUID, int] = {}
    numbered: list[NumberedFact] = []
    for fact in facts:
        near = candidates.get(fact.id)
        if near:
            by_number = {numbers.setdefault(old.id, len(numbers) + 1): old for old in near}
            numbered.append(NumberedFact(fact, by_number))
    return numbered


def decide_input(
    facts: Iterable[NewMemory], candidates: Candidates, names: Mapping[str, str], context: Sequence[str] = ()
) -> DecideInput:
    """Return the input of the step that decides on facts.

    Args:
        facts: all new facts.
        candidates: the candidates of each.
        names: display names of scope keys from the host.
        context: lines of `context_lines`.
    """
    shown: list[ShownFact] = []
    for number, row in enumerate(numbered_facts(facts, candidates), start=1):
        near = [_shown(place, old, names) for place, old in row.candidates.items()]
        shown.append(_shown(number, row.fact, names)._replace(candidates=tuple(near)))
    return DecideInput(tuple(shown), tuple(context))


def context_lines(
    parts: Iterable[ScopeContext], names: Mapping[str, str], *, is_alone: bool, max_tokens: int
) -> list[str]:
    """Return the context memory by sentences, reflections first, within a share of the tokens.

    Args:
        parts: the context memory by scope keys.
        names: display names of scope keys from the host.
        is_alone: whether no other user speaks; else the user's own memory must not influence decisions on theirs.
        max_tokens: maximum tokens of all candidates.
    """
    lines: list[str] = []
    for part in parts:
        if part.scope == "session" or (part.scope == "user" and not is_alone):
            continue
        owner = _owner_name(part.scope_key, names)
        for memory in reversed(part.texts):
            lines += _memory_lines(owner, memory)
    return fit(lines, tokens=count_tokens, budget=max_tokens // _CONTEXT_SHARE)


def _memory_lines(owner: str, memory: Memory) -> list[str]:
    lines: list[str] = []
    for line in memory.content.splitlines():
        lines += sentences(line)
    lines[0] = f"[{memory.valid_from:%Y-%m-%d}; {owner}; {memory.kind}]: {lines[0]}"
    return lines


def _shown(number: int, fact: NewMemory | SimilarFact, names: Mapping[str, str]) -> ShownFact:
    occurred_at = fact.valid_from if isinstance(fact, NewMemory) else fact.dated
    owner = _owner_name(fact.scope_key, names)
    return ShownFact(number, fact.content, occurred_at, (), owner, fact.subject)


def _owner_name(key: str, names: Mapping[str, str]) -> str:
    scope, owner = split_scope_key(key)
    return f"{scope} {names.get(key) or display_name(owner)}"
