"""Eight writers, 480 reflections, consolidations all the time: none is lost, none goes in twice."""

import itertools
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import psycopg
import pytest

from mnemic.prompts.extraction import ExtractReflectionsOutput, ReflectionDraft
from mnemic.prompts.write_consolidation import WriteConsolidationOutput
from mnemic.service.memory import Mnemic
from mnemic.state.errors import ConcurrentChangeError
from mnemic.state.identity import Identity
from mnemic.storage import leases, memories
from tests.faults.chaos import deadlocks, storm, worsen
from tests.support.audited import assert_chain_is_whole
from tests.support.loopback import Request
from tests.support.scripted import (
    CONSOLIDATION,
    REFLECTIONS,
    consolidation,
    reflection,
    reflections,
    scripted_memory,
    scripted_model,
    turns,
)
from tests.support.server import Clone, see_deadlocks_quickly
from tests.support.worlds import AGENT, identity

pytestmark = pytest.mark.thorough

WRITERS = 8
#: Of six reflections each: 480 in all.
ROUNDS = 10
SCOPES = ("agent", "group", "user", "user", "session", "session")
#: One agent, two groups, four users, three sessions: ten scope keys for eight writers. A session has one group, for
#: who holds it forms everybody's messages there, for his own groups.
PEOPLE = [identity(f"u{n % 4}", groups=[f"g{n % 3 % 2}"], session=f"s{n % 3}") for n in range(WRITERS)]
#: Parts of statements, for the controls.
LEASES_OFF = ("where l.until <= clock_timestamp() or (l.holder is null and %(forced)s)", "")
VERSION_UNCHECKED = ("and version = %(version)s ", "")
STATE_UNCHECKED = ("and state = 'active'", "")
#: Seconds that one answer after the other takes.
_DELAYS = itertools.cycle((0.0, 0.02, 0.0, 0.3))
_LINE = re.compile(r"^(\d+) \[.*?: The crew of berth (k\d{4}) keeps to (\w+) rules\.", re.MULTILINE)
_TOKEN = re.compile(r"\bk\d{4}\b")


def reflect(request: Request) -> ExtractReflectionsOutput:
    """One reflection for every line of the conversation, of the scope that the line names."""
    drafts: dict[str, list[ReflectionDraft]] = {scope: [] for scope in SCOPES}
    for number, token, scope in _LINE.findall(request["messages"][-1]["content"]):
        drafts[scope].append(reflection(f"The crew of berth {token} keeps to {scope} rules.", int(number)))
    return reflections(agent=drafts["agent"], group=drafts["group"], user=drafts["user"], session=drafts["session"])


def compress(request: Request) -> WriteConsolidationOutput:
    """All that was shown, without repetition; some answers take so long that others come in between."""
    time.sleep(next(_DELAYS))
    shown = request["messages"][-1]["content"].partition("<present_text>")[2].partition("A draft that was refused")[0]
    return consolidation(", ".join(dict.fromkeys(_TOKEN.findall(shown))))


@asynccontextmanager
async def two_services(clone: Clone) -> AsyncIterator[list[Mnemic]]:
    """Two of them, as two processes would have: each with its own pool and model client."""
    with scripted_model() as model:
        model.answer(REFLECTIONS, reflect)
        model.answer(CONSOLIDATION, compress)
        thresholds = dict.fromkeys(("agent_threshold", "group_threshold", "user_threshold", "session_threshold"), 2)
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(
                    scripted_memory(clone, model, rag=False, embedder="hash", pool_size=3, **thresholds)
                )
                for _ in range(2)
            ]


@dataclass(frozen=True)
class Fate:
    """What became of the reflections."""

    #: Absorbed by a text that does not hold them, or gone altogether.
    lost: list[str]
    #: In a text twice, in two texts, absorbed and still living, or changed more often than once.
    doubled: list[str]
    waiting: int
    #: Living texts by scope key, and how often texts were written.
    texts: Counter[str]
    rewritten: int
    #: What the consolidations answered.
    outcomes: Counter[str]


async def write(clone: Clone, rounds: int = ROUNDS) -> Fate:
    """Every writer says his rounds and forms them, while others consolidate what he stored."""
    see_deadlocks_quickly(clone)
    numbers = itertools.count()
    outcomes: Counter[str] = Counter()
    async with two_services(clone) as services:

        async def speak(job: tuple[Mnemic, Identity]) -> None:
            memory, who = job
            for _ in range(rounds):
                said = [f"The crew of berth k{next(numbers):04} keeps to {scope} rules." for scope in SCOPES]
                await memory.observe(who, turns(*said, minutes=next(numbers)))
                with suppress(ConcurrentChangeError):  # another run of the same session was faster
                    for run in await memory.form(who):
                        outcomes.update(result["outcome"] for result in run["consolidations"])
                outcomes[(await memory.consolidate(who, who.scope_keys[next(numbers) % 4], force=True))["outcome"]] += 1

        await storm([(services[n % 2], who) for n, who in enumerate(PEOPLE)], speak, workers=WRITERS)
        for who in PEOPLE[:3]:  # what came while another run held the session
            await services[0].form(who)
    with clone.as_superuser() as connection:
        assert_chain_is_whole(connection, AGENT)
        return fate(connection, WRITERS * rounds * len(SCOPES), outcomes)


def fate(superuser: psycopg.Connection, told: int, outcomes: Counter[str]) -> Fate:
    """Looks at every reflection from behind the policies."""
    rows = superuser.execute(
        "select m.content, m.scope_key, m.state, c.content, c.scope_key,"
        "       array(select event from mnemic.history h where h.memory_id = m.id order by seq)"
        "  from mnemic.memories m left join mnemic.memories c on c.id = m.consolidated_into and c.state = 'active'"
        " where m.kind = 'reflection'"
    ).fetchall()
    texts = superuser.execute(
        "select scope_key, content, version from mnemic.memories where kind = 'consolidation' and state = 'active'"
    ).fetchall()
    written = Counter(token for _, content, _ in texts for token in _TOKEN.findall(content))
    stored = Counter(token for content, *_ in rows for token in _TOKEN.findall(content))
    lost, doubled = [], [token for token, count in (written | stored).items() if count > 1]
    for content, key, state, text, text_key, events in rows:
        (token,) = _TOKEN.findall(content)
        if state == "active":
            doubled += [token] if written[token] or events != ["ADD"] else []
        else:
            lost += [token] if text is None or text_key != key or token not in text else []
            doubled += [token] if events != ["ADD", "ABSORB"] else []
    return Fate(
        lost=lost + ["never stored"] * (told - len(stored)),
        doubled=doubled,
        waiting=sum(row[2] == "active" for row in rows),
        texts=Counter(key for key, _, _ in texts),
        rewritten=sum(version for _, _, version in texts),
        outcomes=outcomes,
    )


def assert_none_lost_none_twice(done: Fate) -> None:
    assert (done.lost, done.doubled) == ([], [])
    assert len(done.texts) == 10
    assert set(done.texts.values()) == {1}


async def test_480_reflections_are_each_absorbed_once_or_wait(fresh_db: Clone) -> None:
    done = await write(fresh_db)

    assert_none_lost_none_twice(done)
    assert done.waiting < 48
    assert done.rewritten > 50
    assert deadlocks(fresh_db) == 0
    assert done.outcomes["busy"] > 0


async def test_control_without_the_guards_of_the_statements_reflections_are_lost_and_doubled(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    worsen(monkeypatch, leases, claim=LEASES_OFF)
    worsen(monkeypatch, memories, rewrite_consolidation=VERSION_UNCHECKED, absorb=STATE_UNCHECKED)
    done = await write(fresh_db, rounds=8)

    assert done.lost
    assert done.doubled
