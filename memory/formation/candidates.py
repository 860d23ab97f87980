"""Which stored facts a decision on new ones is shown: those that each may change, as far as they can be read. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, zip_longest
from math import fsum, log, sqrt
from typing import Final
from uuid import UUID

from mnemic.memory.runtime.scoping import ScopeResolver
from mnemic.memory.runtime.transcript import speakers
from mnemic.memory.text.shape import count_tokens, fit
from mnemic.memory.text.sharing import content_tokens
from mnemic.memory.text.words import sentences
from mnemic.prompts.extraction import DecideInput, ShownFact
from mnemic.state.formation import SimilarFact
from mnemic.state.identity import display_name, scope_key, split_scope_key
from mnemic.state.records import Memory, NewMemory, ScopeContext

#: By the id of a new fact: those that it may change, the likeliest first.
Candidates = Mapping[UUID, Sequence[SimilarFact]]

#: Of the tokens that candidates may have, a sixteenth is added for what stands in context.
_CONTEXT_SHARE: Final = 16
#: From which sum on two facts are close, and how much the likeness of their words counts beside that of their meaning.
#: At 1.05 the old flat was not shown to the step that read of the new one.
_CLOSE: Final = 1.0
_WORDS_WEIGHT: Final = 1.5


def changeable_keys(facts: Iterable[NewMemory], resolver: ScopeResolver) -> list[list[str]]:
    """For each new fact the scope keys in which it may change anything.

    What is shared may end what its speakers said for themselves. What is somebody's own ends what is a group's only
    where it may take its place there: the others would else see the one go, and not the other come.
    """
    users = [scope_key("user", user) for user in speakers(resolver.batch)]
    groups = [scope_key("group", group) for group in resolver.identity.group_ids]
    also: Mapping[str, list[str]] = {"agent": [*groups, *users], "group": users}
    return [
        [fact.scope_key, *(also.get(split_scope_key(fact.scope_key)[0]) or resolver.group_keys(fact))] for fact in facts
    ]


def worth_showing(
    facts: Sequence[NewMemory],
    candidates: Candidates,
    names: Mapping[str, str],
    *,
    fallback: float,
    least: int,
    most_tokens: int,
) -> dict[UUID, list[SimilarFact]]:
    """The candidates that are close to their new facts: the likeliest of each, then the next ones.

    Far ones, which share neither words nor meaning, follow as long as fewer than `least` facts are shown in all. What
    is shown twice costs its tokens once. Of 75 facts that a careful reader's decisions named 72 stay, in three quarters
    of the characters.

    Args:
        fallback: the embedder's band in which two facts are related.
        least: facts that are shown in a call, be they close or not.
        most_tokens: of all that is shown.
    """
    kept: dict[UUID, list[SimilarFact]] = {new_id: [] for new_id in candidates}
    shown: set[UUID] = set()
    rows = zip_longest(*([(new_id, old) for old in near] for new_id, near in candidates.items()))
    pairs = [pair for row in rows for pair in row if pair]
    close = _close_pairs(facts, pairs, fallback)
    for new_id, old in sorted(pairs, key=lambda pair: (pair[0], pair[1].id) not in close):
        tokens = 0 if old.id in shown else count_tokens(f"  known {_shown(999, old, names).line()}")
        if tokens <= most_tokens and ((new_id, old.id) in close or len(shown) < least):
            most_tokens -= tokens
            shown.add(old.id)
            kept[new_id].append(old)
    return {new_id: near for new_id, near in kept.items() if near}


def _close_pairs(
    facts: Iterable[NewMemory], pairs: Sequence[tuple[UUID, SimilarFact]], fallback: float
) -> set[tuple[UUID, UUID]]:
    """Those of which the cosine of meaning, in parts of the band, and that of words by their rarity add up."""
    texts = {fact.id: fact.content for fact in facts} | {old.id: old.content for _, old in pairs}
    told = {item_id: content_tokens(text) for item_id, text in texts.items()}
    having = Counter(word for words in told.values() for word in words)

    def rarity(words: Iterable[str]) -> float:
        return fsum(log(len(told) / having[word]) for word in words)  # the same in whatever order a set has them

    def likeness(a: UUID, b: UUID) -> float:
        return rarity(told[a] & told[b]) / (sqrt(rarity(told[a]) * rarity(told[b])) or 1)

    return {
        (new_id, old.id)
        for new_id, old in pairs
        if old.similarity / fallback + _WORDS_WEIGHT * likeness(new_id, old.id) >= _CLOSE
    }


def concerned(facts: Iterable[NewMemory], candidates: Candidates) -> list[tuple[NewMemory, dict[int, SimilarFact]]]:
    """The facts that a decision is needed on, each with what it may name; an old fact has one number wherever it is."""
    unused = count(1)
    numbers: dict[UUID, int] = {}
    return [
        (fact, {numbers.get(old.id) or numbers.setdefault(old.id, next(unused)): old for old in candidates[fact.id]})
        for fact in facts
        if candidates.get(fact.id)
    ]


def shown_to_decide(
    facts: Iterable[NewMemory], candidates: Candidates, names: Mapping[str, str], context: Sequence[str] = ()
) -> DecideInput:
    """What the step is given.

    Args:
        names: display names of scope keys, where the host gave one.
        context: as `standing_lines`.
    """
    shown = [
        _shown(number, fact, names)._replace(known=tuple(_shown(place, old, names) for place, old in known.items()))
        for number, (fact, known) in enumerate(concerned(facts, candidates), start=1)
    ]
    return DecideInput(tuple(shown), tuple(context))


def standing_lines(standing: Iterable[ScopeContext], names: Mapping[str, str], *, is_own: bool, most: int) -> list[str]:
    """What stands in context, sentence by sentence, as far as a share of these tokens reaches; reflections first.

    Where others speak than the run's own user, nobody's own memory may colour what is decided on theirs.
    """
    parts = [part for part in standing if part.scope != "session" and (is_own or part.scope != "user")]
    texts = [(part, memory) for part in parts for memory in reversed(part.texts)]
    lines = [line for part, memory in texts for line in _lines(_whose(part.scope_key, names), memory)]
    return fit(lines, tokens=count_tokens, budget=most // _CONTEXT_SHARE)


def _lines(whose: str, memory: Memory) -> list[str]:
    first, *further = (sentence for line in memory.content.splitlines() for sentence in sentences(line))
    return [f"[{memory.valid_from:%Y-%m-%d}; {whose}; {memory.kind}]: {first}", *further]


def _shown(number: int, fact: NewMemory | SimilarFact, names: Mapping[str, str]) -> ShownFact:
    dated = fact.valid_from if isinstance(fact, NewMemory) else fact.dated
    whose = _whose(fact.scope_key, names)
    return ShownFact(number, fact.content, dated, (), whose, fact.subject)


def _whose(key: str, names: Mapping[str, str]) -> str:
    scope, owner = split_scope_key(key)
    return f"{scope} {names.get(key) or display_name(owner)}"
