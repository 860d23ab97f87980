"""Turns of an agent by default: questions about stored facts, small talk and general questions.

The file was written by a person who did not know the rules of the search.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import yaml

from mnemic.memory.runtime.resources import Resources
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity

FILE: Final = Path(__file__).with_name("turns.yaml")
#: Minimum number of questions that are searched and answered, and maximum number of searched turns of small talk.
MIN_ANSWERED: Final = 50
MAX_SEARCHED: Final = 6
#: A category that is searched and not always in context.
_CATEGORY: Final = "knowledge"


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Result of one run over the file."""

    questions: int
    small_talk: int
    answered: int
    #: Reasons of the searches of both parts.
    reasons: Counter[str]
    needless: Counter[str]
    #: Turns that fail, one line each.
    failures: Sequence[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The figures, each with its limit."""
        return [
            f"Questions, searched and answered: {self.answered} of {self.questions} (at least {MIN_ANSWERED}); "
            f"{_listed(self.reasons)}",
            f"Small talk, searched: {self.needless.total()} of {self.small_talk} (at most {MAX_SEARCHED}); "
            f"{_listed(self.needless)}",
        ]

    @property
    def is_met(self) -> bool:
        """Whether both limits are met."""
        return self.answered >= MIN_ANSWERED and self.needless.total() <= MAX_SEARCHED


def read_turns(file: Path = FILE) -> dict[str, list[dict[str, Any]]]:
    """Return the facts, the questions with the ids of the facts that answer them, and the turns of small talk."""
    turns: dict[str, list[dict[str, Any]]] = yaml.safe_load(file.read_text("utf-8"))
    return turns


async def measure_turns(resources: Resources, data: dict[str, list[dict[str, Any]]]) -> Turns:
    """Store the facts as the memory of one user, and recall each turn by default."""
    memory = Mnemic(resources)
    who = Identity(agent_id=f"turns-{uuid4().hex[:12]}", user_id="turns")
    contents = {fact["id"]: fact["content"] for fact in data["facts"]}
    for content in contents.values():
        await memory.remember(who, content, category=_CATEGORY)
    answered, failures = 0, list[str]()
    reasons, needless = Counter[str](), Counter[str]()
    for turn in data["questions"]:
        reason, lines = await _recall(memory, who, turn)
        reasons[reason or "none"] += 1
        if reason and any(contents[fact] in lines for fact in turn["answered_by"]):
            answered += 1
        else:
            failures.append(_failure(turn, reason))
    for turn in data["small_talk"]:
        reason, _ = await _recall(memory, who, turn)
        if reason:
            needless[reason] += 1
            failures.append(_failure(turn, reason))
    return Turns(
        questions=len(data["questions"]),
        small_talk=len(data["small_talk"]),
        answered=answered,
        reasons=reasons,
        needless=needless,
        failures=failures,
    )


async def _recall(memory: Mnemic, who: Identity, turn: dict[str, Any]) -> tuple[str | None, list[str]]:
    """Return the reason of the search, and the contents of the lines that it added to the context."""
    recalled = await memory.recall(who, turn["text"], previous=turn.get("previous", ""))
    return recalled.searched, [result.content for result in recalled.memories]


def _listed(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()) or "none"


def _failure(turn: dict[str, Any], reason: str | None) -> str:
    before = f"{turn['previous']} / " if "previous" in turn else ""
    return f"{turn['id']} {turn['language']} [{reason or 'not searched'}] {before}{turn['text']}"
