"""Sixty everyday conversations, and what the rules that stand in without a model hold after each.

The conversations (tests/models/everyday.yaml) were written by somebody who had not seen the rules.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import yaml

from mnemic.models.offline import steps as offline
from mnemic.prompts.conversation import Line, People
from mnemic.prompts.formation.decide import DecideInput, ShownFact
from mnemic.prompts.formation.extraction import ExtractionInput

_FILE = Path(__file__).parents[2] / "tests" / "models" / "everyday.yaml"
_BEGAN = datetime(2026, 3, 4, 9, tzinfo=UTC)
_SPEAKER = "Ana"


class Held(NamedTuple):
    """What is remembered of a conversation, and what was closed on the way."""

    current: list[str]
    closed: list[str]


class Everyday(NamedTuple):
    """One conversation of Ana's, and patterns of what may be remembered of it."""

    id: str
    kind: str
    said: list[str]
    #: Sentences, in these words or in others.
    may_hold: list[str]
    must_not_hold: list[str]
    #: Never closed, once it is remembered.
    must_stay: list[str]
    #: Changed or taken back by the end.
    must_close: list[str]

    def wrong(self, held: Held) -> list[str]:
        """Return wrong memories at the end, and closed facts that hold."""
        return _matching(held.current, self.must_not_hold) + _matching(held.closed, self.must_stay)

    def outdated(self, held: Held) -> list[str]:
        """Return the memories that are still in force although they were changed or taken back."""
        return _matching(held.current, self.must_close)


def conversations() -> list[Everyday]:
    """All sixty."""
    return [Everyday(**row) for row in yaml.safe_load(_FILE.read_text("utf-8"))]


def held_after(batches: Sequence[Sequence[str]]) -> Held:
    """Return the result of the steps of formation for messages that are formed batch by batch."""
    held = Held([], [])
    moment = _BEGAN
    for batch in batches:
        moment += timedelta(days=1)
        lines = tuple(Line(number, _SPEAKER, "user", moment, text) for number, text in enumerate(batch, start=1))
        given = ExtractionInput(lines=lines, people=People(), guidance="", categories=(), limit=25)
        known = [*held.current]  # facts of one batch are not known to one another
        for draft in offline.extract_facts(given).facts:
            _decide(held, known, draft.content, moment)
        orders = offline.extract_reflections(given).user
        held.current.extend(draft.content for draft in orders)
    return held


def summary(*, missed: bool) -> list[str]:
    """Return the figures in words, with the missed facts if requested."""
    found = [
        (conversation, held_after([conversation.said]), held_after([[text] for text in conversation.said]))
        for conversation in conversations()
    ]
    wrong = [
        line
        for conversation, whole, apart in found
        for line in conversation.wrong(whole) + _unless_outdated(conversation, apart)
    ]
    outdated = [
        f"{conversation.id}: {text}" for conversation, _, apart in found for text in conversation.outdated(apart)
    ]
    silent = [
        f"{conversation.id} ({conversation.kind}): nothing of {conversation.said}"
        for conversation, whole, _ in found
        if not whole.current
    ]
    return [
        f"of {len(found)} everyday conversations {len(found) - len(silent)} leave something; wrong: {len(wrong)}",
        f"formed message by message, {len(outdated)} facts stand that a later message changed in words unknown to the "
        "table",
        *wrong,
        *(outdated + silent if missed else []),
    ]


def _decide(held: Held, known: Sequence[str], content: str, moment: datetime) -> None:
    shown = tuple(ShownFact(number, text, _BEGAN) for number, text in enumerate(known, start=1))
    (decision,) = offline.decide(DecideInput((ShownFact(1, content, moment, shown),))).decisions
    if decision.event == "NONE":
        return
    closing = [known[number - 1] for number in decision.known]
    held.closed.extend(closing)
    held.current[:] = [*(text for text in held.current if text not in closing), content]


def _unless_outdated(conversation: Everyday, held: Held) -> list[str]:
    return [text for text in conversation.wrong(held) if text not in conversation.outdated(held)]


def _matching(texts: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [text for text in texts if any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)]
