-- Changes of memories without their contents: append-only, gapless and chained per agent.
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
-- Changes in the visible scope keys since a revision; other users of the agent may have changed far more.
create index history_scope on history (agent_id, scope_key, revision);
-- Rows of one operation, and of one session.
create index history_op on history (agent_id, op_id);
create index history_session on history (agent_id, session_id, ts) where session_id is not null;
-- Rows of one refinement.
create index history_refinement on history (agent_id, refinement_id) where refinement_id is not null;

-- The contents behind the digests, which a purge or an erasure deletes. One function writes both tables and rows of
-- history are never deleted: a foreign key would cost a sixth of a save.
create table history_contents (
    agent_id   text not null,
    revision        bigint not null,
    scope_key  text,
    salt       bytea not null,
    before     jsonb,
    after      jsonb,
    primary key (agent_id, revision)
);

-- Rows of history whose contents an author has withdrawn from other users; only this user reads them. Undoing the
-- withdrawal deletes these rows.
create table withdrawn (
    agent_id      text not null,
    revision           bigint not null,
    memory_id     uuid not null,
    op_id         uuid not null,
    withdrawn_by  text not null,
    primary key (agent_id, revision)
);
create index withdrawn_memory on withdrawn (agent_id, memory_id);

-- The head of each agent's chain and its open operation. The operation belongs to a running transaction, by its id and
-- start time: after a restore elsewhere, transaction ids repeat. Only functions of the owner write this table, since a
-- writer could claim any operation.
create table heads (
    agent_id    text primary key,
    revision         bigint not null,
    hash        bytea not null,
    op_xid      xid8,
    op_began    timestamptz,
    -- columns of its history rows
    operation   jsonb
) with (fillfactor = 50);
-- Steps of rollbacks.
create index history_rollback on history (agent_id, (meta ->> 'rollback'), revision) where meta ->> 'rollback' is not null;
-- Rows of one maintenance run. Its operations have no session, which keeps rows of conversations out of the index.
create index history_run on history (agent_id, run_id) where run_id is not null and session_id is null;
