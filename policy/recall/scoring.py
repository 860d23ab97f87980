"""From candidates to results: what is added to each score, what repeats another, what comes along. Pure sums."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from uuid import UUID

from mnemic.policy.recall.ranking import MOST_RELATED, RankingContext, Weights
from mnemic.state.query import Candidate, Links
from mnemic.state.records import Explanation, Found

#: A message beyond one piece is no short way to say what its facts say.
_LONG_BYTES = 1000
#: So many messages of a session decide how well it fits.
_BEST_OF_SESSION = 3
_UNIMPORTANT = 2


@dataclass(slots=True)
class _Scored:
    item: Candidate
    #: What it would have alone: both branches, and what its own fields add.
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
    sums = dict.fromkeys((item.item_id for item in candidates), 0.0)
    by_words = sorted((-item.text, item.item_id) for item in candidates if item.text)
    by_meaning = sorted((-item.similarity, item.item_id) for item in candidates if item.similarity is not None)
    for weight, order in ((weights.text, by_words), (weights.meaning, by_meaning)):
        for rank, (_, item_id) in enumerate(order, start=1):
            sums[item_id] += weight * (k + 1) / (k + rank)
    return [item if item.fused is None else item._replace(fused=sums[item.item_id]) for item in candidates]


def ranked(candidates: Sequence[Candidate], links: Links, context: RankingContext, weights: Weights) -> list[Found]:
    """The best of them, best first, and behind them up to two that they are related to; every score is explained."""
    scored = [_own(item, context, weights) for item in candidates if item.fused is not None]
    messages = {entry.item.item_id: entry for entry in scored if entry.item.kind == "message"}
    if messages:
        _dedupe_message_and_facts(scored, messages, weights)
    front = _allowed(sorted(scored, key=lambda entry: entry.order), context)
    if links:
        _add_related(front, links, {entry.item.item_id for entry in scored}, weights)
    best = front[: context.top_k]
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


@dataclass(slots=True)
class _Wording:
    """One way to say what a message says: its own, or that of a fact formed from it."""

    entry: _Scored
    is_message: bool
    is_long: bool

    @property
    def order(self) -> tuple[bool, float, bool, UUID]:
        return self.is_long, -self.entry.own, not self.is_message, self.entry.item.item_id


def _dedupe_message_and_facts(scored: Sequence[_Scored], messages: Mapping[UUID, _Scored], weights: Weights) -> None:
    """Of a message and its facts the one that fits best speaks for all; what it makes superfluous counts less."""
    near, within = _neighbours(messages.values()), _sessions(messages.values())
    best_session = max(within.values(), default=0.0)
    best: dict[UUID, tuple[bool, float, dict[str, float]]] = {}
    for message_id, wordings in _wordings(scored, messages).items():
        message = messages[message_id]
        added = {
            "neighbour": weights.neighbour * near.get(message_id, 0.0),
            "in_session": weights.session * within[message.item.session_id] / best_session if best_session else 0.0,
        }
        for entry, source, repeats in _shares(wordings, message):
            total = entry.own + source + sum(added.values())
            known = best.get(entry.item.item_id)
            if known is None or (repeats, total) > known[:2]:
                best[entry.item.item_id] = repeats, total, {"source": source, **added}
    for entry in scored:
        if entry.item.item_id in best:
            repeats, total, added = best[entry.item.item_id]
            repeated = (weights.repeated - 1) * total if repeats else 0.0
            entry.added |= {**added, "repeated": repeated}
            entry.score = total + repeated


def _wordings(scored: Iterable[_Scored], messages: Mapping[UUID, _Scored]) -> dict[UUID, list[_Wording]]:
    """By message: itself, and the facts formed from it."""
    wordings = {item_id: [_Wording(entry, True, _is_long(entry.item))] for item_id, entry in messages.items()}
    for entry in scored:
        for source in entry.item.sources or ():
            if source in wordings:
                wordings[source].append(_Wording(entry, False, False))
    return wordings


def _shares(wordings: list[_Wording], message: _Scored) -> Iterable[tuple[_Scored, float, bool]]:
    """Each wording with what it takes over from the message, and whether it repeats another."""
    first, *others = sorted(wordings, key=lambda wording: wording.order)
    yield first.entry, max(message.own - first.entry.own, 0.0), False
    is_short = not _is_long(message.item)
    for wording in others:
        repeats = wording.is_message or (is_short and message.own >= wording.entry.own)
        yield wording.entry, 0.0, repeats


def _neighbours(messages: Iterable[_Scored]) -> dict[UUID, float]:
    """The best own score beside each message that has a neighbour among them."""
    at = {(entry.item.session_id, entry.item.place): entry.own for entry in messages}
    beside: dict[UUID, float] = {}
    for entry in messages:
        session, place = entry.item.session_id, entry.item.place or 0
        own = [at[session, other] for other in (place - 1, place + 1) if (session, other) in at]
        if own:
            beside[entry.item.item_id] = max(own)
    return beside


def _sessions(messages: Iterable[_Scored]) -> dict[str | None, float]:
    """A third of the sum of each session's three best."""
    owns: defaultdict[str | None, list[float]] = defaultdict(list)
    for entry in messages:
        owns[entry.item.session_id].append(entry.own)
    return {
        session: sum(sorted(values, reverse=True)[:_BEST_OF_SESSION]) / _BEST_OF_SESSION
        for session, values in owns.items()
    }


def _is_long(item: Candidate) -> bool:
    return len(item.content) > _LONG_BYTES or len(item.content.encode()) > _LONG_BYTES


# -- what is returned


def _allowed(ordered: Iterable[_Scored], context: RankingContext) -> list[_Scored]:
    """No more of a category than its length; many more than asked for, since relations may change their order."""
    counts: defaultdict[str, int] = defaultdict(int)
    allowed: list[_Scored] = []
    for entry in ordered:
        category = entry.item.category
        counts[category] += 1
        if counts[category] <= context.rag_lengths.get(category, context.top_k):
            allowed.append(entry)
    return allowed[: 2 * context.top_k + 10]


def _add_related(front: list[_Scored], links: Links, candidates: Set[UUID], weights: Weights) -> None:
    for entry in front:
        strengths = [strength for other, strength in links.get(entry.item.item_id, ()) if other in candidates]
        if strengths:
            entry.added["related"] = weights.related * max(strengths)
            entry.score += entry.added["related"]
    front.sort(key=lambda entry: entry.order)


def _companions(
    best: Sequence[_Scored], candidates: Iterable[Candidate], links: Links, context: RankingContext
) -> list[Found]:
    """What the results are related to and does not stand among them."""
    closest = _closest(best, links)
    if not closest:
        return []
    counts: defaultdict[str, int] = defaultdict(int)
    for entry in best:
        counts[entry.item.category] += 1
    companions: list[Found] = []
    eligible = {item.item_id: item for item in candidates if item.item_id in closest}
    for item in sorted(eligible.values(), key=lambda item: (-closest[item.item_id][0], item.item_id)):
        counts[item.category] += 1
        if counts[item.category] <= context.rag_lengths.get(item.category, counts[item.category]):
            score, related_to = closest[item.item_id]
            unscored = item._replace(text=None, similarity=None, fused=0.0)
            found = _found(_Scored(unscored, 0.0, score, {"related": score}))
            companions.append(replace(found, related_to=related_to))
    return companions[:MOST_RELATED]


def _closest(best: Sequence[_Scored], links: Links) -> dict[UUID, tuple[float, UUID]]:
    """What is related to a result: how closely, and to which one."""
    returned = {entry.item.item_id for entry in best}
    closest: dict[UUID, tuple[float, UUID]] = {}
    for entry in best:
        for other, strength in links.get(entry.item.item_id, ()):
            if other not in returned and strength * entry.score > closest.get(other, (-1.0,))[0]:
                closest[other] = strength * entry.score, entry.item.item_id
    return closest


def _found(entry: _Scored) -> Found:
    item, added = entry.item, {name: value for name, value in entry.added.items() if value}
    return Found(
        item_id=item.item_id,
        kind=item.kind,
        scope_key=item.scope_key,
        category=item.category,
        subject=item.subject,
        content=item.content,
        dated=item.dated,
        importance=item.importance,
        score=entry.score,
        session_id=item.session_id,
        explanation=Explanation(
            text=item.text,
            similarity=item.similarity,
            fused=item.fused or 0.0,
            from_source="source" in added,
            boosts=added,
        ),
    )
