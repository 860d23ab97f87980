"""One operation with very many memories, stored set-wise behind the policies, for figures of what is done to them."""

import uuid

import psycopg

from tests.support.worlds import MODEL

#: Each memory rests on a message of its own and on the first of its ten, half of them lie beside another one.
_LOAD = """
insert into agents (agent_id) values (%(agent)s) on conflict do nothing;
insert into sessions (agent_id, session_id, last_activity_at) values (%(agent)s, 's1', now()) on conflict do nothing;
select open_operation(%(agent)s, %(op)s, 'importer', 'agent', 'formation', 's1', null, '{}');
create temporary table loaded on commit drop as
    select number, gen_random_uuid() as id, gen_random_uuid() as message_id,
           format('Ana noted item %%s, %%s, in her garden book.', number, md5(number::text)) as content
      from generate_series(1, %(many)s) as number;
create temporary table directions on commit drop as
    select place, array_agg(random() - 0.5)::halfvec as vec
      from generate_series(0, 99) as place, generate_series(1, %(dimensions)s) group by place;
insert into messages (agent_id, id, session_id, scope_key, place, role, author, user_id, content, said_at, formed_by)
select %(agent)s, message_id, 's1', 'user:ana', number, 'user', 'Ana', 'ana', content, now(), %(op)s from loaded;
insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance, valid_from,
                      source_session_id)
select %(agent)s, id, 'fact', 'user:ana', 'Ana', 'profile', content, 2, 'asserted', now(), 's1'
  from loaded order by number;
insert into sources (agent_id, memory_id, message_id, scope_key)
select %(agent)s, id, message_id, 'user:ana' from loaded
union
select %(agent)s, l.id, m.message_id, 'user:ana' from loaded l join loaded m on m.number = (l.number - 1) / 10 * 10 + 1;
insert into relations (agent_id, from_id, to_id, relation_type, strength, scope_key, to_scope_key)
select %(agent)s, l.id, n.id, 'related_to', 0.5, 'user:ana', 'user:ana'
  from loaded l join loaded n on n.number = l.number - 1 where l.number %% 2 = 0;
insert into entries (agent_id, scope_key, item_id, kind, category, model, vec, tsv)
select %(agent)s, 'user:ana', i.id, i.kind, 'profile', %(model)s, d.vec, to_tsvector('english', l.content)
  from loaded l join directions d on d.place = l.number %% 100
 cross join lateral (values (l.id, 'fact'), (l.message_id, 'message')) as i(id, kind)
"""


def load_operation(connection: psycopg.Connection, agent: str, many: int, *, dimensions: int = 384) -> uuid.UUID:
    """Ana's memories, with messages, sources, relations and entries; the operation's id."""
    op_id = uuid.uuid4()
    values = {"agent": agent, "op": op_id, "many": many, "model": MODEL, "dimensions": dimensions}
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("set local search_path = mnemic, public")
        for statement in _LOAD.split(";\n"):
            cursor.execute(statement, values)
    connection.execute("vacuum analyze")
    return op_id
