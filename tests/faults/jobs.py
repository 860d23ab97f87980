"""What workers are given to do: sessions that each tell of one crate, and a model that knows what to make of them.

Like a real model it words everything anew each time it is asked, so that work done twice shows: no unique index takes
the second telling for the first.
"""

import itertools
import re
from dataclasses import dataclass
from typing import Any

from mnemic.prompts.background.insights import InsightsOutput
from mnemic.state.identity import Identity
from tests.faults.strikes import TrappedModel
from tests.support.loopback import Request
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    consolidation,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    turns,
)
from tests.support.worlds import identity

_TOLD = re.compile(r"about job-(\d+)")
_CRATES = re.compile(r"crates? (\d+(?:, \d+)*)")


@dataclass(frozen=True)
class Job:
    """One session of one user, told of one crate: it makes one fact and one reflection, whatever happens."""

    number: int
    who: Identity

    @property
    def session(self) -> str:
        return self.who.session_id or ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The whole list, as a host resends it."""
        return turns(f"Something about job-{self.number}.", "assistant: Noted.", "It matters to me.", "That is all.")


def job(number: int, *, user: str = "ana", agent: str = "harbor") -> Job:
    return Job(number, identity(user, agent=agent, session=f"job-{number}"))


def some_jobs(count: int) -> list[Job]:
    """Sessions of several users of several agents, ten or so of each user, so that consolidations become due, too."""
    users = max(2, count // 10)
    return [job(number, user=f"user-{number % users}", agent=f"agent-{number % users % 3}") for number in range(count)]


def crates_in(text: str) -> set[int]:
    """The numbers of the crates a memory speaks of."""
    return {int(number) for found in _CRATES.findall(text) for number in found.split(", ")}


def script_jobs(model: TrappedModel) -> None:
    """Answers every step of a job's formation. New facts close no old one.

    The first draft of a consolidation loses every crate, the second keeps all: each costs two requests.
    """
    tellings = itertools.count(1)

    def tell_fact(request: Request) -> object:
        return facts(fact(f"Ana keeps crate {_told(request)} on shelf {word(next(tellings))}."))

    def tell_reflection(request: Request) -> object:
        return reflections(user=[reflection(f"Ana cares about crate {_told(request)} since {word(next(tellings))}.")])

    def tell_consolidation(request: Request) -> object:
        text = _text(request)
        if "It lacks these details" not in text:
            return consolidation("Ana cares.")
        ended = crates_in(" ".join(re.findall(r"no longer true: .*? \(since", text)))
        crates = ", ".join(map(str, sorted(crates_in(text) - ended)))
        return consolidation(f"Ana cares, says {word(next(tellings))}, about crates {crates}.")

    model.answer(FACTS, tell_fact)
    model.answer(DECISIONS, decisions())
    model.answer(REFLECTIONS, tell_reflection)
    model.answer(CONSOLIDATION, tell_consolidation)
    # a sweep of each quarter of an hour looks for insights
    model.answer(InsightsOutput.__name__, InsightsOutput(insights=[]))


def _told(request: Request) -> int:
    told = {int(number) for number in _TOLD.findall(_text(request))}
    assert len(told) == 1, f"a prompt of one session tells of jobs {sorted(told)}"
    return told.pop()


def _text(request: Request) -> str:
    return "\n".join(str(message["content"]) for message in request["messages"])


def word(number: int) -> str:
    """A number as letters: a consolidation need not keep it, as it must keep figures."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number)) + "ing"
