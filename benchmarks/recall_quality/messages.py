"""Messages that tell, or tell and ask at once, each with a later question: data of the project's own."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.recall_quality.locomo import Conversation, Question, Turn

_FILE = Path(__file__).with_name("messages.yaml")
#: Stands in front of a message whose last sentence alone is asked for.
_FILLER = "The weather was mild, the shops were open late, and people walked along the river until it got dark. " * 15
#: Follows every message that asks.
_REPLY = "Sure, here is a list."
_SINGLE_HOP = 4


class Pair(NamedTuple):
    """A message, and the question that it answers later."""

    message: str
    question: str


def plain_pairs() -> list[Pair]:
    """Messages that only tell."""
    return _pairs(yaml.safe_load(_FILE.read_text("utf-8"))["plain"])


def telling_pairs() -> list[Pair]:
    """Messages that tell and ask at once, in eight languages."""
    by_language = yaml.safe_load(_FILE.read_text("utf-8"))["telling"]
    return [pair for lines in by_language.values() for pair in _pairs(lines)]


def telling_conversation() -> Conversation:
    """Return all messages as one conversation, with a question for each that tells and asks."""
    plain, telling = plain_pairs(), telling_pairs()
    sessions = [
        [("Ana", pair.message) for pair in plain],
        [("Ana", pair.question) for pair in plain],
        [turn for pair in telling for turn in (("Ana", pair.message), ("Assistant", _REPLY))],
        [("Ana", pair.question) for pair in telling],
    ]
    turns = [turn for number, said in enumerate(sessions, start=1) for turn in _turns(number, said)]
    ids = {turn.text: turn.id for turn in turns}
    questions = [
        Question(text=pair.question, evidence=frozenset({ids[pair.message]}), category=_SINGLE_HOP) for pair in telling
    ]
    return Conversation(id="telling", turns=tuple(turns), observations=(), questions=tuple(questions))


def _pairs(lines: Sequence[str]) -> list[Pair]:
    pairs: list[Pair] = []
    for line in lines:
        message, question = line.split(" | ")
        pairs.append(Pair(message.replace("... ", _FILLER, 1) if message.startswith("... ") else message, question))
    return pairs


def _turns(session: int, said: Sequence[tuple[str, str]]) -> list[Turn]:
    began = datetime(2026, 3, session, 9, tzinfo=UTC)
    turns: list[Turn] = []
    for place, (speaker, text) in enumerate(said, start=1):
        said_at = began + timedelta(minutes=place)
        turns.append(Turn(id=f"D{session}:{place}", session=session, speaker=speaker, text=text, said_at=said_at))
    return turns
