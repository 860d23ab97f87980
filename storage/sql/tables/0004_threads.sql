-- The state of each thread, without its messages, which stay in the saver's tables. There, thread_id is
-- agent/user/thread, so that two users may use the same thread id.
create table supervisor_checkpoints (
    agent_id         text not null,
    -- '' for a thread without a user
    user_id          text not null,
    thread_id        text not null,
    -- ids, versions, the step and the next nodes
    checkpoint_data  jsonb not null,
    created_at       timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    primary key (agent_id, user_id, thread_id)
);
create index supervisor_checkpoints_of_thread on supervisor_checkpoints (thread_id);
