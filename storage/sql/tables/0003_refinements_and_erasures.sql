-- Figures of each refinement, without contents. The holder of its lease runs it; the next holder continues an
-- interrupted one.
create table refinements (
    agent_id         text not null references agents,
    id               uuid not null,
    scope_key        text not null,
    -- actor that started the refinement
    actor            text not null,
    started_at       timestamptz not null default clock_timestamp(),
    -- turns of the agent, tokens of its model calls, memories removed without a replacement
    steps            integer not null default 0,
    model_tokens     bigint not null default 0,
    removed          integer not null default 0,
    target_tokens    integer not null,
    tokens_before    integer not null,
    memories_before  integer not null,
    -- the outcome
    ended            text,
    ended_at         timestamptz,
    tokens_after     integer,
    memories_after   integer,
    duplicates       integer not null default 0,
    merged           integer not null default 0,
    updated          integer not null default 0,
    deleted          integer not null default 0,
    protected        integer not null default 0,
    journal_id       uuid,
    primary key (agent_id, id),
    check ((ended is null) = (ended_at is null))
);
create unique index refinements_one_running on refinements (agent_id, scope_key) where ended is null;

-- Running or interrupted erasures; the history records their operations. The erasure of a person is whole.
create table erasures (
    agent_id   text not null references agents,
    id         uuid not null,
    -- scope key of a person, or of a session without users
    scope_key  text not null,
    is_whole   boolean not null default false,
    begun_at   timestamptz not null default clock_timestamp(),
    primary key (agent_id, id),
    unique (agent_id, scope_key)
);

-- Planned items of an erasure: memories and messages. is_expanded: the memories derived from it are planned.
create table erasing (
    agent_id     text not null,
    item_id      uuid not null,
    erasure_id   uuid not null,
    is_message   boolean not null,
    is_expanded  boolean not null,
    -- row of history in which a refinement wrote erased words into another person's memory, if that is the only reason;
    -- its former text then stays as a new memory
    rewritten_at_revision  bigint,
    primary key (agent_id, item_id, erasure_id),
    foreign key (agent_id, erasure_id) references erasures
);
create index erasing_next on erasing (agent_id, erasure_id, is_message);
create index erasing_unfollowed on erasing (agent_id, erasure_id) where not is_expanded;
