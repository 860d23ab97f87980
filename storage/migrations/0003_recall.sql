-- What roles may read, what threads have seen, what is related and what is used.

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
-- What changed in the visible scope keys since a seq; an agent's other users may have changed far more.
create index history_scope on history (agent_id, scope_key, seq);

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

-- A message's number within its session, from 1, as the session's lock hands it out: neighbours lie one apart.
alter table messages alter column place drop identity;
update messages m set place = n.place
  from (select agent_id, id, row_number() over (partition by agent_id, session_id order by place) as place
          from messages) as n
 where m.agent_id = n.agent_id and m.id = n.id;

-- Facts of a category that is always in context are read on every turn as the standing kinds are.
drop index memories_standing;
create index memories_standing on memories (agent_id, scope_key, kind, category) where state = 'active';

-- A twin is looked up by its hash; without a null the entries are an eighth shorter.
drop index memories_living;
create unique index memories_living on memories (agent_id, scope_key, content_hash, kind, coalesce(subject_user_id, ''))
    where state = 'active';

-- The list is read once for a statement: cast outside of the sub-select, it would be read again for every row.
alter policy service on scopes
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));
alter policy service on sessions
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and 'session:' || session_id = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));
alter policy service on leases
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));
alter policy service on sources
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));
-- Under an allowlist only rows of its categories exist; without the setting, all of them do.
alter policy service on memories
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));
alter policy service on entries
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));
alter policy service on history
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));
-- A message has no category of its own; what history holds of a memory is seen with the row that says when.
alter policy service on messages
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and array[scope_key, 'session:' || session_id]
               && (select nullif(current_setting('mnemic.scope_keys', true), '')::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or 'message' = any ((select nullif(current_setting('mnemic.categories', true), '')::text[])::text[])));
alter policy service on history_contents
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           -- a relation is seen by who may see both its ends
           and coalesce(after ->> 'to_scope_key', before ->> 'to_scope_key', scope_key)
               = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or exists (select from history h
                            where h.agent_id = history_contents.agent_id and h.seq = history_contents.seq)));

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

grant select (agent_id, seq) on heads to mnemic_app;
grant select, insert on relations to mnemic_app;
grant select, insert, update on thread_revisions, memory_use to mnemic_app;

-- As an expression it becomes part of the statement that asks.
create or replace function searchable(memory_kind text, memory_state text) returns boolean
language sql immutable
return case memory_kind when 'reflection' then memory_state = 'absorbed' else memory_state = 'active' end;

-- What is indexed follows from the date, the subject and the content; the other two take no place while they are empty.
-- Together they were three of ten bytes of a row.
alter table memories drop column search_text,
    alter column tags drop not null, alter column tags drop default,
    alter column related_user_ids drop not null, alter column related_user_ids drop default;

-- One function writes both tables, and nobody takes a row of history away: a foreign key would cost a sixth of a save.
alter table history_contents drop constraint history_contents_agent_id_seq_fkey;

drop trigger record on memories;
drop function record_history();
drop function history_event(memories, memories);
-- What happened to a memory, by its rows before and after.
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
create or replace function history_hash(h history) returns bytea
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
    h.op_id := nullif(current_setting('mnemic.op_id', true), '')::uuid;
    h.actor := current_setting('mnemic.actor', true);
    h.actor_kind := current_setting('mnemic.actor_kind', true);
    h.reason := current_setting('mnemic.reason', true);
    h.session_id := nullif(current_setting('mnemic.op_session', true), '');
    h.run_id := nullif(current_setting('mnemic.op_run', true), '');
    h.undo_of := nullif(current_setting('mnemic.undo_of', true), '')::uuid;
    h.refinement_id := nullif(current_setting('mnemic.refinement_id', true), '')::uuid;
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
revoke execute on function history_event, history_text, record_history from public;
