"""A weak reader, made of a careful one's recorded answers: it skips half, mislabels one in five and repeats itself.

What it says changes what is stored, so that later requests are in no record: it answers by step and session.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from mnemic.models.loopback import Request
from mnemic.models.replay import Exchange
from mnemic.prompts.formation.decide import DECIDE

_SCOPES: Final = ("user", "group", "agent")
_EVENTS: Final = ("ADD", "ADD", "UPDATE", "DELETE", "NONE")
#: Decisions of one answer: more than there are new facts.
_DECISIONS: Final = 30
_LOOP: Final = "and so on and on " * 400


class Weak:
    """Gives the message for a request; the same one for the same request.

    Args:
        record: the careful reader's.
        seed: another one makes other mistakes.
    """

    def __init__(self, record: Sequence[Exchange], seed: int = 1) -> None:
        self._record, self._seed = record, seed

    def __call__(self, asked: Exchange, request: Request) -> dict[str, Any]:
        """Return the recorded answer, with the mistakes of a weak model."""
        random = Random(f"{self._seed} {asked.key}")  # noqa: S311 - mistakes, no secrets
        stuck = Random(f"{self._seed} {asked.session} {asked.step}")  # noqa: S311 - asked again, it goes on like that
        if min(random.random(), stuck.random()) < 0.1:
            return {"role": "assistant", "content": _LOOP}
        answer = json.loads(json.dumps(self._nearest(asked)))
        if asked.step == DECIDE.prompt.name:
            answer = {"decisions": list(_decisions(answer.get("decisions") or [], random))}
        elif isinstance(answer, dict):
            answer = _weakened(answer, random)
        return Exchange("", "", "", "", answer).message(request)

    def _nearest(self, asked: Exchange) -> Any:
        of_step = [one for one in self._record if one.step == asked.step]
        exact = [one for one in of_step if one.key == asked.key]
        near = exact or [one for one in of_step if one.session == asked.session] or of_step
        return near[0].answer if near else {}


def _weakened(answer: dict[str, Any], random: Random) -> dict[str, Any]:
    """Of each list half the drafts; a text loses half its sentences."""
    made: dict[str, Any] = {}
    for name, value in answer.items():
        if isinstance(value, list):
            made[name] = [draft for draft in value if random.random() < 0.5]
        elif name == "text":
            made[name] = ". ".join(sentence for sentence in value.split(". ") if random.random() < 0.5)
        else:
            made[name] = value
    for drafts in [value for value in made.values() if isinstance(value, list)]:
        for draft in [*drafts]:
            if random.random() < 0.2:
                random.choice(_MISTAKES)(draft, made, random)
            if random.random() < 0.2:
                drafts.append(draft)
    return made


def _scope(draft: dict[str, Any], made: dict[str, Any], random: Random) -> None:
    wrong = random.choice(_SCOPES)
    if "scope" in draft:
        draft["scope"] = wrong
    elif wrong in made:  # reflections stand in a list for each scope
        made[wrong].append({**draft})


def _category(draft: dict[str, Any], made: dict[str, Any], random: Random) -> None:
    given = [other["category"] for value in made.values() if isinstance(value, list) for other in value]
    draft["category"] = random.choice(given)


def _importance(draft: dict[str, Any], _: dict[str, Any], random: Random) -> None:
    draft["importance"] = random.randint(1, 5)


def _messages(draft: dict[str, Any], _: dict[str, Any], random: Random) -> None:
    draft["messages"] = [random.randint(1, 40)]


_MISTAKES: Final[list[Callable[[dict[str, Any], dict[str, Any], Random], None]]] = [
    _scope,
    _category,
    _importance,
    _messages,
]


def _decisions(recorded: list[dict[str, Any]], random: Random) -> list[dict[str, Any]]:
    """Decisions that look right, for as many facts as there may be; the texts are those of other facts."""
    made = []
    for number in range(1, _DECISIONS + 1):
        decision = {**random.choice(recorded)} if recorded else {"text": "", "reason": "It is so."}
        event = random.choice(_EVENTS)
        known = [random.randint(1, 40)] if event != "ADD" or random.random() < 0.2 else []
        made.append({**decision, "fact": number, "event": event, "known": known})
    return made
