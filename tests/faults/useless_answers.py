"""Answers that any schema takes and nobody can use, for each step; and conversations in which there is much to hear."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from mnemic.prompts.decide import DECIDE, Decision
from mnemic.prompts.extraction import EXTRACT_FACTS, EXTRACT_OBSERVATIONS, EXTRACT_REFLECTIONS
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    OBSERVATIONS,
    REFLECTIONS,
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    observation,
    observations,
    reflection,
    reflections,
)

#: Messages of each conversation.
SAID = (
    "I keep forty hives of bees in Gentbrugge, and I sell the honey on Saturdays.",
    "My sister Rita is allergic to walnuts, so no walnuts at the party on 9 May.",
    "assistant: Noted. Forty hives, and no walnuts for Rita.",
    "We moved from Ghent to Gentbrugge in March, and I work at the harbor now.",
)
FOREIGN: tuple[list[int], ...] = ([], [0], [5], [99], [-1], [-4, 5], [2**40], [17, 18, 19], [0, 0, 0])
PROMPTS = {
    FACTS: EXTRACT_FACTS.prompt.system,
    REFLECTIONS: EXTRACT_REFLECTIONS.prompt.system,
    OBSERVATIONS: EXTRACT_OBSERVATIONS.prompt.system,
}
_FIRST_PERSON = ("I keep bees.", "We moved to Gentbrugge.", "My sister is allergic.", "You are kind.", "I work there.")
_LONG = "Ana keeps " + " and ".join(f"{n} hives in {n}{n}" for n in "abcdefghijklmnopqrstuvwxyz") + "."
#: So many drafts of a kind are the answer.
_TIMES = (1, 3, 5)


class Useless(NamedTuple):
    """One answer."""

    step: str
    name: str
    answer: BaseModel
    #: Whether formation goes on without it.
    goes_on: bool = False


def useless_answers() -> list[Useless]:
    """Of every step, of both kinds of extraction."""
    drafted = [one for step in (FACTS, REFLECTIONS, OBSERVATIONS) for one in _drafts(step)]
    return [*drafted, *_decisions(), *_consolidations()]


def _drafts(step: str) -> Iterator[Useless]:
    for times in _TIMES:
        for numbers in FOREIGN:
            name = "no sources" if not numbers else f"foreign numbers {numbers}"
            yield Useless(step, name, _answer(step, ["Ana keeps bees."] * times, numbers))
        for number, text in enumerate(_FIRST_PERSON):
            yield Useless(step, f"first person {number}", _answer(step, [text] * times, [1]))
        for number, text in enumerate((_LONG, _LONG * 3, f"{_LONG[:-1]} {'and more ' * 60}.")):
            yield Useless(step, f"too long {number}", _answer(step, [text] * times, [1, 2, 4]))
        for number, text in enumerate(_sentences(PROMPTS[step])):
            yield Useless(step, f"a copy of the prompt {number}", _answer(step, [text] * times, [1, 2]))
    for words in (True, False):
        texts = ["Ana keeps bees.", "I keep bees.", "My sister.", "She is allergic to walnuts."]
        yield Useless(step, "mostly refused", _answer(step, texts, [1], nothing_else=words))
    yield Useless(step, "empty lists", _answer(step, [], [], nothing_else=False))


def _sentences(prompt: str) -> list[str]:
    """Lines of the instructions, short and long, as a model gives them back."""
    lines = [line.strip(" -;.") for line in prompt.splitlines()]
    return [line for line in lines if len(line.split()) >= 6][:4]


def _answer(step: str, texts: list[str], numbers: list[int], *, nothing_else: bool = True) -> BaseModel:
    cite: dict[str, Any] = {"messages": numbers}
    if step == FACTS:
        made = [fact(text).model_copy(update=cite) for text in texts]
        return facts(*made, nothing_else=nothing_else)
    if step == OBSERVATIONS:
        noted = [observation(text).model_copy(update=cite) for text in texts]
        return observations(*noted, nothing_else=nothing_else)
    drawn = [reflection(text).model_copy(update=cite) for text in texts]
    return reflections(user=drawn, nothing_else=nothing_else)


def _decisions() -> Iterator[Useless]:
    """Whatever is no good becomes ADD: the new fact stands beside the known one."""
    text = "Ana lives in Oslo with two cats."
    made: dict[str, list[Decision]] = {
        "nothing": [],
        "foreign numbers": [decision(99, "DELETE", 1), decision(1, "DELETE", 99), decision(0, "NONE", 0)],
        "a repeat of something else": [decision(1, "NONE", 1)],
        "the old text": [decision(1, "UPDATE", 1, text=text + " And more.")],
        "first person": [decision(1, "UPDATE", 1, text="I live in Bergen with two cats.")],
        "too long": [decision(1, "UPDATE", 1, text=_LONG)],
        "a copy of the prompt": [decision(1, "UPDATE", 1, text=DECIDE.prompt.system[:200])],
        "an update without words": [decision(1, "UPDATE", 1, text="")],
    }
    for name, answer in made.items():
        yield Useless(DECISIONS, name, decisions(*answer), goes_on=True)


def _consolidations() -> Iterator[Useless]:
    for name, text in {
        "nothing": "",
        "white space": " \n ",
        "one word for ever": "bees " * 300,
        "too long": " ".join(f"Ana keeps hive {n} at quay {n * 7}." for n in range(200)),
    }.items():
        yield Useless(CONSOLIDATION, name, consolidation(text), goes_on=True)
