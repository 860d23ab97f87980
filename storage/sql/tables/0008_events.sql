-- What the service did, without contents: counts over time, kept for `events_days`. No foreign key to agents: a recall of an
-- agent that has stored nothing is counted too.
create table events (
    agent_id     text not null,
    id           uuid not null default gen_random_uuid(),
    user_id      text,
    session_id   text,
    node         text not null,
    op           text not null,
    status       text not null check (status in ('ok', 'error', 'skipped')),
    memory_id    uuid,
    category     text,
    -- cosine similarity of the best result
    sim          real,
    -- events alike of one batch are one row: how many, and how long all of them took
    occurrences  integer not null default 1,
    duration_ms  real,
    ts           timestamptz not null,
    primary key (agent_id, id)
);
-- Old events are pruned across agents.
create index events_ts on events (ts);
-- The tokens of all agents of a tenant on one day.
create index token_usage_day on token_usage (day);
