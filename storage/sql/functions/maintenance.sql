-- Return the agent's expired memories: past their valid_until, or unused for the days of p_rule, below its importance
-- and of a category outside the context. Pinned and protected memories never expire.
create function expired_memories(p_rule jsonb, p_most integer) returns table (id uuid, is_past boolean)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select m.id, coalesce(m.valid_until <= clock_timestamp(), false)
      from memories m left join memory_use u on u.agent_id = m.agent_id and u.memory_id = m.id
     where m.agent_id = current_setting('mnemic.agent_id')
       and m.kind in ({expiring_kinds}) and m.state = 'active'
       and not m.pinned and not m.protected
       and (m.valid_until <= clock_timestamp()
            or m.importance < (p_rule ->> 'importance')::integer
               and not p_rule -> 'always' ? m.category
               and greatest(m.updated_at, u.last_accessed_at)
                   < clock_timestamp() - make_interval(days => (p_rule ->> 'days')::integer))
     order by m.id limit p_most
$$;

-- Soft-delete at most p_most expired memories in one operation. Source messages without another memory leave the search
-- with them; a rollback of the memories restores the messages.
create function expire_memories(p_rule jsonb, p_run uuid, p_op uuid, p_actor text, p_most integer)
returns table (id uuid, is_past boolean)
language plpgsql security definer set search_path = mnemic, pg_temp as $$
#variable_conflict use_column
declare
    agent   text := current_setting('mnemic.agent_id');
    expired uuid[];
    past    uuid[];
begin
    if not exists (select from expired_memories(p_rule, 1)) then
        return;
    end if;
    perform open_operation(agent, p_op, p_actor, 'agent', 'ttl', null, p_run::text, '{}');
    -- Read again under the agent's head, so memories that changed meanwhile stay.
    select coalesce(array_agg(e.id), '{}'), coalesce(array_agg(e.id) filter (where e.is_past), '{}') into expired, past
      from expired_memories(p_rule, p_most) as e;
    update memories
       set state = 'soft_deleted',
           purge_at = clock_timestamp() + make_interval(days => (p_rule ->> 'purge_after_days')::integer)
     where agent_id = agent and id = any(expired);
    update entries e set searchable = false
      from source_messages(agent, expired) as s
     where e.agent_id = agent and e.item_id = s.message_id and not is_source_in_use(agent, s.message_id, '{}');
    perform close_operation(agent);
    return query select e, e = any(past) from unnest(expired) as e;
end $$;

-- Return the agent's threads after a given one that are unchanged for p_days and have more than one checkpoint. Only
-- ids are returned.
create function stale_threads(p_days integer, p_user text, p_thread text, p_most integer)
returns table (user_id text, thread_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select t.user_id, t.thread_id from supervisor_checkpoints t
     where t.agent_id = current_setting('mnemic.agent_id') and (t.user_id, t.thread_id) > (p_user, p_thread)
       and t.updated_at < clock_timestamp() - make_interval(days => p_days)
       and exists (select from checkpoints c
                    where c.thread_id = thread_prefix(t.agent_id, t.user_id) || t.thread_id and c.checkpoint_ns = '' offset 1)
     order by t.user_id, t.thread_id limit p_most
$$;
