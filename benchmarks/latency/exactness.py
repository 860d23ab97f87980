"""Recall@10: how many of the ten nearest facts a search by meaning returns."""

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from benchmarks.latency.embedder import Floats, WordEmbedder
from benchmarks.latency.facts import Facts, Sayings
from benchmarks.latency.product import Product

QUESTIONS = 100
TOP = 10


async def recall_at_10(product: Product, facts: Facts, sayings: Sayings, category: str | None = None) -> float:
    """Return the mean share over a hundred questions, compared with all cosines.

    Args:
        product: Mnemic with the facts.
        facts: the stored facts.
        sayings: the users' questions.
        category: category of the search; only its facts count.
    """
    embedder = WordEmbedder()
    shares = []
    for number in range(QUESTIONS):
        user, question = sayings.user(number), sayings.question(number)
        truth = nearest(facts, user, embedder.vector(question), category)
        found = await product.semantic(user, question, (category,) if category else None)
        shares.append(share(found, truth))
    return float(np.mean(shares))


def nearest(facts: Facts, user: int, question: Floats, category: str | None) -> list[UUID]:
    """Return the ten facts of one user with the highest cosine, computed for every fact."""
    counts = np.array([category in (None, own) for own in facts.categories]) & (facts.owners == user)
    places = np.flatnonzero(counts)
    best = np.argsort(-(facts.vectors[places] @ question), kind="stable")[:TOP]
    return [facts.ids[place] for place in places[best]]


def share(found: Sequence[UUID], truth: Sequence[UUID]) -> float:
    """Of the truth, how much was found (0..1); all of it where there is none."""
    return len({*found} & {*truth}) / len(truth) if truth else 1.0
