"""The statements of `by_hand`."""

from typing import Final, LiteralString

SCOPE: Final[LiteralString] = """
select set_config('statement_timeout', '30s', true), set_config('lock_timeout', '1s', true),
       set_config('idle_in_transaction_session_timeout', '5s', true), set_config('timezone', 'UTC', true),
       set_config('mnemic.agent_id', %(agent_id)s, true),
       set_config('mnemic.scope_keys', %(scope_keys)s::text[]::text, true),
       set_config('mnemic.categories', coalesce(%(allowed)s::text[]::text, ''), true)"""

# Weighted fusion of two exact scans of the scope, 100 candidates each, as the product does by default; a candidate that
# one branch did not bring has no score there.
SEARCH: Final[LiteralString] = """
with question as materialized (
    select string_agg(quote_literal(word), ' | ')::tsquery as words
      from unnest(tsvector_to_array(to_tsvector('english', %(question)s))) as word
), semantic as (
    select item_id, 1 - (vec <=> %(vector)b::halfvec) as score from entries
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = %(model)s and searchable
     order by vec <=> %(vector)b::halfvec limit 100
), textual as (
    select item_id, ts_rank(tsv, words) as score from entries, question
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and searchable and tsv @@ words
     order by 2 desc limit 100
), fused as (
    select item_id, 0.6 * coalesce(s.score / max(s.score) over (), 0)
                  + 0.4 * coalesce(t.score / max(t.score) over (), 0) as score
      from semantic s full join textual t using (item_id)
     order by 2 desc limit 10
)
select m.id, m.kind, m.scope_key, m.category, m.subject, m.content, m.valid_from, m.importance, f.score
  from fused f join memories m on m.agent_id = %(agent_id)s and m.id = f.item_id
 order by f.score desc"""

OBSERVE: Final[LiteralString] = """
with session as (
    insert into sessions (agent_id, session_id, message_count, last_activity_at)
    values (%(agent_id)s, %(session)s, cardinality(%(ids)s::uuid[]), clock_timestamp())
)
insert into messages (agent_id, id, session_id, scope_key, place, role, author, user_id, content, said_at)
select %(agent_id)s, m.id, %(session)s, case m.role when 'user' then %(owner)s else 'session:' || %(session)s end,
       m.place, m.role, 'Ana', case m.role when 'user' then split_part(%(owner)s, ':', 2) end, m.content,
       clock_timestamp()
  from unnest(%(ids)s::uuid[], %(roles)s::text[], %(texts)s::text[]) with ordinality as m(id, role, content, place)
on conflict do nothing"""

SIMILAR: Final[LiteralString] = """
select n.place, m.id, m.version, m.content, 1 - e.distance as similarity
  from unnest(%(vectors)b::halfvec[]) with ordinality as n(vec, place)
 cross join lateral (
       select item_id, vec <=> n.vec as distance from entries
        where agent_id = %(agent_id)s and scope_key = %(owner)s and model = %(model)s and searchable and kind = 'fact'
        order by distance limit 5) as e
  join memories m on m.agent_id = %(agent_id)s and m.id = e.item_id"""

BEGIN_OPERATION: Final[LiteralString] = "select begin_operation(%(op_id)s, 'ana', 'formation', %(session)s, null, '{}')"

_STORE: Final[LiteralString] = """
with given as (
    select * from unnest(%(ids)s::uuid[], %(texts)s::text[], %(search_texts)s::text[], %(categories)s::text[],
                         %(vectors)b::halfvec[]) as g(id, content, search_text, category, vec)
), stored as (
    insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance,
                          provenance, valid_from)
    select %(agent_id)s, id, 'fact', %(owner)s, 'Ana', category, content, 3, 'asserted', clock_timestamp()
      from given
    on conflict do nothing
    returning id
), indexed as (
    insert into entries (agent_id, scope_key, item_id, kind, category, model, vec, tsv)
    select %(agent_id)s, %(owner)s, id, 'fact', category, %(model)s, vec, to_tsvector('english', search_text)
      from given join stored using (id)
)"""

INSERT: Final[LiteralString] = _STORE + "select count(*) from stored"  # noqa: S608 - two constants

# What the facts come from stays searchable, the other messages lose their content.
FORM: Final[LiteralString] = (
    _STORE  # noqa: S608 - two constants
    + """, settled as (
    update messages set formed_by = %(op_id)s, content = case when id = any(%(cited)s) then content end
     where agent_id = %(agent_id)s and id = any(%(messages)s) and formed_by is null
    returning id, scope_key, content
), sourced as (
    insert into sources (agent_id, memory_id, message_id, scope_key)
    select %(agent_id)s, p.memory_id, p.message_id, %(owner)s
      from unnest(%(ids)s::uuid[], %(cited)s::uuid[]) as p(memory_id, message_id) join stored s on s.id = p.memory_id
), kept as (
    insert into entries (agent_id, scope_key, item_id, kind, category, model, vec, tsv)
    select %(agent_id)s, m.scope_key, m.id, 'message', 'message', %(model)s, c.vec, to_tsvector('english', m.content)
      from unnest(%(cited)s::uuid[], %(cited_vectors)b::halfvec[]) as c(id, vec) join settled m using (id)
)
select count(*) from settled"""
)

USE: Final[LiteralString] = """
insert into memory_use (agent_id, memory_id, scope_key, access_count, last_accessed_at)
select %(agent_id)s, id, %(owner)s, 1, clock_timestamp() from unnest(%(ids)s::uuid[]) as id order by id
on conflict (agent_id, memory_id) do update
   set access_count = memory_use.access_count + 1, last_accessed_at = excluded.last_accessed_at"""
