"""Whether questions are still answered: by the product's own query over one fact for each memory, before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from benchmarks.recall_quality.locomo import Question
from benchmarks.recall_quality.metrics import BUDGETS, Returned, Score, mean, score
from benchmarks.refinement.refining import Refined
from mnemic.memory.recall.query import query
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import count_tokens, search_text
from mnemic.prompts.recall.memory_context import found_line
from mnemic.service.memory import Mnemic
from mnemic.state.identity import Identity, scope_key
from mnemic.state.query import MAX_TOP_K, MemoryQuery
from mnemic.state.records import NewMemory
from mnemic.storage import memories
from mnemic.storage.transaction import ScopedTransaction

#: Of the categories, the answerable ones.
_ANSWERABLE = (1, 2, 3, 4)
#: Tokens of what comes back, for the second figure.
WITHIN_TOKENS = 500


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """Recall over the answerable questions; shares from 0 to 1."""

    questions: int
    at_10: float
    within_tokens: float


@dataclass(frozen=True, kw_only=True)
class _Fact:
    text: str
    subject: str
    dated: datetime
    turn_ids: frozenset[str]


async def recall_before(resources: Resources, refined: Refined) -> Recalled:
    """One fact for each memory as it was."""
    facts = [
        _Fact(text=given.text, subject=given.subject, dated=given.dated, turn_ids=given.turn_ids)
        for given in refined.before.values()
    ]
    return await _recalled(resources, facts, refined.core.questions)


async def recall_after(resources: Resources, refined: Refined) -> Recalled:
    """One fact for each living memory, with the evidence of all that it took in."""
    turns = {id_: given.turn_ids for id_, given in refined.before.items()}
    facts = [
        _Fact(
            text=memory.content,
            subject=memory.subject,
            dated=memory.valid_from,
            turn_ids=frozenset[str]().union(*(turns[id_] for id_ in refined.taken[memory.id])),
        )
        for memory in refined.after
    ]
    return await _recalled(resources, facts, refined.core.questions)


async def _recalled(resources: Resources, facts: Sequence[_Fact], questions: Sequence[Question]) -> Recalled:
    who = Identity(agent_id=f"asked-{uuid4().hex[:12]}", user_id="curator")
    await Mnemic(resources).admin.configure_agent(who)  # which makes the agent known
    stored = await _store(resources, who, facts)
    asked = [question for question in questions if question.category in _ANSWERABLE]
    found = mean([await _ask(resources, who, stored, question) for question in asked])
    return Recalled(
        questions=len(asked), at_10=found.recall_10, within_tokens=found.inside[BUDGETS.index(WITHIN_TOKENS)]
    )


async def _ask(resources: Resources, who: Identity, stored: Mapping[UUID, _Fact], question: Question) -> Score:
    found = await query(resources, who, MemoryQuery(query=question.text, top_k=MAX_TOP_K))
    lines = [Returned(turn_ids=stored[one.id].turn_ids, tokens=count_tokens(found_line(one))) for one in found]
    return score(lines, question.evidence)


async def _store(resources: Resources, who: Identity, facts: Sequence[_Fact]) -> dict[UUID, _Fact]:
    rows = {
        NewMemory(
            id=uuid4(),
            kind="fact",
            scope_key=scope_key("user", "curator"),
            category="knowledge",
            content=fact.text,
            search_text=search_text(fact.dated, fact.subject, fact.text),
            subject=fact.subject,
            valid_from=fact.dated,
        ): fact
        for fact in facts
    }
    vectors = await resources.embedder.embed([row.search_text for row in rows])
    by_id = {row.id: vector for row, vector in zip(rows, vectors, strict=True)}

    async def act(tx: ScopedTransaction) -> None:
        await tx.begin_operation("formation")
        await memories.insert(tx, list(rows), model=resources.embedder.name, vectors=by_id, run_id=None)

    await resources.database.write(who, act)
    return {row.id: fact for row, fact in rows.items()}
