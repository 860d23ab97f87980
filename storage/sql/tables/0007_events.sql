-- Counts of the service over time, without contents, kept for `events_days`. No foreign key to agents, because recalls
-- of an agent without memories count too.
create table events (
    agent_id     text not null,
    id           uuid not null default gen_random_uuid(),
    user_id      text,
    session_id   text,
    node         text not null,
    op           text not null,
    status       text not null,
    memory_id    uuid,
    category     text,
    -- cosine similarity of the best result
    sim          real,
    -- equal events of one batch are one row with their number and total time
    occurrences  integer not null default 1,
    duration_ms  real,
    ts           timestamptz not null,
    primary key (agent_id, id)
);
-- Old events are pruned across agents.
create index events_ts on events (ts);
