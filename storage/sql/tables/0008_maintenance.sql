-- Maintenance runs of an agent: counts and costs, without contents. A run without an end is active or was interrupted.
create table maintenance_runs (
    agent_id    text not null references agents,
    id          uuid not null,
    actor       text not null,
    is_dry_run  boolean not null,
    started_at  timestamptz not null default clock_timestamp(),
    ended_at    timestamptz,
    -- numbers by name, failed steps, and tokens by step and model
    counts      jsonb not null default '{}',
    failed      text[] not null default '{}',
    spent       jsonb not null default '[]',
    primary key (agent_id, id)
);
