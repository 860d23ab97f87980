-- What roles may read, what threads have seen, what is related and what is used.

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

-- How far a session has been told of changes: the seq of the newest one it saw, and how often that moved.
create table thread_revisions (
    agent_id    text not null,
    session_id  text not null,
    rev         bigint not null default 1,
    seen_seq    bigint not null,
    primary key (agent_id, session_id),
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

-- Once for every memory that changes, so that both weigh: written so that they become part of the statement that asks.
create or replace function history_event(before memories, after memories) returns text
language sql immutable
return case
    when before.id is null then 'ADD'
    when after.id is null then 'DELETE'
    when after.protected and not before.protected then 'PROTECT'
    when before.protected and not after.protected then 'UNPROTECT'
    when after.state = before.state then 'UPDATE'
    when after.state = 'absorbed' then 'ABSORB'
    when after.state = 'superseded' then 'SUPERSEDE'
    when after.state = 'soft_deleted' then 'DELETE'
    when after.state = 'purged' then 'PURGE'
    else 'RESTORE'
end;
create or replace function searchable(memory_kind text, memory_state text) returns boolean
language sql immutable
return case memory_kind when 'reflection' then memory_state = 'absorbed' else memory_state = 'active' end;
-- A connection that planned it while the table was small read all of a busy agent's heads that wait for a vacuum: five times
-- the cost of a save.
alter function record_history() set enable_seqscan = off;
