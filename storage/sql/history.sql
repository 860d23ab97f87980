-- of_memory --
-- Everything that happened to one memory, with its contents where they still exist. Of its relations: what was merged into it
-- stands with its first row, and what it was merged into with the row that says so; each as long as the relation is there
-- and the other end can be read.
select h.seq, h.op_id, h.event, h.memory_id, h.scope_key, h.actor, h.reason, h.session_id, h.ts,
       array(select jsonb_array_elements_text(h.meta -> 'brought_by')) as brought_by,
       c.before ->> 'content' as before, c.after ->> 'content' as after,
       case when h.seq = min(h.seq) over () then array(
           select m.id from relations r join memories m on m.agent_id = r.agent_id and m.id = r.to_id
            where r.agent_id = %(agent_id)s and r.from_id = %(memory_id)s and r.relation_type in ('merged_from', 'same_as')
              and r.scope_key = any(%(scope_keys)s) and r.to_scope_key = any(%(scope_keys)s)
            order by m.valid_from, m.id) else '{}' end as merged_from,
       case when h.seq = max(h.seq) filter (where h.event in ('MERGE', 'DEDUP')) over () then (
           select m.id from relations r join memories m on m.agent_id = r.agent_id and m.id = r.from_id
            where r.agent_id = %(agent_id)s and r.to_id = %(memory_id)s and r.relation_type in ('merged_from', 'same_as')
              and r.scope_key = any(%(scope_keys)s) and r.to_scope_key = any(%(scope_keys)s)
            order by r.created_at desc limit 1) end as merged_into
  from history h left join history_contents c on c.agent_id = h.agent_id and c.seq = h.seq
 where h.agent_id = %(agent_id)s and h.scope_key = any(%(scope_keys)s) and h.memory_id = %(memory_id)s
   and h.event <> 'LINK'
 order by h.seq;

-- done_today --
-- Changes for these reasons since midnight, UTC, by the database's clock: of a session, or of an actor without one.
-- Relations are no changes of their own.
select count(*) from history
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and reason = any(%(reasons)s) and event <> 'LINK'
   and session_id is not distinct from %(session_id)s and (session_id is not null or actor = %(actor)s)
   and ts >= date_trunc('day', clock_timestamp(), 'UTC');

-- head --
-- The newest row of the agent's history, whose hash is no secret.
select seq, hash from heads where agent_id = %(agent_id)s and seq > 0;

-- hashes --
-- As administrator: what these rows of the agent's history hash to.
select seq, hash from history where agent_id = %(agent_id)s and seq = any(%(seqs)s);

-- exported --
-- For a person: rows of the chain, with all there is of those of the person's own scope keys.
select l.seq, l.prev, l.hash, case when h.seq is not null then history_text(h) end as text,
       c.salt, c.before::text as before, c.after::text as after
  from chain_links(%(after)s, %(last)s) as l
  left join history h on h.agent_id = %(agent_id)s and h.scope_key = any(%(scope_keys)s) and h.scope_key = any(%(own)s)
                     and h.seq = l.seq
  left join history_contents c on c.agent_id = h.agent_id and c.seq = h.seq
 order by l.seq;
