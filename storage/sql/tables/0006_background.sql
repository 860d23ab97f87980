-- Failed background work. retry_at is null if only a command starts the job again.
create table job_failures (
    agent_id   text not null references agents,
    job        text not null,
    scope_key  text not null,
    reason     text not null,
    failures   integer not null,
    failed_at  timestamptz not null default clock_timestamp(),
    retry_at   timestamptz,
    primary key (agent_id, job, scope_key)
);

-- Pairs of facts that a model has judged, by digests of their ids and versions. They are judged again after some days,
-- or after one of them was erased.
create table checked_pairs (
    agent_id     text not null references agents,
    scope_key    text not null,
    fingerprint  uuid not null,
    earlier_id   uuid not null,
    later_id     uuid not null,
    checked_at   timestamptz not null default clock_timestamp(),
    primary key (agent_id, scope_key, fingerprint)
);

-- The schedule of each agent's jobs: the effective cron line, its last and its next run.
create table schedules (
    agent_id  text not null references agents,
    job       text not null,
    cron      text not null,
    last_at   timestamptz,
    next_at   timestamptz not null,
    primary key (agent_id, job)
);
create index schedules_next on schedules (next_at);
