-- The schema as it is now. The migrations lead to the same database; a test compares the two.
-- Everything here is created by and belongs to mnemic_owner, a role nobody logs in as.

-- Tables ------------------------------------------------------------------------------------------------------------

create table agents (
    agent_id    text primary key,
    tenant_id   text not null default 'default',
    settings    jsonb not null default '{}',
    created_at  timestamptz not null default clock_timestamp()
);

-- One row per scope key that has memories or settings of its own.
create table scopes (
    agent_id                text not null references agents,
    scope_key               text not null,
    name                    text,
    extraction_guidance     text,
    consolidation_guidance  text,
    is_active               boolean not null default true,
    threshold               integer check (threshold > 0),
    word_limit              integer check (word_limit > 0),
    last_consolidated_at    timestamptz,
    last_activity_at        timestamptz,
    -- memories written for turns of this user on the day
    turn_writes             integer not null default 0,
    turn_writes_on          date,
    primary key (agent_id, scope_key)
);

-- Who works on a session (formation; retry, of what was set aside) or on a scope key (consolidation), and how it went.
-- A lease saves model calls; what is written is guarded by formed_by and by versions. holder is null while a failed run
-- waits; a run that ends well deletes its row.
create table leases (
    agent_id   text not null references agents,
    scope_key  text not null,
    work       text not null check (work in ('formation', 'retry', 'consolidation')),
    holder     uuid,
    until      timestamptz not null,
    -- runs on the same work whose answers could not be used
    tries      integer not null default 0,
    -- failures in a row, for the wait
    failures   integer not null default 0,
    primary key (agent_id, scope_key, work)
);

create table sessions (
    agent_id          text not null references agents,
    session_id        text not null,
    -- as the host last named them
    group_ids         text[] not null default '{}',
    message_count     bigint not null default 0,
    last_activity_at  timestamptz not null,
    primary key (agent_id, session_id)
);

-- How far a reader, a role and a user, has been told of changes in a session: a seq, and how often that moved.
create table thread_revisions (
    agent_id    text not null,
    session_id  text not null,
    reader      text not null,
    rev         bigint not null default 1,
    seen_seq    bigint not null,
    primary key (agent_id, session_id, reader),
    foreign key (agent_id, session_id) references sessions
);
-- The inbox (formed_by is null) and, afterwards, the sources that were kept. A message that is not kept loses its content
-- in time, once something accounts for it, and stays as a skeleton, so that a host that resends it changes nothing.
create table messages (
    agent_id    text not null,
    id          uuid not null,
    session_id  text not null,
    scope_key   text not null,
    -- its number within the session, from 1: neighbours lie one apart
    place       bigint not null,
    role        text not null check (role in ('user', 'assistant', 'tool', 'other')),
    author      text not null,
    user_id     text,
    content     text,
    said_at     timestamptz not null,
    formed_by   uuid,
    created_at  timestamptz not null default clock_timestamp(),
    -- no usable answer could be had for it: still pending, and left out but by a retry
    set_aside   boolean not null default false,
    -- the actor of the run that observed it, who need not have said it
    brought_by  text,
    -- when the words of a formed message go; null: they stay, or are gone
    forget_at   timestamptz,
    primary key (agent_id, id),
    foreign key (agent_id, session_id) references sessions
);
create index messages_pending on messages (agent_id, session_id, set_aside, place) where formed_by is null;
create index messages_forgotten on messages (agent_id, scope_key, forget_at) where forget_at is not null;

create table memories (
    agent_id           text not null references agents,
    id                 uuid not null,
    kind               text not null check (kind in ('fact', 'reflection', 'consolidation', 'core', 'episode', 'insight',
                                                     'procedure', 'journal')),
    scope_key          text not null,
    subject            text not null,
    subject_user_id    text,
    category           text not null,
    content            text not null,
    content_hash       uuid not null generated always as (md5(content)::uuid) stored,
    tokens             integer not null generated always as ((char_length(content) + 3) / 4) stored,
    importance         smallint not null check (importance between 1 and 5),
    pinned             boolean not null default false,
    protected          boolean not null default false,
    private            boolean not null default false,
    tags               text[],
    provenance         text not null check (provenance in ('asserted', 'inferred', 'consolidated')),
    state              text not null default 'active'
                       check (state in ('active', 'absorbed', 'superseded', 'soft_deleted', 'purged')),
    superseded_by      uuid,
    absorbed_at        timestamptz,
    consolidated_into  uuid,
    valid_from         timestamptz not null,
    valid_until        timestamptz,
    purge_at           timestamptz,
    created_at         timestamptz not null default clock_timestamp(),
    updated_at         timestamptz not null default clock_timestamp(),
    version            integer not null default 1,
    source_session_id  text,
    related_user_ids   text[],
    run_id             text,
    actor_id           text,
    role               text,
    import_id          uuid,
    primary key (agent_id, id),
    -- an erased memory keeps its row: neither words nor a subject are left in it
    constraint memories_content_check check ((content <> '' or state = 'purged') and octet_length(content) <= 8192),
    check (kind <> 'fact' or scope_key not like 'session:%'),
    check ((state = 'superseded') = (superseded_by is not null)),
    check ((state = 'absorbed') = (consolidated_into is not null))
);
-- The same sentence lives once per scope key, subject and kind; another user's twin is none of its business.
create unique index memories_living on memories (agent_id, scope_key, content_hash, kind, coalesce(subject_user_id, ''))
    where state = 'active';
create unique index memories_one_consolidation on memories (agent_id, scope_key)
    where state = 'active' and kind = 'consolidation';
-- The always-in-context part is read on every turn; facts of the same scope key must not be in the way, but those of a
-- category that is always in context belong to it.
create index memories_standing on memories (agent_id, scope_key, kind, category) where state = 'active';

-- What replaced a memory, what took it in, and what tells of a scope key's refinements: few have any.
create index memories_superseded on memories (agent_id, superseded_by) where superseded_by is not null;
create index memories_absorbed on memories (agent_id, consolidated_into) where consolidated_into is not null;
create index memories_journals on memories (agent_id, scope_key, created_at) where kind = 'journal';

-- One memory beside another. Both ends' keys, for a link is seen only by those who may see both.
create table relations (
    agent_id       text not null,
    from_id        uuid not null,
    to_id          uuid not null,
    relation_type  text not null default 'related_to'
                   check (relation_type in ('related_to', 'merged_from', 'same_as', 'propagated_from')),
    strength       real not null check (strength between 0 and 1),
    scope_key      text not null,
    to_scope_key   text not null,
    created_at     timestamptz not null default clock_timestamp(),
    primary key (agent_id, from_id, to_id, relation_type),
    foreign key (agent_id, from_id) references memories,
    foreign key (agent_id, to_id) references memories,
    check (from_id <> to_id)
);
create index relations_to on relations (agent_id, to_id);

-- When memories were last recalled, written after the turn: a counter in memories would move the row each time.
create table memory_use (
    agent_id          text not null,
    memory_id         uuid not null,
    scope_key         text not null,
    access_count      bigint not null,
    last_accessed_at  timestamptz not null,
    primary key (agent_id, memory_id),
    foreign key (agent_id, memory_id) references memories
) with (fillfactor = 70);

create table sources (
    agent_id    text not null,
    memory_id   uuid not null,
    message_id  uuid not null,
    scope_key   text not null,
    primary key (agent_id, memory_id, message_id),
    foreign key (agent_id, memory_id) references memories,
    foreign key (agent_id, message_id) references messages
);
create index sources_message on sources (agent_id, message_id);

-- The only table that is searched. model is '' and vec null while an embedding is pending.
create table entries (
    agent_id   text not null,
    scope_key  text not null,
    item_id    uuid not null,
    piece      smallint not null default 0,
    kind       text not null,
    category   text not null,
    model      text not null,
    vec        halfvec check (l2_norm(vec) > 0),
    tsv        tsvector not null,
    living     boolean not null default true,
    primary key (agent_id, item_id, model, piece),
    check ((model = '') = (vec is null))
);
-- Scope first, exact: with the vector in the index a search is one index-only scan, 0.5 ms per 1,000 rows, recall 1.0.
-- There is no approximate index (half the results lost under a scoped search) and no GIN (ignored under row security).
create index entries_scope on entries (agent_id, scope_key, model) include (item_id, kind, category, vec) where living;

-- What happened to memories, without their contents: append-only, gapless and chained per agent.
create table history (
    agent_id       text not null,
    seq            bigint not null,
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
    primary key (agent_id, seq)
);
create index history_memory on history (agent_id, memory_id, seq);
-- What changed in the visible scope keys since a seq; an agent's other users may have changed far more.
create index history_scope on history (agent_id, scope_key, seq);
-- Rows of one operation, and of one session.
create index history_op on history (agent_id, op_id);
create index history_session on history (agent_id, session_id, ts) where session_id is not null;
-- What one refinement did.
create index history_refinement on history (agent_id, refinement_id) where refinement_id is not null;

-- The contents behind the digests: all that a purge or an erasure takes away. One function writes both tables, and
-- nobody takes a row of history away: a foreign key would cost a sixth of a save.
create table history_contents (
    agent_id   text not null,
    seq        bigint not null,
    scope_key  text,
    salt       bytea not null,
    before     jsonb,
    after      jsonb,
    primary key (agent_id, seq)
);

-- Where each agent's chain has come to, and the operation that is open on it: that of a transaction which still runs, by its
-- id and its time, for a dump that is restored elsewhere brings ids that come there once more. Whoever may write here may
-- claim any act, so that nobody may but the functions of the owner.
create table heads (
    agent_id       text primary key,
    seq            bigint not null,
    hash           bytea not null,
    op_xid         xid8,
    op_began       timestamptz,
    op_id          uuid,
    actor          text,
    actor_kind     text,
    reason         text,
    session_id     text,
    run_id         text,
    undo_of        uuid,
    refinement_id  uuid,
    meta           jsonb
) with (fillfactor = 50);

-- Figures of each session, and nothing of what memories say. Who holds it works on it until then; whoever comes later
-- takes a session up that was broken off.
create table refinements (
    agent_id         text not null references agents,
    id               uuid not null,
    scope_key        text not null,
    -- who had it started
    actor            text not null,
    started_at       timestamptz not null default clock_timestamp(),
    holder           uuid not null,
    until            timestamptz not null,
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

-- An erasure that runs, or ran: by whom, since when, and how far it has come; nothing of what it takes. A person's is whole.
create table erasures (
    agent_id   text not null references agents,
    id         uuid not null,
    -- whose: a person's, or a session's that is nobody's
    scope_key  text not null,
    is_whole   boolean not null default false,
    actor      text not null,
    begun_at   timestamptz not null default clock_timestamp(),
    memories   bigint not null default 0,
    messages   bigint not null default 0,
    ended_at   timestamptz,
    primary key (agent_id, id)
);
create unique index erasures_one_running on erasures (agent_id, scope_key) where ended_at is null;

-- What is still to be erased: memories, messages, and whether it was looked up what a memory went into.
create table erasing (
    agent_id     text not null,
    item_id      uuid not null,
    erasure_id   uuid not null,
    is_message   boolean not null,
    is_followed  boolean not null,
    primary key (agent_id, item_id, erasure_id),
    foreign key (agent_id, erasure_id) references erasures
);
create index erasing_next on erasing (agent_id, erasure_id, is_message);
create index erasing_unfollowed on erasing (agent_id, erasure_id) where not is_followed;

create table token_usage (
    agent_id       text not null references agents,
    day            date not null,
    step           text not null,
    model          text not null,
    calls          bigint not null,
    input_tokens   bigint not null,
    output_tokens  bigint not null,
    primary key (agent_id, day, step, model)
);

-- One row for each thread: where it stands, without a word of it. What was said stays in the saver's blobs.
create table supervisor_checkpoints (
    id               uuid primary key default gen_random_uuid(),
    agent_id         text not null,
    -- '' for a thread that is nobody's own
    user_id          text not null,
    thread_id        text not null,
    -- ids, versions, the step, the nodes that come next
    checkpoint_data  jsonb not null,
    created_at       timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    unique (agent_id, user_id, thread_id)
);

-- The saver's own tables, at version 9. thread_id is agent/user/thread in them, so that two people may name threads alike.
create table checkpoint_migrations (
    v integer primary key
);
insert into checkpoint_migrations select generate_series(0, 9);
create table checkpoints (
    thread_id             text not null,
    checkpoint_ns         text not null default '',
    checkpoint_id         text not null,
    parent_checkpoint_id  text,
    type                  text,
    checkpoint            jsonb not null,
    metadata              jsonb not null default '{}',
    primary key (thread_id, checkpoint_ns, checkpoint_id)
);
create table checkpoint_blobs (
    thread_id      text not null,
    checkpoint_ns  text not null default '',
    channel        text not null,
    version        text not null,
    type           text not null,
    blob           bytea,
    primary key (thread_id, checkpoint_ns, channel, version)
);
create table checkpoint_writes (
    thread_id      text not null,
    checkpoint_ns  text not null default '',
    checkpoint_id  text not null,
    task_id        text not null,
    idx            integer not null,
    channel        text not null,
    type           text,
    blob           bytea not null,
    task_path      text not null default '',
    primary key (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
create index supervisor_checkpoints_of_thread on supervisor_checkpoints (thread_id);
create index checkpoints_thread_id_idx on checkpoints (thread_id);
create index checkpoint_blobs_thread_id_idx on checkpoint_blobs (thread_id);
create index checkpoint_writes_thread_id_idx on checkpoint_writes (thread_id);

-- Operations --------------------------------------------------------------------------------------------------------

-- Locks the agent's head first (a trigger that locks it last deadlocks) and writes into it what the triggers record. No
-- setting opens a write, for anybody can set one.
create function open_operation(p_agent text, p_op uuid, p_actor text, p_actor_kind text, p_reason text,
                                          p_session text, p_run text, p_meta jsonb) returns void
language plpgsql security definer set search_path = mnemic, pg_temp set enable_seqscan = off as $$
begin
    insert into heads as h (agent_id, seq, hash, op_xid, op_began, op_id, actor, actor_kind, reason, session_id, run_id, meta)
    values (p_agent, 0, sha256(convert_to(p_agent, 'UTF8')), pg_current_xact_id(), transaction_timestamp(), p_op, p_actor,
            p_actor_kind, p_reason, p_session, p_run, p_meta)
    on conflict (agent_id) do update
       set op_xid = excluded.op_xid, op_began = excluded.op_began, op_id = excluded.op_id, actor = excluded.actor,
           actor_kind = excluded.actor_kind, reason = excluded.reason, session_id = excluded.session_id,
           run_id = excluded.run_id, undo_of = null, refinement_id = null, meta = excluded.meta;
    if exists (select from history where agent_id = p_agent and op_id = p_op) then
        raise exception 'an operation has an id of its own' using errcode = 'insufficient_privilege';
    end if;
end $$;

-- What persons and administrators do ends with the function that does it: the rest of the transaction is not theirs.
create function close_operation(p_agent text) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    update heads set op_xid = null where agent_id = p_agent
$$;

-- The agent's head, if this transaction has an operation open on it; else nothing but nulls.
create function open_head(p_agent text) returns heads
language plpgsql stable security definer set search_path = mnemic, pg_temp set enable_seqscan = off as $$
declare
    head heads;
begin
    select * into head from heads
     where agent_id = p_agent and op_xid = pg_current_xact_id() and op_began = transaction_timestamp();
    return head;
end $$;

-- What the service calls: the agent is the one its transaction was scoped to, and whoever acts is an agent. What only other
-- functions do is not its to claim; rollback, purge and the names of events rest on that.
create function begin_operation(p_op uuid, p_actor text, p_reason text, p_session text, p_run text, p_meta jsonb)
returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    scoped_agent text := nullif(current_setting('mnemic.agent_id', true), '');
begin
    if scoped_agent is null then
        raise exception 'an operation needs a scoped transaction' using errcode = 'insufficient_privilege';
    elsif p_reason in ('undo', 'restore', 'erasure', 'retention', 'ttl', 'protection', 'merge', 'dedup') then
        raise exception 'this reason is given by the function that does it' using errcode = 'insufficient_privilege';
    end if;
    perform open_operation(scoped_agent, p_op, p_actor, 'agent', p_reason, p_session, p_run, p_meta);
end $$;

-- Constitutional memories: an administrator sets and lifts the protection, and nothing else touches such a row. Null: the agent
-- has no such living memory.
create function set_protection(p_agent text, p_memory uuid, p_protected boolean, p_actor text) returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    is_so boolean;
begin
    perform open_operation(p_agent, gen_random_uuid(), p_actor, 'admin', 'protection', null, null, '{}');
    select protected = p_protected into is_so
      from memories where agent_id = p_agent and id = p_memory and state = 'active' for update;
    if not is_so then
        update memories set protected = p_protected where agent_id = p_agent and id = p_memory;
    end if;
    perform close_operation(p_agent);
    return not is_so;
end $$;

-- Guards ------------------------------------------------------------------------------------------------------------

-- Runs with the rights of whoever writes: only inside a definer function is that the owner. What was erased stays so; and what
-- a memory says changes in a running refinement alone, but for the consolidation, which is rewritten.
create function guard_memory() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    if current_user = 'mnemic_owner' then
        if tg_op = 'DELETE' then return old; end if;
    elsif tg_op = 'DELETE' then
        raise exception 'memories are never deleted, only closed' using errcode = 'insufficient_privilege';
    elsif new.protected or (tg_op = 'UPDATE' and old.protected) then
        raise exception 'this memory is protected' using errcode = 'insufficient_privilege';
    elsif new.state = 'purged' then
        raise exception 'memories are erased by erase and purge alone' using errcode = 'insufficient_privilege';
    elsif (tg_op = 'INSERT' and new.kind = 'core' and new.provenance = 'consolidated'
           or tg_op = 'UPDATE' and new.kind <> 'consolidation' and new.content <> old.content)
          and not in_refinement(new.agent_id, new.scope_key) then
        raise exception 'memories are merged and rewritten in a running refinement alone'
            using errcode = 'insufficient_privilege';
    end if;
    if tg_op = 'UPDATE' then
        if (new.agent_id, new.id, new.kind, new.scope_key, new.category, new.created_at)
           is distinct from (old.agent_id, old.id, old.kind, old.scope_key, old.category, old.created_at)
           or new.subject_user_id is distinct from old.subject_user_id then
            raise exception 'identity, kind, scope and category of a memory do not change'
                using errcode = 'insufficient_privilege';
        elsif old.state = 'purged' then
            raise exception 'an erased memory does not change' using errcode = 'insufficient_privilege';
        end if;
        new.version := old.version + 1;
        new.updated_at := clock_timestamp();
    end if;
    return new;
end $$;
create trigger guard before insert or update or delete on memories for each row execute function guard_memory();

-- What happened to a memory, by its rows before and after. As an expression it becomes part of what asks.
create function history_event(before jsonb, after jsonb) returns text
language sql immutable
return case
    when before is null then 'ADD'
    when after is null then 'DELETE'
    when after -> 'state' = before -> 'state' and (after -> 'protected')::boolean and not (before -> 'protected')::boolean
        then 'PROTECT'
    when after -> 'state' = before -> 'state' and (before -> 'protected')::boolean and not (after -> 'protected')::boolean
        then 'UNPROTECT'
    when after -> 'state' = before -> 'state' then 'UPDATE'
    when after ->> 'state' = 'absorbed' then 'ABSORB'
    when after ->> 'state' = 'superseded' then 'SUPERSEDE'
    when after ->> 'state' = 'soft_deleted' then 'DELETE'
    when after ->> 'state' = 'purged' then 'PURGE'
    else 'RESTORE'
end;

-- What a row of the chain is hashed by, version h1: every column but the hash itself, in the table's order.
create function history_text(h history) returns text
language sql stable
return jsonb_build_array(
    'h1', h.agent_id, h.seq, h.op_id, h.event, h.memory_id, h.scope_key, h.category, h.actor, h.actor_kind, h.reason,
    h.session_id, h.run_id, h.refinement_id, h.undo_of, encode(h.before_digest, 'hex'), encode(h.after_digest, 'hex'),
    h.token_delta, h.meta, (extract(epoch from h.ts) * 1000000)::bigint, encode(h.prev, 'hex'))::text;
create function history_hash(h history) returns bytea
language sql stable
return sha256(convert_to(history_text(h), 'UTF8'));

-- Once for each statement that changes memories or relations, with a row for each of them in their order: 100 memories cost
-- the head one look-up and one new version instead of 100. The head is looked up by its key, whatever a table that was small
-- once would have been read by; what is written depends on no session's time zone or digits.
create function record_history() returns trigger
language plpgsql security definer set search_path = mnemic, pg_temp set enable_seqscan = off
    set timezone = 'UTC' set extra_float_digits = 1 as $$
declare
    changed  refcursor;
    change   record;
    subject  jsonb;
    head     heads;
    h        history;
    c        history_contents;
    rows     history[];
    contents history_contents[];
    -- kept nowhere, so that an erased salt does not follow from the others; drawn once, for each draw opens a file
    pepper   bytea := uuid_send(gen_random_uuid());
begin
    case tg_op
    when 'INSERT' then
        open changed for select null::jsonb as earlier, to_jsonb(n) as later from new_rows n;
    when 'DELETE' then
        open changed for select to_jsonb(o) as earlier, null::jsonb as later from old_rows o;
    else -- the guard keeps ids; were it off, both rows would still leave one each
        open changed for
            select to_jsonb(o) as earlier, n.later
              from (select agent_id, id, to_jsonb(n) as later, row_number() over () as nth from new_rows n) as n
              full join old_rows o using (agent_id, id)
             order by n.nth;
    end case;
    loop
        fetch changed into change;
        exit when not found;
        subject := coalesce(change.later, change.earlier);
        if h.agent_id is distinct from subject ->> 'agent_id' then
            update heads set seq = h.seq, hash = h.hash where agent_id = h.agent_id;
            head := open_head(subject ->> 'agent_id');
            if head.agent_id is null then
                raise exception 'a memory changes only inside an operation' using errcode = 'insufficient_privilege';
            end if;
            h.agent_id := head.agent_id;
            h.seq := head.seq;
            h.hash := head.hash;
            h.op_id := head.op_id;
            h.actor := head.actor;
            h.actor_kind := head.actor_kind;
            h.reason := head.reason;
            h.session_id := head.session_id;
            h.run_id := head.run_id;
            h.undo_of := head.undo_of;
            h.refinement_id := head.refinement_id;
            h.meta := head.meta;
        end if;
        h.seq := h.seq + 1;
        h.prev := h.hash;
        h.event := case when tg_table_name = 'relations' then 'LINK'
                        when h.reason = 'erasure' and change.later ->> 'state' = 'purged' then 'ERASE'
                        when h.reason = 'merge' and change.later ->> 'state' = 'soft_deleted' then 'MERGE'
                        when h.reason = 'dedup' and change.later ->> 'state' = 'soft_deleted' then 'DEDUP'
                        else history_event(change.earlier, change.later) end;
        h.memory_id := coalesce(subject ->> 'id', subject ->> 'from_id');
        h.scope_key := subject ->> 'scope_key';
        h.category := subject ->> 'category';
        c := (h.agent_id, h.seq, h.scope_key, sha256(pepper || int8send(h.seq)), change.earlier, change.later);
        h.before_digest := sha256(c.salt || convert_to(c.before::text, 'UTF8'));
        if c.after ->> 'state' = 'purged' then -- what was there is gone for good, and so is the salt of its digest
            c.before := null;
            c.salt := sha256(pepper || int8send(-h.seq));
        end if;
        h.after_digest := sha256(c.salt || convert_to(c.after::text, 'UTF8'));
        h.token_delta := case when c.after ->> 'state' = 'active' then (c.after ->> 'tokens')::integer else 0 end
                       - case when change.earlier ->> 'state' = 'active' then (change.earlier ->> 'tokens')::integer else 0 end;
        h.ts := clock_timestamp();
        h.hash := history_hash(h);
        rows := rows || h;
        contents := contents || c;
    end loop;
    insert into history select * from unnest(rows);
    insert into history_contents select * from unnest(contents);
    update heads set seq = h.seq, hash = h.hash where agent_id = h.agent_id;
    return null;
end $$;
create trigger record_insert after insert on memories
    referencing new table as new_rows for each statement execute function record_history();
create trigger record_update after update on memories
    referencing old table as old_rows new table as new_rows
    for each statement execute function record_history();
create trigger record_delete after delete on memories
    referencing old table as old_rows for each statement execute function record_history();
create trigger record_insert after insert on relations
    referencing new table as new_rows for each statement execute function record_history();
create trigger record_delete after delete on relations
    referencing old table as old_rows for each statement execute function record_history();

create function refuse_change() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    raise exception 'history is append-only' using errcode = 'insufficient_privilege';
end $$;
create trigger append_only before update or delete or truncate on history
    for each statement execute function refuse_change();
create trigger append_only before update or truncate on history_contents
    for each statement execute function refuse_change();
-- Contents of the history never change; they go with an erasure or a purge.
create function refuse_contents_change() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    if exists (select from (select distinct agent_id from old_rows) as gone
                where (open_head(gone.agent_id)).reason in ('erasure', 'retention') is not true) then
        raise exception 'history is append-only' using errcode = 'insufficient_privilege';
    end if;
    return null;
end $$;
create trigger erased_only after delete on history_contents referencing old table as old_rows
    for each statement execute function refuse_contents_change();
create trigger never_truncated before truncate on memories for each statement execute function refuse_change();

-- A memory's entries follow its state, its category and its words: new words are searched at once, by text, until somebody
-- brings their vector. A reflection is searched only once it has left the context.
create function searchable(memory_kind text, memory_state text) returns boolean
language sql immutable
return case memory_kind when 'reflection' then memory_state = 'absorbed' else memory_state = 'active' end;
create function keep_entries() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    if new.content <> old.content and new.state <> 'purged' then
        delete from entries where agent_id = new.agent_id and item_id = new.id;
        if found then
            insert into entries (agent_id, scope_key, item_id, kind, category, model, tsv, living)
            values (new.agent_id, new.scope_key, new.id, new.kind, new.category, '',
                    to_tsvector('english', indexed_text(new)), searchable(new.kind, new.state));
        end if;
    else
        update entries set living = searchable(new.kind, new.state), category = new.category
         where agent_id = new.agent_id and item_id = new.id;
    end if;
    return null;
end $$;
create trigger entries_follow after update on memories for each row
    when (old.state is distinct from new.state or old.category is distinct from new.category
          or old.content is distinct from new.content)
    execute function keep_entries();

-- What is indexed of a memory; policy/search_text.py writes the same.
create function indexed_text(m memories) returns text
language sql stable set search_path = mnemic, pg_temp as $$
    select '[' || to_char(m.valid_from at time zone 'UTC', 'FMDD FMMonth YYYY') || '] '
           || case when m.subject <> '' then m.subject || ': ' else '' end || m.content
$$;

-- Refinement --------------------------------------------------------------------------------------------------------

-- Whether the transaction acts for a session that runs on this scope key.
create function in_refinement(p_agent text, p_key text) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select exists (select from refinements r
                    where r.agent_id = p_agent and r.id = (open_head(p_agent)).refinement_id
                      and r.scope_key = p_key and r.ended is null and r.until > clock_timestamp())
$$;

-- Begins one act of a session, unless that has ended, or has passed to somebody else.
create function begin_act(p_refinement uuid, p_holder uuid, p_op uuid, p_actor text, p_reason text)
returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    scoped_agent text := nullif(current_setting('mnemic.agent_id', true), '');
begin
    if scoped_agent is null then
        raise exception 'an operation needs a scoped transaction' using errcode = 'insufficient_privilege';
    elsif p_reason not in ('refinement', 'merge', 'dedup', 'update', 'delete', 'protect') then
        raise exception 'this is no act of a refinement' using errcode = 'insufficient_privilege';
    end if;
    perform open_operation(scoped_agent, p_op, p_actor, 'agent', p_reason, null, null, '{}');
    perform 1 from refinements
      where agent_id = scoped_agent and id = p_refinement and holder = p_holder and ended is null
        and until > clock_timestamp() and cardinality(own_keys(array[scope_key])) = 1
        for update;
    if not found then
        perform close_operation(scoped_agent);
        return false;
    end if;
    update heads set refinement_id = p_refinement where agent_id = scoped_agent;
    return true;
end $$;

-- A model may have read what is erased while it thinks: a session on that core memory is taken from whoever holds it, and whoever
-- takes it up reads anew.
create function lapse_session() returns trigger
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    update refinements set holder = gen_random_uuid(), until = clock_timestamp()
     where agent_id = new.agent_id and scope_key = new.scope_key and ended is null and until > clock_timestamp();
    return null;
end $$;
create trigger sessions_lapse after update on memories for each row
    when (new.state = 'purged' and old.state <> 'purged' and new.kind in ('core', 'reflection', 'consolidation'))
    execute function lapse_session();

-- An agent protects a core memory of its own: inside a session alone, and it cannot take that back.
create function protect_in_refinement(p_memory uuid, p_version integer) returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    update memories m set protected = true
     where m.agent_id = current_setting('mnemic.agent_id') and m.id = p_memory and m.version = p_version
       and m.state = 'active' and m.kind in ('core', 'reflection') and not m.protected
       and in_refinement(m.agent_id, m.scope_key) and cardinality(own_keys(array[m.scope_key])) = 1;
    return found;
end $$;

-- One row of history for the beginning of a session and one for its end, with its figures.
create function record_session() returns trigger
language plpgsql security definer set search_path = mnemic, pg_temp set enable_seqscan = off
    set timezone = 'UTC' set extra_float_digits = 1 as $$
declare
    head heads := open_head(new.agent_id);
    h    history;
begin
    if head.agent_id is null then
        raise exception 'a refinement begins and ends inside an operation' using errcode = 'insufficient_privilege';
    end if;
    h.agent_id := head.agent_id;
    h.seq := head.seq + 1;
    h.prev := head.hash;
    h.op_id := head.op_id;
    h.event := 'SESSION';
    h.scope_key := new.scope_key;
    h.actor := head.actor;
    h.actor_kind := head.actor_kind;
    h.reason := head.reason;
    h.refinement_id := new.id;
    h.token_delta := 0;
    h.meta := jsonb_strip_nulls(to_jsonb(new) - '{agent_id,id,scope_key,holder,until}'::text[]);
    h.ts := clock_timestamp();
    h.hash := history_hash(h);
    insert into history select * from unnest(array[h]);
    update heads set seq = h.seq, hash = h.hash where agent_id = h.agent_id;
    return null;
end $$;
create trigger record_begin after insert on refinements for each row execute function record_session();
create trigger record_end after update on refinements for each row when (old.ended is null and new.ended is not null)
    execute function record_session();

-- Rollback ----------------------------------------------------------------------------------------------------------
-- What is to change is planned by reading alone; then it is done in steps, each an operation that holds the agent's head briefly.
-- The scope of these functions is that of the transaction: its agent and, but for administrators, its scope keys.

-- The steps of a rollback that took more than one.
create index history_rollback on history (agent_id, (meta ->> 'rollback'), seq) where meta ->> 'rollback' is not null;

-- Whether a row of history tells of a memory's row; others tell of relations, reads, refusals.
create function tells_of_memory(h history) returns boolean
language sql immutable
return h.event <> 'LINK' and (h.before_digest is not null or h.after_digest is not null);

-- Operations, and of a rollback all its steps.
create function whole_operations(p_agent text, p_ops uuid[]) returns uuid[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select array(
        select unnest(p_ops)
        union
        select s.op_id from history s
         where s.agent_id = p_agent and s.meta ->> 'rollback' = any(array(
               select distinct h.meta ->> 'rollback' from history h
                where h.agent_id = p_agent and h.op_id = any(p_ops) and h.meta ->> 'rollback' is not null)))
$$;

-- The rollback that the same call began, with a cascade or without, and that was broken off: the last of its steps had
-- something left to do.
create function unfinished_rollback(p_agent text, p_request jsonb) returns uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive begun(id) as ( -- one after the other, and not every row of each
        select min(h.meta ->> 'rollback') from history h where h.agent_id = p_agent and h.meta ->> 'rollback' is not null
        union all
        select (select min(h.meta ->> 'rollback') from history h where h.agent_id = p_agent and h.meta ->> 'rollback' > b.id)
          from begun b where b.id is not null
    )
    select b.id::uuid
      from begun b
     cross join lateral (select h.seq, h.meta from history h where h.agent_id = p_agent and h.meta ->> 'rollback' = b.id
                          order by h.seq desc limit 1) as l
     where l.meta - '{rollback,left,cascade}'::text[] = p_request - 'cascade' and (l.meta ->> 'left')::integer > 0
     order by l.seq desc limit 1
$$;

-- The operations, and those that must be undone with them: later changes of the same memories, and what those touched.
-- What was erased is in nobody's way any more, nor is what stands for itself since.
create function operations_after(p_agent text, p_keys text[], p_ops uuid[]) returns uuid[]
language plpgsql stable security definer set search_path = mnemic, pg_temp as $$
declare
    ops   uuid[] := p_ops;
    later uuid[] := p_ops;
begin
    loop
        later := array(
            select distinct l.op_id
              from (select h.memory_id, min(h.seq) as seq
                      from history h join memories m on m.agent_id = h.agent_id and m.id = h.memory_id and m.state <> 'purged'
                     where h.agent_id = p_agent and h.op_id = any(later) and (p_keys is null or h.scope_key = any(p_keys))
                       and tells_of_memory(h)
                     group by h.memory_id) as f
              join history l on l.agent_id = p_agent and l.memory_id = f.memory_id and l.seq > f.seq
             where tells_of_memory(l) and l.reason <> 'erasure' and l.op_id not in (select unnest(ops) offset 0));
        exit when cardinality(later) = 0;
        later := whole_operations(p_agent, later);
        ops := ops || later;
    end loop;
    return ops;
end $$;

-- Whether a memory, or one that it went into, is in use, or was forgotten.
create function stands(p_agent text, p_memory uuid) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive whole(id) as (
        select p_memory
        union
        select r.from_id from whole w join relations r on r.agent_id = p_agent and r.to_id = w.id
         where r.relation_type in ('merged_from', 'same_as')
    )
    select exists (select from whole w join memories o on o.agent_id = p_agent and o.id = w.id
                    where o.state = 'active'
                       or (select h.event from history h
                            where h.agent_id = p_agent and h.memory_id = o.id
                              and h.event in ('ADD', 'RESTORE', 'DELETE', 'MERGE', 'DEDUP')
                            order by h.seq desc limit 1) = 'DELETE')
$$;

-- What went into a memory by an operation, and that memory was erased, so that it stands for itself.
create function orphaned(p_agent text) returns table (memory_id uuid, op_id uuid)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select (k.after ->> 'to_id')::uuid, l.op_id
      from memories w
      join history l on l.agent_id = p_agent and l.memory_id = w.id and l.event = 'LINK'
      join history_contents k on k.agent_id = p_agent and k.seq = l.seq
     where w.agent_id = p_agent and w.state = 'purged' and k.after ->> 'relation_type' in ('merged_from', 'same_as')
       and not stands(p_agent, w.id)
$$;

-- A memory as it will be: as its row of back then, or out of use where it was not yet there.
create function final_row(m memories, p_was jsonb, p_is_free boolean) returns setof memories
language sql stable
begin atomic
    select r.* from jsonb_populate_record(m, coalesce(p_was, '{"state": "soft_deleted", "superseded_by": null,
           "absorbed_at": null, "consolidated_into": null, "purge_at": null}') - '{version,updated_at}'::text[]
           -- what took it in was erased: it stands for itself, as after that erasure
           || case when p_is_free or exists (select from memories c where c.agent_id = m.agent_id and c.state = 'purged'
                                                and c.id = (p_was ->> 'consolidated_into')::uuid)
                   then '{"state": "active", "absorbed_at": null, "consolidated_into": null}' else '{}'::jsonb end) as r;
end;

-- Whether two living rows stand in each other's way.
create function are_twins(a memories, b memories) returns boolean
language sql immutable
return a.id <> b.id and a.scope_key = b.scope_key and a.kind = b.kind
       and (a.kind = 'consolidation'
            or a.content_hash = b.content_hash and a.subject_user_id is not distinct from b.subject_user_id);

-- Where a memory lives: two in one place are twins.
create function place_of(m memories) returns text
language sql stable
return jsonb_build_array(m.scope_key, m.kind,
                         case when m.kind <> 'consolidation' then jsonb_build_array(m.content_hash, m.subject_user_id) end)::text;

-- The living memory in such a place.
create function living_at(p_agent text, p_key text, p_kind text, p_hash uuid, p_subject text) returns setof memories
language sql stable
begin atomic
    select o.* from memories o
     where o.agent_id = p_agent and o.scope_key = p_key and o.state = 'active' and p_kind <> 'consolidation'
       and o.content_hash = p_hash and o.kind = p_kind and coalesce(o.subject_user_id, '') = coalesce(p_subject, '')
    union all
    select o.* from memories o
     where o.agent_id = p_agent and o.scope_key = p_key and o.state = 'active' and o.kind = 'consolidation'
       and p_kind = 'consolidation';
end;

-- The messages that memories rest on: their own, and those of what was merged into them or removed for their sake.
create function rests_on(p_agent text, p_memories uuid[]) returns table (message_id uuid)
language sql stable set search_path = mnemic, pg_temp as $$
    with recursive part(id) as (
        select unnest(p_memories)
        union
        select r.to_id from part p join relations r on r.agent_id = p_agent and r.from_id = p.id
         where r.relation_type in ('merged_from', 'same_as')
    )
    select distinct s.message_id from part p join sources s on s.agent_id = p_agent and s.memory_id = p.id
$$;

-- Whether a living memory other than these rests on a message.
create function is_rested_on(p_agent text, p_message uuid, p_but uuid[]) returns boolean
language sql stable set search_path = mnemic, pg_temp as $$
    with recursive holder(id) as (
        select memory_id from sources where agent_id = p_agent and message_id = p_message
        union
        select r.from_id from holder h join relations r on r.agent_id = p_agent and r.to_id = h.id
         where r.relation_type in ('merged_from', 'same_as')
    )
    select exists (select from holder h join memories m on m.agent_id = p_agent and m.id = h.id
                    where m.state in ('active', 'absorbed') and m.id <> all(p_but))
$$;

-- Tells what it means to give memories back what they were before rows of their history, and relations before theirs: what
-- changes, what stands against it, and what a step has to know of it. Each part is sorted or looked up once and never joined
-- to itself, so that it takes as long as there are memories. turn: what is closed makes room for what comes back; between
-- them what takes the place of another one that moves.
create function planned(p_agent text, p_ids uuid[], p_firsts bigint[], p_links bigint[], p_administers boolean)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               seq bigint, is_orphan boolean, turn integer)
language sql stable security definer set search_path = mnemic, pg_temp set timezone = 'UTC' as $$
    with target as materialized (
        select t.id, p.seq, c.after as was, p.after_digest is not null and c.after is null as is_erased,
               coalesce(c.after ->> 'state' = 'soft_deleted'
                        and (t.id, p.op_id) in (select o.memory_id, o.op_id from orphaned(p_agent) as o offset 0), false) as is_orphan
          from unnest(p_ids, p_firsts) as t(id, first)
          left join lateral (
               select h.seq, h.op_id, h.after_digest from history h
                where h.agent_id = p_agent and h.memory_id = t.id and h.seq < t.first and tells_of_memory(h)
                order by h.seq desc limit 1) as p on true
          left join history_contents c on c.agent_id = p_agent and c.seq = p.seq
    ), final as materialized (
        select m.id, m.kind, m.scope_key, m.state as before_state, r.state as after_state, m.version, t.seq, t.is_orphan,
               m.protected or r.protected as is_protected, r.content_hash, r.subject_user_id,
               case when m.state = 'active' then place_of(m) end as leaves,
               case when r.state = 'active' then place_of(r) end as takes
          from target t join memories m on m.agent_id = p_agent and m.id = t.id
         cross join lateral final_row(m, t.was, t.is_orphan) as r
         where m.state <> 'purged' and not t.is_erased and r is distinct from m
    ), tied as (
        select p.id from (
            select s.id, bool_or(s.takes) over place and not bool_and(s.takes) over place as is_tied
              from (select id, takes as place, true as takes from final where takes is not null
                    union all select id, leaves, false from final where leaves <> takes) as s
            window place as (partition by s.place)) as p
         where p.is_tied
    ), twin as (
        select f.id, f.kind, f.scope_key, f.before_state, f.after_state
          from (select *, count(*) over (partition by takes) as there from final where takes is not null) as f
         where f.there > 1
        union
        select o.id, o.kind, o.scope_key, o.state, null
          from final f cross join lateral living_at(p_agent, f.scope_key, f.kind, f.content_hash, f.subject_user_id) as o
         where f.takes is not null and o.id not in (select id from final offset 0)
    ), link as (
        select distinct on (e.link ->> 'from_id', e.link ->> 'to_id', e.link ->> 'relation_type')
               c.seq, c.scope_key, e.link, c.before is not null as comes
          from history_contents c cross join lateral (select coalesce(c.after, c.before) as link) as e
         where c.agent_id = p_agent and c.seq = any(p_links)
         order by e.link ->> 'from_id', e.link ->> 'to_id', e.link ->> 'relation_type', c.seq
    )
    select 'change', id, kind, scope_key, before_state, after_state, version, seq, is_orphan,
           case when after_state = 'soft_deleted' then 0 when after_state <> 'active' then 1
                when id in (select t.id from tied t offset 0) then 2 else 3 end
      from final
    union all
    select 'erased', m.id, m.kind, m.scope_key, m.state, t.was ->> 'state', null, null, null, null
      from target t join memories m on m.agent_id = p_agent and m.id = t.id
     where t.is_erased or (m.state = 'purged' and t.was is not null)
    union all
    select 'protected', id, kind, scope_key, before_state, after_state, null, null, null, null
      from final where is_protected and not p_administers
    union all
    select 'twin', id, kind, scope_key, before_state, after_state, null, null, null, null from twin
    union all
    select 'relation', (l.link ->> 'from_id')::uuid, null, l.scope_key, null, null, null, l.seq, null, null
      from link l
     where l.comes <> exists (select from relations r
                               where r.agent_id = p_agent and r.from_id = (l.link ->> 'from_id')::uuid
                                 and r.to_id = (l.link ->> 'to_id')::uuid and r.relation_type = l.link ->> 'relation_type')
    order by 1, 10, 2
$$;

-- What undoing operations means. A memory that was changed later is a conflict: its later operations are listed, and undone
-- too where that is wanted. What the same call began and did not finish is none.
create function plan_undo_of(p_agent text, p_keys text[], p_ops uuid[], p_cascade boolean, p_request jsonb)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               seq bigint, is_orphan boolean, turn integer, op_id uuid, reason text)
language plpgsql stable security definer set search_path = mnemic, pg_temp as $$
#variable_conflict use_column
declare
    resumed uuid := unfinished_rollback(p_agent, p_request);
    asked   uuid[] := whole_operations(p_agent, p_ops);
    begun   uuid[] := asked || whole_operations(p_agent, array_remove(array[resumed], null));
    ops     uuid[] := operations_after(p_agent, p_keys, begun);
    ids     uuid[];
    firsts  bigint[];
begin
    return query
        select 'operation', null::uuid, null, null, null, null, null::integer, null::bigint, null::boolean, null::integer, o, null
          from unnest(p_ops) as o
         where o in (select unnest(array[h.op_id, (h.meta ->> 'rollback')::uuid]) from history h
                      where h.agent_id = p_agent and h.op_id = any(asked) and (h.event = 'LINK' or tells_of_memory(h))
                        and (p_keys is null or h.scope_key = any(p_keys)) offset 0)
        union all
        select 'resumed', null, null, null, null, null, null, null, null, null, resumed, null where resumed is not null;
    return query
        select distinct 'conflict', null::uuid, null, null, null, null, null::integer, null::bigint, null::boolean, null::integer,
               coalesce((h.meta ->> 'rollback')::uuid, h.op_id), h.reason
          from history h where h.agent_id = p_agent and h.op_id = any(ops) and h.op_id not in (select unnest(begun) offset 0);
    if found and not p_cascade then
        return;
    end if;
    select array_agg(f.memory_id), array_agg(f.seq) into ids, firsts
      from (select h.memory_id, min(h.seq) as seq from history h
             where h.agent_id = p_agent and h.op_id = any(ops) and tells_of_memory(h)
               and (p_keys is null or h.scope_key = any(p_keys))
             group by h.memory_id) as f;
    return query
        select p.*, null::uuid, null from planned(
               p_agent, ids, firsts,
               array(select h.seq from history h where h.agent_id = p_agent and h.op_id = any(ops) and h.event = 'LINK'
                        and (p_keys is null or h.scope_key = any(p_keys))),
               p_keys is null) as p;
end $$;

-- What it means to give one scope key back the memories and relations that it had after a seq.
create function plan_restore_of(p_agent text, p_key text, p_seq bigint, p_administers boolean, p_request jsonb)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               seq bigint, is_orphan boolean, turn integer, op_id uuid, reason text)
language plpgsql stable security definer set search_path = mnemic, pg_temp as $$
#variable_conflict use_column
declare
    ids uuid[] := array(select distinct h.memory_id from history h
                         where h.agent_id = p_agent and h.scope_key = p_key and h.seq > p_seq and tells_of_memory(h));
begin
    return query
        select 'resumed', null::uuid, null, null, null, null, null::integer, null::bigint, null::boolean, null::integer, u, null
          from unfinished_rollback(p_agent, p_request) as u where u is not null;
    return query
        select p.*, null::uuid, null from planned(
               p_agent, ids, array_fill(p_seq + 1, array[cardinality(ids)]),
               array(select h.seq from history h where h.agent_id = p_agent and h.scope_key = p_key and h.seq > p_seq
                        and h.event = 'LINK'),
               p_administers) as p;
end $$;

-- One step of what was planned, as an operation; p_whole: the rollback, where that takes more than one. False, and nothing is
-- written, where anything is not as the plan saw it.
create function take_step(p_agent text, p_keys text[], p_ids uuid[], p_versions integer[], p_seqs bigint[], p_orphans boolean[],
                          p_links bigint[], p_request jsonb, p_whole uuid, p_left integer, p_op uuid, p_actor text,
                          p_actor_kind text) returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp set timezone = 'UTC' as $$
declare
    finals memories[];
    hidden uuid[];
    shown  uuid[];
begin
    perform open_operation(p_agent, p_op, p_actor, p_actor_kind, case when p_request ? 'seq' then 'restore' else 'undo' end,
                           null, null, p_request || case when p_whole is null then '{}'::jsonb
                                                         else jsonb_build_object('rollback', p_whole, 'left', p_left) end);
    update heads set undo_of = (p_request #>> '{undone,0}')::uuid
     where agent_id = p_agent and p_request #>> '{undone,1}' is null;
    finals := array(
        select r from unnest(p_ids, p_versions, p_seqs, p_orphans) as t(id, version, seq, is_orphan)
          join memories m on m.agent_id = p_agent and m.id = t.id and m.version = t.version
          left join history h on h.agent_id = p_agent and h.seq = t.seq and h.memory_id = t.id
          left join history_contents c on c.agent_id = p_agent and c.seq = h.seq
         cross join lateral final_row(m, c.after, t.is_orphan) as r
         where (t.seq is null or c.after is not null) and m.state <> 'purged'
           and (p_keys is null or m.scope_key = any(p_keys) and not (m.protected or r.protected))
         order by r.id);
    if cardinality(finals) <> cardinality(p_ids)
       or exists (select from unnest(finals) as f
                   cross join lateral living_at(p_agent, f.scope_key, f.kind, f.content_hash, f.subject_user_id) as o
                   where f.state = 'active' and o.id <> all(p_ids)) then
        perform close_operation(p_agent);
        return false;
    end if;
    hidden := array(select f.id from unnest(finals) as f join memories m on m.agent_id = p_agent and m.id = f.id
                     where f.state = 'soft_deleted' and m.state <> 'soft_deleted');
    shown := array(select f.id from unnest(finals) as f join memories m on m.agent_id = p_agent and m.id = f.id
                    where f.state <> 'soft_deleted' and m.state <> f.state);
    -- a place is freed before it is taken: first those that stand where another one has to go
    update memories m set state = 'soft_deleted'
      from unnest(finals) as f
     where m.agent_id = p_agent and m.id = f.id and m.state = 'active' and f.state = 'active' and m.content_hash <> f.content_hash
       and exists (select from unnest(finals) as g where g.state = 'active' and are_twins(g, m));
    perform write_finals(p_agent, array(select f from unnest(finals) as f where f.state <> 'active'));
    perform write_finals(p_agent, array(select f from unnest(finals) as f where f.state = 'active'));
    perform roll_back_links(p_agent, p_keys, p_links);
    -- what was said goes out of search with the last memory that rests on it, and comes back with the first: one that was
    -- superseded may have been closed before the last was forgotten
    update entries e set living = false
      from rests_on(p_agent, hidden) as s
     where e.agent_id = p_agent and e.item_id = s.message_id
       and (p_keys is null or e.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[]))
       and not is_rested_on(p_agent, s.message_id, '{}');
    update entries e set living = true
      from rests_on(p_agent, shown) as s
     where e.agent_id = p_agent and e.item_id = s.message_id
       and (p_keys is null or e.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[]));
    perform close_operation(p_agent);
    return true;
end $$;

-- Every column but the identity, which does not change, the version and the time of change, which go on.
create function write_finals(p_agent text, p_finals memories[]) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    update memories m
       set content = f.content, subject = f.subject, importance = f.importance, pinned = f.pinned,
           protected = f.protected, private = f.private, tags = f.tags, provenance = f.provenance, state = f.state,
           superseded_by = f.superseded_by, absorbed_at = f.absorbed_at, consolidated_into = f.consolidated_into,
           valid_from = f.valid_from, valid_until = f.valid_until, purge_at = f.purge_at,
           source_session_id = f.source_session_id, related_user_ids = f.related_user_ids, run_id = f.run_id,
           actor_id = f.actor_id, role = f.role, import_id = f.import_id
      from unnest(p_finals) as f
     where m.agent_id = p_agent and m.id = f.id
$$;

-- Relations as they were before these rows of history, of which there is one for each relation.
create function roll_back_links(p_agent text, p_keys text[], p_seqs bigint[]) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    delete from relations r
     using history_contents l
     where l.agent_id = p_agent and l.seq = any(p_seqs) and l.before is null and (p_keys is null or l.scope_key = any(p_keys))
       and r.agent_id = p_agent and r.from_id = (l.after ->> 'from_id')::uuid
       and r.to_id = (l.after ->> 'to_id')::uuid and r.relation_type = l.after ->> 'relation_type';
    insert into relations
    select r.* from history_contents l cross join lateral jsonb_populate_record(null::relations, l.before) as r
     where l.agent_id = p_agent and l.seq = any(p_seqs) and l.before is not null and (p_keys is null or l.scope_key = any(p_keys))
       and l.before ? 'from_id'
    on conflict do nothing;
end $$;

-- The last row of a scope key's history up to a time, never in the middle of an operation.
create function seq_at(p_key text, p_ts timestamptz) returns bigint
language sql stable set search_path = mnemic, pg_temp as $$
    select coalesce(max(h.seq), 0) from history h
     where h.agent_id = current_setting('mnemic.agent_id') and h.scope_key = p_key and h.ts <= p_ts
       and coalesce(h.meta ->> 'rollback', h.op_id::text) not in (
           select coalesce(l.meta ->> 'rollback', l.op_id::text) from history l
            where l.agent_id = current_setting('mnemic.agent_id') and l.scope_key = p_key and l.ts > p_ts offset 0)
$$;

-- Those of the keys that the transaction may touch; never null, which would be all.
create function own_keys(p_keys text[]) returns text[]
language sql stable set search_path = mnemic, pg_temp as $$
    select coalesce(array_agg(k), '{}') from unnest(p_keys) as k
     where k = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[])
$$;

-- What the service calls: for a person, on the scope keys of its transaction and, of these, the person's own.
create function plan_undo(p_keys text[], p_ops uuid[], p_cascade boolean, p_request jsonb)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               seq bigint, is_orphan boolean, turn integer, op_id uuid, reason text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select * from plan_undo_of(current_setting('mnemic.agent_id'), own_keys(p_keys), p_ops, p_cascade, p_request)
$$;
create function plan_restore(p_key text, p_seq bigint, p_request jsonb)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               seq bigint, is_orphan boolean, turn integer, op_id uuid, reason text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select r.* from unnest(own_keys(array[p_key])) as k(key)
     cross join lateral plan_restore_of(current_setting('mnemic.agent_id'), k.key, p_seq, false, p_request) as r
$$;
create function roll_back(p_keys text[], p_ids uuid[], p_versions integer[], p_seqs bigint[], p_orphans boolean[],
                          p_links bigint[], p_request jsonb, p_whole uuid, p_left integer, p_op uuid, p_actor text)
returns boolean
language sql security definer set search_path = mnemic, pg_temp as $$
    select take_step(current_setting('mnemic.agent_id'), own_keys(p_keys), p_ids, p_versions, p_seqs, p_orphans, p_links,
                     p_request, p_whole, p_left, p_op, p_actor, 'person')
$$;
-- What an administrator calls, on any scope key of the agent its transaction is bound to.
create function plan_undo_as_administrator(p_ops uuid[], p_cascade boolean, p_request jsonb)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               seq bigint, is_orphan boolean, turn integer, op_id uuid, reason text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select * from plan_undo_of(current_setting('mnemic.agent_id'), null, p_ops, p_cascade, p_request)
$$;
create function plan_restore_as_administrator(p_key text, p_seq bigint, p_request jsonb)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               seq bigint, is_orphan boolean, turn integer, op_id uuid, reason text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select * from plan_restore_of(current_setting('mnemic.agent_id'), p_key, p_seq, true, p_request)
$$;
create function roll_back_as_administrator(p_ids uuid[], p_versions integer[], p_seqs bigint[], p_orphans boolean[],
                                           p_links bigint[], p_request jsonb, p_whole uuid, p_left integer, p_op uuid,
                                           p_actor text) returns boolean
language sql security definer set search_path = mnemic, pg_temp as $$
    select take_step(current_setting('mnemic.agent_id'), null, p_ids, p_versions, p_seqs, p_orphans, p_links, p_request,
                     p_whole, p_left, p_op, p_actor, 'admin')
$$;
-- A scope key's memories after a seq, without what they say.
create function as_of_blind(p_key text, p_seq bigint)
returns table (id uuid, kind text, category text, state text, tokens integer, importance integer, protected boolean)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select l.memory_id, m.kind, m.category,
           case when c.after is null then 'purged' else c.after ->> 'state' end,
           coalesce((c.after ->> 'tokens')::integer, 0),
           coalesce((c.after ->> 'importance')::integer, m.importance),
           coalesce((c.after ->> 'protected')::boolean, false)
      from (select distinct on (h.memory_id) h.memory_id, h.seq, h.after_digest from history h
             where h.agent_id = current_setting('mnemic.agent_id') and h.scope_key = p_key and h.seq <= p_seq
               and tells_of_memory(h)
             order by h.memory_id, h.seq desc) as l
      join memories m on m.agent_id = current_setting('mnemic.agent_id') and m.id = l.memory_id
      left join history_contents c on c.agent_id = m.agent_id and c.seq = l.seq
     where l.after_digest is not null and c.after ->> 'state' is distinct from 'purged'
     order by l.memory_id
$$;

-- Threads ------------------------------------------------------------------------------------------------------------

-- How the ids of somebody's threads begin in the saver's tables; storage/threads.py writes the same.
create function threads_of(p_agent text, p_user text) returns text
language sql immutable
return replace(replace(p_agent, '%', '%25'), '/', '%2F') || '/' || replace(replace(p_user, '%', '%25'), '/', '%2F') || '/';

-- Part n of an id in the saver's tables: 1 the agent, 2 the user.
create function owner_part(p_thread text, n integer) returns text
language sql immutable
return replace(replace(split_part(p_thread, '/', n), '%2F', '/'), '%25', '%');

-- Writes down where a thread stands, in the transaction of its checkpoint: never anything of what was said.
create function note_standing() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    insert into supervisor_checkpoints as t (agent_id, user_id, thread_id, checkpoint_data)
    values (owner_part(new.thread_id, 1), owner_part(new.thread_id, 2),
            substr(new.thread_id, length(split_part(new.thread_id, '/', 1) || split_part(new.thread_id, '/', 2)) + 3),
            jsonb_build_object(
                'checkpoint_id', new.checkpoint_id, 'parent_id', new.parent_checkpoint_id,
                'step', new.metadata -> 'step', 'source', new.metadata -> 'source',
                -- the channels that start the nodes that come next
                'next', jsonb_path_query_array(
                    new.checkpoint, '$.channel_values.keyvalue().key ? (@ starts with "branch:to:")', '{}', true),
                'versions', new.checkpoint -> 'channel_versions'))
    on conflict (agent_id, user_id, thread_id) do update
       set checkpoint_data = excluded.checkpoint_data, updated_at = clock_timestamp()
     -- ids grow with time; an earlier one is pruned or copied
     where excluded.checkpoint_data ->> 'checkpoint_id' >= t.checkpoint_data ->> 'checkpoint_id';
    return null;
end $$;
create trigger stands_at after insert or update on checkpoints for each row when (new.checkpoint_ns = '')
    execute function note_standing();

-- Who has a thread of this id, who moved it last first: for a server that names threads by their ids alone. Ids and no more.
create function owners_of_thread(p_thread text) returns table (agent_id text, user_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select t.agent_id, t.user_id from supervisor_checkpoints t where t.thread_id = p_thread order by t.updated_at desc
$$;

-- Who has checkpoints of these runs; nothing finds them quickly, for a run is deleted or rolled back seldom.
create function owners_of_runs(p_runs text[]) returns table (agent_id text, user_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct owner_part(c.thread_id, 1), owner_part(c.thread_id, 2) from checkpoints c
     where c.metadata ->> 'run_id' = any(p_runs)
$$;

-- Erasure -----------------------------------------------------------------------------------------------------------

-- The planner's samples would keep texts and vectors whose rows are long erased, and no statement is planned by them.
alter table memories alter content set statistics 0, alter content_hash set statistics 0, alter subject set statistics 0,
    alter tags set statistics 0;
alter table messages alter content set statistics 0, alter author set statistics 0;
alter table entries alter vec set statistics 0, alter tsv set statistics 0;
alter table history_contents alter salt set statistics 0, alter before set statistics 0, alter after set statistics 0;
alter table scopes alter name set statistics 0, alter extraction_guidance set statistics 0,
    alter consolidation_guidance set statistics 0;
alter table checkpoints alter checkpoint set statistics 0, alter metadata set statistics 0;
alter table checkpoint_blobs alter blob set statistics 0;
alter table checkpoint_writes alter blob set statistics 0;

-- Nobody's statistics tell of a person who came to have many memories today: what looks single rows up says so, and what reads
-- many at once, too.

-- Takes what memories and messages say: contents, vectors, and what the history holds of them. The rows stay as skeletons, and
-- so does which rested on which; the digests stay, and without their salts they tell nothing. It beats protection.
create function wipe(p_agent text, p_memories uuid[], p_messages uuid[], p_op uuid) returns void
language plpgsql security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    delete from entries where agent_id = p_agent and item_id = any(p_memories || p_messages);
    update memories
       set state = 'purged', content = '', subject = '', tags = null, related_user_ids = null, protected = false,
           pinned = false, superseded_by = null, absorbed_at = null, consolidated_into = null, purge_at = null
     where agent_id = p_agent and id = any(p_memories);
    delete from history_contents c using history h
     where h.agent_id = p_agent and h.memory_id = any(p_memories) and h.event not in ('LINK', 'ERASE', 'PURGE')
       and c.agent_id = p_agent and c.seq = h.seq;
    delete from memory_use where agent_id = p_agent and memory_id = any(p_memories);
    -- what was pending counts as formed, so that no run meets a message without content
    update messages set content = null, author = '', formed_by = coalesce(formed_by, p_op), forget_at = null
     where agent_id = p_agent and id = any(p_messages);
    perform set_free(p_agent, p_memories);
end $$;

-- What is out of use because these erased memories stood for it: reflections of consolidations, and what was merged, into one
-- of those too that were erased before. Not what a memory stands for still that those were merged into, nor what was forgotten
-- by what it had become.
create function taken_in(p_agent text, p_erased uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive gone(id) as (
        select unnest(p_erased)
        union
        select m.id from gone g join relations r on r.agent_id = p_agent and r.from_id = g.id
          join memories m on m.agent_id = p_agent and m.id = r.to_id and m.state = 'purged'
         where r.relation_type in ('merged_from', 'same_as')
    )
    select id from memories where agent_id = p_agent and consolidated_into = any(p_erased)
    union
    -- told by the relation, which goes when the merge is undone and comes back when that is undone
    select r.to_id
      from gone g join relations r on r.agent_id = p_agent and r.from_id = g.id
      join memories m on m.agent_id = p_agent and m.id = r.to_id and m.state = 'soft_deleted'
     where r.relation_type in ('merged_from', 'same_as') and not stands(p_agent, r.from_id)
$$;

-- What erased memories had taken in stands for itself again: until it is consolidated anew, or merged. But for what a living
-- memory says already, and what is about to be erased.
create function set_free(p_agent text, p_erased uuid[]) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    update memories
       set state = 'active', absorbed_at = null, consolidated_into = null
     where agent_id = p_agent and id in (
           select distinct on (m.scope_key, m.kind, m.content_hash, m.subject_user_id) m.id
             from taken_in(p_agent, p_erased) as i join memories m on m.agent_id = p_agent and m.id = i
            where not exists (select from memories t where t.agent_id = p_agent and t.state = 'active' and are_twins(t, m))
              and not exists (select from erasing e where e.agent_id = p_agent and e.item_id = m.id)
            order by m.scope_key, m.kind, m.content_hash, m.subject_user_id, m.id)
$$;

-- The messages that memories rest on, but those that somebody else said.
create function own_sources(p_agent text, p_memories uuid[], p_user text) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select distinct m.id
      from sources s join messages m on m.agent_id = p_agent and m.id = s.message_id
     where s.agent_id = p_agent and s.memory_id = any(p_memories) and (m.user_id is null or m.user_id = p_user)
       and m.content is not null
$$;

-- What was formed with these messages and waits to lose its words, but for what somebody else said.
create function waiting_with(p_agent text, p_messages uuid[], p_user text) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select w.id from messages w
     where w.agent_id = p_agent and w.forget_at is not null and (w.user_id is null or w.user_id = p_user)
       and w.formed_by in (select formed_by from messages where agent_id = p_agent and id = any(p_messages))
$$;

-- What a person said, and what was answered: all that no person said before another one spoke. Of sessions in which
-- nobody else spoke, all of it.
create function said_by(p_agent text, p_user text) returns table (id uuid, session_id text, is_alone boolean)
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_nestloop = off set enable_mergejoin = off as $$
    with spoken as (
        select m.id, m.session_id, m.user_id, m.place,
               count(m.user_id) over (partition by m.session_id order by m.place) as turn,
               bool_and(m.user_id = p_user) over (partition by m.session_id) as is_alone
          from messages m
          join (select distinct session_id from messages where agent_id = p_agent and user_id = p_user) as t using (session_id)
         where m.agent_id = p_agent
    )
    select s.id, s.session_id, s.is_alone
      from (select *, first_value(user_id) over (partition by session_id, turn order by place) as speaker from spoken) as s
     where s.is_alone or s.speaker = p_user
$$;

-- Memories of a person, and those that what they said went into, whosever they are: those that rest on it, the episodes of runs
-- that read it, what was remembered in the person's name for others, and what was written in sessions where nobody else spoke.
create function formed_from(p_agent text, p_user text) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp set enable_nestloop = off set enable_seqscan = off as $$
    with said as materialized (
        select * from said_by(p_agent, p_user)
    ), alone as materialized (
        select distinct session_id from said where is_alone
    )
    select id from memories
     where agent_id = p_agent and (scope_key = 'user:' || p_user or subject_user_id = p_user)
    union
    -- offset 0: looked up one by one
    select s.memory_id
      from said cross join lateral (select memory_id from sources where agent_id = p_agent and message_id = said.id offset 0) as s
    union
    select m.id
      from (select distinct m.formed_by from said
             cross join lateral (select formed_by from messages where agent_id = p_agent and id = said.id offset 0) as m) as run
     cross join lateral (select memory_id from history
                          where agent_id = p_agent and op_id = run.formed_by and event = 'ADD' offset 0) as h
     cross join lateral (select id from memories where agent_id = p_agent and id = h.memory_id and kind = 'episode' offset 0) as m
    union
    select m.id from memories m join alone on alone.session_id = m.source_session_id
     where m.agent_id = p_agent and (m.scope_key not like 'user:%' or m.scope_key = 'user:' || p_user)
    union
    select m.id from memories m join alone on m.scope_key = 'session:' || alone.session_id where m.agent_id = p_agent
    union
    select m.id from memories m
     where m.agent_id = p_agent and m.actor_id = p_user and m.scope_key not like 'user:%' and exists (
           select from history h where h.agent_id = p_agent and h.memory_id = m.id and h.event = 'ADD'
              and h.reason in ('remember', 'remember_procedure') offset 0)
$$;

-- The words of a text.
create function words_in(p_text text) returns text[]
language sql immutable set search_path = mnemic, pg_temp as $$
    select tsvector_to_array(to_tsvector('english', coalesce(p_text, '')))
$$;

-- The words of a memory's row.
create function words_of(p_row jsonb) returns text[]
language sql immutable set search_path = mnemic, pg_temp as $$
    select tsvector_to_array(to_tsvector('english', coalesce(p_row ->> 'content', '')))
$$;

-- What a refinement wrote with words that it took away from this memory, and that were not in what it replaced.
create function taken_over(p_agent text, h history, c history_contents) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select w.memory_id
      from history w join history_contents n on n.agent_id = p_agent and n.seq = w.seq
     where w.agent_id = p_agent and w.refinement_id = h.refinement_id and w.event in ('ADD', 'UPDATE')
       and w.memory_id <> h.memory_id
       and exists (select unnest(words_of(c.before)) intersect select unnest(words_of(n.after))
                   except select unnest(words_of(c.after)) where h.event = 'UPDATE'
                   except select word from history o join history_contents b on b.agent_id = p_agent and b.seq = o.seq
                                 cross join unnest(words_of(b.before)) as word
                           where o.agent_id = p_agent and o.op_id = w.op_id and o.event in ('MERGE', 'UPDATE'))
$$;

-- What these memories went into, now or back then: facts that replaced them, for the two may have been merged, consolidations
-- that took them in, memories that they were merged into, and of a refinement that saw them what tells of it, and what took
-- their words over. Looked up row by row, whatever a table that was small once would have been read by.
create function went_into(p_agent text, p_memories uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with told as materialized (
        select l.h, k.c
          from unnest(p_memories) as i(id)
         -- offset 0: looked up one by one
         cross join lateral (select h from history h where h.agent_id = p_agent and h.memory_id = i.id offset 0) as l
          -- of what was erased before, the operation still tells
          left join lateral (select c from history_contents c where c.agent_id = p_agent and c.seq = (l.h).seq offset 0) as k on true
    ), born as (
        select (h).scope_key, min((h).ts) as ts from told where (h).event = 'ADD' group by 1
    )
    select coalesce((c).after ->> 'superseded_by', (c).after ->> 'consolidated_into')::uuid from told
     where coalesce((c).after ->> 'superseded_by', (c).after ->> 'consolidated_into') is not null
    union
    select o.memory_id from told join history o on o.agent_id = p_agent and o.op_id = (h).op_id and o.event = 'ADD'
     where (h).event = 'MERGE'
    union
    select j.id from born b
      join memories j on j.agent_id = p_agent and j.scope_key = b.scope_key and j.kind = 'journal' and j.created_at >= b.ts
    union
    select t from told cross join lateral taken_over(p_agent, h, c) as t
     where (h).refinement_id is not null and (h).event in ('DELETE', 'MERGE', 'UPDATE')
    union
    select o.memory_id from told
      join history o on o.agent_id = p_agent and o.op_id = (h).op_id and o.scope_key = (h).scope_key
      join memories m on m.agent_id = p_agent and m.id = o.memory_id
     where (c).seq is null
       and ((h).event = 'ABSORB' and m.kind = 'consolidation'
            or (h).event = 'SUPERSEDE' and m.kind = 'fact' and o.event = 'ADD')
$$;

-- What a memory came from: facts that it replaced, now or back then, and what was merged into it.
create function came_from(p_agent text, p_memory uuid) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select m.id from memories m where m.agent_id = p_agent and m.superseded_by = p_memory
    union
    select r.to_id from relations r where r.agent_id = p_agent and r.from_id = p_memory and r.relation_type = 'merged_from'
    union
    select o.memory_id
      from history h join history o on o.agent_id = p_agent and o.op_id = h.op_id
      left join history_contents c on c.agent_id = p_agent and c.seq = o.seq
     where h.agent_id = p_agent and h.memory_id = p_memory and h.event = 'ADD'
       and (o.event = 'MERGE' or o.event = 'SUPERSEDE' and c.after ->> 'superseded_by' = p_memory::text)
$$;

-- What a refinement removed because it says exactly the same, and what it kept.
create function same_as(p_agent text, p_memory uuid) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select case r.from_id when p_memory then r.to_id else r.from_id end from relations r
     where r.agent_id = p_agent and p_memory in (r.from_id, r.to_id) and r.relation_type = 'same_as'
$$;

-- All words that memories ever had, but for the name of whom they are about.
create function words_ever(p_agent text, p_memory uuid) returns text[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select array(select unnest(words_in(m.content))
                 union
                 select word from history h join history_contents c on c.agent_id = p_agent and c.seq = h.seq
                               cross join unnest(words_of(c.before) || words_of(c.after)) as word
                  where h.agent_id = p_agent and h.memory_id = p_memory and tells_of_memory(h)
                 except
                 select unnest(words_in(m.subject)))
      from memories m where m.agent_id = p_agent and m.id = p_memory
$$;

-- Memories, and where their words live on: what they came from, what they and that went into, what is exactly the same, with
-- whatever lies between. Nothing is taken that shares no word with them; of a text that is one word, all of it.
create function lineage(p_agent text, p_memories uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive earlier(origin, id) as (
        select i, i from unnest(p_memories) as i
        union
        select e.origin, n.id from earlier e
         cross join lateral (select came_from(p_agent, e.id) union select same_as(p_agent, e.id)) as n(id)
    ), kin(origin, id) as (
        select * from earlier
        union
        select k.origin, n.id from kin k
         cross join lateral (select went_into(p_agent, array[k.id]) union select same_as(p_agent, k.id)) as n(id)
    ), told as materialized (
        select id, words_ever(p_agent, id) as words from (select distinct id from kin) as k
    )
    select distinct k.id from kin k join told o on o.id = k.origin join told t on t.id = k.id
     where k.id = k.origin or o.words && t.words or least(cardinality(o.words), cardinality(t.words)) < 2
$$;

-- Messages of a person, or of a session that is nobody's, that say what these memories say, or what these messages say.
create function saying(p_agent text, p_keys text[], p_user text, p_memories uuid[], p_messages uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with theirs as materialized (
        select m.id, words_in(m.content) as words from messages m
         where m.agent_id = p_agent and m.content is not null
           and (m.user_id = p_user
                or m.user_id is null
                   and (m.scope_key = any(p_keys)
                        or m.session_id in (select session_id from messages where agent_id = p_agent and user_id = p_user)))
    ), told as materialized (
        select m.id, array(select unnest(words_in(m.content)) except select unnest(words_in(m.subject))) as words
          from memories m where m.agent_id = p_agent and m.id = any(p_memories)
    ), theirs_words as materialized (
        select id, unnest(words) as word from theirs
    ), rarity as materialized (
        select word, count(*) as messages from theirs_words group by word
    ), sought as materialized ( -- by the rarest of its words
        select distinct on (o.id) o.words, w.word
          from told o cross join unnest(o.words) as w(word) join rarity r on r.word = w.word
         where cardinality(o.words) > 1 order by o.id, r.messages
    )
    select t.id from sought s join theirs_words w on w.word = s.word join theirs t on t.id = w.id
     where t.words @> s.words
    union
    select t.id from theirs t
      join (select words_in(content) as words from messages where agent_id = p_agent and id = any(p_messages)) as g
        on g.words = t.words
     -- and tell of them: "yes, please" is said of many things
     where cardinality(t.words) > 1 and t.words && array(select unnest(words) from told)
$$;

-- Memories that rest on these messages and hold all words of one of these memories.
create function holding(p_agent text, p_messages uuid[], p_memories uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct m.id
      from sources s join memories m on m.agent_id = p_agent and m.id = s.memory_id
      join memories t on t.agent_id = p_agent and t.id = any(p_memories)
     where s.agent_id = p_agent and s.message_id = any(p_messages) and cardinality(words_in(t.content)) > 1
       and words_in(m.content) || words_in(m.subject) @> words_in(t.content)
$$;

-- An erasure is planned before anything is taken, and goes on where it was broken off: in steps, each an operation of its own.

-- Begins an erasure of the person's, or of the session's where there is no person; or says which one goes on.
create function begin_erasure(p_keys text[], p_actor text) returns table (id uuid, begun_at timestamptz, is_whole boolean, goes_on boolean)
language plpgsql security definer set search_path = mnemic, pg_temp as $$
#variable_conflict use_column
declare
    agent text := current_setting('mnemic.agent_id');
    whose text := (select k from unnest(own_keys(p_keys)) as k order by k not like 'user:%' limit 1);
begin
    insert into erasures (agent_id, id, scope_key, actor)
    select agent, gen_random_uuid(), whose, p_actor from agents a where a.agent_id = agent and whose is not null
    on conflict do nothing;
    return query
        select e.id, e.begun_at, e.is_whole, e.is_whole or exists (select from erasing i where i.agent_id = agent and i.erasure_id = e.id)
          from erasures e where e.agent_id = agent and e.scope_key = whose and e.ended_at is null for update;
end $$;

-- The erasure of that id, if it runs and is one of the transaction's own.
create function own_erasure(p_erasure uuid) returns erasures
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    found_one erasures;
begin
    select * into found_one from erasures e
     where e.agent_id = current_setting('mnemic.agent_id') and e.id = p_erasure and e.ended_at is null
       and cardinality(own_keys(array[e.scope_key])) = 1 for update;
    return found_one;
end $$;
create function owner_of(e erasures) returns text
language sql immutable
return case when e.scope_key like 'user:%' then substr(e.scope_key, 6) end;

-- Adds memories of the person's own keys, where their words live on, and what they were formed from, and messages of the
-- person's by their ids; which memories these are.
create function plan_erasure(p_erasure uuid, p_keys text[], p_ids uuid[]) returns setof uuid
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    e     erasures := own_erasure(p_erasure);
    own   text[] := own_keys(p_keys);
    seeds uuid[];
    ids   uuid[];
    said  uuid[];
begin
    seeds := array(select id from memories where agent_id = e.agent_id and id = any(p_ids) and scope_key = any(own) and state <> 'purged');
    ids := array(select id from memories where agent_id = e.agent_id and id in (select lineage(e.agent_id, seeds))
                    and scope_key = any(own) and state <> 'purged');
    said := array(select own_sources(e.agent_id, ids, owner_of(e)));
    -- what was drawn from the same messages and says all of it too, with where its words live on
    ids := array(select id from memories
                  where agent_id = e.agent_id and scope_key = any(own) and state <> 'purged'
                    and id in (select unnest(ids) union select lineage(e.agent_id, array(select holding(e.agent_id, said, ids)))));
    said := array(select own_sources(e.agent_id, ids, owner_of(e))
                  union
                  select m.id from messages m
                   where m.agent_id = e.agent_id and m.id = any(p_ids) and m.content is not null
                     and (m.user_id = owner_of(e) or m.user_id is null and m.scope_key = any(own)));
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_followed)
    select e.agent_id, i, e.id, false, true from unnest(ids) as i
    union
    select e.agent_id, i, e.id, true, true from unnest(said) as i
    union
    select e.agent_id, i, e.id, true, true from waiting_with(e.agent_id, said, owner_of(e)) as i
    union
    select e.agent_id, i, e.id, true, true from saying(e.agent_id, own, owner_of(e), ids, said) as i
    on conflict do nothing;
    return query select unnest(ids);
end $$;

-- Adds all that the agent has of the person, as far as it is known at first sight; how much is new.
create function plan_person(p_erasure uuid) returns bigint
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    e     erasures := own_erasure(p_erasure);
    added bigint;
begin
    if e.id is not null and owner_of(e) is null then
        raise exception 'a person is erased in a transaction of their own' using errcode = 'insufficient_privilege';
    end if;
    update erasures set is_whole = true where agent_id = e.agent_id and id = e.id;
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_followed)
    select e.agent_id, m.id, e.id, false, false
      from formed_from(e.agent_id, owner_of(e)) as f join memories m on m.agent_id = e.agent_id and m.id = f
     -- what was erased before still tells what it went into
     where m.state <> 'purged' or not e.is_whole
    union all
    select e.agent_id, m.id, e.id, true, true
      from said_by(e.agent_id, owner_of(e)) as s join messages m on m.agent_id = e.agent_id and m.id = s.id and m.content is not null
    on conflict do nothing;
    get diagnostics added = row_count;
    return added;
end $$;

-- Adds what these memories went into, that too which was erased before where it is to be followed, and what they rest on.
create function follow(e erasures, p_memories uuid[], p_through boolean) returns void
language sql security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_followed)
    select e.agent_id, m.id, e.id, false, false
      from went_into(e.agent_id, p_memories) as w join memories m on m.agent_id = e.agent_id and m.id = w
     where m.state <> 'purged' or p_through
    union all
    select e.agent_id, s, e.id, true, true from own_sources(e.agent_id, p_memories, owner_of(e)) as s
    on conflict do nothing
$$;

-- Follows so many memories of the plan; how many it were.
create function follow_erasure(p_erasure uuid, p_most integer) returns bigint
language plpgsql security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
    e   erasures := own_erasure(p_erasure);
    ids uuid[] := array(select item_id from erasing where agent_id = e.agent_id and erasure_id = e.id and not is_followed
                         limit p_most);
begin
    perform follow(e, ids, true);
    delete from erasing i using memories m
     where i.agent_id = e.agent_id and i.item_id = any(ids) and i.erasure_id = e.id
       and m.agent_id = e.agent_id and m.id = i.item_id and m.state = 'purged';
    update erasing set is_followed = true where agent_id = e.agent_id and item_id = any(ids) and erasure_id = e.id;
    return cardinality(ids);
end $$;

-- One operation: so much of what is planned goes for good, messages first, so that nothing more is formed from them. What a
-- memory of a person went into since it was planned is looked for again, for afterwards nothing tells of it.
create function erase_step(p_erasure uuid, p_op uuid, p_actor text, p_most integer) returns table (id uuid, is_message boolean)
language plpgsql security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
#variable_conflict use_column
declare
    e    erasures;
    ids  uuid[];
    said uuid[];
begin
    -- the erasure before the head: while it is planned, nobody else waits
    e := own_erasure(p_erasure);
    if e.id is null then
        return;
    end if;
    select coalesce(array_agg(item_id order by item_id) filter (where not i.is_message), '{}'),
           coalesce(array_agg(item_id order by item_id) filter (where i.is_message), '{}')
      into ids, said
      from (select item_id, is_message from erasing where agent_id = e.agent_id and erasure_id = e.id
             order by is_message desc limit p_most) as i;
    if cardinality(ids || said) = 0 then
        return;
    end if;
    perform open_operation(e.agent_id, p_op, p_actor, 'person', 'erasure', null, null, '{}');
    if e.is_whole then
        perform follow(e, ids, false);
    end if;
    perform wipe(e.agent_id, ids, said, p_op);
    delete from erasing where agent_id = e.agent_id and item_id = any(ids || said) and erasure_id = e.id;
    perform close_operation(e.agent_id);
    update erasures set memories = memories + cardinality(ids), messages = messages + cardinality(said)
     where agent_id = e.agent_id and id = e.id;
    return query select i, false from unnest(ids) as i union all select i, true from unnest(said) as i;
end $$;

-- Deletes so many of a person's threads with an agent, and of those of nobody's that are sessions in which only the person
-- spoke; how many it were.
create function delete_threads(p_agent text, p_user text, p_most integer) returns bigint
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    -- by their ids, for no index finds a prefix where the locale is not C
    theirs supervisor_checkpoints[] := array(
        select t from supervisor_checkpoints t
         where t.agent_id = p_agent
           and (t.user_id = p_user
                or t.user_id = '' and t.thread_id in (select session_id from said_by(p_agent, p_user) where is_alone))
         limit p_most);
    ids    text[] := array(select threads_of(t.agent_id, t.user_id) || t.thread_id from unnest(theirs) as t);
begin
    delete from checkpoint_writes where thread_id = any(ids);
    delete from checkpoint_blobs where thread_id = any(ids);
    delete from checkpoints where thread_id = any(ids);
    delete from supervisor_checkpoints s using unnest(theirs) as t where s.id = t.id;
    return cardinality(theirs);
end $$;

-- Ends an erasure of which nothing is left: of a person's, so many threads go first; whether it is ended.
create function end_erasure(p_erasure uuid, p_most integer) returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    e erasures := own_erasure(p_erasure);
begin
    if exists (select from erasing where agent_id = e.agent_id and erasure_id = e.id) then
        return false;
    end if;
    if e.is_whole then
        update scopes set name = null, extraction_guidance = null, consolidation_guidance = null
         where agent_id = e.agent_id
           and (scope_key = e.scope_key or scope_key in (
                select 'session:' || session_id from said_by(e.agent_id, owner_of(e)) where is_alone));
        if delete_threads(e.agent_id, owner_of(e), p_most) > 0 then
            return false;
        end if;
    end if;
    update erasures set ended_at = clock_timestamp() where agent_id = e.agent_id and id = e.id;
    -- of what took nothing there is nothing to tell
    delete from erasures where agent_id = e.agent_id and id = e.id and memories + messages = 0;
    return true;
end $$;

-- How much a planned erasure has left to do.
create function left_to_erase(p_erasure uuid) returns bigint
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select count(*) from erasing where agent_id = current_setting('mnemic.agent_id') and erasure_id = p_erasure
$$;

-- What a planned erasure takes, and what stays and why: the texts of what is the person's own.
create function tell_erasure(p_erasure uuid, p_keys text[])
returns table (part text, id uuid, kind text, scope_key text, content text)
language plpgsql stable security definer set search_path = mnemic, pg_temp as $$
#variable_conflict use_column
declare
    agent text := current_setting('mnemic.agent_id');
    own   text[] := own_keys(p_keys);
    mine  text;
    ids   uuid[];
begin
    select owner_of(e) into mine from erasures e
     where e.agent_id = agent and e.id = p_erasure and cardinality(own_keys(array[e.scope_key])) = 1;
    if not found then
        return;
    end if;
    ids := array(select item_id from erasing where agent_id = agent and erasure_id = p_erasure and not is_message);
    return query
        select 'memory', m.id, m.kind, m.scope_key, case when m.scope_key = any(own) then m.content end
          from erasing i join memories m on m.agent_id = agent and m.id = i.item_id
         where i.agent_id = agent and i.erasure_id = p_erasure and not i.is_message order by m.created_at, m.id;
    return query
        select 'message', m.id, 'message', m.scope_key, case when m.user_id = mine or m.scope_key = any(own) then m.content end
          from erasing i join messages m on m.agent_id = agent and m.id = i.item_id
         where i.agent_id = agent and i.erasure_id = p_erasure and i.is_message order by m.session_id, m.place;
    return query
        select distinct 'said by another', m.id, 'message', m.scope_key, null
          from erasing i join sources s on s.agent_id = agent and s.memory_id = i.item_id
          join messages m on m.agent_id = agent and m.id = s.message_id and m.content is not null
         where i.agent_id = agent and i.erasure_id = p_erasure and not i.is_message
           and not exists (select from erasing g where g.agent_id = agent and g.erasure_id = p_erasure and g.item_id = m.id);
    return query
        select distinct 'rests on the same messages', m.id, m.kind, m.scope_key, m.content
          from erasing i join sources s on s.agent_id = agent and s.message_id = i.item_id
          join memories m on m.agent_id = agent and m.id = s.memory_id and m.state in ('active', 'absorbed')
         where i.agent_id = agent and i.erasure_id = p_erasure and i.is_message and m.scope_key = any(own)
           and m.id <> all(ids);
    return query
        select 'shared', m.id, m.kind, m.scope_key, m.content from memories m
         where m.agent_id = agent and m.state in ('active', 'absorbed') and m.scope_key <> all(own)
           and m.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[])
           and not exists (select from erasing g where g.agent_id = agent and g.erasure_id = p_erasure and g.item_id = m.id)
           and (exists (select from sources s join erasing g on g.agent_id = agent and g.item_id = s.message_id
                         where s.agent_id = agent and s.memory_id = m.id and g.erasure_id = p_erasure)
                or exists (select from memories t
                            where t.agent_id = agent and t.id = any(ids)
                              and words_in(m.content) || words_in(t.subject) @> words_in(t.content)
                              and cardinality(words_in(t.content)) > 1));
end $$;

-- Takes the words of messages whose days are over, the oldest and at most so many, as an administrator; how many they were.
create function forget_messages(p_most integer) returns integer
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    gone  integer;
begin
    perform from heads where agent_id = agent for update;
    update messages set content = null, forget_at = null
     where agent_id = agent and id in (
           select id from messages where agent_id = agent and forget_at <= clock_timestamp() order by forget_at limit p_most);
    get diagnostics gone = row_count;
    return gone;
end $$;

-- Purges so much of what time alone has closed, so long ago, after an id: facts, episodes and insights whose last change was
-- their expiry.
create function purge_expired(p_after interval, p_op uuid, p_actor text, p_beyond uuid, p_most integer) returns setof uuid
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    ids   uuid[] := array(select expired(agent, p_after, p_beyond, null, p_most));
begin
    if cardinality(ids) = 0 then
        return;
    end if;
    perform open_operation(agent, p_op, p_actor, 'admin', 'retention', null, null, '{}');
    ids := array(select expired(agent, p_after, p_beyond, ids, p_most)); -- as they are now
    -- a message that another memory rests on is not the expired one's alone
    perform wipe(agent, ids, array(
        select s.message_id from sources s where s.agent_id = agent and s.memory_id = any(ids)
           and not exists (select from sources o join memories m on m.agent_id = agent and m.id = o.memory_id
                            where o.agent_id = agent and o.message_id = s.message_id and m.state <> 'purged'
                              and o.memory_id <> all(ids))), p_op);
    perform close_operation(agent);
    return query select unnest(ids);
end $$;
create function expired(p_agent text, p_after interval, p_beyond uuid, p_ids uuid[], p_most integer) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select m.id from memories m
     cross join lateral (select h.reason, h.ts from history h
                          where h.agent_id = p_agent and h.memory_id = m.id and tells_of_memory(h)
                          order by h.seq desc limit 1) as l
     where m.agent_id = p_agent and m.id > p_beyond and (p_ids is null or m.id = any(p_ids))
       and m.state = 'soft_deleted' and m.kind in ('fact', 'episode', 'insight')
       and not m.protected and not m.pinned and l.reason = 'ttl' and l.ts <= clock_timestamp() - p_after
     order by m.id limit p_most
$$;

-- The checks of the audit -------------------------------------------------------------------------------------------

-- All that is wrong with an agent's history: a code, and where. Nothing of it says what a memory says.
create function audit_problems() returns table (problem text, seq bigint, memory_id uuid)
language sql stable security definer
set search_path = mnemic, pg_temp set timezone = 'UTC' set extra_float_digits = 1 as $$
    with agent as materialized (
        select current_setting('mnemic.agent_id') as id
    ), chain as materialized (
        select h.*, h as whole, lag(h.seq, 1, 0::bigint) over w as before, lag(h.hash) over w as earlier
          from history h, agent a where h.agent_id = a.id window w as (order by h.seq)
    ), told as materialized (
        select c.seq, c.memory_id, c.event, c.before_digest, c.after_digest, c.scope_key,
               k.seq as contents, k.scope_key as contents_key, k.salt, k.before, k.after, m.state
          from chain c
          left join history_contents k on k.agent_id = c.agent_id and k.seq = c.seq
          left join memories m on m.agent_id = c.agent_id and m.id = c.memory_id
    ), last as materialized (
        select distinct on (t.memory_id) t.memory_id, t.seq, t.after from told t
         where t.event <> 'LINK' and (t.before_digest is not null or t.after_digest is not null)
         order by t.memory_id, t.seq desc
    ), linked as materialized (
        select distinct on (l.link ->> 'from_id', l.link ->> 'to_id', l.link ->> 'relation_type') t.seq, l.link, t.after
          from told t cross join lateral (select coalesce(t.after, t.before) as link) as l
         where t.event = 'LINK'
         order by l.link ->> 'from_id', l.link ->> 'to_id', l.link ->> 'relation_type', t.seq desc
    )
    select 'hash', c.seq, c.memory_id from chain c where c.hash is distinct from history_hash(c.whole)
    union all
    select 'chain', c.seq, c.memory_id from chain c, agent a
     where c.prev is distinct from coalesce(c.earlier, sha256(convert_to(a.id, 'UTF8')))
    union all
    select 'gap', c.seq, c.memory_id from chain c where c.seq <> c.before + 1
    union all
    select 'head', coalesce(h.seq, l.seq), null
      from (select max(c.seq) as seq, (array_agg(c.hash order by c.seq desc))[1] as hash from chain c) as l
     cross join agent a
      left join heads h on h.agent_id = a.id
     where (h.seq, h.hash) is distinct from (coalesce(l.seq, 0), coalesce(l.hash, sha256(convert_to(a.id, 'UTF8'))))
       and coalesce(h.seq, l.seq) is not null
    union all
    -- without contents are only the rows of a memory that was erased, but for the one that says so
    select 'contents', t.seq, t.memory_id from told t
     where case when t.contents is null
                then (t.before_digest is not null or t.after_digest is not null)
                     and (t.state is distinct from 'purged' or t.event = 'LINK')
                else t.contents_key is distinct from t.scope_key
                     or t.after_digest is distinct from sha256(t.salt || convert_to(t.after::text, 'UTF8'))
                     or (t.before_digest is distinct from sha256(t.salt || convert_to(t.before::text, 'UTF8'))
                         and not (t.event in ('PURGE', 'ERASE') and t.before is null)) end
    union all
    select 'contents', k.seq, null from history_contents k, agent a
     where k.agent_id = a.id and not exists (select from history h where h.agent_id = k.agent_id and h.seq = k.seq)
    union all
    select 'erased', t.seq, t.memory_id from told t
     where t.state = 'purged' and t.contents is not null and t.event not in ('PURGE', 'ERASE', 'LINK')
    union all
    -- a row of today against the last that history tells; columns that came or went with an upgrade are not compared
    select 'replay', l.seq, coalesce(m.id, l.memory_id)
      from (select m.* from memories m, agent a where m.agent_id = a.id) as m full join last l on l.memory_id = m.id
     where (m.id is null) <> (l.after is null)
        or l.after is distinct from to_jsonb(m)
           and exists (select from jsonb_each(l.after) as t(name, value)
                         join jsonb_each(to_jsonb(m)) as n(name, value) using (name) where t.value is distinct from n.value)
    union all
    select 'relation', l.seq, coalesce(r.from_id, (l.link ->> 'from_id')::uuid)
      from (select r.* from relations r, agent a where r.agent_id = a.id) as r
      full join linked l on l.link ->> 'from_id' = r.from_id::text and l.link ->> 'to_id' = r.to_id::text
                         and l.link ->> 'relation_type' = r.relation_type
     where l.after is distinct from to_jsonb(r)
    union all
    select 'entry', null, e.item_id from entries e join memories m on m.agent_id = e.agent_id and m.id = e.item_id, agent a
     where e.agent_id = a.id
       and ((e.living, e.scope_key, e.kind, e.category)
            is distinct from (searchable(m.kind, m.state), m.scope_key, m.kind, m.category) or m.state = 'purged')
    union all
    select 'entry', null, m.id from memories m, agent a
     where m.agent_id = a.id and m.kind not in ('core', 'consolidation') and m.state <> 'purged'
       and not exists (select from entries e where e.agent_id = m.agent_id and e.item_id = m.id)
    order by 2, 1
$$;

-- Whose history there is, or should be; an agent is looked up after the other, and not every row of each read.
create function agent_ids() returns table (agent_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive known(id) as (
        select min(h.agent_id) from history h
        union all
        select (select min(h.agent_id) from history h where h.agent_id > k.id) from known k where k.id is not null
    )
    select id from known where id is not null
    union select a.agent_id from agents a union select h.agent_id from heads h where h.seq > 0
    order by 1
$$;

-- What ties one row of the chain to the next, for whoever has to check a part of it; says nothing of whose rows they are.
create function chain_links(p_after bigint, p_last bigint) returns table (seq bigint, prev bytea, hash bytea)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select h.seq, h.prev, h.hash from history h
     where h.agent_id = current_setting('mnemic.agent_id') and h.seq > p_after and h.seq <= p_last
     order by h.seq
$$;

-- Isolation ---------------------------------------------------------------------------------------------------------
-- Every policy compares with the two settings of the transaction; as scalar sub-selects they become index conditions.
-- The cast stands inside, so that the list is read once for a statement and not for every row.
-- Under an allowlist only rows of its categories exist; without that setting, all of them do.

alter table agents enable row level security;
alter table agents force row level security;
create policy owner on agents to mnemic_owner using (true) with check (true);
create policy service on agents to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

alter table scopes enable row level security;
alter table scopes force row level security;
create policy owner on scopes to mnemic_owner using (true) with check (true);
create policy service on scopes to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));

alter table sessions enable row level security;
alter table sessions force row level security;
create policy owner on sessions to mnemic_owner using (true) with check (true);
create policy service on sessions to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and 'session:' || session_id = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));

-- A message is seen by its speaker, and by the runs of its own session.
alter table messages enable row level security;
alter table messages force row level security;
create policy owner on messages to mnemic_owner using (true) with check (true);
create policy service on messages to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and array[scope_key, 'session:' || session_id]
               && (select nullif(current_setting('mnemic.scope_keys', true), '')::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or 'message' = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));

alter table memories enable row level security;
alter table memories force row level security;
create policy owner on memories to mnemic_owner using (true) with check (true);
create policy service on memories to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));

alter table leases enable row level security;
alter table leases force row level security;
create policy owner on leases to mnemic_owner using (true) with check (true);
create policy service on leases to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));

alter table sources enable row level security;
alter table sources force row level security;
create policy owner on sources to mnemic_owner using (true) with check (true);
create policy service on sources to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));

alter table entries enable row level security;
alter table entries force row level security;
create policy owner on entries to mnemic_owner using (true) with check (true);
create policy service on entries to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));

alter table history enable row level security;
alter table history force row level security;
create policy owner on history to mnemic_owner using (true) with check (true);
create policy service on history for select to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));

alter table history_contents enable row level security;
alter table history_contents force row level security;
create policy owner on history_contents to mnemic_owner using (true) with check (true);
create policy service on history_contents for select to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           -- a relation is seen by who may see both its ends
           and coalesce(after ->> 'to_scope_key', before ->> 'to_scope_key', scope_key)
               = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or exists (select from history h
                            where h.agent_id = history_contents.agent_id and h.seq = history_contents.seq)));

alter table heads enable row level security;
alter table heads force row level security;
create policy owner on heads to mnemic_owner using (true) with check (true);

alter table token_usage enable row level security;
alter table token_usage force row level security;
create policy owner on token_usage to mnemic_owner using (true) with check (true);
create policy service on token_usage to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

alter table relations enable row level security;
alter table relations force row level security;
create policy owner on relations to mnemic_owner using (true) with check (true);
create policy service on relations to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and to_scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));

alter table thread_revisions enable row level security;
alter table thread_revisions force row level security;
create policy owner on thread_revisions to mnemic_owner using (true) with check (true);
create policy service on thread_revisions to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and 'session:' || session_id = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));

alter table memory_use enable row level security;
alter table memory_use force row level security;
create policy owner on memory_use to mnemic_owner using (true) with check (true);
create policy service on memory_use to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));

-- A transaction sees the threads of one agent with one user: those whose ids begin as its setting says.
alter table supervisor_checkpoints enable row level security;
alter table supervisor_checkpoints force row level security;
create policy owner on supervisor_checkpoints to mnemic_owner using (true) with check (true);
create policy service on supervisor_checkpoints to mnemic_app
    using (threads_of(agent_id, user_id) = (select nullif(current_setting('mnemic.threads', true), '')));
alter table checkpoints enable row level security;
alter table checkpoints force row level security;
create policy owner on checkpoints to mnemic_owner using (true) with check (true);
create policy service on checkpoints to mnemic_app
    using (starts_with(thread_id, (select nullif(current_setting('mnemic.threads', true), ''))));
alter table checkpoint_blobs enable row level security;
alter table checkpoint_blobs force row level security;
create policy owner on checkpoint_blobs to mnemic_owner using (true) with check (true);
create policy service on checkpoint_blobs to mnemic_app
    using (starts_with(thread_id, (select nullif(current_setting('mnemic.threads', true), ''))));
alter table checkpoint_writes enable row level security;
alter table checkpoint_writes force row level security;
create policy owner on checkpoint_writes to mnemic_owner using (true) with check (true);
create policy service on checkpoint_writes to mnemic_app
    using (starts_with(thread_id, (select nullif(current_setting('mnemic.threads', true), ''))));

-- A thread that begins has seen everything up to now.
create policy service on heads for select to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

-- Administrators see what happened, when, and to which ids; they have no right to any content.
create policy administrator on history for select to mnemic_admin
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));
create policy administrator on heads for select to mnemic_admin
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

alter table refinements enable row level security;
alter table refinements force row level security;
create policy owner on refinements to mnemic_owner using (true) with check (true);
create policy service on refinements to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));
create policy administrator on refinements for select to mnemic_admin
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

alter table erasures enable row level security;
alter table erasures force row level security;
create policy owner on erasures to mnemic_owner using (true) with check (true);
create policy service on erasures for select to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));
alter table erasing enable row level security;
alter table erasing force row level security;
create policy owner on erasing to mnemic_owner using (true) with check (true);

-- Rights ------------------------------------------------------------------------------------------------------------

revoke execute on all functions in schema mnemic from public;
grant usage on schema mnemic to mnemic_app, mnemic_admin;
grant select, insert, update on agents, scopes, sessions, messages, memories, token_usage, thread_revisions, memory_use
    to mnemic_app;
grant select, insert on sources, relations to mnemic_app;
grant select, insert, update, delete on entries, leases to mnemic_app;
grant select on history, history_contents to mnemic_app;
grant select (agent_id, seq) on heads to mnemic_app;
grant execute on function begin_operation to mnemic_app;
grant execute on function searchable to mnemic_app;
grant execute on function set_protection to mnemic_admin;
grant select on history to mnemic_admin;
grant select (agent_id, seq, hash) on heads to mnemic_admin;
grant execute on function plan_undo, plan_restore, roll_back, chain_links, history_text, seq_at,
    tells_of_memory, rests_on, is_rested_on to mnemic_app;
grant execute on function plan_undo_as_administrator, plan_restore_as_administrator, roll_back_as_administrator,
    as_of_blind, purge_expired, audit_problems, agent_ids, seq_at, tells_of_memory, forget_messages to mnemic_admin;
grant select, insert, update on refinements to mnemic_app;
grant select on refinements to mnemic_admin;
grant execute on function in_refinement, begin_act, protect_in_refinement, indexed_text to mnemic_app;
grant select, insert, update, delete on supervisor_checkpoints, checkpoints, checkpoint_blobs, checkpoint_writes to mnemic_app;
grant select on checkpoint_migrations to mnemic_app;
grant execute on function threads_of, owner_part, owners_of_thread, owners_of_runs to mnemic_app;
grant select on erasures to mnemic_app;
grant execute on function begin_erasure, plan_erasure, plan_person, follow_erasure, erase_step, end_erasure, tell_erasure,
    left_to_erase to mnemic_app;
