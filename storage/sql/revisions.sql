-- changes --
-- Return the head of the agent's history, the reader's last seen revision in this session, and the changes of visible
-- memories since, oldest first, with their successors. A single statement reads one snapshot: a later commit has a
-- higher revision than this head. A new reader gets no changes, unless the caller passes a revision.
with reader as (
    select h.revision as head, coalesce(%(since)s::bigint, t.seen_revision) as seen_revision, t.shown
      from heads h left join thread_revisions t
           on t.agent_id = h.agent_id and t.session_id = %(session_id)s and t.reader = %(reader)s
     where h.agent_id = %(agent_id)s
), change as (
    select c.* from reader
     cross join unnest(%(scope_keys)s::text[]) as k(scope_key)
     cross join lateral (
           select h.revision, h.event, h.memory_id, h.category,
                  m.state, m.importance, m.content, m.scope_key as key, m.kind, m.said, m.provenance, m.actor_id,
                  coalesce(m.superseded_by, m.consolidated_into, case when h.event = 'MERGE' and m.state = 'soft_deleted' then (
                      select r.from_id from relations r
                       where r.agent_id = %(agent_id)s and r.to_id = m.id and r.relation_type = 'merged_from'
                         and r.scope_key = any(%(scope_keys)s) and r.to_scope_key = any(%(scope_keys)s)
                       order by r.created_at desc limit 1) end) as successor
             from history h left join memories m on m.agent_id = h.agent_id and m.id = h.memory_id
            where h.agent_id = %(agent_id)s and h.scope_key = k.scope_key and h.revision > reader.seen_revision
              and h.event = any(%(events)s)
              -- A change of values leaves the text unchanged.
              and h.reason <> 'update_values'
              and (h.session_id is distinct from %(session_id)s or h.reason <> all(%(explicit)s))
              and (%(standing)s or m.kind not in ({context_kinds}))
            order by h.revision limit %(most)s) as c
     order by c.revision limit %(most)s
)
select reader.head, reader.seen_revision, c.revision, c.event, c.memory_id, c.category,
       c.state, c.importance::integer, left(c.content, %(longest)s) as beginning, c.successor,
       c.key, c.kind, shown_author(c.provenance, c.said, c.actor_id) as author,
       case when c.said <> c.content then left(c.said, %(longest)s + 1) end as said,
       s.state as successor_state, s.category as successor_category, s.importance::integer as successor_importance,
       left(s.content, %(longest)s) as successor_beginning,
       coalesce(s.superseded_by, s.consolidated_into) as successor_successor,
       s.scope_key as successor_key, s.kind as successor_kind,
       shown_author(s.provenance, s.said, s.actor_id) as successor_author,
       case when s.said <> s.content then left(s.said, %(longest)s + 1) end as successor_said,
       c.memory_id = any(reader.shown) as is_shown
  from reader
  left join change c on true
  left join memories s on s.agent_id = %(agent_id)s and s.scope_key = any(%(scope_keys)s) and s.id = c.successor
 order by c.revision;

-- advance --
-- Move the reader's seen revision forward, never backwards and never beyond the head: later changes would be skipped.
with head as (
    select coalesce(max(revision), 0) as revision from heads where agent_id = %(agent_id)s
), moved as (
    insert into thread_revisions as t (agent_id, session_id, reader, seen_revision, shown)
    select %(agent_id)s, %(session_id)s, %(reader)s, %(revision)s, %(shown)s from head where head.revision >= %(revision)s
    on conflict (agent_id, session_id, reader) do update
       set seen_revision = greatest(t.seen_revision, excluded.seen_revision),
           shown = array(select unnest(t.shown) union select unnest(excluded.shown))
     where t.seen_revision < excluded.seen_revision or not excluded.shown <@ t.shown
)
select revision from head;
