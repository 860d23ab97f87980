-- Return the prefix of a user's thread ids in the saver's tables. storage/threads.py builds the same prefix.
create function thread_prefix(p_agent text, p_user text) returns text
language sql immutable
return replace(replace(p_agent, '%', '%25'), '/', '%2F') || '/' || replace(replace(p_user, '%', '%25'), '/', '%2F') || '/';

-- Return part n of a thread id in the saver's tables: 1 is the agent, 2 the user.
create function owner_part(p_thread text, n integer) returns text
language sql immutable
return replace(replace(split_part(p_thread, '/', n), '%2F', '/'), '%25', '%');

-- Record the state of a thread in the transaction of its checkpoint, without any message.
create function record_thread_state() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    insert into supervisor_checkpoints as t (agent_id, user_id, thread_id, checkpoint_data)
    values (owner_part(new.thread_id, 1), owner_part(new.thread_id, 2),
            substr(new.thread_id, length(split_part(new.thread_id, '/', 1) || split_part(new.thread_id, '/', 2)) + 3),
            jsonb_build_object(
                'checkpoint_id', new.checkpoint_id, 'parent_id', new.parent_checkpoint_id,
                'step', new.metadata -> 'step', 'source', new.metadata -> 'source',
                -- the channels that start the next nodes
                'next', jsonb_path_query_array(
                    new.checkpoint, '$.channel_values.keyvalue().key ? (@ starts with "branch:to:")', '{}', true),
                'versions', new.checkpoint -> 'channel_versions'))
    on conflict (agent_id, user_id, thread_id) do update
       set checkpoint_data = excluded.checkpoint_data, updated_at = clock_timestamp()
     -- Ids grow with time; an earlier one is pruned or copied.
     where excluded.checkpoint_data ->> 'checkpoint_id' >= t.checkpoint_data ->> 'checkpoint_id';
    return null;
end $$;
create trigger record_state after insert or update on checkpoints for each row when (new.checkpoint_ns = '')
    execute function record_thread_state();

-- Return the owners of threads with this id, the last active first, for a server that knows threads by their ids only.
create function owners_of_thread(p_thread text) returns table (agent_id text, user_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select t.agent_id, t.user_id from supervisor_checkpoints t where t.thread_id = p_thread order by t.updated_at desc
$$;

-- Return the owners of checkpoints of these runs. No index helps, because runs are rarely deleted or rolled back.
create function owners_of_runs(p_runs text[]) returns table (agent_id text, user_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct owner_part(c.thread_id, 1), owner_part(c.thread_id, 2) from checkpoints c
     where c.metadata ->> 'run_id' = any(p_runs)
$$;
