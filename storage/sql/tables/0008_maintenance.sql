-- Runs of an agent's maintenance: what was done and what it cost, without contents. A run without an end is under way, or was
-- broken off.
create table maintenance_runs (
    agent_id    text not null references agents,
    id          uuid not null,
    actor       text not null,
    is_dry_run  boolean not null,
    started_at  timestamptz not null default clock_timestamp(),
    ended_at    timestamptz,
    -- numbers by what was counted, steps that failed, and tokens by step and model
    counts      jsonb not null default '{}',
    failed      text[] not null default '{}',
    spent       jsonb not null default '[]',
    primary key (agent_id, id)
);

-- Rows of one maintenance run. Its operations belong to no session, so that rows of conversations stay out of the index.
create index history_run on history (agent_id, run_id) where run_id is not null and session_id is null;
