-- Figures of each session, and nothing of what memories say. Who holds its lease works on it; whoever takes the lease later
-- goes on with a session that was broken off.
create table refinements (
    agent_id         text not null references agents,
    id               uuid not null,
    scope_key        text not null,
    -- who had it started
    actor            text not null,
    started_at       timestamptz not null default clock_timestamp(),
    -- turns of the agent, tokens of the model's calls, memories taken away without being kept elsewhere
    steps            integer not null default 0,
    model_tokens     bigint not null default 0,
    removed          integer not null default 0,
    target_tokens    integer not null,
    tokens_before    integer not null,
    memories_before  integer not null,
    -- the outcome
    ended            text check (ended in ('completed', 'finished', 'steps', 'tokens', 'time')),
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

-- An erasure that runs, or was broken off; what it has done stands in the history. A person's is whole.
create table erasures (
    agent_id   text not null references agents,
    id         uuid not null,
    -- whose: a person's, or a session's that is nobody's
    scope_key  text not null,
    is_whole   boolean not null default false,
    begun_at   timestamptz not null default clock_timestamp(),
    primary key (agent_id, id),
    unique (agent_id, scope_key)
);

-- What is still to be erased: memories, messages, and whether it was looked up what a memory went into.
create table erasing (
    agent_id     text not null,
    item_id      uuid not null,
    erasure_id   uuid not null,
    is_message   boolean not null,
    is_expanded  boolean not null,
    -- row of history by which a refinement gave another person's memory words of what is erased, if that is all of it: the
    -- former words stay, as a new memory
    rewritten_at_revision  bigint,
    primary key (agent_id, item_id, erasure_id),
    foreign key (agent_id, erasure_id) references erasures
);
create index erasing_next on erasing (agent_id, erasure_id, is_message);
create index erasing_unfollowed on erasing (agent_id, erasure_id) where not is_expanded;
