-- Work of the background that failed. retry_at is null once the job is not tried again without a command.
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

-- Pairs of facts that a model has judged, by digests of their ids and versions: they are not judged again for some days, unless
-- one of them is erased.
create table checked_pairs (
    agent_id     text not null references agents,
    scope_key    text not null,
    fingerprint  uuid not null,
    earlier_id   uuid not null,
    later_id     uuid not null,
    checked_at   timestamptz not null default clock_timestamp(),
    primary key (agent_id, scope_key, fingerprint)
);

-- The schedule of each agent's jobs: the cron line in force, and when it fired last and fires next.
create table schedules (
    agent_id  text not null references agents,
    job       text not null,
    cron      text not null,
    last_at   timestamptz,
    next_at   timestamptz not null,
    primary key (agent_id, job)
);
create index schedules_next on schedules (next_at);
