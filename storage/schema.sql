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
-- The inbox (formed_by is null) and, afterwards, the sources that were kept. A message that was not kept loses its
-- content and stays as a skeleton, so that a host that resends it changes nothing.
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
    primary key (agent_id, id),
    foreign key (agent_id, session_id) references sessions
);
create index messages_pending on messages (agent_id, session_id, set_aside, place) where formed_by is null;

create table memories (
    agent_id           text not null references agents,
    id                 uuid not null,
    kind               text not null check (kind in ('fact', 'reflection', 'consolidation', 'core', 'episode', 'insight',
                                                     'procedure', 'journal')),
    scope_key          text not null,
    subject            text not null,
    subject_user_id    text,
    category           text not null,
    content            text not null check (content <> '' and octet_length(content) <= 8192),
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

-- One memory beside another. Both ends' keys, for a link is seen only by those who may see both.
create table relations (
    agent_id       text not null,
    from_id        uuid not null,
    to_id          uuid not null,
    relation_type  text not null default 'related_to'
                   check (relation_type in ('related_to', 'merged_from', 'propagated_from')),
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

create table heads (
    agent_id  text primary key,
    seq       bigint not null,
    hash      bytea not null
);

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

-- Operations --------------------------------------------------------------------------------------------------------

-- Locks the agent's head first (a trigger that locks it last deadlocks) and opens the context the triggers read.
create function open_operation(p_agent text, p_op uuid, p_actor text, p_actor_kind text, p_reason text,
                               p_session text, p_run text, p_meta jsonb) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    insert into heads values (p_agent, 0, sha256(convert_to(p_agent, 'UTF8'))) on conflict do nothing;
    perform 1 from heads where agent_id = p_agent for update;
    perform set_config('mnemic.op_id', p_op::text, true),
            set_config('mnemic.actor', p_actor, true),
            set_config('mnemic.actor_kind', p_actor_kind, true),
            set_config('mnemic.reason', p_reason, true),
            set_config('mnemic.op_session', coalesce(p_session, ''), true),
            set_config('mnemic.op_run', coalesce(p_run, ''), true),
            set_config('mnemic.op_meta', p_meta::text, true);
end $$;

-- What the service calls: the agent is the one its transaction was scoped to.
create function begin_operation(p_op uuid, p_actor text, p_actor_kind text, p_reason text, p_session text, p_run text,
                                p_meta jsonb) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    scoped_agent text := nullif(current_setting('mnemic.agent_id', true), '');
begin
    if scoped_agent is null then
        raise exception 'an operation needs a scoped transaction' using errcode = 'insufficient_privilege';
    end if;
    perform open_operation(scoped_agent, p_op, p_actor, p_actor_kind, p_reason, p_session, p_run, p_meta);
end $$;

-- Constitutional memories: an administrator sets and lifts the protection, and nothing else touches such a row.
create function set_protection(p_agent text, p_memory uuid, p_protected boolean, p_actor text) returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    changed integer;
begin
    perform open_operation(p_agent, gen_random_uuid(), p_actor, 'admin', 'protection', null, null, '{}');
    update memories set protected = p_protected
     where agent_id = p_agent and id = p_memory and state = 'active' and protected <> p_protected;
    get diagnostics changed = row_count;
    return changed = 1;
end $$;

-- Guards ------------------------------------------------------------------------------------------------------------

-- Runs with the rights of whoever writes: only inside a definer function is that the owner.
create function guard_memory() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    if current_user = 'mnemic_owner' then
        if tg_op = 'DELETE' then return old; end if;
    elsif tg_op = 'DELETE' then
        raise exception 'memories are never deleted, only closed' using errcode = 'insufficient_privilege';
    elsif new.protected or (tg_op = 'UPDATE' and old.protected) then
        raise exception 'this memory is protected' using errcode = 'insufficient_privilege';
    end if;
    if tg_op = 'UPDATE' then
        if (new.agent_id, new.id, new.kind, new.scope_key, new.category, new.created_at)
           is distinct from (old.agent_id, old.id, old.kind, old.scope_key, old.category, old.created_at)
           or new.subject_user_id is distinct from old.subject_user_id then
            raise exception 'identity, kind, scope and category of a memory do not change'
                using errcode = 'insufficient_privilege';
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
    when (after -> 'protected')::boolean and not (before -> 'protected')::boolean then 'PROTECT'
    when (before -> 'protected')::boolean and not (after -> 'protected')::boolean then 'UNPROTECT'
    when after -> 'state' = before -> 'state' then 'UPDATE'
    when after ->> 'state' = 'absorbed' then 'ABSORB'
    when after ->> 'state' = 'superseded' then 'SUPERSEDE'
    when after ->> 'state' = 'soft_deleted' then 'DELETE'
    when after ->> 'state' = 'purged' then 'PURGE'
    else 'RESTORE'
end;

-- Version h1 of the chain: every column but the hash itself, in the table's order.
create function history_hash(h history) returns bytea
language sql stable
return sha256(convert_to(jsonb_build_array(
    'h1', h.agent_id, h.seq, h.op_id, h.event, h.memory_id, h.scope_key, h.category, h.actor, h.actor_kind, h.reason,
    h.session_id, h.run_id, h.refinement_id, h.undo_of, encode(h.before_digest, 'hex'), encode(h.after_digest, 'hex'),
    h.token_delta, h.meta, (extract(epoch from h.ts) * 1000000)::bigint, encode(h.prev, 'hex'))::text, 'UTF8'));

-- Once for each statement that changes memories, with a row for each of them in their order: 100 memories cost the head
-- one look-up and one new version instead of 100. The head is looked up by its key, whatever a table that was small once
-- would have been read by.
create function record_history() returns trigger
language plpgsql security definer set search_path = mnemic, pg_temp set enable_seqscan = off as $$
declare
    changed  refcursor;
    change   record;
    subject  jsonb;
    h        history;
    c        history_contents;
    rows     history[];
    contents history_contents[];
    -- kept nowhere, so that an erased salt does not follow from the others; drawn once, for each draw opens a file
    pepper   bytea := uuid_send(gen_random_uuid());
begin
    case tg_op
    when 'INSERT' then
        open changed for select null::jsonb as earlier, to_jsonb(n) as later from new_memories n;
    when 'DELETE' then
        open changed for select to_jsonb(o) as earlier, null::jsonb as later from old_memories o;
    else -- the guard keeps ids; were it off, both rows would still leave one each
        open changed for
            select to_jsonb(o) as earlier, n.later
              from (select agent_id, id, to_jsonb(n) as later, row_number() over () as nth from new_memories n) as n
              full join old_memories o using (agent_id, id)
             order by n.nth;
    end case;
    h.op_id := nullif(current_setting('mnemic.op_id', true), '')::uuid;
    h.actor := current_setting('mnemic.actor', true);
    h.actor_kind := current_setting('mnemic.actor_kind', true);
    h.reason := current_setting('mnemic.reason', true);
    h.session_id := nullif(current_setting('mnemic.op_session', true), '');
    h.run_id := nullif(current_setting('mnemic.op_run', true), '');
    h.meta := nullif(current_setting('mnemic.op_meta', true), '')::jsonb;
    loop
        fetch changed into change;
        exit when not found;
        if h.op_id is null then
            raise exception 'a memory changes only inside an operation' using errcode = 'insufficient_privilege';
        end if;
        subject := coalesce(change.later, change.earlier);
        if h.agent_id is distinct from subject ->> 'agent_id' then
            update heads set seq = h.seq, hash = h.hash where agent_id = h.agent_id;
            h.agent_id := subject ->> 'agent_id';
            select seq, hash into strict h.seq, h.hash from heads where agent_id = h.agent_id for update;
        end if;
        h.seq := h.seq + 1;
        h.prev := h.hash;
        h.event := history_event(change.earlier, change.later);
        h.memory_id := subject ->> 'id';
        h.scope_key := subject ->> 'scope_key';
        h.category := subject ->> 'category';
        c := (h.agent_id, h.seq, h.scope_key, sha256(pepper || int8send(h.seq)), change.earlier, change.later);
        h.before_digest := sha256(c.salt || convert_to(c.before::text, 'UTF8'));
        h.after_digest := sha256(c.salt || convert_to(c.after::text, 'UTF8'));
        h.token_delta := case when c.after ->> 'state' = 'active' then (c.after ->> 'tokens')::integer else 0 end
                       - case when c.before ->> 'state' = 'active' then (c.before ->> 'tokens')::integer else 0 end;
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
    referencing new table as new_memories for each statement execute function record_history();
create trigger record_update after update on memories
    referencing old table as old_memories new table as new_memories
    for each statement execute function record_history();
create trigger record_delete after delete on memories
    referencing old table as old_memories for each statement execute function record_history();

create function refuse_change() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    raise exception 'history is append-only' using errcode = 'insufficient_privilege';
end $$;
create trigger append_only before update or delete or truncate on history
    for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on history_contents
    for each statement execute function refuse_change();
create trigger never_truncated before truncate on memories for each statement execute function refuse_change();

-- A memory's entries follow its state and category. A reflection is searched only once it has left the context.
create function searchable(memory_kind text, memory_state text) returns boolean
language sql immutable
return case memory_kind when 'reflection' then memory_state = 'absorbed' else memory_state = 'active' end;
create function keep_entries() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    update entries set living = searchable(new.kind, new.state), category = new.category
     where agent_id = new.agent_id and item_id = new.id;
    return null;
end $$;
create trigger entries_follow after update on memories for each row
    when (old.state is distinct from new.state or old.category is distinct from new.category)
    execute function keep_entries();

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

-- A thread that begins has seen everything up to now.
create policy service on heads for select to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

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
