-- One row for each thread: where it stands, without a word of it. What was said stays in the saver's own tables, where
-- thread_id is agent/user/thread, so that two people may name threads alike.
create table supervisor_checkpoints (
    agent_id         text not null,
    -- '' for a thread that is nobody's own
    user_id          text not null,
    thread_id        text not null,
    -- ids, versions, the step, the nodes that come next
    checkpoint_data  jsonb not null,
    created_at       timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    primary key (agent_id, user_id, thread_id)
);
create index supervisor_checkpoints_of_thread on supervisor_checkpoints (thread_id);
