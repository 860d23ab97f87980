"""What a family of statements is: a verb, how it stands in time, and what must follow it."""

import re
from dataclasses import dataclass
from typing import Literal

from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.predicate import Aspect, Predicate
from mnemic.models.offline.verbs import reading
from mnemic.prompts.categories import Category

Need = Literal["time", "frequency", "either"]
_FREQUENCY = pattern("<FAMILY_FREQUENCY>")
#: What follows is said to the listener, not of anybody.
_ASIDE = pattern(r",\s+<ASIDE_WORD>\b")
#: Behind a comma another sentence may begin: its subject, then its verb.
_AFTER_COMMA = re.compile(r",\s+(?:(?:the|my|our|his|her|their|its|this|all) )?([\w'-]+) ([\w'-]+)")
_NEW_SENTENCE = re.compile(
    r",\s+(?:the|my|our|his|her|their) [\w'-]+ [a-z]{2,}s "
    r"(?:with|on|in|at|to|the|an?|my|me|us|it|him|her|up|out|down)\b"
)
#: `I do the planning, Ana drawing and printing`: the verb is left out.
_WITHOUT_VERB = re.compile(r",\s+[A-Z]\w+ [a-z]\w+ and [a-z]\w+$")
_GOES_ON = frozenset({"which", "who", "where", "whose", "when", "and", "or", "but", "including", "mostly", "mainly"})


@dataclass(frozen=True)
class Family:
    """Statements of one kind."""

    name: str
    lemmas: frozenset[str]
    aspects: frozenset[Aspect]
    #: What must follow the verb; None where anything may.
    rest: re.Pattern[str] | None
    category: Category
    importance: int
    needs: Need | None
    #: True and False: only negative or only positive statements; None: both.
    negated: bool | None

    def fits(self, predicate: Predicate, rest: str, *, dated: bool) -> bool:
        """Whether a predicate with this rest, which names a time or not, is of this family."""
        if predicate.lemma not in self.lemmas or predicate.aspect not in self.aspects:
            return False
        if runs_on(rest):
            return False
        if self.negated is not None and predicate.denies is not self.negated:
            return False
        often = bool(_FREQUENCY.search(" ".join([*predicate.adverbs, rest])))
        needed = {"time": dated, "frequency": often, "either": dated or often, None: True}
        return needed[self.needs] and (self.rest is None or self.rest.match(rest) is not None)


def runs_on(rest: str) -> bool:
    """Whether another sentence follows behind a comma; the statement then ends before it."""
    if any(shape.search(rest) for shape in (_ASIDE, _NEW_SENTENCE, _WITHOUT_VERB)):
        return True
    return any(
        subject.lower() not in _GOES_ON and verb.islower() and reading(verb, "third", "past") is not None
        for subject, verb in _AFTER_COMMA.findall(rest)
    )
