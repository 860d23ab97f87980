"""Rank candidates: compute their scores, drop repetitions, add related memories.

Scores are shares of 1 before the additions; each addition is small and bounded, so that none outweighs the words and
the meaning of a question. The age of a memory never counts. `docs/recall.md` explains the value of each number.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.text.questions import (
    folded,
    has_only_questions,
    is_bare_question,
    is_plain,
    is_question,
    quoted_phrases,
    repeats,
)
from mnemic.memory.text.words import bare, folded_words, is_common_word, words
from mnemic.state.identity import display_name
from mnemic.state.query import Candidate, Links, MemoryQuery
from mnemic.state.records import Explanation, SearchResult
from mnemic.state.search import Weights

_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)


#: Maximum number of related memories that follow the results.
MAX_RELATED: Final = 2
#: Size of a message, in bytes, above which it is not preferred to its facts.
_LONG_BYTES: Final = 1000
#: Number of messages of a session that decide how well the session fits.
_BEST_OF_SESSION: Final = 3
#: Importance of most memories.
_USUAL_IMPORTANCE: Final = 2
#: A candidate without similarity comes after those with one: similarities are at most 1.
_AFTER_SIMILARITIES: Final = 2.0


class RankingContext(NamedTuple):
    """People of a question, and limits of its results."""

    #: Words that may be names: capitalised within a sentence, or not common; the name of the user if the question has
    #: an `I` or `my`.
    names: Set[str]
    #: User id if the question is about the user's own affairs, such as `what is my sister's name`.
    self_id: str | None
    top_k: int
    #: Maximum number of results by category.
    rag_lengths: Mapping[str, int]
    question: str = ""
    #: Whether the question has a quoted phrase, which finds every message that has this phrase.
    has_phrase: bool = False

    def question_weight(self, candidate: Candidate, weights: Weights) -> tuple[str, float]:
        """Return the name and the multiplier of a message's rank as a question; 0 leaves it out.

        A message is left out if it certainly is the question, asked before: it has no word that the question lacks, it
        is one plain clause, and it ends with a question mark, or the question does and has the same words in the same
        order. A number, a second clause, or the lack of any mark leave room for a statement.
        """
        text = candidate.content
        if candidate.kind != "message" or self.has_phrase:
            return _NO_CHANGE
        if not repeats(text, self.question):
            if is_bare_question(text):
                return "asks", weights.asks
            return _NO_CHANGE
        asks, is_asked = has_only_questions(text), is_question(self.question)
        is_same = folded(text) == folded(self.question)
        if text[-1:] in ".。" or not (asks or is_same):
            return _NO_CHANGE
        if is_plain(text) and (asks or is_asked):
            return "repetition", 0.0
        if not is_asked and any(char.isdigit() for char in text):
            return _NO_CHANGE
        return "echo", weights.echo


#: Weight of a message that is no question.
_NO_CHANGE: Final = ("", 1.0)


def ranking_context(request: MemoryQuery, user_id: str | None, rag_lengths: Mapping[str, int]) -> RankingContext:
    """Return the context of the ranking for a request of this user."""
    names = _possible_names(request.query)
    self_id = None
    if user_id is not None and _FIRST_PERSON.search(request.query):
        self_id = user_id
        names.update(folded_words(display_name(user_id)))
    lengths: dict[str, int] = {}
    for name, length in rag_lengths.items():
        if length < request.top_k + MAX_RELATED:
            lengths[name] = length
    return RankingContext(
        names=names,
        self_id=self_id,
        top_k=request.top_k,
        rag_lengths=lengths,
        question=request.query,
        has_phrase=bool(quoted_phrases(request.query)),
    )


def _possible_names(question: str) -> set[str]:
    """Return the words of a question that are capitalised within a sentence or not common."""
    names: set[str] = set()
    for folded_word in folded_words(question):
        if not is_common_word(folded_word):
            names.add(folded_word)
    for word in words(question):
        if word.text[0].isupper() and not word.initial:
            names.add(bare(word.text).casefold())
    return names


def branch_weights(weights: Weights, request: MemoryQuery, *, has_vector: bool, by_rank: bool) -> Weights:
    """Return the weights of both branches; a branch that is left out leaves its share to the other."""
    if request.search_type == "semantic":
        return replace(weights, text=0, meaning=1)
    if request.search_type == "text" or not has_vector:
        return replace(weights, text=1, meaning=0)
    if by_rank:
        return replace(weights, text=0.5, meaning=0.5)
    return weights


@dataclass(slots=True)
class _Scored:
    """Candidate with its score."""

    candidate: Candidate
    #: Score of the candidate alone: both branches, and the boosts for its own fields.
    base: float
    score: float
    #: Additions to the score, by name.
    boosts: dict[str, float] = field(default_factory=dict)

    @property
    def id(self) -> UUID:
        return self.candidate.id

    @property
    def order(self) -> tuple[float, float, float, UUID]:
        similarity = self.candidate.similarity
        by_similarity = _AFTER_SIMILARITIES if similarity is None else -similarity
        return -self.score, -self.base, by_similarity, self.id


def reciprocal(candidates: Sequence[Candidate], weights: Weights, k: int) -> list[Candidate]:
    """Return the candidates with the sum of their reciprocal ranks by words and by meaning, scaled to 0..1."""
    by_words: list[tuple[float, UUID]] = []
    by_meaning: list[tuple[float, UUID]] = []
    for candidate in candidates:
        if candidate.text:
            by_words.append((-candidate.text, candidate.id))
        if candidate.similarity is not None:
            by_meaning.append((-candidate.similarity, candidate.id))
    sums: defaultdict[UUID, float] = defaultdict(float)
    for weight, branch in ((weights.text, by_words), (weights.meaning, by_meaning)):
        for rank, (_, item_id) in enumerate(sorted(branch), start=1):
            sums[item_id] += weight * (k + 1) / (k + rank)
    return [_with_fused(candidate, sums[candidate.id]) for candidate in candidates]


def _with_fused(candidate: Candidate, fused: float) -> Candidate:
    """Return a candidate with this score; one without a score, which is related to another, as it is."""
    if candidate.fused is None:
        return candidate
    return candidate._replace(fused=fused)


def ranked(
    candidates: Sequence[Candidate], links: Links, context: RankingContext, weights: Weights
) -> list[SearchResult]:
    """Return the best candidates, best first, then up to two related memories; every score is explained."""
    scored: list[_Scored] = []
    messages: dict[UUID, _Scored] = {}
    for candidate in candidates:
        if candidate.fused is None:
            continue
        entry = _score(candidate, context, weights)
        scored.append(entry)
        if candidate.kind == "message":
            messages[entry.id] = entry
    if messages:
        _score_messages_and_facts(scored, messages, weights)
    front = _within_category_limits(_without_repeated_questions(scored, context, weights), context)
    _boost_related(front, links, {entry.id for entry in scored}, weights)
    best = sorted(front, key=lambda entry: entry.order)[: context.top_k]
    results = [_result(entry) for entry in best]
    return results + _related(best, candidates, links, context)


def _score(candidate: Candidate, context: RankingContext, weights: Weights) -> _Scored:
    """Return the candidate with its score by its own fields."""
    fused = candidate.fused or 0.0
    boosts: dict[str, float] = {}
    if candidate.kind == "insight":
        boosts["insight"] = (weights.insight - 1) * fused
    is_own = candidate.user_id is not None and candidate.user_id == context.self_id
    if is_own or not context.names.isdisjoint(candidate.subject.lower().split()):
        boosts["named"] = weights.named
    if candidate.importance != _USUAL_IMPORTANCE:
        boosts["important"] = weights.importance * (candidate.importance - _USUAL_IMPORTANCE)
    base = fused + sum(boosts.values())
    return _Scored(candidate, base, base, boosts)


def _boost_related(front: Iterable[_Scored], links: Links, scored_ids: Set[UUID], weights: Weights) -> None:
    """Add to the score of each candidate that is related to another one."""
    for entry in front:
        strongest: float | None = None
        for other, strength in links.get(entry.id, ()):
            if other in scored_ids and (strongest is None or strength > strongest):
                strongest = strength
        if strongest is not None:
            boost = weights.related * strongest
            entry.boosts["related"] = boost
            entry.score += boost


# -- messages and the facts formed from them


class _Share(NamedTuple):
    """Score of a candidate as one of the wordings of a message: the message itself, or a fact formed from it."""

    #: Whether a better wording makes it redundant.
    is_repeated: bool
    score: float
    boosts: Mapping[str, float]


def _score_messages_and_facts(scored: Sequence[_Scored], messages: Mapping[UUID, _Scored], weights: Weights) -> None:
    """Raise the score of the best wording of each message, and lower the scores of those that only repeat it."""
    message_boosts = _message_boosts(messages, weights)
    best: dict[UUID, _Share] = {}
    for message_id, wordings in _wordings(scored, messages).items():
        for entry, source, is_repeated in _divide(wordings, messages[message_id]):
            boosts = {"source": source, **message_boosts[message_id]}
            share = _Share(is_repeated=is_repeated, score=entry.base + sum(boosts.values()), boosts=boosts)
            previous = best.get(entry.id)
            if previous is None or (share.is_repeated, share.score) > (previous.is_repeated, previous.score):
                best[entry.id] = share
    for entry in scored:
        if entry.id in best:
            _apply(best[entry.id], entry, weights)


def _apply(share: _Share, entry: _Scored, weights: Weights) -> None:
    repeated = 0.0
    if share.is_repeated:
        repeated = (weights.repeated - 1) * share.score
    entry.boosts |= {**share.boosts, "repeated": repeated}
    entry.score = share.score + repeated


def _wordings(scored: Iterable[_Scored], messages: Mapping[UUID, _Scored]) -> dict[UUID, list[_Scored]]:
    """Return, by message, the message itself and the facts formed from it."""
    wordings = {message_id: [message] for message_id, message in messages.items()}
    for entry in scored:
        for message_id in wordings.keys() & (entry.candidate.sources or ()):
            wordings[message_id].append(entry)
    return wordings


def _divide(wordings: list[_Scored], message: _Scored) -> Iterator[tuple[_Scored, float, bool]]:
    """Yield each wording with its share of the message's score, and whether it repeats another one."""
    is_long = len(message.candidate.content.encode()) > _LONG_BYTES

    def order(entry: _Scored) -> tuple[bool, float, bool, UUID]:
        is_message = entry is message
        return is_message and is_long, -entry.base, not is_message, entry.id

    first, *others = sorted(wordings, key=order)
    yield first, max(message.base - first.base, 0.0), False
    for entry in others:
        yield entry, 0.0, entry is message or (not is_long and message.base >= entry.base)


def _message_boosts(messages: Mapping[UUID, _Scored], weights: Weights) -> dict[UUID, dict[str, float]]:
    """Return the boosts of each message for its neighbours and its session."""
    bases: dict[tuple[str | None, int], float] = {}
    for entry in messages.values():
        bases[entry.candidate.session_id, entry.candidate.place or 0] = entry.base
    sessions = _session_scores(messages.values())
    best_session = max(sessions.values())
    boosts: dict[UUID, dict[str, float]] = {}
    for message_id, message in messages.items():
        neighbours = _best_neighbour(message.candidate, bases, 1) + _best_neighbour(message.candidate, bases, 2) / 2
        in_session = 0.0
        if best_session:
            in_session = weights.session * sessions[message.candidate.session_id] / best_session
        boosts[message_id] = {"neighbour": weights.neighbour * neighbours, "in_session": in_session}
    return boosts


def _best_neighbour(message: Candidate, bases: Mapping[tuple[str | None, int], float], steps: int) -> float:
    """Return the better score of the two messages that are so many steps away."""
    place = message.place or 0
    before = bases.get((message.session_id, place - steps), 0.0)
    after = bases.get((message.session_id, place + steps), 0.0)
    return max(before, after)


def _session_scores(messages: Iterable[_Scored]) -> dict[str | None, float]:
    """Return the sum of the three best scores of each session."""
    bases: defaultdict[str | None, list[float]] = defaultdict(list)
    for entry in messages:
        bases[entry.candidate.session_id].append(entry.base)
    scores: dict[str | None, float] = {}
    for session, values in bases.items():
        scores[session] = sum(sorted(values, reverse=True)[:_BEST_OF_SESSION])
    return scores


# -- results


def _without_repeated_questions(scored: Iterable[_Scored], context: RankingContext, weights: Weights) -> list[_Scored]:
    """Return the candidates in order without those that only repeat the question; other questions are lowered.

    A question has raised its neighbours, which often answer it, before it is left out.
    """
    retained: list[_Scored] = []
    for entry in scored:
        name, weight = context.question_weight(entry.candidate, weights)
        if weight == 0:
            continue
        if weight != 1:
            entry.boosts[name] = (weight - 1) * entry.score
            entry.score *= weight
        retained.append(entry)
    return sorted(retained, key=lambda entry: entry.order)


def _within_category_limits(ordered: Iterable[_Scored], context: RankingContext) -> list[_Scored]:
    """Return the candidates within the limit of each category.

    They are more than the request wants, since relations may reorder them.
    """
    counts: Counter[str] = Counter()
    allowed: list[_Scored] = []
    for entry in ordered:
        category = entry.candidate.category
        if len(allowed) == 2 * context.top_k + 10:
            break
        counts[category] += 1
        if counts[category] <= context.rag_lengths.get(category, context.top_k):
            allowed.append(entry)
    return allowed


def _related(
    best: Sequence[_Scored], candidates: Iterable[Candidate], links: Links, context: RankingContext
) -> list[SearchResult]:
    """Return at most two memories that are related to the results and are no results themselves."""
    closest = _closest_result(best, links)
    counts = Counter(entry.candidate.category for entry in best)
    related: list[SearchResult] = []
    eligible: dict[UUID, Candidate] = {}
    for candidate in candidates:
        if candidate.id in closest:
            eligible[candidate.id] = candidate
    for item_id in sorted(eligible, key=lambda item_id: (-closest[item_id][0], item_id)):
        candidate = eligible[item_id]
        counts[candidate.category] += 1
        if counts[candidate.category] > context.rag_lengths.get(candidate.category, counts[candidate.category]):
            continue
        score, related_to = closest[item_id]
        unscored = candidate._replace(text=None, similarity=None, fused=0.0)
        related.append(_result(_Scored(unscored, 0.0, score, {"related": score}), related_to))
    return related[:MAX_RELATED]


def _closest_result(best: Sequence[_Scored], links: Links) -> dict[UUID, tuple[float, UUID]]:
    """Return, by related memory, its closeness to the closest result and the id of that result."""
    returned = {entry.id for entry in best}
    closest: dict[UUID, tuple[float, UUID]] = {}
    for entry in best:
        for other, strength in links.get(entry.id, ()):
            if other in returned:
                continue
            closeness = strength * entry.score
            if other not in closest or closeness > closest[other][0]:
                closest[other] = closeness, entry.id
    return closest


#: Fields that a result shares with its candidate.
_SHARED_FIELDS: Final = frozenset(Candidate._fields).intersection(SearchResult.__dataclass_fields__)


def _result(entry: _Scored, related_to: UUID | None = None) -> SearchResult:
    candidate = entry.candidate
    boosts: dict[str, float] = {}
    for name, value in entry.boosts.items():
        if value:
            boosts[name] = value
    return SearchResult(
        **{name: getattr(candidate, name) for name in _SHARED_FIELDS},
        score=entry.score,
        related_to=related_to,
        explanation=Explanation(
            text=candidate.text,
            similarity=candidate.similarity,
            fused=candidate.fused or 0.0,
            from_source="source" in boosts,
            boosts=boosts,
        ),
    )
