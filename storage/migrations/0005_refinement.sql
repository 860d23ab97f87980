-- Refinement: sessions in which an agent compresses the core memory of one scope key.

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

-- What one session did.
create index history_refinement on history (agent_id, refinement_id) where refinement_id is not null;

-- Sessions ----------------------------------------------------------------------------------------------------------

-- Whether the transaction acts for a session that runs on this scope key.
create function in_refinement(p_agent text, p_key text) returns boolean
language sql stable set search_path = mnemic, pg_temp as $$
    select exists (select from refinements r
                    where r.agent_id = p_agent and r.id = nullif(current_setting('mnemic.refinement_id', true), '')::uuid
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
    end if;
    perform open_operation(scoped_agent, p_op, p_actor, 'agent', p_reason, null, null, '{}');
    perform 1 from refinements
      where agent_id = scoped_agent and id = p_refinement and holder = p_holder and ended is null
        and until > clock_timestamp() and cardinality(own_keys(array[scope_key])) = 1
        for update;
    if found then
        perform set_config('mnemic.refinement_id', p_refinement::text, true);
    end if;
    return found;
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
    h history;
begin
    h.op_id := nullif(current_setting('mnemic.op_id', true), '')::uuid;
    if h.op_id is null then
        raise exception 'a refinement begins and ends inside an operation' using errcode = 'insufficient_privilege';
    end if;
    h.agent_id := new.agent_id;
    select seq + 1, hash into strict h.seq, h.prev from heads where agent_id = h.agent_id for update;
    h.event := 'SESSION';
    h.scope_key := new.scope_key;
    h.actor := current_setting('mnemic.actor', true);
    h.actor_kind := current_setting('mnemic.actor_kind', true);
    h.reason := current_setting('mnemic.reason', true);
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

-- As before, but null says that the agent has no such living memory, where false did, which says that it is so already.
create or replace function set_protection(p_agent text, p_memory uuid, p_protected boolean, p_actor text) returns boolean
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
    return not is_so;
end $$;

-- Guards ------------------------------------------------------------------------------------------------------------

-- As before; and what a memory says changes in a running refinement alone, but for the consolidation, which is rewritten.
create or replace function guard_memory() returns trigger
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

-- A memory's entries follow its state, its category and its words: new words are searched at once, by text, until somebody
-- brings their vector. What an erasure takes away has no entry left.
create or replace function keep_entries() returns trigger
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
drop trigger entries_follow on memories;
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

-- Rights ------------------------------------------------------------------------------------------------------------

alter table refinements enable row level security;
alter table refinements force row level security;
create policy owner on refinements to mnemic_owner using (true) with check (true);
create policy service on refinements to mnemic_app
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), ''))
           and scope_key = any ((select nullif(current_setting('mnemic.scope_keys', true), '')::text[])::text[]));
create policy administrator on refinements for select to mnemic_admin
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

revoke execute on function in_refinement, begin_act, protect_in_refinement, record_session, lapse_session,
    indexed_text from public;
grant select, insert, update on refinements to mnemic_app;
grant select on refinements to mnemic_admin;
grant execute on function in_refinement, begin_act, protect_in_refinement, indexed_text to mnemic_app;
