-- position --
-- Up to which row of history a scope key was looked at, and how far the history has come.
select coalesce((select propagated_revision from scopes where agent_id = %(agent_id)s and scope_key = %(key)s), 0),
       coalesce((select revision from heads where agent_id = %(agent_id)s), 0);

-- move --
-- The scope key was looked at up to this row.
insert into scopes (agent_id, scope_key, propagated_revision) values (%(agent_id)s, %(key)s, %(revision)s)
on conflict (agent_id, scope_key) do update set propagated_revision = greatest(scopes.propagated_revision, excluded.propagated_revision);

-- new_claims --
-- Facts and reflections of the scope key that came since this row, are not private and not of a personal category.
select {memory} from memories m
 where agent_id = %(agent_id)s and scope_key = %(key)s and kind in ('fact', 'reflection') and state in ('active', 'absorbed')
   and not private and category <> all(%(personal)s) and (%(tag)s::text is null or %(tag)s = any(tags))
   and exists (select from history h where h.agent_id = %(agent_id)s and h.memory_id = m.id and h.event = 'ADD'
                  and h.revision > %(since)s)
 order by valid_from, id;

-- claims --
-- These memories, as far as they are still there and may be shared.
select {memory} from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = any(%(ids)s) and state in ('active', 'absorbed')
   and not private and category <> all(%(personal)s);

-- messages --
-- Messages of users that each of these memories rests on, also through merges.
select i.id as memory_id, m.id, m.session_id, m.role, m.author, m.user_id, m.content, m.said_at, m.utc_offset, m.submitted_by
  from unnest(%(ids)s::uuid[]) as i(id) cross join lateral source_messages(%(agent_id)s, array[i.id]) as r
  join messages m on m.agent_id = %(agent_id)s and m.id = r.message_id
 where m.role = 'user' and m.user_id is not null and m.content is not null
 order by i.id, m.said_at, m.id;

-- near --
-- Of these pairs of memories those whose vectors are at least so similar, the most similar first.
select g.own_id as memory_id, g.peer_id, 1 - (o.vec <=> p.vec) as similarity
  from unnest(%(ids)s::uuid[], %(peers)s::uuid[]) as g(own_id, peer_id)
  join entries o on o.agent_id = %(agent_id)s and o.item_id = g.own_id and o.model = %(model)s
  join entries p on p.agent_id = %(agent_id)s and p.item_id = g.peer_id and p.model = %(model)s
 where 1 - (o.vec <=> p.vec) >= %(least)s
 order by similarity desc, memory_id, peer_id;
