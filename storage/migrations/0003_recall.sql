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

-- Facts of a category that is always in context are read on every turn as the standing kinds are.
drop index memories_standing;
create index memories_standing on memories (agent_id, scope_key, kind, category) where state = 'active';

-- Under an allowlist only rows of its categories exist; without the setting, all of them do.
alter policy service on memories
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), ''))::text[])));
alter policy service on entries
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), ''))::text[])));
alter policy service on history
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[])
           and ((select nullif(current_setting('mnemic.categories', true), '')) is null
                or category = any ((select nullif(current_setting('mnemic.categories', true), ''))::text[])));

alter table relations enable row level security;
alter table relations force row level security;
create policy owner on relations to mnemic_owner using (true) with check (true);
create policy service on relations to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[])
           and to_scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[]));

alter table thread_revisions enable row level security;
alter table thread_revisions force row level security;
create policy owner on thread_revisions to mnemic_owner using (true) with check (true);
create policy service on thread_revisions to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and 'session:' || session_id = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[]));

alter table memory_use enable row level security;
alter table memory_use force row level security;
create policy owner on memory_use to mnemic_owner using (true) with check (true);
create policy service on memory_use to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[]));

-- A thread that begins has seen everything up to now.
create policy service on heads for select to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

grant select (agent_id, seq) on heads to mnemic_app;
grant select, insert on relations to mnemic_app;
grant select, insert, update on thread_revisions, memory_use to mnemic_app;
