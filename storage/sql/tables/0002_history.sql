-- What happened to memories, without their contents: append-only, gapless and chained per agent.
create table history (
    agent_id       text not null,
    revision            bigint not null,
    op_id          uuid not null,
    event          text not null,
    memory_id      uuid,
    scope_key      text,
    category       text,
    actor          text not null,
    actor_kind     text not null,
    reason         text not null,
    session_id     text,
    run_id         text,
    refinement_id  uuid,
    undo_of        uuid,
    before_digest  bytea,
    after_digest   bytea,
    token_delta    integer not null default 0,
    meta           jsonb not null default '{}',
    ts             timestamptz not null,
    prev           bytea not null,
    hash           bytea not null,
    primary key (agent_id, revision)
);
create index history_memory on history (agent_id, memory_id, revision);
-- What changed in the visible scope keys since a revision; an agent's other users may have changed far more.
create index history_scope on history (agent_id, scope_key, revision);
-- Rows of one operation, and of one session.
create index history_op on history (agent_id, op_id);
create index history_session on history (agent_id, session_id, ts) where session_id is not null;
-- What one refinement did.
create index history_refinement on history (agent_id, refinement_id) where refinement_id is not null;

-- The contents behind the digests: all that a purge or an erasure takes away. One function writes both tables, and
-- nobody takes a row of history away: a foreign key would cost a sixth of a save.
create table history_contents (
    agent_id   text not null,
    revision        bigint not null,
    scope_key  text,
    salt       bytea not null,
    before     jsonb,
    after      jsonb,
    primary key (agent_id, revision)
);

-- Rows of history whose contents an author has taken back from others: they are shown to this user alone. An undo of the
-- operation that took them back deletes these rows.
create table withdrawn (
    agent_id      text not null,
    revision           bigint not null,
    memory_id     uuid not null,
    op_id         uuid not null,
    withdrawn_by  text not null,
    primary key (agent_id, revision)
);
create index withdrawn_memory on withdrawn (agent_id, memory_id);

-- Where each agent's chain has come to, and the operation that is open on it: that of a transaction which still runs, by its
-- id and its time, for a dump that is restored elsewhere brings ids that come there once more. Whoever may write here may
-- claim any act, so that nobody may but the functions of the owner.
create table heads (
    agent_id    text primary key,
    revision         bigint not null,
    hash        bytea not null,
    op_xid      xid8,
    op_began    timestamptz,
    -- what each of its rows of history says, by the names of its columns
    operation   jsonb
) with (fillfactor = 50);
-- The steps of a rollback that took more than one.
create index history_rollback on history (agent_id, (meta ->> 'rollback'), revision) where meta ->> 'rollback' is not null;
