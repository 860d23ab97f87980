-- read_position --
-- Return the last propagated row of history of a scope key, and the newest row of the agent.
select coalesce((select propagated_revision from scopes where agent_id = %(agent_id)s and scope_key = %(key)s), 0),
       coalesce((select revision from heads where agent_id = %(agent_id)s), 0);

-- save_position --
-- Record the row of history up to which a scope key was propagated.
insert into scopes (agent_id, scope_key, propagated_revision) values (%(agent_id)s, %(key)s, %(revision)s)
on conflict (agent_id, scope_key) do update set propagated_revision = greatest(scopes.propagated_revision, excluded.propagated_revision);

-- read_new_memories --
-- Return the scope key's facts and reflections since a row of history that are neither private nor of a personal
-- category.
select {memory} from memories m
 where agent_id = %(agent_id)s and scope_key = %(key)s and kind in ({propagated_kinds}) and state in ({retained_states})
   and not private and category <> all(%(personal)s) and (%(tag)s::text is null or %(tag)s = any(tags))
   and exists (select from history h where h.agent_id = %(agent_id)s and h.memory_id = m.id and h.event = 'ADD'
                  and h.revision > %(since)s)
 order by valid_from, id;

-- read_shareable --
-- Return these memories if they are active and may be shared.
select {memory} from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = any(%(ids)s) and state in ({retained_states})
   and not private and category <> all(%(personal)s);

-- typed_messages --
-- Return the users' messages that each memory was formed from, also through merges.
select i.id as memory_id, m.id, m.session_id, m.role, m.author, m.user_id, m.content, m.said_at, m.utc_offset, m.submitted_by
  from unnest(%(ids)s::uuid[]) as i(id) cross join lateral source_messages(%(agent_id)s, array[i.id]) as r
  join messages m on m.agent_id = %(agent_id)s and m.id = r.message_id
 where m.role = 'user' and m.user_id is not null and m.content is not null
 order by i.id, m.said_at, m.id;

-- filter_similar --
-- Return those pairs of memories that have at least this similarity, the most similar first.
select g.own_id as memory_id, g.peer_id, 1 - (o.vec <=> p.vec) as similarity
  from unnest(%(ids)s::uuid[], %(peers)s::uuid[]) as g(own_id, peer_id)
  join entries o on o.agent_id = %(agent_id)s and o.item_id = g.own_id and o.model = %(model)s
  join entries p on p.agent_id = %(agent_id)s and p.item_id = g.peer_id and p.model = %(model)s
 where 1 - (o.vec <=> p.vec) >= %(least)s
 order by similarity desc, memory_id, peer_id;
