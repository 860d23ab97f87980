-- Runs hold what they work on, failures wait and are counted, and turns have a day's cap.

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

-- No usable answer could be had for these: still pending, and left out but by a retry.
alter table messages add column set_aside boolean not null default false;
drop index messages_pending;
create index messages_pending on messages (agent_id, session_id, set_aside, place) where formed_by is null;

-- Memories written for turns of this user on the day.
alter table scopes add column turn_writes integer not null default 0;
alter table scopes add column turn_writes_on date;

alter table leases enable row level security;
alter table leases force row level security;
create policy owner on leases to mnemic_owner using (true) with check (true);
create policy service on leases to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), ''))::text[]));

grant select, insert, update, delete on leases to mnemic_app;
