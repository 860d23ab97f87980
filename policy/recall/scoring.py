"""From candidates to results: what is added to each score, what repeats another, what comes along. Pure sums."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from mnemic.policy.recall.ranking import MOST_RELATED, Weights
from mnemic.state.records import Explanation, Found, Kind

#: A message beyond one piece is no short way to say what its facts say.
_LONG_BYTES = 1000
#: Of a session as many messages tell how well it fits.
_TELLING = 3
_UNIMPORTANT = 2


class Candidate(NamedTuple):
    """What the search statement brings of one memory or message."""

    item_id: UUID
    kind: Kind | Literal["message"]
    category: str
    scope_key: str
    subject: str
    #: Who it is about, or who said it.
    user_id: str | None
    content: str
    dated: datetime
    importance: int
    session_id: str | None
    #: Of a message, its number in its session.
    place: int | None
    text: float | None
    similarity: float | None
    #: Both in one figure from 0 to 1; None: no candidate, but related to one.
    fused: float | None
    #: The messages a fact was formed from, as far as they are visible; asked for where messages are candidates.
    sources: Sequence[UUID] | None


#: Of a candidate: what it is related to, and how strongly.
Links = Mapping[UUID, Sequence[tuple[UUID, float]]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Whom a question means, and how much of what it may bring."""

    names: Set[str]
    #: The asker, where their own affairs are meant.
    self_id: str | None
    top_k: int
    #: Results of a category, at most.
    rag_lengths: Mapping[str, int]


@dataclass(slots=True)
class _Scored:
    item: Candidate
    own: float
    score: float
    #: What was added, by name.
    added: dict[str, float]

    @property
    def order(self) -> tuple[float, float, float, UUID]:
        similarity = self.item.similarity
        return -self.score, -self.own, 2.0 if similarity is None else -similarity, self.item.item_id


def reciprocal(candidates: Sequence[Candidate], weights: Weights, k: int) -> list[Candidate]:
    """The candidates with the sum of their reciprocal ranks by words and by meaning, scaled to 0..1."""
    sums = dict.fromkeys((one.item_id for one in candidates), 0.0)
    by_words = sorted((-one.text, one.item_id) for one in candidates if one.text)
    by_meaning = sorted((-one.similarity, one.item_id) for one in candidates if one.similarity is not None)
    for weight, order in ((weights.text, by_words), (weights.meaning, by_meaning)):
        for rank, (_, item_id) in enumerate(order, start=1):
            sums[item_id] += weight * (k + 1) / (k + rank)
    return [one if one.fused is None else one._replace(fused=sums[one.item_id]) for one in candidates]


def ranked(candidates: Sequence[Candidate], links: Links, asked: Asked, weights: Weights) -> list[Found]:
    """The best of them, best first, and behind them up to two that they are related to; every score is explained."""
    scored = [_own(one, asked, weights) for one in candidates if one.fused is not None]
    messages = {one.item.item_id: one for one in scored if one.item.kind == "message"}
    if messages:
        _tell_once(scored, messages, weights)
    front = _allowed(sorted(scored, key=lambda one: one.order), asked)
    if links:
        _add_related(front, links, {one.item.item_id for one in scored}, weights)
    best = front[: asked.top_k]
    return [*(_found(one) for one in best), *_along(best, candidates, links, asked)]


def _own(item: Candidate, asked: Asked, weights: Weights) -> _Scored:
    fused = item.fused or 0.0
    added: dict[str, float] = {}
    if item.kind == "insight":
        added["insight"] = (weights.insight - 1) * fused
    is_asker = item.user_id is not None and item.user_id == asked.self_id
    if is_asker or asked.names & {*item.subject.lower().split()}:
        added["named"] = weights.named
    if item.importance != _UNIMPORTANT:
        added["important"] = weights.importance * (item.importance - _UNIMPORTANT)
    own = fused + sum(added.values())
    return _Scored(item, own, own, added)


# -- messages and the facts formed from them


@dataclass(slots=True)
class _Telling:
    """One way to tell what a message says: its own, or that of a fact formed from it."""

    one: _Scored
    is_message: bool
    is_long: bool
    source: float = 0.0
    repeats: bool = False

    @property
    def order(self) -> tuple[bool, float, bool, UUID]:
        return self.is_long, -self.one.own, not self.is_message, self.one.item.item_id


def _tell_once(scored: Sequence[_Scored], messages: Mapping[UUID, _Scored], weights: Weights) -> None:
    """Of a message and its facts the one that fits best speaks for all; what it makes superfluous counts less."""
    near, within = _neighbours(messages.values()), _sessions(messages.values())
    most_within = max(within.values(), default=0.0)
    turns: dict[UUID, list[_Telling]] = {
        item_id: [_Telling(one, True, _is_long(one.item))] for item_id, one in messages.items()
    }
    for one in scored:
        for source in one.item.sources or ():
            if source in turns:
                turns[source].append(_Telling(one, False, False))
    told: dict[UUID, tuple[bool, float, dict[str, float]]] = {}
    for message_id, turn in turns.items():
        said = messages[message_id]
        added = {
            "neighbour": weights.neighbour * near.get(message_id, 0.0),
            "in_session": weights.session * within[said.item.session_id] / most_within if most_within else 0.0,
        }
        for telling, taken, repeats in _spoken(turn, said):
            total = telling.own + taken + sum(added.values())
            known = told.get(telling.item.item_id)
            if known is None or (repeats, total) > known[:2]:
                told[telling.item.item_id] = repeats, total, {"source": taken, **added}
    for one in scored:
        if one.item.item_id in told:
            repeats, total, added = told[one.item.item_id]
            repeated = (weights.repeated - 1) * total if repeats else 0.0
            one.added |= {**added, "repeated": repeated}
            one.score = total + repeated


def _spoken(turn: list[_Telling], said: _Scored) -> Iterable[tuple[_Scored, float, bool]]:
    """Each way to tell a turn with what it takes over from the message, and whether it repeats another."""
    first, *others = sorted(turn, key=lambda telling: telling.order)
    yield first.one, max(said.own - first.one.own, 0.0), False
    is_said = not _is_long(said.item)
    for telling in others:
        yield telling.one, 0.0, telling.is_message or (is_said and said.own >= telling.one.own)


def _neighbours(messages: Iterable[_Scored]) -> dict[UUID, float]:
    """The best own score beside each message that has a neighbour among them."""
    at = {(one.item.session_id, one.item.place): one.own for one in messages}
    beside: dict[UUID, float] = {}
    for one in messages:
        session, place = one.item.session_id, one.item.place or 0
        own = [at[session, other] for other in (place - 1, place + 1) if (session, other) in at]
        if own:
            beside[one.item.item_id] = max(own)
    return beside


def _sessions(messages: Iterable[_Scored]) -> dict[str | None, float]:
    """A third of the sum of each session's three best."""
    owns: defaultdict[str | None, list[float]] = defaultdict(list)
    for one in messages:
        owns[one.item.session_id].append(one.own)
    return {session: sum(sorted(values, reverse=True)[:_TELLING]) / _TELLING for session, values in owns.items()}


def _is_long(item: Candidate) -> bool:
    return len(item.content) > _LONG_BYTES or len(item.content.encode()) > _LONG_BYTES


# -- what is returned


def _allowed(ordered: Iterable[_Scored], asked: Asked) -> list[_Scored]:
    """No more of a category than its length; many more than asked for, since relations may change their order."""
    counts: defaultdict[str, int] = defaultdict(int)
    allowed: list[_Scored] = []
    for one in ordered:
        category = one.item.category
        counts[category] += 1
        if counts[category] <= asked.rag_lengths.get(category, asked.top_k):
            allowed.append(one)
    return allowed[: 2 * asked.top_k + 10]


def _add_related(front: list[_Scored], links: Links, candidates: Set[UUID], weights: Weights) -> None:
    for one in front:
        strengths = [strength for other, strength in links.get(one.item.item_id, ()) if other in candidates]
        if strengths:
            one.added["related"] = weights.related * max(strengths)
            one.score += one.added["related"]
    front.sort(key=lambda one: one.order)


def _along(best: Sequence[_Scored], candidates: Iterable[Candidate], links: Links, asked: Asked) -> list[Found]:
    """What the results are related to and does not stand among them."""
    returned = {one.item.item_id for one in best}
    closest: dict[UUID, tuple[float, UUID]] = {}
    for one in best:
        for other, strength in links.get(one.item.item_id, ()):
            if other not in returned and strength * one.score > closest.get(other, (-1.0,))[0]:
                closest[other] = strength * one.score, one.item.item_id
    if not closest:
        return []
    counts: defaultdict[str, int] = defaultdict(int)
    for one in best:
        counts[one.item.category] += 1
    along: list[Found] = []
    eligible = {item.item_id: item for item in candidates if item.item_id in closest}
    for item in sorted(eligible.values(), key=lambda item: (-closest[item.item_id][0], item.item_id)):
        counts[item.category] += 1
        if counts[item.category] <= asked.rag_lengths.get(item.category, counts[item.category]):
            score, related_to = closest[item.item_id]
            bare = item._replace(text=None, similarity=None, fused=0.0)
            found = _found(_Scored(bare, 0.0, score, {"related": score}))
            along.append(replace(found, related_to=related_to))
    return along[:MOST_RELATED]


def _found(one: _Scored) -> Found:
    item, added = one.item, {name: value for name, value in one.added.items() if value}
    return Found(
        item_id=item.item_id,
        kind=item.kind,
        scope_key=item.scope_key,
        category=item.category,
        subject=item.subject,
        content=item.content,
        dated=item.dated,
        importance=item.importance,
        score=one.score,
        session_id=item.session_id,
        explanation=Explanation(
            text=item.text,
            similarity=item.similarity,
            fused=item.fused or 0.0,
            from_source="source" in added,
            boosts=added,
        ),
    )
