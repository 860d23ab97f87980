"""How often the step `decide` is shown the fact that a new one changes; asks no model.

For each session of the example conversations all that was expected of the earlier ones is stored, and with it what the
session itself takes back; then everything expected of the session is new at once, as in a formation.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

from benchmarks.corpus.forming import GROUP, sessions
from benchmarks.corpus.matching import Expected, expectations
from mnemic.memory.formation.candidates import decide_input, find_similar
from mnemic.memory.runtime.new_memories import new_memory
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.text.shape import count_tokens
from mnemic.state.graphs import FormationRun, Lease
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.records import Message, NewMemory
from mnemic.storage import memories, scopes
from mnemic.storage.transaction import ScopedTransaction

_CATEGORIES: Final = {"fact": "activity", "plan": "event", "preference": "preferences", "wish": "style"}
_NO_NAMES: Final = frozenset({"The", "For", "On-call", "Hosting"})


#: A fact, and what took its place.
Pair = tuple[Expected, Expected]


class Shown(NamedTuple):
    """Of one session: the changed facts, those of them that stand below the fact that changes them, and the prompt."""

    changed: list[Pair]
    seen: list[Pair]
    facts: int
    candidates: int
    tokens: int


async def measure(resources: Resources) -> list[Shown]:
    """Each session that changes something."""
    facts, _ = expectations()
    by_id = {fact.id: fact for fact in facts}
    pairs = [(old, by_id[old.replaced_by]) for old in facts if old.replaced_by]
    found = [await _shown(resources, rows, facts, pairs) for rows in sessions()]
    return [shown for shown in found if shown.changed]


def summary(found: Sequence[Shown]) -> list[str]:
    """Return the figures in words, and the changed facts that were not shown."""
    changed = [pair for shown in found for pair in shown.changed]
    seen = [pair for shown in found for pair in shown.seen]
    facts = sum(shown.facts for shown in found)
    return [
        f"the changed fact is shown below the new one in {len(seen)} of {len(changed)} cases; "
        f"{sum(shown.candidates for shown in found) / facts:.1f} candidates a fact, "
        f"{sum(shown.tokens for shown in found) / len(found):.0f} tokens a call for {facts / len(found):.0f} facts",
        *(f"not shown: {old.statement}  ->  {new.statement}" for old, new in changed if (old, new) not in seen),
    ]


async def _shown(
    resources: Resources, rows: list[dict[str, Any]], facts: Sequence[Expected], pairs: Sequence[Pair]
) -> Shown:
    session, speakers = rows[0]["session"], list(dict.fromkeys(row["author"] for row in rows if row["role"] == "user"))
    changed = [(old, new) for old, new in pairs if new.session == session]
    taken_back = {old.id for old, _ in changed}
    gone = {old.id for old, new in pairs if new.session < session}
    earlier = {fact.id for fact in facts if fact.session < session} - gone
    known = {fact.id: _memory(fact) for fact in facts if fact.id in taken_back | earlier}
    told = [fact for fact in facts if fact.session == session and fact.id not in taken_back]
    batch = [_message(fact, speakers[0]) for fact in told]
    new = {
        fact.id: replace(_memory(fact), provenance="asserted", source_message_ids=(said.id,))
        for fact, said in zip(told, batch, strict=True)
    }
    who = Identity(
        agent_id=f"c-{uuid4().hex[:8]}",
        user_id=speakers[0],
        members=tuple(speakers),
        group_ids=(GROUP,),
        session_id=session,
    )
    await store(resources, who, list(known.values()))
    lease = Lease("formation", scope_key("session", session), uuid4())
    run = FormationRun(
        lease=lease, read_revision=0, overrides={}, extraction="sequential", batch=batch, facts=[*new.values()]
    )
    run = await find_similar(resources, who, run)
    near = run.candidates
    ids = {fact_id: {old.id for old in near.get(memory.id, ())} for fact_id, memory in new.items()}
    return Shown(
        changed=changed,
        seen=[(old, after) for old, after in changed if known[old.id].id in ids[after.id]],
        facts=len(new),
        candidates=sum(map(len, near.values())),
        tokens=count_tokens(decide_input(run.facts, near, {}).variables()["facts"]),
    )


async def store(resources: Resources, who: Identity, new: Sequence[NewMemory]) -> None:
    """Store facts as a formation would."""
    model, embedded = resources.embedder.name, await resources.embedder.embed([memory.search_text for memory in new])
    vectors = dict(zip([memory.id for memory in new], embedded, strict=True))

    async def act(tx: ScopedTransaction) -> None:
        await tx.begin_operation("formation")
        await scopes.ensure_agent(tx)
        await memories.insert(tx, new, model=model, vectors=vectors, run_id=None)

    await resources.database.write(who, act, also=list({memory.scope_key for memory in new}))


def _memory(fact: Expected) -> NewMemory:
    """Its subject is the name that the sentence begins with, else its owner's."""
    said_at = next(datetime.fromisoformat(rows[0]["time"]) for rows in sessions() if rows[0]["session"] == fact.session)
    first, owner = fact.statement.split()[0].removesuffix("'s"), split_scope_key(fact.scope_key)[1]
    subject = first if first[0].isupper() and first not in _NO_NAMES else owner.capitalize()
    made = new_memory("fact", _CATEGORIES[fact.kind], fact.scope_key, fact.statement, said_at, subject)
    return replace(made, importance=3, subject_user_id=owner if fact.scope_key.startswith("user:") else None)


def _message(fact: Expected, speaker: str) -> Message:
    """As if its owner had typed the sentence, or for a group's the first who speaks."""
    scope, owner = split_scope_key(fact.scope_key)
    author = owner if scope == "user" else speaker
    said_at = datetime.fromisoformat("2026-09-01T09:00:00Z")
    return Message(id=uuid4(), session_id=fact.session, role="user", author=author.capitalize(), user_id=author,
                   content=fact.statement, said_at=said_at)  # fmt: skip
