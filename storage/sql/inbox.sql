-- observe --
-- Stores messages that are new to the session; a host resends the whole list every turn.
with agent as (
    insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing
), given as (
    select * from jsonb_to_recordset(%(messages)s)
        as m(id uuid, scope_key text, role text, author text, user_id text, content text, said_at timestamptz)
), stored as (
    insert into messages (agent_id, id, session_id, scope_key, role, author, user_id, content, said_at)
    select %(agent_id)s, id, %(session_id)s, scope_key, role, author, user_id, content, said_at from given
    on conflict do nothing returning 1
), session as (
    insert into sessions as s (agent_id, session_id, group_ids, message_count, last_activity_at)
    select %(agent_id)s, %(session_id)s, %(group_ids)s, count(*), clock_timestamp() from stored
    on conflict (agent_id, session_id) do update
       set group_ids = excluded.group_ids,
           message_count = s.message_count + excluded.message_count,
           last_activity_at = case when excluded.message_count > 0 then excluded.last_activity_at else s.last_activity_at end
)
select count(*) from stored;

-- pending_count --
-- Messages of the session that wait for formation.
select count(*) from messages
 where agent_id = %(agent_id)s and session_id = %(session_id)s and formed_by is null;

-- pending --
-- The oldest of them.
select id, session_id, role, author, user_id, content, said_at from messages
 where agent_id = %(agent_id)s and session_id = %(session_id)s and formed_by is null
 order by place limit %(most)s;

-- idle --
-- Since when nothing was said, by the database's clock.
select clock_timestamp() - last_activity_at from sessions
 where agent_id = %(agent_id)s and session_id = %(session_id)s;

-- settle --
-- Marks messages as formed, each at most once: a second run finds fewer rows and saves nothing.
update messages set formed_by = %(op_id)s
 where agent_id = %(agent_id)s and id = any(%(ids)s) and formed_by is null
returning id;

-- forget_contents --
-- Takes the content of messages that are not kept; the skeleton makes a resent message harmless.
update messages set content = null where agent_id = %(agent_id)s and id = any(%(ids)s);

-- index_messages --
-- Makes kept messages searchable under their speaker's scope key.
insert into entries (agent_id, scope_key, item_id, piece, kind, category, model, vec, tsv)
select %(agent_id)s, m.scope_key, m.id, e.piece, 'message', 'message',
       case when e.vec is null then '' else %(model)s end, e.vec, to_tsvector('english', e.text)
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[], %(texts)s::text[], %(vectors)b::halfvec[]) as e(id, piece, text, vec)
  join messages m on m.agent_id = %(agent_id)s and m.id = e.id;
