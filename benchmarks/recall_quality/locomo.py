"""Reads conversations, annotated facts and questions of files in LoCoMo's format."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TURN_ID = re.compile(r"D(\d+):0*(\d+)")
_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a dialogue; `id` is LoCoMo's, such as `D3:12`."""

    id: str
    session: int
    speaker: str
    text: str
    said_at: datetime


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One annotated fact and the turns it was taken from."""

    subject: str
    text: str
    turn_ids: tuple[str, ...]
    dated: datetime


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question, the turns that answer it, its category (1 to 5), and the answer in words."""

    text: str
    evidence: frozenset[str]
    category: int
    answer: str = ""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One of the file's conversations; questions without a turn that exists are left out."""

    id: str
    turns: tuple[Turn, ...]
    observations: tuple[Observation, ...]
    questions: tuple[Question, ...]


def read_conversations(path: Path) -> list[Conversation]:
    """All conversations of one file."""
    return [_conversation(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(entry: Mapping[str, Any]) -> Conversation:
    turns = tuple(_turns(entry["conversation"]))
    known = frozenset(turn.id for turn in turns)
    return Conversation(
        id=entry["sample_id"],
        turns=turns,
        observations=tuple(_observations(entry.get("observation", {}), turns)),
        questions=tuple(_questions(entry["qa"], known)),
    )


def _turns(dialogue: Mapping[str, Any]) -> Iterator[Turn]:
    for session in sorted(int(match[1]) for name in dialogue if (match := _SESSION.fullmatch(name))):
        begun = _moment(dialogue[f"session_{session}_date_time"])
        for place, said in enumerate(dialogue[f"session_{session}"]):
            caption = said.get("blip_caption")
            yield Turn(
                id=_turn_ids(said["dia_id"])[0],
                session=session,
                speaker=said["speaker"],
                text=f"{said['text']} [shares {caption}]" if caption else said["text"],
                said_at=begun + timedelta(seconds=place),
            )


def _observations(given: Mapping[str, Any], turns: tuple[Turn, ...]) -> Iterator[Observation]:
    when = {turn.id: turn.said_at for turn in turns}
    for by_speaker in given.values():
        for speaker, facts in by_speaker.items():
            for text, sources in facts:
                ids = tuple(turn for turn in _turn_ids(sources) if turn in when)
                if ids:
                    yield Observation(subject=speaker, text=text, turn_ids=ids, dated=when[ids[0]])


def _questions(given: list[Mapping[str, Any]], known: frozenset[str]) -> Iterator[Question]:
    for asked in given:
        evidence = known.intersection(_turn_ids(asked["evidence"]))
        if evidence:
            answer = str(asked.get("answer", ""))
            yield Question(text=asked["question"], evidence=evidence, category=asked["category"], answer=answer)


def _turn_ids(written: object) -> list[str]:
    """Ids come alone, in lists, several in one text, and with leading zeros."""
    return list(dict.fromkeys(f"D{session}:{turn}" for session, turn in _TURN_ID.findall(str(written))))


def _moment(written: str) -> datetime:
    """Parse a time such as `1:56 pm on 8 May, 2023`."""
    return datetime.strptime(written, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
