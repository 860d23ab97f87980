-- Threads of agents: the tables of langgraph-checkpoint-postgres as its own set-up makes them, and whose thread is whose.

-- One row for each thread: where it stands, without a word of it. What was said stays in the saver's blobs.
create table supervisor_checkpoints (
    id               uuid primary key default gen_random_uuid(),
    agent_id         text not null,
    -- '' for a thread that is nobody's own
    user_id          text not null,
    thread_id        text not null,
    -- ids, versions, the step, the nodes that come next
    checkpoint_data  jsonb not null,
    created_at       timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    unique (agent_id, user_id, thread_id)
);

-- The saver's own tables, at version 9. thread_id is agent/user/thread in them, so that two people may name threads alike.
create table checkpoint_migrations (
    v integer primary key
);
insert into checkpoint_migrations select generate_series(0, 9);
create table checkpoints (
    thread_id             text not null,
    checkpoint_ns         text not null default '',
    checkpoint_id         text not null,
    parent_checkpoint_id  text,
    type                  text,
    checkpoint            jsonb not null,
    metadata              jsonb not null default '{}',
    primary key (thread_id, checkpoint_ns, checkpoint_id)
);
create table checkpoint_blobs (
    thread_id      text not null,
    checkpoint_ns  text not null default '',
    channel        text not null,
    version        text not null,
    type           text not null,
    blob           bytea,
    primary key (thread_id, checkpoint_ns, channel, version)
);
create table checkpoint_writes (
    thread_id      text not null,
    checkpoint_ns  text not null default '',
    checkpoint_id  text not null,
    task_id        text not null,
    idx            integer not null,
    channel        text not null,
    type           text,
    blob           bytea not null,
    task_path      text not null default '',
    primary key (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
create index supervisor_checkpoints_of_thread on supervisor_checkpoints (thread_id);
create index checkpoints_thread_id_idx on checkpoints (thread_id);
create index checkpoint_blobs_thread_id_idx on checkpoint_blobs (thread_id);
create index checkpoint_writes_thread_id_idx on checkpoint_writes (thread_id);

-- How the ids of somebody's threads begin in the saver's tables; storage/threads.py writes the same.
create function threads_of(p_agent text, p_user text) returns text
language sql immutable
return replace(replace(p_agent, '%', '%25'), '/', '%2F') || '/' || replace(replace(p_user, '%', '%25'), '/', '%2F') || '/';

-- Part n of an id in the saver's tables: 1 the agent, 2 the user.
create function owner_part(p_thread text, n integer) returns text
language sql immutable
return replace(replace(split_part(p_thread, '/', n), '%2F', '/'), '%25', '%');

-- Writes down where a thread stands, in the transaction of its checkpoint: never anything of what was said.
create function note_standing() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    insert into supervisor_checkpoints as t (agent_id, user_id, thread_id, checkpoint_data)
    values (owner_part(new.thread_id, 1), owner_part(new.thread_id, 2),
            substr(new.thread_id, length(split_part(new.thread_id, '/', 1) || split_part(new.thread_id, '/', 2)) + 3),
            jsonb_build_object(
                'checkpoint_id', new.checkpoint_id, 'parent_id', new.parent_checkpoint_id,
                'step', new.metadata -> 'step', 'source', new.metadata -> 'source',
                -- the channels that start the nodes that come next
                'next', jsonb_path_query_array(
                    new.checkpoint, '$.channel_values.keyvalue().key ? (@ starts with "branch:to:")', '{}', true),
                'versions', new.checkpoint -> 'channel_versions'))
    on conflict (agent_id, user_id, thread_id) do update
       set checkpoint_data = excluded.checkpoint_data, updated_at = clock_timestamp()
     -- ids grow with time; an earlier one is pruned or copied
     where excluded.checkpoint_data ->> 'checkpoint_id' >= t.checkpoint_data ->> 'checkpoint_id';
    return null;
end $$;
create trigger stands_at after insert or update on checkpoints for each row when (new.checkpoint_ns = '')
    execute function note_standing();

-- Who has a thread of this id, who moved it last first: for a server that names threads by their ids alone. Ids and no more.
create function owners_of_thread(p_thread text) returns table (agent_id text, user_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select t.agent_id, t.user_id from supervisor_checkpoints t where t.thread_id = p_thread order by t.updated_at desc
$$;

-- Who has checkpoints of these runs; nothing finds them quickly, for a run is deleted or rolled back seldom.
create function owners_of_runs(p_runs text[]) returns table (agent_id text, user_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct owner_part(c.thread_id, 1), owner_part(c.thread_id, 2) from checkpoints c
     where c.metadata ->> 'run_id' = any(p_runs)
$$;

-- Erasure -----------------------------------------------------------------------------------------------------------

-- The planner's samples would keep what was said in rows that are long erased.
alter table checkpoints alter checkpoint set statistics 0, alter metadata set statistics 0;
alter table checkpoint_blobs alter blob set statistics 0;
alter table checkpoint_writes alter blob set statistics 0;

-- Deletes a person's threads with an agent, and those of nobody's that are sessions in which only the person spoke.
create function delete_threads(p_agent text, p_user text, p_alone text[]) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    -- by their ids, for no index finds a prefix where the locale is not C
    theirs text[] := array(
        select threads_of(t.agent_id, t.user_id) || t.thread_id from supervisor_checkpoints t
         where t.agent_id = p_agent and (t.user_id = p_user or t.user_id = '' and t.thread_id = any(p_alone)));
begin
    delete from checkpoint_writes where thread_id = any(theirs);
    delete from checkpoint_blobs where thread_id = any(theirs);
    delete from checkpoints where thread_id = any(theirs);
    delete from supervisor_checkpoints
     where agent_id = p_agent and (user_id = p_user or user_id = '' and thread_id = any(p_alone));
end $$;

-- Erases all that an agent has of a person: the person's own scope key, what is about them, what they said and were
-- answered, the sessions in which nobody else spoke, every memory that any of it went into, and their threads. What others
-- said stays. The transaction has to be the person's.
create or replace function erase_person(p_user text, p_op uuid, p_actor text) returns setof uuid
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    alone text[];
    keys  text[];
    said  uuid[];
    ids   uuid[];
begin
    if cardinality(own_keys(array['user:' || p_user])) = 0 then
        raise exception 'a person is erased in a transaction of their own' using errcode = 'insufficient_privilege';
    end if;
    perform open_operation(agent, p_op, p_actor, 'person', 'erasure', null, null, '{}');
    select coalesce(array_agg(id), '{}'), coalesce(array_agg(distinct session_id) filter (where is_alone), '{}')
      into said, alone from said_by(agent, p_user);
    keys := array['user:' || p_user] || array(select 'session:' || unnest(alone));
    ids := with_repeating(agent, array(
        select id from memories where agent_id = agent and (scope_key = any(keys) or subject_user_id = p_user)
        union
        select formed_from(agent, p_user, said, alone)));
    perform wipe(agent, ids, said || own_sources(agent, ids, p_user), p_op);
    update scopes set name = null, extraction_guidance = null, consolidation_guidance = null
     where agent_id = agent and scope_key = any(keys);
    perform delete_threads(agent, p_user, alone);
    return query select unnest(ids);
end $$;

-- Isolation ---------------------------------------------------------------------------------------------------------
-- A transaction sees the threads of one agent with one user: those whose ids begin as its setting says.

alter table supervisor_checkpoints enable row level security;
alter table supervisor_checkpoints force row level security;
create policy owner on supervisor_checkpoints to mnemic_owner using (true) with check (true);
create policy service on supervisor_checkpoints to mnemic_app
    using (threads_of(agent_id, user_id) = (select nullif(current_setting('mnemic.threads', true), '')));
alter table checkpoints enable row level security;
alter table checkpoints force row level security;
create policy owner on checkpoints to mnemic_owner using (true) with check (true);
create policy service on checkpoints to mnemic_app
    using (starts_with(thread_id, (select nullif(current_setting('mnemic.threads', true), ''))));
alter table checkpoint_blobs enable row level security;
alter table checkpoint_blobs force row level security;
create policy owner on checkpoint_blobs to mnemic_owner using (true) with check (true);
create policy service on checkpoint_blobs to mnemic_app
    using (starts_with(thread_id, (select nullif(current_setting('mnemic.threads', true), ''))));
alter table checkpoint_writes enable row level security;
alter table checkpoint_writes force row level security;
create policy owner on checkpoint_writes to mnemic_owner using (true) with check (true);
create policy service on checkpoint_writes to mnemic_app
    using (starts_with(thread_id, (select nullif(current_setting('mnemic.threads', true), ''))));

-- Rights ------------------------------------------------------------------------------------------------------------

revoke execute on function threads_of, owner_part, note_standing, delete_threads, owners_of_thread, owners_of_runs
    from public;
grant select, insert, update, delete on supervisor_checkpoints, checkpoints, checkpoint_blobs, checkpoint_writes to mnemic_app;
grant select on checkpoint_migrations to mnemic_app;
grant execute on function threads_of, owner_part, owners_of_thread, owners_of_runs to mnemic_app;
