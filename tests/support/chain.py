"""Whether an agent's history is whole, looked at from outside."""

import psycopg

#: Rows that do not fit: a gap, another predecessor, a hash that is not the row's, contents that are not the digests'.
BROKEN_LINKS = """
select h.seq from mnemic.history h
  join mnemic.history_contents c using (agent_id, seq)
  left join mnemic.history p on p.agent_id = h.agent_id and p.seq = h.seq - 1
 where h.agent_id = %(agent)s
   and (h.hash <> mnemic.history_hash(h)
        or h.prev <> coalesce(p.hash, sha256(convert_to(h.agent_id, 'UTF8')))
        or (p.seq is null and h.seq <> 1)
        or h.before_digest is distinct from sha256(c.salt || convert_to(c.before::text, 'UTF8'))
           and h.event not in ('PURGE', 'ERASE')
        or h.after_digest is distinct from sha256(c.salt || convert_to(c.after::text, 'UTF8')))
"""
HEAD = """
select d.seq = max(h.seq) and d.hash = (array_agg(h.hash order by h.seq desc))[1]
  from mnemic.heads d join mnemic.history h using (agent_id) where agent_id = %(agent)s group by d.seq, d.hash
"""


def assert_chain_is_whole(superuser: psycopg.Connection, agent: str) -> None:
    """Gapless from 1 on, every hash its row's own and its successor's `prev`, the head the newest row's."""
    with superuser.transaction():
        superuser.execute("set local search_path = mnemic")
        assert superuser.execute(BROKEN_LINKS, {"agent": agent}).fetchall() == []
        assert superuser.execute(HEAD, {"agent": agent}).fetchone() == (True,)
