"""The rows that every store is filled with, and the texts that the operations use."""

from dataclasses import dataclass
from itertools import count
from uuid import UUID, uuid4

import numpy as np

from benchmarks.latency.embedder import Floats, WordEmbedder
from benchmarks.latency.world import Integers, World

#: One row in twenty has this category, so that a search for it alone sees 5 % of its scope.
RARE = "constraints"
COMMON = ("preferences", "relationships", "goals", "tasks", "projects", "event", "activity", "knowledge")
#: Roles of a conversation's messages; the three facts come from the user's own, half as many as messages at most.
TURNS = ("user", "assistant") * 3
_RARE_EVERY = 20
_QUESTIONS = 200
_NEW_TEXTS = 60_000


@dataclass(frozen=True)
class Facts:
    """One element each for every row."""

    ids: list[UUID]
    #: Numbers of the users they belong to.
    owners: Integers
    texts: list[str]
    categories: list[str]
    vectors: Floats

    @classmethod
    def made(cls, world: World, embedder: WordEmbedder, rows: int) -> "Facts":
        """So many facts; neighbours in the list belong to different users."""
        owners = np.arange(rows) % world.users
        texts = world.facts(owners, seed=1)
        # by the row's number among its owner's, so that the rare category is a twentieth of every scope
        places = np.arange(rows) // world.users
        categories = [RARE if place % _RARE_EVERY == 0 else COMMON[place % len(COMMON)] for place in places]
        return cls([uuid4() for _ in range(rows)], owners, texts, categories, embedder.matrix(texts))

    def of(self, user: int, most: int) -> list[UUID]:
        """Ids of one user's facts."""
        return [self.ids[place] for place in np.flatnonzero(self.owners == user)[:most]]

    def __len__(self) -> int:
        return len(self.ids)


class Sayings:
    """Questions and new texts, made beforehand so that no measured call makes any."""

    def __init__(self, world: World) -> None:
        self._users = world.users
        self._questions = world.questions(np.arange(_QUESTIONS) % world.users, seed=99)
        self._texts = world.facts(np.arange(_NEW_TEXTS) % world.users, seed=10_000)
        self._next = count()

    def user(self, number: int) -> int:
        """Whose turn it is in this call."""
        return number % self._users

    def question(self, number: int) -> str:
        """Return a question of that user."""
        return self._questions[number % _QUESTIONS]

    def text(self) -> str:
        """Return a new text."""
        number = next(self._next)
        said = self._texts[number % _NEW_TEXTS]
        return said if number < _NEW_TEXTS else f"{said} {number}"
