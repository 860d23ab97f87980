"""Settings of a search and the weights of its scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mnemic.state.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The parts of a score."""

    #: Text rank over the best one, and cosine over the best one; together 1.
    text: float = 0.4
    meaning: float = 0.6
    #: Multiplier for an insight, which is a guess.
    insight: float = 0.5
    #: Multiplier for a result that duplicates a better one: a message after its fact, a fact after its message.
    repeated: float = 0.5
    #: Added if the question names the subject or the speaker; twice as much costs a third of impostor questions.
    named: float = 0.1
    #: For each step above the importance of 2 that most have; below it, as much is taken away.
    importance: float = 0.01
    #: Share of the best direct neighbour's score, and half of it of the best next but one, of messages and of the facts
    #: formed from them: with 0.2 of the direct ones alone, recall@10 of messages is 1.3 points lower.
    neighbour: float = 0.15
    #: Added to messages of the best session, judged by its three best messages; others get a share of it.
    session: float = 0.15
    #: Times the strength of the strongest relation to another candidate.
    related: float = 0.05
    #: Multiplier for a message that only asks and holds no number.
    asks: float = 0.8
    #: Multiplier for a message with no other words than the question, if it may be that question asked before.
    echo: float = 0.7


#: Weights that measured best.
WEIGHTS: Final = Weights()


@dataclass(frozen=True, kw_only=True)
class SearchSetup:
    """Settings of every search of an agent."""

    #: The embedder's name.
    model: str
    settings: Settings
    #: Results of a category, at most.
    rag_lengths: Mapping[str, int] = field(default_factory=dict)
    weights: Weights = WEIGHTS
