"""Asks every question in every way: by the product's own query and search, and by the baselines on the same rows."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.recall_quality.baselines import BM25, grep
from benchmarks.recall_quality.locomo import Conversation, Question
from benchmarks.recall_quality.metrics import Returned, Score, score
from benchmarks.recall_quality.storing import Stored
from mnemic.memory.recall.query import query
from mnemic.memory.recall.search import search, search_setup
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import count_tokens
from mnemic.prompts.recall.memory_context import found_line
from mnemic.state.kinds import SearchType
from mnemic.state.query import MAX_TOP_K, MemoryQuery
from mnemic.state.records import SearchResult
from mnemic.state.search import Weights

#: Without what is added: text and meaning alone.
PLAIN = Weights(insight=1, repeated=1, named=0, importance=0, neighbour=0, session=0, related=0)
#: One question, and the score of what comes back.
Ask = Callable[[Question], Awaitable[Score]]


async def ask_all(resources: Resources, conversation: Conversation, stored: Stored) -> dict[str, list[Score]]:
    """Return the scores of every way to search, in the order of the conversation's questions."""
    ways = {**_product(resources, stored), **await _baselines(resources, stored)}
    return {name: [await ask(question) for question in conversation.questions] for name, ask in ways.items()}


def _product(resources: Resources, stored: Stored) -> dict[str, Ask]:
    turns = {row.item_id: row.turn_ids for row in stored.rows}

    def scored(found: Sequence[SearchResult], question: Question) -> Score:
        lines = [Returned(turn_ids=turns[one.id], tokens=count_tokens(found_line(one))) for one in found]
        return score(lines, question.evidence)

    def plain(search_type: SearchType, fusion: str = "weighted") -> Ask:
        async def ask(question: Question) -> Score:
            return scored(await _search(resources, stored, question, search_type, fusion), question)

        return ask

    async def as_shipped(question: Question) -> Score:
        return scored(await query(resources, stored.identity, _request(question)), question)

    return {
        "text": plain("text"),
        "semantic": plain("semantic"),
        "rrf": plain("hybrid", "rrf"),
        "weighted": plain("hybrid"),
        "weighted + boosts (as shipped)": as_shipped,
    }


async def _search(
    resources: Resources, stored: Stored, question: Question, search_type: SearchType, fusion: str
) -> list[SearchResult]:
    """As the product's query does it, but with nothing added to the scores."""
    (vector,) = await resources.embedder.embed([question.text])
    allowed = resources.categories.of_role(stored.identity.role).categories
    async with resources.database.transaction(stored.identity, categories=allowed, for_recall=True) as tx:
        setup = replace(
            search_setup(resources, resources.settings.model_copy(update={"fusion": fusion})), weights=PLAIN
        )
        return await search(tx, setup, _request(question, search_type), vector, allowed)


def _request(question: Question, search_type: SearchType = "hybrid") -> MemoryQuery:
    return MemoryQuery(query=question.text, search_type=search_type, top_k=MAX_TOP_K)


async def _baselines(resources: Resources, stored: Stored) -> dict[str, Ask]:
    texts = [row.text for row in stored.rows]
    vectors = np.array(await resources.embedder.embed(texts))
    ranked = BM25(texts)
    rows = [Returned(turn_ids=row.turn_ids, tokens=count_tokens(f"- {row.text}")) for row in stored.rows]

    def best(scores: Sequence[float], question: Question) -> Score:
        order = sorted(range(len(rows)), key=lambda place: -scores[place])[:MAX_TOP_K]
        return score([rows[place] for place in order if scores[place] > 0], question.evidence)

    async def by_grep(question: Question) -> Score:
        return best(grep(question.text, texts), question)

    async def by_bm25(question: Question) -> Score:
        return best(ranked.scores(question.text), question)

    async def by_cosine(question: Question) -> Score:
        (asked,) = await resources.embedder.embed([question.text])
        return best((vectors @ np.array(asked)).tolist(), question)

    return {"baseline: grep": by_grep, "baseline: BM25, stemmed": by_bm25, "baseline: cosine": by_cosine}
