-- Who does what stands in the agent's locked head, and no longer in settings, which anybody can set; and a message tells who
-- brought it.

-- The operation that is open on an agent: that of a transaction which still runs, by its id and its time, for a dump that is
-- restored elsewhere brings ids that come there once more.
alter table heads add column op_xid xid8, add column op_began timestamptz, add column op_id uuid, add column actor text,
    add column actor_kind text, add column reason text, add column session_id text, add column run_id text,
    add column undo_of uuid, add column refinement_id uuid, add column meta jsonb;
-- two new versions of the row for each operation, in the same page
alter table heads set (fillfactor = 50);

-- The actor of the run that observed it, who need not have said it.
alter table messages add column brought_by text;

-- Locks the agent's head first (a trigger that locks it last deadlocks) and writes into it what the triggers record. No
-- setting opens a write, for anybody can set one.
create or replace function open_operation(p_agent text, p_op uuid, p_actor text, p_actor_kind text, p_reason text,
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

drop function begin_operation(uuid, text, text, text, text, text, jsonb);
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

drop trigger append_only on history_contents;
create trigger append_only before update or truncate on history_contents
    for each statement execute function refuse_change();
-- Contents of the history never change; they go with an erasure or a purge.
create or replace function refuse_contents_change() returns trigger
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

-- Constitutional memories: an administrator sets and lifts the protection, and nothing else touches such a row. Null: the agent
-- has no such living memory.
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
    perform close_operation(p_agent);
    return not is_so;
end $$;

-- Once for each statement that changes memories or relations, with a row for each of them in their order: 100 memories cost
-- the head one look-up and one new version instead of 100. The head is looked up by its key, whatever a table that was small
-- once would have been read by; what is written depends on no session's time zone or digits.
create or replace function record_history() returns trigger
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

-- Whether the transaction acts for a session that runs on this scope key.
create or replace function in_refinement(p_agent text, p_key text) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select exists (select from refinements r
                    where r.agent_id = p_agent and r.id = (open_head(p_agent)).refinement_id
                      and r.scope_key = p_key and r.ended is null and r.until > clock_timestamp())
$$;

-- Begins one act of a session, unless that has ended, or has passed to somebody else.
create or replace function begin_act(p_refinement uuid, p_holder uuid, p_op uuid, p_actor text, p_reason text)
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

-- One row of history for the beginning of a session and one for its end, with its figures.
create or replace function record_session() returns trigger
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

-- Undoes operations as one. A memory that was changed later is a conflict: its later operations are listed, and undone
-- too where that is wanted.
create or replace function undo_operations(p_agent text, p_keys text[], p_ops uuid[], p_cascade boolean, p_skip_erased boolean,
                                p_op uuid, p_actor text, p_actor_kind text)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, op_id uuid,
               reason text)
language plpgsql security definer set search_path = mnemic, pg_temp as $$
#variable_conflict use_column
declare
    known uuid[];
    ops   uuid[];
begin
    if p_op is not null then
        perform open_operation(p_agent, p_op, p_actor, p_actor_kind, 'undo', null, null,
                               jsonb_build_object('undone', to_jsonb(p_ops), 'cascade', p_cascade));
        update heads set undo_of = p_ops[1] where agent_id = p_agent and cardinality(p_ops) = 1;
    end if;
    known := array(select distinct h.op_id from history h
                    where h.agent_id = p_agent and h.op_id = any(p_ops)
                      and (h.event = 'LINK' or tells_of_memory(h)) and (p_keys is null or h.scope_key = any(p_keys)));
    ops := operations_after(p_agent, p_keys, known);
    return query
        select 'operation', null::uuid, null, null, null, null, o, null from unnest(known) as o order by o;
    return query
        select distinct 'conflict', null::uuid, null, null, null, null, h.op_id, h.reason
          from history h where h.agent_id = p_agent and h.op_id = any(ops) and h.op_id <> all(known);
    if p_cascade or not found then
        return query
            select r.part, r.memory_id, r.kind, r.scope_key, r.before_state, r.after_state, null::uuid, null
              from roll_back(
                   p_agent,
                   array(select distinct on (h.memory_id)
                                (h.memory_id, c.before, h.before_digest is not null and c.before is null)::rollback_target
                           from history h left join history_contents c on c.agent_id = h.agent_id and c.seq = h.seq
                          where h.agent_id = p_agent and h.op_id = any(ops) and tells_of_memory(h)
                            and (p_keys is null or h.scope_key = any(p_keys))
                          order by h.memory_id, h.seq),
                   first_links(p_agent, p_keys, array(select h.seq from history h where h.agent_id = p_agent
                                                         and h.op_id = any(ops) and h.event = 'LINK')),
                   p_keys is null, p_skip_erased, p_op) as r;
    end if;
    if p_op is not null then
        perform close_operation(p_agent);
    end if;
end $$;

-- Gives one scope key back the memories and relations that it had after a seq.
create or replace function restore_scope(p_agent text, p_key text, p_seq bigint, p_administers boolean, p_skip_erased boolean,
                              p_op uuid, p_actor text, p_actor_kind text)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text)
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    if p_op is not null then
        perform open_operation(p_agent, p_op, p_actor, p_actor_kind, 'restore', null, null,
                               jsonb_build_object('seq', p_seq));
    end if;
    return query
        select * from roll_back(
               p_agent,
               array(select (n.memory_id, c.after, p.after_digest is not null and c.after is null)::rollback_target
                       from (select distinct h.memory_id from history h
                              where h.agent_id = p_agent and h.scope_key = p_key and h.seq > p_seq and tells_of_memory(h)) as n
                       left join lateral (
                            select h.seq, h.after_digest from history h
                             where h.agent_id = p_agent and h.memory_id = n.memory_id and h.seq <= p_seq and tells_of_memory(h)
                             order by h.seq desc limit 1) as p on true
                       left join history_contents c on c.agent_id = p_agent and c.seq = p.seq),
               first_links(p_agent, array[p_key], array(select h.seq from history h where h.agent_id = p_agent
                                                           and h.scope_key = p_key and h.seq > p_seq and h.event = 'LINK')),
               p_administers, p_skip_erased, p_op);
    if p_op is not null then
        perform close_operation(p_agent);
    end if;
end $$;

-- Takes what memories and messages say: contents, vectors, and what the history holds of them. The rows stay as skeletons, and
-- so does which rested on which; the digests stay, and without their salts they tell nothing. It beats protection.
create or replace function wipe(p_agent text, p_memories uuid[], p_messages uuid[], p_op uuid) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    update memories
       set state = 'purged', content = '', subject = '', tags = null, related_user_ids = null, protected = false,
           pinned = false, superseded_by = null, absorbed_at = null, consolidated_into = null, purge_at = null
     where agent_id = p_agent and id = any(p_memories);
    delete from history_contents c using history h
     where h.agent_id = p_agent and h.memory_id = any(p_memories) and h.event not in ('LINK', 'ERASE', 'PURGE')
       and c.agent_id = p_agent and c.seq = h.seq;
    delete from entries where agent_id = p_agent and item_id = any(p_memories || p_messages);
    delete from memory_use where agent_id = p_agent and memory_id = any(p_memories);
    -- what was pending counts as formed, so that no run meets a message without content
    update messages set content = null, author = '', formed_by = coalesce(formed_by, p_op)
     where agent_id = p_agent and id = any(p_messages);
    perform set_free(p_agent, p_memories);
end $$;

-- Erases memories of the person's own scope keys, and what says exactly the same as they, with the messages they were formed
-- from; the ids of those it erased.
create or replace function erase(p_keys text[], p_ids uuid[], p_op uuid, p_actor text) returns setof uuid
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    own   text[] := own_keys(p_keys);
    ids   uuid[];
begin
    perform open_operation(agent, p_op, p_actor, 'person', 'erasure', null, null, '{}');
    ids := array(select id from memories
                  where agent_id = agent and id in (select same_as(agent, p_ids)) and scope_key = any(own) and state <> 'purged'
                  order by id);
    perform wipe(agent, ids, own_sources(
        agent, ids, (select substr(k, 6) from unnest(own) as k where k like 'user:%')), p_op);
    perform close_operation(agent);
    return query select unnest(ids);
end $$;

-- Erases all that an agent has of a person: the person's own scope key, what is about them, what they said and were
-- answered, the sessions in which nobody else spoke, every memory that any of it went into, and their threads. What others
-- said stays. The transaction has to be the person's.
create or replace function erase_person(p_user text, p_op uuid, p_actor text) returns setof uuid
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    alone text[];
    keys  text[];
    said  uuid[];
    ids   uuid[];
begin
    if cardinality(own_keys(array['user:' || p_user])) = 0 then
        raise exception 'a person is erased in a transaction of their own' using errcode = 'insufficient_privilege';
    end if;
    perform open_operation(agent, p_op, p_actor, 'person', 'erasure', null, null, '{}');
    select coalesce(array_agg(id), '{}'), coalesce(array_agg(distinct session_id) filter (where is_alone), '{}')
      into said, alone from said_by(agent, p_user);
    keys := array['user:' || p_user] || array(select 'session:' || unnest(alone));
    ids := with_repeating(agent, array(
        select id from memories where agent_id = agent and (scope_key = any(keys) or subject_user_id = p_user)
        union
        select formed_from(agent, p_user, said, alone)));
    perform wipe(agent, ids, said || own_sources(agent, ids, p_user), p_op);
    update scopes set name = null, extraction_guidance = null, consolidation_guidance = null
     where agent_id = agent and scope_key = any(keys);
    perform delete_threads(agent, p_user, alone);
    perform close_operation(agent);
    return query select unnest(ids);
end $$;

-- Purges what time alone has closed, so long ago: facts, episodes and insights whose last change was their expiry.
create or replace function purge_expired(p_after interval, p_op uuid, p_actor text) returns setof uuid
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    ids   uuid[];
begin
    perform open_operation(agent, p_op, p_actor, 'admin', 'retention', null, null, '{}');
    ids := array(
        select m.id from memories m
         cross join lateral (select h.reason, h.ts from history h
                              where h.agent_id = agent and h.memory_id = m.id and tells_of_memory(h)
                              order by h.seq desc limit 1) as l
         where m.agent_id = agent and m.state = 'soft_deleted' and m.kind in ('fact', 'episode', 'insight')
           and not m.protected and not m.pinned and l.reason = 'ttl' and l.ts <= clock_timestamp() - p_after
         order by m.id);
    -- a message that another memory rests on is not the expired one's alone
    perform wipe(agent, ids, array(
        select s.message_id from sources s where s.agent_id = agent and s.memory_id = any(ids)
           and not exists (select from sources o join memories m on m.agent_id = agent and m.id = o.memory_id
                            where o.agent_id = agent and o.message_id = s.message_id and m.state <> 'purged'
                              and o.memory_id <> all(ids))), p_op);
    perform close_operation(agent);
    return query select unnest(ids);
end $$;

revoke execute on function close_operation, open_head, begin_operation from public;
grant execute on function begin_operation to mnemic_app;
revoke select on heads from mnemic_admin;
grant select (agent_id, seq, hash) on heads to mnemic_admin;
