-- count --
-- One more use of each of these memories, where it may be seen; in id order, so that no two of these wait for each other.
insert into memory_use as u (agent_id, memory_id, scope_key, access_count, last_accessed_at)
select agent_id, id, scope_key, 1, clock_timestamp() from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = any(%(ids)s)
 order by id
on conflict (agent_id, memory_id) do update
   set access_count = u.access_count + 1, last_accessed_at = greatest(u.last_accessed_at, excluded.last_accessed_at);
