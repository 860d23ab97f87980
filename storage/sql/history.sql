-- read_memory_history --
-- Return the history of one memory, with its contents if they still exist. The first row lists the memories merged into
-- it, and the row of a merge names the merged memory, as long as the relation exists and the other end is readable.
select h.revision, h.op_id, h.event, h.memory_id, h.scope_key, h.actor, h.reason, h.ts,
       case when is_personal(h.scope_key) or h.actor = %(reader_id)s then h.session_id end as session_id,
       array(select jsonb_array_elements_text(h.meta -> 'submitted_by')) as submitted_by,
       c.before ->> 'content' as before, c.after ->> 'content' as after,
       case when h.reason = 'update_values' then (
           select coalesce(jsonb_object_agg(v.key, jsonb_build_array(c.before -> v.key, v.value)), '{}')
             from jsonb_each(c.after) as v(key, value)
            where v.key in ('pinned', 'tags', 'importance', 'valid_until') and v.value is distinct from c.before -> v.key)
           else '{}' end as changes,
       case when h.revision = min(h.revision) over () then array(
           select m.id from relations r join memories m on m.agent_id = r.agent_id and m.id = r.to_id
            where r.agent_id = %(agent_id)s and r.from_id = %(memory_id)s and r.relation_type in ({merge_relations})
              and r.scope_key = any(%(scope_keys)s) and r.to_scope_key = any(%(scope_keys)s)
            order by m.valid_from, m.id) else '{}' end as merged_from,
       case when h.revision = max(h.revision) filter (where h.event in ('MERGE', 'DEDUP')) over () then (
           select m.id from relations r join memories m on m.agent_id = r.agent_id and m.id = r.from_id
            where r.agent_id = %(agent_id)s and r.to_id = %(memory_id)s and r.relation_type in ({merge_relations})
              and r.scope_key = any(%(scope_keys)s) and r.to_scope_key = any(%(scope_keys)s)
            order by r.created_at desc limit 1) end as merged_into,
       case when h.revision = min(h.revision) over () then array(
           select m.id from memories m
            where m.agent_id = %(agent_id)s and m.superseded_by = %(memory_id)s and m.scope_key = any(%(scope_keys)s)
            order by m.valid_from, m.id) else '{}' end as supersedes,
       case when h.revision = max(h.revision) filter (where h.event = 'SUPERSEDE') over () then (
           select s.id from memories m join memories s on s.agent_id = m.agent_id and s.id = m.superseded_by
            where m.agent_id = %(agent_id)s and m.id = %(memory_id)s and m.scope_key = any(%(scope_keys)s)
              and s.scope_key = any(%(scope_keys)s)) end as superseded_by
  from history h left join history_contents c on c.agent_id = h.agent_id and c.revision = h.revision
 where h.agent_id = %(agent_id)s and h.scope_key = any(%(scope_keys)s) and h.memory_id = %(memory_id)s
   and h.event <> 'LINK'
 order by h.revision;

-- count_today --
-- Count operations for these reasons since midnight (UTC, the database's clock): of a session, or of an actor without
-- one. Rows of relations do not count.
select count(distinct op_id) from history
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and reason = any(%(reasons)s) and event <> 'LINK'
   and session_id is not distinct from %(session_id)s and (session_id is not null or actor = %(actor)s)
   and ts >= date_trunc('day', clock_timestamp(), 'UTC');

-- read_head --
-- Return the newest row of the agent's history; its hash is public.
select revision, hash from heads where agent_id = %(agent_id)s and revision > 0;

-- read_hashes --
-- Return the hashes of these rows of the agent's history, as administrator.
select revision, hash from history where agent_id = %(agent_id)s and revision = any(%(revisions)s);

-- read_export_rows --
-- Return rows of the chain for a person's export, with the contents of the person's own scope keys.
select l.revision, encode(l.prev, 'hex') as prev, encode(l.hash, 'hex') as hash,
       case when h.revision is not null then history_text(h) end as text,
       encode(c.salt, 'hex') as salt, c.before::text as before, c.after::text as after
  from chain_links(%(after)s, %(last)s) as l
  left join history h on h.agent_id = %(agent_id)s and h.scope_key = any(%(scope_keys)s) and h.scope_key = any(%(own)s)
                     and h.revision = l.revision
  left join history_contents c on c.agent_id = h.agent_id and c.revision = h.revision
 order by l.revision;

-- list_operations --
-- Return operations on the visible scope keys, newest first. The rows of an operation and the steps of a rollback are
-- one row.
select coalesce((h.meta ->> 'rollback')::uuid, h.op_id) as id, min(h.revision) as first_revision, max(h.revision) as last_revision,
       max(h.ts) as ts, min(h.actor) as actor, min(h.actor_kind) as actor_kind, min(h.reason) as reason,
       min(h.session_id) as session_id, coalesce((array_agg(h.meta -> 'submitted_by'))[1], '[]') as submitted_by,
       (array_agg(h.undo_of))[1] as undo_of, sum(h.token_delta)::integer as token_delta,
       coalesce(array_agg(distinct h.scope_key) filter (where h.scope_key is not null), '{}') as scope_keys,
       (select jsonb_object_agg(event, many)
          from (select event, count(*) as many from unnest(array_agg(h.event)) as event group by event) as e) as events,
       coalesce(min((h.meta ->> 'left')::integer), 0) as left
  from history h
 where h.agent_id = %(agent_id)s and (%(keys)s::text[] is null or h.scope_key = any(%(keys)s))
   and (%(session_id)s::text is null or h.session_id = %(session_id)s)
 group by 1
having %(since)s::timestamptz is null or max(h.ts) >= %(since)s
 order by max(h.revision) desc limit %(most)s;

-- find_operation_ids --
-- Return operations of agents in a session since a time, or of a refinement or maintenance run. Rollbacks belong to no
-- conversation, and a purge cannot be undone.
select distinct h.op_id from history h
 where h.agent_id = %(agent_id)s and (%(keys)s::text[] is null or h.scope_key = any(%(keys)s))
   and (h.refinement_id = %(refinement_id)s
        or h.run_id = %(run_id)s::text and h.session_id is null and h.reason <> 'retention'
        or h.session_id = %(session_id)s and h.ts >= %(since)s and h.actor_kind = 'agent')
   and (h.event = 'LINK' or changes_memory(h));

-- revision_at --
-- Return the last row of a scope key's history up to a time, never within an operation.
select coalesce(max(h.revision), 0) from history h
 where h.agent_id = %(agent_id)s and h.scope_key = %(key)s and h.ts <= %(moment)s
   and coalesce(h.meta ->> 'rollback', h.op_id::text) not in (
       select coalesce(l.meta ->> 'rollback', l.op_id::text) from history l
        where l.agent_id = %(agent_id)s and l.scope_key = %(key)s and l.ts > %(moment)s offset 0);

-- is_within_operation --
-- Return whether an operation on a scope key, or a rollback, has rows on both sides of a revision.
select exists (
    select from (select op_id, meta from history
                  where agent_id = %(agent_id)s and scope_key = %(key)s and revision <= %(revision)s order by revision desc limit 1) as p
      join history l on l.agent_id = %(agent_id)s and l.scope_key = %(key)s and l.revision > %(revision)s
       and (l.op_id = p.op_id or l.meta ->> 'rollback' = p.meta ->> 'rollback'));

-- as_of --
-- Return the memories of a scope key at a revision. A memory erased since is its remaining row; memories erased before
-- are left out.
select {memory}
  from (select distinct on (h.memory_id) c.after ->> 'state' as state_then, (jsonb_populate_record(m, c.after)).*
          from history h
          join memories m on m.agent_id = h.agent_id and m.id = h.memory_id
          left join history_contents c on c.agent_id = h.agent_id and c.revision = h.revision
         where h.agent_id = %(agent_id)s and h.scope_key = any(%(scope_keys)s) and h.scope_key = %(key)s
           and h.revision <= %(revision)s and changes_memory(h) and (c.after is not null or m.state = 'purged')
         order by h.memory_id, h.revision desc) as past
 where past.state_then is distinct from 'purged' and (past.state in ('active', 'purged') or %(with_closed)s)
 order by past.valid_from desc, past.id;
