"""What a family of statements is: a verb, how it stands in time, and what must follow it."""

import re
from dataclasses import dataclass
from typing import Literal

from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.predicate import Aspect, Predicate
from mnemic.prompts.categories import Category

Need = Literal["time", "frequency", "either"]
_FREQUENCY = pattern("<FAMILY_FREQUENCY>")


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
        if self.negated is not None and predicate.denies is not self.negated:
            return False
        often = bool(_FREQUENCY.search(" ".join([*predicate.adverbs, rest])))
        needed = {"time": dated, "frequency": often, "either": dated or often, None: True}
        return needed[self.needs] and (self.rest is None or self.rest.match(rest) is not None)
