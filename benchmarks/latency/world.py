"""Made-up people who talk about made-up topics, so that vectors and text search both have a structure; fixed seeds."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_SEED = 7
_VOCABULARY, _TOPICS, _TOPIC_WORDS, _TOPICS_EACH = 4000, 300, 40, 12
_FACT = (9, 5)  # words of its topic, words of everyday
_QUESTION = (5, 1)


@dataclass(frozen=True)
class World:
    """Words, which of them belong to which topic, and what each user talks about."""

    words: tuple[str, ...]
    #: Word numbers, a row for each topic; the first are the most used.
    topics: Integers
    #: Topic numbers, a row for each user.
    favourites: Integers

    @classmethod
    def made(cls, users: int) -> Self:
        """Return the world of so many users; the same one every time."""
        random = np.random.default_rng(_SEED)
        topics = [random.choice(_VOCABULARY, _TOPIC_WORDS, replace=False) for _ in range(_TOPICS)]
        favourites = [random.choice(_TOPICS, _TOPICS_EACH, replace=False) for _ in range(users)]
        return cls(_words(random), np.stack(topics), np.stack(favourites))

    @property
    def users(self) -> int:
        """How many there are."""
        return len(self.favourites)

    def facts(self, users: Integers, seed: int) -> list[str]:
        """Return a sentence of fourteen words for each of these users, about one of their topics."""
        return self._texts(users, _FACT, seed)

    def questions(self, users: Integers, seed: int) -> list[str]:
        """Return a question of six words for each of these users, about one of their topics."""
        return self._texts(users, _QUESTION, seed)

    def _texts(self, users: Integers, lengths: tuple[int, int], seed: int) -> list[str]:
        random = np.random.default_rng(seed)
        of_topic, everyday = lengths
        topics = self.favourites[users, random.integers(0, _TOPICS_EACH, len(users))]
        places = random.choice(_TOPIC_WORDS, (len(users), of_topic), p=_falling(_TOPIC_WORDS, 0.7))
        common = random.choice(len(self.words), (len(users), everyday), p=_falling(len(self.words), 1.0))
        numbers = np.concatenate([self.topics[topics[:, None], places], common], axis=1)
        return [" ".join(self.words[number] for number in row) for row in numbers]


def _words(random: np.random.Generator) -> tuple[str, ...]:
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    made = {"".join(random.choice(syllables, random.integers(2, 5))) for _ in range(2 * _VOCABULARY)}
    return tuple(sorted(made)[:_VOCABULARY])


def _falling(size: int, steepness: float) -> NDArray[np.float64]:
    """Shares of words by their rank, as Zipf counts them."""
    shares = np.arange(1, size + 1) ** -steepness
    return np.asarray(shares / shares.sum(), dtype=np.float64)
