"""A core memory that a refinement has something of everything to do with, and a model that does it and words it anew.

Each memory speaks of crates, so that what is left of them can be counted, whatever their words.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, LiteralString

import psycopg

from mnemic.state.kinds import Kind
from mnemic.storage import inbox, memories
from mnemic.storage.database import Database
from tests.faults.checker import audit_problems
from tests.faults.jobs import crates_in, word
from tests.faults.strikes import REFINE, Command
from tests.support.loopback import LoopbackModel, Request, calling, offering
from tests.support.refinements import Call, complete, delete, merge, protect, update
from tests.support.server import Clone
from tests.support.worlds import AGENT, MORNING, identity, memory, message

ANA = identity("ana", session="s1")
KEY = "user:ana"
REFINING = Command("refine", (ANA, KEY))
#: What there is to do: two merges, an update that is embedded, a deletion, a protection, a duplicate.
_CORE: tuple[tuple[Kind, str], ...] = (
    ("core", "Ana stores crate 11 in the hall named alpha, all the year long."),
    ("core", "Ana stores crate 12 in the hall named alpha, all the year long."),
    ("reflection", "Ana stores crate 21 in the hall named beta, all the year long."),
    ("reflection", "Ana stores crate 22 in the hall named beta, all the year long."),
    ("core", "Ana stores crate 23 in the hall named beta, all the year long."),
    ("reflection", "Ana says at great length that crate 31 is heavy, and says so again at great length."),
    ("core", "Ana kept the obsolete crate 41 once."),
    ("core", "A promise to Ana: crate 51 stays shut."),
    ("core", "Ana counts crate 61."),
    ("core", "Ana counts  crate 61."),
)
#: The crates of each memory that is left.
LEFT = [{11, 12}, {21, 22, 23}, {31}, {51}, {61}]
#: What happens once, whatever else happens, in memories.
DONE = {"DEDUP": 1, "MERGE": 5, "UPDATE": 1, "DELETE": 1, "PROTECT": 1}
_LINE = re.compile(r"^\[(\d+)\] ([^:]*): (.*)$", re.MULTILINE)


async def settle_in(database: Database) -> None:
    """Stores the core memory, each with the message that it rests on."""
    said = [message(f"I say it of {place}.", said_at=MORNING + timedelta(minutes=place)) for place in range(len(_CORE))]
    new = [
        replace(memory(text, kind=kind, sources=[item]), valid_from=MORNING + timedelta(days=place))
        for place, ((kind, text), item) in enumerate(zip(_CORE, said, strict=True))
    ]
    async with database.transaction(ANA) as tx:
        await inbox.observe(tx, "s1", said)
        await tx.begin_operation("formation")
        await memories.insert(tx, new, model="", vectors={}, run_id=None)


def script_refinement(model: LoopbackModel) -> None:
    """Merges and updates in the first turn; deletes, protects and completes in the second; of what is left to do."""
    words = map(word, itertools.count(1))

    def turn(request: Request) -> dict[str, Any]:
        first, second = _merging(request, words), _ending(request, words)
        is_first = not any(sent["role"] == "assistant" for sent in request["messages"])
        return calling(*(first if is_first and first else second))

    model.answer(offering(REFINE), turn)


def shown(request: Request) -> list[tuple[int, str, str]]:
    """The ledger as the model reads it: number, marks and text of each memory."""
    prompt = str(request["messages"][0]["content"])
    ledger = prompt.split("<ledger>", maxsplit=2)[1].split("</ledger>", maxsplit=1)[0]
    return [(int(number), marks, text) for number, marks, text in _LINE.findall(ledger)]


def _merging(request: Request, words: Iterator[str]) -> list[Call]:
    calls: list[Call] = []
    for hall in ("alpha", "beta"):
        alike = {number: text for number, _, text in shown(request) if hall in text}
        crates = ", ".join(map(str, sorted({crate for text in alike.values() for crate in crates_in(text)})))
        if len(alike) > 1:
            calls.append(merge(*alike, into=f"Ana stores crates {crates} in hall {hall}, {next(words)}."))
    long = [number for number, _, text in shown(request) if "at great length" in text]
    return calls + [update(number, f"Ana says crate 31 is heavy, {next(words)}.") for number in long]


def _ending(request: Request, words: Iterator[str]) -> list[Call]:
    calls: list[Call] = [delete(number) for number, _, text in shown(request) if "obsolete" in text]
    for number, marks, text in shown(request):
        if "promise" in text and "protected" not in marks:
            calls.append(protect(number))
    return [*calls, complete(f"Put halls together, {next(words)}.")]


# -- exactly once

#: Each statement returns what is wrong.
_WRONG: Mapping[str, LiteralString] = {
    "a session has not ended with a reason": "select id from mnemic.refinements where ended is null",
    "a session is not told by a row for its beginning and one for its end": """
        select r.id from mnemic.refinements r
          left join mnemic.history h on h.agent_id = r.agent_id and h.refinement_id = r.id and h.event = 'SESSION'
         group by r.agent_id, r.id having count(h.revision) <> 2""",
    "a session's figures are not those of the history": """
        select r.id from mnemic.refinements r
          left join mnemic.history h on h.agent_id = r.agent_id and h.refinement_id = r.id
         group by r.agent_id, r.id
        having (r.duplicates, r.merged, r.updated, r.deleted, r.protected)
               is distinct from (count(*) filter (where h.event = 'DEDUP'), count(*) filter (where h.event = 'MERGE'),
                                 count(*) filter (where h.event = 'UPDATE'), count(*) filter (where h.event = 'DELETE'),
                                 count(*) filter (where h.event = 'PROTECT'))
            or r.removed <> count(*) filter (where h.event = 'DELETE')""",
    "a session that changed something has not one journal, or another one has": """
        select r.id, m.id from mnemic.refinements r
          full join (select * from mnemic.memories where kind = 'journal') as m
               on m.agent_id = r.agent_id and m.id = r.journal_id and m.scope_key = r.scope_key
         where r.id is null
            or (m.id is null) <> (r.duplicates + r.merged + r.updated + r.deleted + r.protected = 0)""",
    "a merge is not one operation with all that belongs to it": """
        select h.op_id from mnemic.history h where h.reason = 'merge'
         group by h.op_id
        having count(*) filter (where h.event = 'ADD') <> 1 or count(*) filter (where h.event = 'MERGE') < 2
            or count(*) filter (where h.event = 'LINK') <> count(*) filter (where h.event = 'MERGE')
            or count(*) filter (where h.event = 'MERGE' and not exists (
                   select from mnemic.relations l where l.to_id = h.memory_id and l.relation_type = 'merged_from')) > 0
            or bool_or(h.refinement_id is null)""",
    "a memory is indexed by words that it does not say": """
        select m.id from mnemic.memories m join mnemic.entries e on e.agent_id = m.agent_id and e.item_id = m.id
         where m.kind = 'reflection' and m.content like '%crate 31 is heavy%' and m.content not like '%length%'
           and (e.tsv <> to_tsvector('english', mnemic.indexed_text(m)) or e.vec is null)""",
    "the last session's outcome is not what there is": """
        select r.id from mnemic.refinements r
         cross join (select sum(tokens) as tokens, count(*) as memories from mnemic.memories
                      where state = 'active' and kind in ('core', 'reflection', 'consolidation')) as now
         where (r.tokens_after, r.memories_after) is distinct from (now.tokens, now.memories)
           and r.ended_at = (select max(ended_at) from mnemic.refinements)""",
}


def check_refined_once(clone: Clone) -> None:
    """Everything done, once, in sessions that have ended, with the right figures, and the audit finds nothing."""
    wrong = what_is_wrong(clone)
    assert not wrong, wrong


def what_is_wrong(clone: Clone) -> dict[str, Any]:
    """What should not be, by what is wrong with it."""
    with clone.as_superuser() as superuser:
        found: dict[str, Any] = {name: superuser.execute(statement).fetchall() for name, statement in _WRONG.items()}
        texts = superuser.execute(
            "select content from mnemic.memories where state = 'active' and kind in ('core', 'reflection')"
        ).fetchall()
        left, done = sorted((crates_in(text) for (text,) in texts), key=sorted), happened(superuser)
        found["the audit finds something"] = audit_problems(superuser, AGENT)
    found["crates are lost, or told twice"] = left if left != LEFT else None
    found["something was not done once"] = done if done != DONE else None
    return {name: rows for name, rows in found.items() if rows}


def happened(superuser: psycopg.Connection) -> Mapping[str, int]:
    """How many memories refinements have dealt with, by what it did."""
    rows = superuser.execute("select event from mnemic.history where reason <> 'formation' and memory_id is not null")
    return Counter(event for (event,) in rows if event in DONE)


def all_ended(superuser: psycopg.Connection) -> bool:
    """Whether there was a session, and none is left to be resumed."""
    row = superuser.execute("select count(*) > 0 and bool_and(ended is not null) from mnemic.refinements").fetchone()
    return row == (True,)
