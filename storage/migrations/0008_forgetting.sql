-- Words of messages go some days after they were formed, and only where something accounts for them.

alter table messages add forget_at timestamptz;
create index messages_forgotten on messages (agent_id, scope_key, forget_at) where forget_at is not null;

-- The messages that memories rest on, and of those that were formed with these what waits to lose its words; but not what
-- somebody else said.
create or replace function own_sources(p_agent text, p_memories uuid[], p_user text) returns uuid[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with source as (
        select m.id, m.user_id, m.formed_by
          from sources s join messages m on m.agent_id = p_agent and m.id = s.message_id
         where s.agent_id = p_agent and s.memory_id = any(p_memories)
    ), waiting as (
        select id, user_id from messages
         where agent_id = p_agent and forget_at is not null and formed_by in (select formed_by from source)
    )
    select coalesce(array_agg(distinct id), '{}')
      from (select id, user_id from source union all select id, user_id from waiting) as m
     where user_id is null or user_id = p_user
$$;

-- Takes the words of messages whose days are over, the oldest and at most so many, as an administrator; how many they were.
create function forget_messages(p_most integer) returns integer
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    gone  integer;
begin
    perform from heads where agent_id = agent for update;
    update messages set content = null, forget_at = null
     where agent_id = agent and id in (
           select id from messages where agent_id = agent and forget_at <= clock_timestamp() order by forget_at limit p_most);
    get diagnostics gone = row_count;
    return gone;
end $$;

-- Rights ------------------------------------------------------------------------------------------------------------

revoke execute on function forget_messages from public;
grant execute on function forget_messages to mnemic_admin;
