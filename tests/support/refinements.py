"""Refinements: as the service's own role stores them, and as a scripted agent plays them, call by call."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg

from mnemic.service.memory import Mnemic
from mnemic.state.graphs import Lease
from mnemic.state.identity import Identity
from mnemic.state.records import NewMemory
from mnemic.state.results import RefinementResult
from mnemic.state.settings import Settings
from mnemic.storage import leases, refinements
from mnemic.storage.database import Database
from mnemic.storage.refinements import Claim
from mnemic.storage.transaction import ScopedTransaction
from tests.support.loopback import LoopbackModel, Request, calling, offering
from tests.support.worlds import MORNING, identity, memory, remember

Act = Callable[[ScopedTransaction], Awaitable[object]]


def new(key: str = "user:ana") -> Claim:
    """One that nobody has begun."""
    return Claim(uuid4(), Lease("refinement", key, uuid4()))


async def begun(db: Database, who: Identity, key: str = "user:ana", *, seconds: int = 60) -> Claim:
    """One that runs, held for so long."""
    claim = new(key)
    async with db.transaction(who, only=key) as tx:
        await tx.begin_operation("refinement")
        await take_up(tx, claim, seconds=seconds)
        await refinements.begin(tx, claim, await refinements.read_ledger(tx), target=10)
    return claim


async def take_up(tx: ScopedTransaction, claim: Claim, *, seconds: int = 60) -> bool:
    """Takes the lease of its scope key, where nobody holds it."""
    return await leases.claim(tx, claim.lease, Settings(lease_seconds=seconds), forced=True) is not None


async def taken_over(db: Database, who: Identity, claim: Claim) -> Claim:
    """The same session as another run resumes it; who had it cannot take it back."""
    resumed = claim._replace(lease=claim.lease._replace(holder=uuid4()))
    async with db.transaction(who, only=claim.lease.scope_key) as tx:
        assert await take_up(tx, resumed)
        assert not await take_up(tx, claim)
    return resumed


async def within(db: Database, who: Identity, claim: Claim, *acts: Act, reason: str = "update") -> None:
    """One operation of it."""
    async with db.transaction(who, only=claim.lease.scope_key) as tx:
        await refinements.begin_operation(tx, claim, reason)
        for act in acts:
            await act(tx)


async def ended(db: Database, who: Identity, claim: Claim) -> None:
    """It is over."""
    async with db.transaction(who, only=claim.lease.scope_key) as tx:
        await refinements.begin_operation(tx, claim, "refinement")
        await refinements.finish(tx, claim, "completed", await refinements.read_ledger(tx), {}, None)


def in_a_session(
    key: str, act: Act, *, before: Callable[[ScopedTransaction, Claim], Awaitable[object]] | None = None
) -> Act:
    """The act inside one that begins and ends in the same transaction, after what is to be done with it before."""

    async def acts(tx: ScopedTransaction) -> None:
        claim = new(key)
        await take_up(tx, claim)
        await refinements.begin(tx, claim, [], target=1)
        await refinements.begin_operation(tx, claim, "update")
        if before:
            await before(tx, claim)
        await act(tx)
        await refinements.finish(tx, claim, "completed", [], {}, None)

    return acts


ANA = identity("ana")
KEY = "user:ana"
Call = tuple[str, dict[str, Any]]

SHORT, ENGLISH = "Ana always wants short answers.", "Ana wants answers in English."
OSLO = "Ana sails from Oslo on 9 May 2026."
BOTH = "Ana always wants short answers in English."
#: What every answer of a call that was done ends with.
USAGE = re.compile(r"Now [\d,]+ tokens in \d+ memories; target [\d,]+\.$")
DONE: Call = ("complete_refinement", {"summary": "Said in fewer words."})


def merge(*numbers: int, into: str = BOTH) -> Call:
    return "consolidate_memories", {"ids_to_merge": list(numbers), "new_content": into}


def update(number: int, content: str) -> Call:
    return "update_memory", {"id": number, "content": content}


def delete(number: int) -> Call:
    return "delete_memory", {"id": number}


def protect(number: int) -> Call:
    return "protect_memory", {"id": number}


def search(**given: Any) -> Call:
    return "search_memories", given


def complete(summary: str) -> Call:
    return "complete_refinement", {"summary": summary}


def drafts(*new: NewMemory | str) -> list[NewMemory]:
    """Core memories of Ana that began to hold one day after the other; so the first has the number 1."""
    made = [memory(item, kind="core") if isinstance(item, str) else item for item in new]
    return [replace(item, valid_from=MORNING + timedelta(days=place)) for place, item in enumerate(made)]


async def keep(service: Mnemic, *new: NewMemory | str, who: Identity = ANA, key: str = KEY) -> list[NewMemory]:
    """Stores them as a scope key's core memory."""
    made = [replace(item, scope_key=key) for item in drafts(*new)]
    await remember(service.resources.database, who, *made)
    return made


def script(model: LoopbackModel, *turns: Call | str) -> None:
    """Has the agent make one call a turn, or say something."""
    said = [calling(text=turn) if isinstance(turn, str) else calling(turn) for turn in turns]
    model.answer(offering("complete_refinement"), *said)


async def play(
    service: Mnemic, model: LoopbackModel, *calls: Call, who: Identity = ANA, key: str = KEY, ends: bool = True
) -> tuple[list[str], RefinementResult]:
    """A session whose agent makes one call a turn and then ends it: what each call was answered, and the outcome."""
    model.chat_requests.clear()
    script(model, *calls, DONE if ends else "That is all.")
    result = await service.refine(who, key, force=True)
    return answers(model.chat_requests[-1])[: len(calls)], result


async def refined(
    service: Mnemic, model: LoopbackModel, *texts: str, into: str, protects: bool = False
) -> RefinementResult:
    """Core memories of Ana's that become one, which is protected if so told."""
    await keep(service, *texts)
    calls = [merge(*range(1, len(texts) + 1), into=into)] + ([protect(len(texts) + 1)] if protects else [])
    _, result = await play(service, model, *calls)
    return result


def answers(request: Request) -> list[str]:
    """What the calls of earlier turns were answered, as the model sees it."""
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


def shown(request: Request) -> str:
    """The prompt."""
    return str(request["messages"][0]["content"])


async def living(service: Mnemic, *kinds: Any, who: Identity = ANA) -> list[str]:
    """What is left, in alphabetical order."""
    return sorted(item.content for item in await service.memories(who, list(kinds) or ["core"]))


def newest(superuser: psycopg.Connection, content: str) -> UUID:
    """The memory that says this."""
    row = superuser.execute(
        "select id from mnemic.memories where content = %s order by created_at desc", (content,)
    ).fetchone()
    assert row
    memory_id: UUID = row[0]
    return memory_id


def set_protected(superuser: psycopg.Connection, *given: NewMemory) -> None:
    """As an administrator does."""
    for item in given:
        superuser.execute("select mnemic.set_protection('harbor', %s, true, 'admin')", (item.id,))
