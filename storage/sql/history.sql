-- of_memory --
-- Everything that happened to one memory, with its contents where they still exist; relations are told by the memories.
select h.seq, h.op_id, h.event, h.memory_id, h.scope_key, h.actor, h.reason, h.session_id, h.ts,
       c.before ->> 'content' as before, c.after ->> 'content' as after
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
