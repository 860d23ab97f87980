"""What a search result's score is made of: the numbers; `scoring` does the sums.

Scores are shares of 1 before the additions; each addition is small and bounded, so that none outweighs what the words
and the meaning of a question say. How old a memory is never enters. `docs/recall.md` tells what each number is worth.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from mnemic.policy.text.common_words import is_common_word
from mnemic.policy.text.names import display_name
from mnemic.policy.text.words import bare, folded_words, words
from mnemic.state.query import MemoryQuery

_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The parts of a score."""

    #: Text rank over the best one, and cosine over the best one; together 1.
    text: float = 0.4
    meaning: float = 0.6
    #: An insight is somebody's guess: it counts so much of what it would.
    insight: float = 0.5
    #: What tells again what a better result tells: a message behind its fact, a fact behind its message.
    repeated: float = 0.5
    #: The question names who it is about or who said it; twice as much costs a third of impostor questions.
    named: float = 0.1
    #: For each step above the importance of 2 that most have; below it, as much is taken away.
    importance: float = 0.01
    #: Share of the best direct neighbour's score, of messages and of the facts formed from them.
    neighbour: float = 0.2
    #: To messages of the session whose three best fit best; to those of another one its share of that.
    session: float = 0.15
    #: Times the strength of the strongest relation to another candidate.
    related: float = 0.05


WEIGHTS = Weights()
#: Without what is added: text and meaning alone.
PLAIN = Weights(insight=1, repeated=1, named=0, importance=0, neighbour=0, session=0, related=0)
#: Memories that come along with the results they are related to.
MOST_RELATED = 2


@dataclass(frozen=True, kw_only=True)
class RankingContext:
    """Whom a question means, and how much of what it may bring."""

    names: Set[str]
    #: The asker, where their own affairs are meant.
    self_id: str | None
    top_k: int
    #: Results of a category, at most.
    rag_lengths: Mapping[str, int]


def ranking_context(request: MemoryQuery, user_id: str | None, rag_lengths: Mapping[str, int]) -> RankingContext:
    """What the ranking goes by, for a request of this user."""
    self_id = user_id if speaks_of_self(request.query) else None
    names = {*named_words(request.query), *own_names(self_id)}
    lengths = {name: most for name, most in rag_lengths.items() if most < request.top_k + MOST_RELATED}
    return RankingContext(names=names, self_id=self_id, top_k=request.top_k, rag_lengths=lengths)


def branch_weights(weights: Weights, request: MemoryQuery, *, has_vector: bool, by_rank: bool) -> Weights:
    """A branch that is left out leaves its share to the other; ranks count alike in both."""
    if request.search_type == "semantic":
        return replace(weights, text=0, meaning=1)
    if request.search_type == "text" or not has_vector:
        return replace(weights, text=1, meaning=0)
    return replace(weights, text=0.5, meaning=0.5) if by_rank else weights


def named_words(question: str) -> list[str]:
    """The words of a question that may name somebody: capitalised within a sentence, or not common."""
    named = {bare(word.text).casefold() for word in words(question) if word.text[0].isupper() and not word.initial}
    named |= {word for word in folded_words(question) if not is_common_word(word)}
    return sorted(named)


def speaks_of_self(question: str) -> bool:
    """Whether the asker's own words and affairs are meant: `what is my sister's name`."""
    return _FIRST_PERSON.search(question) is not None


def own_names(user_id: str | None) -> Sequence[str]:
    """The words by which a user is called in memories."""
    return folded_words(display_name(user_id)) if user_id else []
