"""Rank candidates: compute their scores, drop repetitions, add related memories.

Scores are shares of 1 before the additions; each addition is small and bounded, so that none outweighs the words and
the meaning of a question. The age of a memory never counts. `docs/recall.md` explains the value of each number.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from uuid import UUID

from mnemic.memory.text.questions import (
    folded,
    is_bare_question,
    is_plain,
    is_question,
    only_asks,
    quoted_phrases,
    repeats,
)
from mnemic.memory.text.words import bare, folded_words, is_common_word, words
from mnemic.state.identity import display_name
from mnemic.state.query import Candidate, Links, MemoryQuery
from mnemic.state.records import Explanation, SearchResult
from mnemic.state.search import Weights

_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)


#: Memories that come along with the results they are related to.
MAX_RELATED = 2
#: A longer message is not preferred to its facts.
_LONG_BYTES = 1000
#: So many messages of a session decide how well it fits.
_BEST_OF_SESSION = 3
_UNIMPORTANT = 2


@dataclass(frozen=True, kw_only=True)
class RankingContext:
    """The people that a question is about, and limits of its results."""

    #: Words that may be names: capitalised within a sentence, or not common; the user's own if the question says I.
    names: Set[str]
    #: The user, if the question is about their own affairs: `what is my sister's name`.
    self_id: str | None
    top_k: int
    #: Results of a category, at most.
    rag_lengths: Mapping[str, int]
    question: str = ""
    #: Whether the question has a quoted phrase, which finds every message that holds it.
    has_phrase: bool = False

    def question_weight(self, item: Candidate, weights: Weights) -> tuple[str, float]:
        """Return the name and the multiplier of a message's rank as a question; 0 leaves it out.

        A message is left out if it certainly is the question, asked before: it has no word that the question lacks, it
        is one plain clause, and it ends with a question mark, or the question does and has the same words in the same
        order. A number, a second clause, or the lack of any mark leave room for a statement.
        """
        text = item.content
        if item.kind != "message" or self.has_phrase:
            return "", 1.0
        if not repeats(text, self.question):
            return ("asks", weights.asks) if is_bare_question(text) else ("", 1.0)
        asks, is_asked = only_asks(text), is_question(self.question)
        is_same = folded(text) == folded(self.question)
        if text[-1:] in ".。" or not (asks or is_same):
            return "", 1.0
        if is_plain(text) and (asks or is_asked):
            return "repetition", 0.0
        if not is_asked and any(char.isdigit() for char in text):
            return "", 1.0
        return "echo", weights.echo


def ranking_context(request: MemoryQuery, user_id: str | None, rag_lengths: Mapping[str, int]) -> RankingContext:
    """Return the context of the ranking for a request of this user."""
    self_id = user_id if _FIRST_PERSON.search(request.query) else None
    capitals = (word.text for word in words(request.query) if word.text[0].isupper() and not word.initial)
    named = {bare(word).casefold() for word in capitals}
    named |= {word for word in folded_words(request.query) if not is_common_word(word)}
    names = named.union(folded_words(display_name(self_id)) if self_id else ())
    lengths = {name: most for name, most in rag_lengths.items() if most < request.top_k + MAX_RELATED}
    return RankingContext(
        names=names,
        self_id=self_id,
        top_k=request.top_k,
        rag_lengths=lengths,
        question=request.query,
        has_phrase=bool(quoted_phrases(request.query)),
    )


def branch_weights(weights: Weights, request: MemoryQuery, *, has_vector: bool, by_rank: bool) -> Weights:
    """Return the weights of both branches; a branch that is left out leaves its share to the other."""
    if request.search_type == "semantic":
        return replace(weights, text=0, meaning=1)
    if request.search_type == "text" or not has_vector:
        return replace(weights, text=1, meaning=0)
    return replace(weights, text=0.5, meaning=0.5) if by_rank else weights


@dataclass(slots=True)
class _Scored:
    item: Candidate
    #: The score of the candidate alone: both branches, and the additions for its own fields.
    own: float
    score: float
    #: Additions by name.
    added: dict[str, float]

    @property
    def order(self) -> tuple[float, float, float, UUID]:
        similarity = self.item.similarity
        return -self.score, -self.own, 2.0 if similarity is None else -similarity, self.item.item_id


def reciprocal(candidates: Sequence[Candidate], weights: Weights, k: int) -> list[Candidate]:
    """Return the candidates with the sum of their reciprocal ranks by words and by meaning, scaled to 0..1."""
    sums = dict.fromkeys((item.item_id for item in candidates), 0.0)
    by_words = sorted((-item.text, item.item_id) for item in candidates if item.text)
    by_meaning = sorted((-item.similarity, item.item_id) for item in candidates if item.similarity is not None)
    for weight, order in ((weights.text, by_words), (weights.meaning, by_meaning)):
        for rank, (_, item_id) in enumerate(order, start=1):
            sums[item_id] += weight * (k + 1) / (k + rank)
    return [item if item.fused is None else item._replace(fused=sums[item.item_id]) for item in candidates]


def ranked(
    candidates: Sequence[Candidate], links: Links, context: RankingContext, weights: Weights
) -> list[SearchResult]:
    """Return the best candidates, best first, then up to two related memories; every score is explained."""
    scored = [_own(item, context, weights) for item in candidates if item.fused is not None]
    messages = {entry.item.item_id: entry for entry in scored if entry.item.kind == "message"}
    if messages:
        _dedupe_message_and_facts(scored, messages, weights)
    front = _allowed(_without_repetitions(scored, context, weights), context)
    ids = {entry.item.item_id for entry in scored}
    for entry in front:
        strengths = [strength for other, strength in links.get(entry.item.item_id, ()) if other in ids]
        if strengths:
            entry.added["related"] = weights.related * max(strengths)
            entry.score += entry.added["related"]
    best = sorted(front, key=lambda entry: entry.order)[: context.top_k]
    return [*(_found(entry) for entry in best), *_companions(best, candidates, links, context)]


def _own(item: Candidate, context: RankingContext, weights: Weights) -> _Scored:
    fused = item.fused or 0.0
    added: dict[str, float] = {}
    if item.kind == "insight":
        added["insight"] = (weights.insight - 1) * fused
    is_asker = item.user_id is not None and item.user_id == context.self_id
    if is_asker or context.names & {*item.subject.lower().split()}:
        added["named"] = weights.named
    if item.importance != _UNIMPORTANT:
        added["important"] = weights.importance * (item.importance - _UNIMPORTANT)
    own = fused + sum(added.values())
    return _Scored(item, own, own, added)


# -- messages and the facts formed from them


def _dedupe_message_and_facts(scored: Sequence[_Scored], messages: Mapping[UUID, _Scored], weights: Weights) -> None:
    """Lift the best of a message and its facts, and lower those that only repeat it."""
    near, within = _neighbours(messages.values()), _sessions(messages.values())
    best_session = max(within.values(), default=0.0)
    # by message: the message itself and the facts formed from it
    wordings = {message_id: [message] for message_id, message in messages.items()}
    for entry in scored:
        for message_id in wordings.keys() & (entry.item.sources or ()):
            wordings[message_id].append(entry)
    best: dict[UUID, tuple[bool, float, dict[str, float]]] = {}
    for message_id, same in wordings.items():
        message = messages[message_id]
        added = {
            "neighbour": weights.neighbour * near[message_id],
            "in_session": weights.session * within[message.item.session_id] / best_session if best_session else 0.0,
        }
        for entry, source, is_repeated in _shares(same, message):
            total = entry.own + source + sum(added.values())
            known = best.get(entry.item.item_id)
            if known is None or (is_repeated, total) > known[:2]:
                best[entry.item.item_id] = is_repeated, total, {"source": source, **added}
    for entry in scored:
        if entry.item.item_id in best:
            is_repeated, total, added = best[entry.item.item_id]
            repeated = (weights.repeated - 1) * total if is_repeated else 0.0
            entry.added |= {**added, "repeated": repeated}
            entry.score = total + repeated


def _shares(wordings: list[_Scored], message: _Scored) -> Iterable[tuple[_Scored, float, bool]]:
    """Yield each wording with its share of the message's score, and whether it repeats another one."""
    is_long = len(message.item.content.encode()) > _LONG_BYTES

    def order(entry: _Scored) -> tuple[bool, float, bool, UUID]:
        is_message = entry is message
        return is_message and is_long, -entry.own, not is_message, entry.item.item_id

    first, *others = sorted(wordings, key=order)
    yield first, max(message.own - first.own, 0.0), False
    for entry in others:
        yield entry, 0.0, entry is message or (not is_long and message.own >= entry.own)


def _neighbours(messages: Iterable[_Scored]) -> dict[UUID, float]:
    """Return for each message the best score of its neighbours, plus half of the best one next to those."""
    at = {(entry.item.session_id, entry.item.place or 0): entry.own for entry in messages}

    def best(item: Candidate, steps: int) -> float:
        return max(at.get((item.session_id, (item.place or 0) + step), 0.0) for step in (-steps, steps))

    return {entry.item.item_id: best(entry.item, 1) + best(entry.item, 2) / 2 for entry in messages}


def _sessions(messages: Iterable[_Scored]) -> dict[str | None, float]:
    """Return the sum of the three best scores of each session."""
    owns: defaultdict[str | None, list[float]] = defaultdict(list)
    for entry in messages:
        owns[entry.item.session_id].append(entry.own)
    return {session: sum(sorted(values, reverse=True)[:_BEST_OF_SESSION]) for session, values in owns.items()}


# -- selection of the results


def _without_repetitions(scored: Iterable[_Scored], context: RankingContext, weights: Weights) -> list[_Scored]:
    """Return the candidates in order without those that only repeat the question; questions are lowered.

    A question has lifted its neighbours by then, which often answer it.
    """
    kept: list[_Scored] = []
    for entry in scored:
        name, weight = context.question_weight(entry.item, weights)
        if weight == 0:
            continue
        if weight != 1:
            entry.added[name] = (weight - 1) * entry.score
            entry.score *= weight
        kept.append(entry)
    return sorted(kept, key=lambda entry: entry.order)


def _allowed(ordered: Iterable[_Scored], context: RankingContext) -> list[_Scored]:
    """Return no more candidates of a category than its limit; more than requested, since relations may reorder them."""
    counts: Counter[str] = Counter()
    allowed: list[_Scored] = []
    for entry in ordered:
        category = entry.item.category
        if len(allowed) == 2 * context.top_k + 10:
            break
        counts[category] += 1
        if counts[category] <= context.rag_lengths.get(category, context.top_k):
            allowed.append(entry)
    return allowed


def _companions(
    best: Sequence[_Scored], candidates: Iterable[Candidate], links: Links, context: RankingContext
) -> list[SearchResult]:
    """Return memories related to the results that are not results themselves."""
    returned = {entry.item.item_id for entry in best}
    # how closely, and to which result
    closest: dict[UUID, tuple[float, UUID]] = {}
    for entry in best:
        for other, strength in links.get(entry.item.item_id, ()):
            if other not in returned and strength * entry.score > closest.get(other, (-1.0,))[0]:
                closest[other] = strength * entry.score, entry.item.item_id
    counts = Counter(entry.item.category for entry in best)
    companions: list[SearchResult] = []
    eligible = {item.item_id: item for item in candidates if item.item_id in closest}
    for item in sorted(eligible.values(), key=lambda item: (-closest[item.item_id][0], item.item_id)):
        counts[item.category] += 1
        if counts[item.category] <= context.rag_lengths.get(item.category, counts[item.category]):
            score, related_to = closest[item.item_id]
            unscored = item._replace(text=None, similarity=None, fused=0.0)
            companions.append(_found(_Scored(unscored, 0.0, score, {"related": score}), related_to))
    return companions[:MAX_RELATED]


def _found(entry: _Scored, related_to: UUID | None = None) -> SearchResult:
    item, added = entry.item, {name: value for name, value in entry.added.items() if value}
    shown = {name: value for name, value in item._asdict().items() if name in SearchResult.__dataclass_fields__}
    return SearchResult(
        **shown,
        score=entry.score,
        related_to=related_to,
        explanation=Explanation(
            text=item.text,
            similarity=item.similarity,
            fused=item.fused or 0.0,
            from_source="source" in added,
            boosts=added,
        ),
    )
