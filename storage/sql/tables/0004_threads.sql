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
