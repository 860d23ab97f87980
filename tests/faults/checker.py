"""Exactly once: what must hold of the database after any faults, once every job has been done."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

import psycopg

from tests.faults.jobs import Job, crates_in

#: Each statement returns what is wrong. `sessions` and `told` (messages each) are parallel; `crates` are the jobs'.
_WRONG: Mapping[str, LiteralString] = {
    "a message is lost or stored twice": """
        select t.session_id, t.told, count(m.id)
          from unnest(%(sessions)s::text[], %(told)s::integer[]) as t(session_id, told)
          left join mnemic.messages m using (session_id)
         group by t.session_id, t.told having count(m.id) <> t.told""",
    "a message is not formed": """
        select id from mnemic.messages where session_id = any(%(sessions)s) and formed_by is null""",
    "a message was formed by an operation that history does not know": """
        select m.id from mnemic.messages m
         where m.formed_by is not null
           and not exists (select from mnemic.history h where h.agent_id = m.agent_id and h.op_id = m.formed_by
                                                          and h.reason = 'formation')""",
    "a session was formed in several operations": """
        select session_id from mnemic.messages group by agent_id, session_id having count(distinct formed_by) > 1""",
    "what a session told is not stored exactly once": r"""
        select t.crate, kind, count(m.id)
          from unnest(%(crates)s::integer[]) as t(crate) cross join unnest(array['fact', 'reflection']) as kind
          left join mnemic.memories m using (kind) where true or m.id is null
         group by t.crate, kind having count(m.id) filter (where m.content ~ ('\mcrate ' || t.crate || '\M')) <> 1""",
    "a memory has no source, or one that another operation formed": """
        select m.id from mnemic.memories m
          left join mnemic.sources s on s.agent_id = m.agent_id and s.memory_id = m.id
          left join mnemic.messages g on g.agent_id = s.agent_id and g.id = s.message_id and g.content is not null
          left join mnemic.history h on h.agent_id = m.agent_id and h.memory_id = m.id and h.event = 'ADD'
         where m.kind in ('fact', 'reflection') and g.formed_by is distinct from h.op_id""",
    "a kept message cannot be found": """
        select m.id from mnemic.messages m
         where exists (select from mnemic.sources s where s.agent_id = m.agent_id and s.message_id = m.id)
           and not exists (select from mnemic.entries e where e.agent_id = m.agent_id and e.item_id = m.id)""",
    "a reflection was absorbed by what is not the living text of its scope": """
        select r.id from mnemic.memories r
          left join mnemic.memories c on c.agent_id = r.agent_id and c.id = r.consolidated_into
               and c.scope_key = r.scope_key and c.kind = 'consolidation' and c.state = 'active'
         where r.state = 'absorbed' and c.id is null""",
}
LOST_IN_TEXT = "a text does not hold just what it absorbed"
AUDIT = "the audit finds something"
#: Everything that is looked for.
CHECKS = frozenset([*_WRONG, LOST_IN_TEXT, AUDIT])
_ABSORBED = """
    select c.agent_id || '/' || c.scope_key, c.content, array_agg(r.content)
      from mnemic.memories c join mnemic.memories r on r.agent_id = c.agent_id and r.consolidated_into = c.id
     group by c.agent_id, c.id, c.scope_key, c.content"""


def check_exactly_once(superuser: psycopg.Connection, jobs: Sequence[Job]) -> None:
    """Every message formed once by one operation, every telling stored and absorbed once, history whole.

    It reads behind the policies, and looks at everything in the database, not at the jobs alone.
    """
    wrong = what_is_wrong(superuser, jobs)
    assert not wrong, wrong


def what_is_wrong(superuser: psycopg.Connection, jobs: Sequence[Job]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that should not be, by what is wrong with them."""
    values = {
        "sessions": [job.session for job in jobs],
        "told": [len(job.messages) for job in jobs],
        "crates": [job.number for job in jobs],
    }
    found = {name: superuser.execute(statement, values).fetchall() for name, statement in _WRONG.items()}
    found[LOST_IN_TEXT] = _lost_in_text(superuser)
    agents = superuser.execute("select agent_id from mnemic.heads").fetchall()
    found[AUDIT] = [problem for (agent,) in agents for problem in audit_problems(superuser, agent)]
    return {name: rows for name, rows in found.items() if rows}


def audit_problems(superuser: psycopg.Connection, agent: str) -> list[tuple[Any, ...]]:
    """What verification finds: of the chain, its contents, and today's memories, relations and entries."""
    superuser.execute("select set_config('mnemic.agent_id', %s, false)", (agent,))
    return superuser.execute("select * from mnemic.audit_problems()").fetchall()


def pending(superuser: psycopg.Connection) -> int:
    """Messages that nobody has formed yet."""
    return _count(superuser, "select count(*) from mnemic.messages where formed_by is null")


def unabsorbed(superuser: psycopg.Connection) -> int:
    """Reflections that no consolidation has taken in."""
    return _count(superuser, "select count(*) from mnemic.memories where kind = 'reflection' and state = 'active'")


def _lost_in_text(superuser: psycopg.Connection) -> list[tuple[Any, ...]]:
    rows = superuser.execute(_ABSORBED).fetchall()
    return [
        (key, different)
        for key, text, absorbed in rows
        if (different := crates_in(text) ^ {crate for content in absorbed for crate in crates_in(content)})
    ]


def _count(superuser: psycopg.Connection, statement: LiteralString) -> int:
    row = superuser.execute(statement).fetchone()
    assert row is not None
    return int(row[0])
