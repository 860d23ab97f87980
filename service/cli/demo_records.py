"""What `mnemic demo` found, for the screen or as JSON."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mnemic.service.cli.corpus import Question
from mnemic.state.records import Memory


@dataclass(frozen=True, kw_only=True)
class FormedSession:
    """What one conversation became."""

    session: str
    people: tuple[str, ...]
    messages: int
    #: Stored memories by kind.
    stored: dict[str, int]
    superseded: int
    consolidated: list[str]
    #: Drafts that were refused, by what was wrong with them.
    refused: dict[str, int]
    #: Messages that neither a memory nor the model's word accounts for.
    unaccounted: int
    #: Why nothing came of it, or something waits.
    complaints: list[str]


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A fact that a later one replaced."""

    scope_key: str
    old: str
    new: str
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was recalled for a question."""

    asked: Question
    #: The memories found, best first, as the recall graph returns them.
    memories: list[dict[str, Any]]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Demo:
    """All that the demo shows."""

    agent_id: str
    runs_on: str
    sessions: list[FormedSession]
    #: Those that hold, oldest first.
    facts: list[Memory]
    consolidations: list[Memory]
    contradictions: list[Contradiction]
    answers: list[Answer]
