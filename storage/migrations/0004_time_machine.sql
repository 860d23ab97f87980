-- The Time Machine: rollback, erasure, the checks of the audit, and what administrators do without reading contents.

-- An erased memory keeps its row: neither words nor a subject are left in it.
alter table memories drop constraint memories_content_check;
alter table memories add constraint memories_content_check
    check ((content <> '' or state = 'purged') and octet_length(content) <= 8192);

-- Rows of one operation, and of one session since a moment; what rests on a message.
create index history_op on history (agent_id, op_id);
create index history_session on history (agent_id, session_id, ts) where session_id is not null;
create index sources_message on sources (agent_id, message_id);

-- As before; what the operation undoes is its own, and no operation goes on with another's name.
create or replace function open_operation(p_agent text, p_op uuid, p_actor text, p_actor_kind text, p_reason text,
                                          p_session text, p_run text, p_meta jsonb) returns void
language plpgsql security definer set search_path = mnemic, pg_temp set enable_seqscan = off as $$
begin
    insert into heads values (p_agent, 0, sha256(convert_to(p_agent, 'UTF8'))) on conflict do nothing;
    perform 1 from heads where agent_id = p_agent for update;
    if exists (select from history where agent_id = p_agent and op_id = p_op) then
        raise exception 'an operation has an id of its own' using errcode = 'insufficient_privilege';
    end if;
    perform set_config('mnemic.op_id', p_op::text, true),
            set_config('mnemic.actor', p_actor, true),
            set_config('mnemic.actor_kind', p_actor_kind, true),
            set_config('mnemic.reason', p_reason, true),
            set_config('mnemic.op_session', coalesce(p_session, ''), true),
            set_config('mnemic.op_run', coalesce(p_run, ''), true),
            set_config('mnemic.undo_of', '', true),
            set_config('mnemic.refinement_id', '', true),
            set_config('mnemic.op_meta', p_meta::text, true);
end $$;

-- Runs with the rights of whoever writes: only inside a definer function is that the owner. What was erased stays so.
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

-- Contents of the history never change; they go with an erasure, by the one function that erases.
create function refuse_contents_change() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    if tg_op = 'DELETE' and current_user = 'mnemic_owner' and current_setting('mnemic.erasing', true) = 'yes' then
        return null;
    end if;
    raise exception 'history is append-only' using errcode = 'insufficient_privilege';
end $$;
drop trigger append_only on history_contents;
create trigger append_only before update or delete or truncate on history_contents
    for each statement execute function refuse_contents_change();

-- Rollback ----------------------------------------------------------------------------------------------------------
-- The scope of these functions is that of the transaction: its agent and, but for administrators, its scope keys.

-- What a memory is to become: its row of back then, nothing where it was not yet there.
create type rollback_target as (memory_id uuid, was jsonb, is_erased boolean);

-- Whether a row of history tells of a memory's row; others tell of relations, reads, refusals.
create function tells_of_memory(h history) returns boolean
language sql immutable
return h.event <> 'LINK' and (h.before_digest is not null or h.after_digest is not null);

-- The operations, and those that must be undone with them: later changes of the same memories, and what those touched.
-- What was erased is in nobody's way any more, nor is what stands for itself since.
create function operations_after(p_agent text, p_keys text[], p_ops uuid[]) returns uuid[]
language plpgsql stable security definer set search_path = mnemic, pg_temp as $$
declare
    ops   uuid[] := p_ops;
    later uuid[];
begin
    loop
        later := array(
            select distinct l.op_id
              from history h join memories m on m.agent_id = h.agent_id and m.id = h.memory_id and m.state <> 'purged'
              join history l on l.agent_id = h.agent_id and l.memory_id = h.memory_id and l.seq > h.seq
             where h.agent_id = p_agent and h.op_id = any(ops) and (p_keys is null or h.scope_key = any(p_keys))
               and tells_of_memory(h) and tells_of_memory(l) and l.op_id <> all(ops) and l.reason <> 'erasure');
        exit when cardinality(later) = 0;
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

-- Whether what a memory went into when it got this version was erased, so that it stands for itself.
create function is_orphaned(p_agent text, p_memory uuid, p_version text) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select exists (
        select from history h join history_contents c on c.agent_id = p_agent and c.seq = h.seq
          join history l on l.agent_id = p_agent and l.op_id = h.op_id and l.event = 'LINK'
          join history_contents k on k.agent_id = p_agent and k.seq = l.seq
          join memories w on w.agent_id = p_agent and w.id = (k.after ->> 'from_id')::uuid
         where h.agent_id = p_agent and h.memory_id = p_memory and tells_of_memory(h) and c.after ->> 'version' = p_version
           and k.after ->> 'to_id' = p_memory::text and k.after ->> 'relation_type' in ('merged_from', 'same_as')
           and w.state = 'purged' and not stands(p_agent, w.id))
$$;

-- The rows that are to change, as they will be. Whose target is unknown for an erasure stays as it is.
create function rolled_back(p_agent text, p_targets rollback_target[]) returns setof memories
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select r.*
      from unnest(p_targets) as t
      join memories m on m.agent_id = p_agent and m.id = t.memory_id
     cross join lateral jsonb_populate_record(m, coalesce(t.was, '{"state": "soft_deleted", "superseded_by": null,
           "absorbed_at": null, "consolidated_into": null, "purge_at": null}') - '{version,updated_at}'::text[]
           -- what took it in was erased: it stands for itself, as after that erasure
           || case when exists (select from memories c where c.agent_id = p_agent and c.state = 'purged'
                                   and c.id = (t.was ->> 'consolidated_into')::uuid)
                        or t.was ->> 'state' = 'soft_deleted' and is_orphaned(p_agent, t.memory_id, t.was ->> 'version')
                   then '{"state": "active", "absorbed_at": null, "consolidated_into": null}' else '{}'::jsonb end) as r
     where m.state <> 'purged' and not t.is_erased and r is distinct from m
     order by r.id
$$;

-- Whether two living rows stand in each other's way.
create function are_twins(a memories, b memories) returns boolean
language sql immutable
return a.id <> b.id and a.scope_key = b.scope_key and a.kind = b.kind
       and (a.kind = 'consolidation'
            or a.content_hash = b.content_hash and a.subject_user_id is not distinct from b.subject_user_id);

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

-- Tells what a rollback meets, and does it where nothing stands against it; p_op null: tells only.
create function roll_back(p_agent text, p_targets rollback_target[], p_links history_contents[], p_administers boolean,
                          p_skip_erased boolean, p_op uuid)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text)
language plpgsql security definer set search_path = mnemic, pg_temp set timezone = 'UTC' as $$
#variable_conflict use_column
declare
    finals memories[] := array(select r from rolled_back(p_agent, p_targets) as r);
    hidden uuid[];
    shown  uuid[];
    refused boolean := false;
begin
    return query
        select 'change', m.id, m.kind, m.scope_key, m.state, f.state
          from unnest(finals) as f join memories m on m.agent_id = p_agent and m.id = f.id order by m.id;
    return query
        select 'erased', m.id, m.kind, m.scope_key, m.state, t.was ->> 'state'
          from unnest(p_targets) as t join memories m on m.agent_id = p_agent and m.id = t.memory_id
         where t.is_erased or (m.state = 'purged' and t.was is not null) order by m.id;
    refused := found and not p_skip_erased;
    return query
        select 'protected', m.id, m.kind, m.scope_key, m.state, f.state
          from unnest(finals) as f join memories m on m.agent_id = p_agent and m.id = f.id
         where not p_administers and (m.protected or f.protected) order by m.id;
    refused := refused or found;
    return query
        select distinct 'twin', o.id, o.kind, o.scope_key, o.state, g.state
          from unnest(finals) as f
          join memories o on o.agent_id = p_agent and o.scope_key = f.scope_key and o.kind = f.kind
          left join unnest(finals) as g on g.id = o.id
         where f.state = 'active' and coalesce(g.state, o.state) = 'active'
           and case when g.id is null then are_twins(f, o) else are_twins(f, g) end;
    refused := refused or found;
    return query
        select 'relation', (l.link ->> 'from_id')::uuid, null, l.scope_key, null, null
          from (select coalesce(k.before, k.after) as link, k.before is not null as comes, k.scope_key from unnest(p_links) as k) as l
         where l.comes <> exists (select from relations r
                                   where r.agent_id = p_agent and r.from_id = (l.link ->> 'from_id')::uuid
                                     and r.to_id = (l.link ->> 'to_id')::uuid and r.relation_type = l.link ->> 'relation_type');
    if p_op is null or refused then
        return;
    end if;
    hidden := array(select f.id from unnest(finals) as f join memories m on m.agent_id = p_agent and m.id = f.id
                     where f.state = 'soft_deleted' and m.state <> 'soft_deleted');
    shown := array(select f.id from unnest(finals) as f join memories m on m.agent_id = p_agent and m.id = f.id
                    where f.state <> 'soft_deleted' and m.state <> f.state);
    -- a place is freed before it is taken: first those that stand where another one has to go
    update memories m set state = 'soft_deleted'
      from unnest(finals) as f
     where m.agent_id = p_agent and m.id = f.id and m.state = 'active' and f.state = 'active'
       and exists (select from unnest(finals) as g where g.state = 'active' and are_twins(g, m));
    perform write_finals(p_agent, array(select f from unnest(finals) as f where f.state <> 'active'));
    perform write_finals(p_agent, array(select f from unnest(finals) as f where f.state = 'active'));
    perform roll_back_links(p_agent, p_links);
    -- what was said goes out of search with the last memory that rests on it, and comes back with the first: one that was
    -- superseded may have been closed before the last was forgotten
    update entries e set living = false
      from rests_on(p_agent, hidden) as s
     where e.agent_id = p_agent and e.item_id = s.message_id
       and (p_administers or e.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[]))
       and not is_rested_on(p_agent, s.message_id, '{}');
    update entries e set living = true
      from rests_on(p_agent, shown) as s
     where e.agent_id = p_agent and e.item_id = s.message_id
       and (p_administers or e.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[]));
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
create function roll_back_links(p_agent text, p_links history_contents[]) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    delete from relations r
     using unnest(p_links) as l
     where l.before is null and r.agent_id = p_agent and r.from_id = (l.after ->> 'from_id')::uuid
       and r.to_id = (l.after ->> 'to_id')::uuid and r.relation_type = l.after ->> 'relation_type';
    insert into relations
    select r.* from unnest(p_links) as l cross join lateral jsonb_populate_record(null::relations, l.before) as r
     where l.before is not null
    on conflict do nothing;
end $$;

-- Undoes operations as one. A memory that was changed later is a conflict: its later operations are listed, and undone
-- too where that is wanted.
create function undo_operations(p_agent text, p_keys text[], p_ops uuid[], p_cascade boolean, p_skip_erased boolean,
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
        perform set_config('mnemic.undo_of', p_ops[1]::text, true) where cardinality(p_ops) = 1;
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
    if found and not p_cascade then
        return;
    end if;
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
end $$;

-- Of these rows about relations the first of each relation.
create function first_links(p_agent text, p_keys text[], p_seqs bigint[]) returns history_contents[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select coalesce(array_agg(l), '{}')
      from (select distinct on (e.link ->> 'from_id', e.link ->> 'to_id', e.link ->> 'relation_type') c
              from history_contents c cross join lateral (select coalesce(c.after, c.before) as link) as e
             where c.agent_id = p_agent and c.seq = any(p_seqs) and (p_keys is null or c.scope_key = any(p_keys))
             order by e.link ->> 'from_id', e.link ->> 'to_id', e.link ->> 'relation_type', c.seq) as first(l)
$$;

-- Gives one scope key back the memories and relations that it had after a seq.
create function restore_scope(p_agent text, p_key text, p_seq bigint, p_administers boolean, p_skip_erased boolean,
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
end $$;

-- The last row of a scope key's history up to a time, never in the middle of an operation.
create function seq_at(p_key text, p_ts timestamptz) returns bigint
language sql stable set search_path = mnemic, pg_temp as $$
    select coalesce(max(h.seq), 0) from history h
     where h.agent_id = current_setting('mnemic.agent_id') and h.scope_key = p_key and h.ts <= p_ts
       and not exists (select from history l
                        where l.agent_id = h.agent_id and l.op_id = h.op_id and l.scope_key = p_key and l.ts > p_ts)
$$;

-- Those of the keys that the transaction may touch; never null, which would be all.
create function own_keys(p_keys text[]) returns text[]
language sql stable set search_path = mnemic, pg_temp as $$
    select coalesce(array_agg(k), '{}') from unnest(p_keys) as k
     where k = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[])
$$;

-- What the service calls: for a person, on the scope keys of its transaction and, of these, the person's own.
create function undo(p_keys text[], p_ops uuid[], p_cascade boolean, p_skip_erased boolean, p_op uuid, p_actor text)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, op_id uuid,
               reason text)
language sql security definer set search_path = mnemic, pg_temp as $$
    select * from undo_operations(current_setting('mnemic.agent_id'), own_keys(p_keys), p_ops, p_cascade, p_skip_erased,
                                  p_op, p_actor, 'person')
$$;
create function restore(p_key text, p_seq bigint, p_skip_erased boolean, p_op uuid, p_actor text)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text)
language sql security definer set search_path = mnemic, pg_temp as $$
    select r.* from unnest(own_keys(array[p_key])) as k(key)
     cross join lateral restore_scope(current_setting('mnemic.agent_id'), k.key, p_seq, false, p_skip_erased, p_op,
                                      p_actor, 'person') as r
$$;
-- What an administrator calls, on any scope key of the agent its transaction is bound to.
create function undo_as_administrator(p_ops uuid[], p_cascade boolean, p_skip_erased boolean, p_op uuid, p_actor text)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, op_id uuid,
               reason text)
language sql security definer set search_path = mnemic, pg_temp as $$
    select * from undo_operations(current_setting('mnemic.agent_id'), null, p_ops, p_cascade, p_skip_erased, p_op, p_actor,
                                  'admin')
$$;
create function restore_as_administrator(p_key text, p_seq bigint, p_skip_erased boolean, p_op uuid, p_actor text)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text)
language sql security definer set search_path = mnemic, pg_temp as $$
    select * from restore_scope(current_setting('mnemic.agent_id'), p_key, p_seq, true, p_skip_erased, p_op, p_actor, 'admin')
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

-- Erasure -----------------------------------------------------------------------------------------------------------

-- The planner's samples would keep texts and vectors whose rows are long erased, and no statement is planned by them.
alter table memories alter content set statistics 0, alter content_hash set statistics 0, alter subject set statistics 0,
    alter tags set statistics 0;
alter table messages alter content set statistics 0, alter author set statistics 0;
alter table entries alter vec set statistics 0, alter tsv set statistics 0;
alter table history_contents alter salt set statistics 0, alter before set statistics 0, alter after set statistics 0;
alter table scopes alter name set statistics 0, alter extraction_guidance set statistics 0,
    alter consolidation_guidance set statistics 0;

-- Takes what memories and messages say: contents, vectors, and what the history holds of them. The rows stay as skeletons, and
-- so does which rested on which; the digests stay, and without their salts they tell nothing. It beats protection.
create function wipe(p_agent text, p_memories uuid[], p_messages uuid[], p_op uuid) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    update memories
       set state = 'purged', content = '', subject = '', tags = null, related_user_ids = null, protected = false,
           pinned = false, superseded_by = null, absorbed_at = null, consolidated_into = null, purge_at = null
     where agent_id = p_agent and id = any(p_memories);
    perform set_config('mnemic.erasing', 'yes', true);
    delete from history_contents c using history h
     where h.agent_id = p_agent and h.memory_id = any(p_memories) and h.event not in ('LINK', 'ERASE', 'PURGE')
       and c.agent_id = p_agent and c.seq = h.seq;
    perform set_config('mnemic.erasing', '', true);
    delete from entries where agent_id = p_agent and item_id = any(p_memories || p_messages);
    delete from memory_use where agent_id = p_agent and memory_id = any(p_memories);
    -- what was pending counts as formed, so that no run meets a message without content
    update messages set content = null, author = '', formed_by = coalesce(formed_by, p_op)
     where agent_id = p_agent and id = any(p_messages);
    perform set_free(p_agent, p_memories);
end $$;

-- What is out of use because these erased memories stood for it: reflections of consolidations, and what was merged. Not what
-- a memory stands for still that those were merged into, nor what was forgotten by what it had become.
create function taken_in(p_agent text, p_erased uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    -- no index knows them: looked for only where a consolidation was erased
    select id from memories
     where agent_id = p_agent and consolidated_into = any(p_erased)
       and exists (select from memories where agent_id = p_agent and id = any(p_erased) and kind = 'consolidation')
    union
    -- told by the relation, which goes when the merge is undone and comes back when that is undone
    select r.to_id
      from relations r join memories m on m.agent_id = r.agent_id and m.id = r.to_id and m.state = 'soft_deleted'
     where r.agent_id = p_agent and r.from_id = any(p_erased) and r.relation_type in ('merged_from', 'same_as')
       and not stands(p_agent, r.from_id)
$$;

-- What erased memories had taken in stands for itself again: until it is consolidated anew, or merged. But for what a living
-- memory says already.
create function set_free(p_agent text, p_erased uuid[]) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    update memories
       set state = 'active', absorbed_at = null, consolidated_into = null
     where agent_id = p_agent and id in (
           select distinct on (m.scope_key, m.kind, m.content_hash, m.subject_user_id) m.id
             from taken_in(p_agent, p_erased) as i join memories m on m.agent_id = p_agent and m.id = i
            where not exists (select from memories t where t.agent_id = p_agent and t.state = 'active' and are_twins(t, m))
            order by m.scope_key, m.kind, m.content_hash, m.subject_user_id, m.id)
$$;

-- The messages that memories rest on, but those that somebody else said.
create function own_sources(p_agent text, p_memories uuid[], p_user text) returns uuid[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select coalesce(array_agg(distinct m.id), '{}')
      from sources s join messages m on m.agent_id = p_agent and m.id = s.message_id
     where s.agent_id = p_agent and s.memory_id = any(p_memories) and (m.user_id is null or m.user_id = p_user)
$$;

-- These memories, and what was taken out of use because it says exactly the same.
create function same_as(p_agent text, p_memories uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive same(id) as (
        select unnest(p_memories)
        union
        select r.to_id
          from same s join relations r on r.agent_id = p_agent and r.from_id = s.id and r.relation_type = 'same_as'
    )
    select id from same
$$;

-- Erases memories of the person's own scope keys, and what says exactly the same as they, with the messages they were formed
-- from; the ids of those it erased.
create function erase(p_keys text[], p_ids uuid[], p_op uuid, p_actor text) returns setof uuid
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
    return query select unnest(ids);
end $$;

-- What a person said, and what was answered: all that no person said before another one spoke. Of sessions in which
-- nobody else spoke, all of it.
create function said_by(p_agent text, p_user text) returns table (id uuid, session_id text, is_alone boolean)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with spoken as (
        select m.id, m.session_id, m.user_id, m.place,
               count(m.user_id) over (partition by m.session_id order by m.place) as turn,
               bool_and(m.user_id = p_user) over (partition by m.session_id) as is_alone
          from messages m
         where m.agent_id = p_agent
           and m.session_id in (select session_id from messages where agent_id = p_agent and user_id = p_user)
    )
    select s.id, s.session_id, s.is_alone
      from (select *, first_value(user_id) over (partition by session_id, turn order by place) as speaker from spoken) as s
     where s.is_alone or s.speaker = p_user
$$;

-- Memories that what a person said went into, whosever they are: those that rest on it, the episodes of runs that read it,
-- what was remembered in the person's name for others, and what was written in sessions where nobody else spoke.
create function formed_from(p_agent text, p_user text, p_said uuid[], p_alone text[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select memory_id from sources where agent_id = p_agent and message_id = any(p_said)
    union
    select h.memory_id from history h
     where h.agent_id = p_agent and h.event = 'ADD'
       and h.op_id in (select formed_by from messages where agent_id = p_agent and id = any(p_said))
       and exists (select from memories m where m.agent_id = p_agent and m.id = h.memory_id and m.kind = 'episode')
    union
    select m.id from memories m
     where m.agent_id = p_agent
       and (m.source_session_id = any(p_alone) and (m.scope_key not like 'user:%' or m.scope_key = 'user:' || p_user)
            or m.actor_id = p_user and m.scope_key not like 'user:%' and exists (
               select from history h where h.agent_id = p_agent and h.memory_id = m.id and h.event = 'ADD'
                  and h.reason in ('remember', 'remember_procedure')))
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

-- With these memories those that may repeat them, now or back then: facts that replaced them, for the two may have been
-- merged, consolidations that took them in, memories that they were merged into, and of a refinement that saw them what
-- tells of it, and what took their words over.
create function with_repeating(p_agent text, p_ids uuid[]) returns uuid[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive repeating(id) as (
        select unnest(p_ids)
        union
        select n.id from repeating r
          join history h on h.agent_id = p_agent and h.memory_id = r.id
          left join history_contents c on c.agent_id = p_agent and c.seq = h.seq
         -- of what was erased before, the operation still tells
         cross join lateral (
               select coalesce(c.after ->> 'superseded_by', c.after ->> 'consolidated_into')::uuid as id
               union all
               select o.memory_id from history o
                where h.event = 'MERGE' and o.agent_id = p_agent and o.op_id = h.op_id and o.event = 'ADD'
               union all
               select j.id from memories j
                where h.event = 'ADD' and j.agent_id = p_agent and j.scope_key = h.scope_key and j.kind = 'journal'
                  and j.created_at >= h.ts
               union all
               select taken_over(p_agent, h, c) where h.refinement_id is not null and h.event in ('DELETE', 'MERGE', 'UPDATE')
               union all
               select o.memory_id from history o join memories m on m.agent_id = p_agent and m.id = o.memory_id
                where c.seq is null and o.agent_id = p_agent and o.op_id = h.op_id and o.scope_key = h.scope_key
                  and (h.event = 'ABSORB' and m.kind = 'consolidation'
                       or h.event = 'SUPERSEDE' and m.kind = 'fact' and o.event = 'ADD')) as n
         where n.id is not null
    )
    select coalesce(array_agg(m.id order by m.id), '{}')
      from repeating r join memories m on m.agent_id = p_agent and m.id = r.id and m.state <> 'purged'
$$;

-- Erases all that an agent has of a person: the person's own scope key, what is about them, what they said and were
-- answered, the sessions in which nobody else spoke, and every memory that any of it went into. What others said stays.
-- The transaction has to be the person's.
create function erase_person(p_user text, p_op uuid, p_actor text) returns setof uuid
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
    return query select unnest(ids);
end $$;

-- Purges what time alone has closed, so long ago: facts, episodes and insights whose last change was their expiry.
create function purge_expired(p_after interval, p_op uuid, p_actor text) returns setof uuid
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
    return query select unnest(ids);
end $$;

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

-- Rights ------------------------------------------------------------------------------------------------------------

-- Administrators see what happened, when, and to which ids; they have no right to any content.
create policy administrator on history for select to mnemic_admin
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));
create policy administrator on heads for select to mnemic_admin
    using (agent_id = (select nullif(current_setting('mnemic.agent_id', true), '')));

revoke execute on function refuse_contents_change, tells_of_memory, operations_after, stands, is_orphaned,
    rolled_back, are_twins, roll_back,
    write_finals, roll_back_links, undo_operations, first_links, restore_scope, seq_at, undo, restore, own_keys,
    undo_as_administrator, restore_as_administrator, as_of_blind, wipe, set_free, taken_in, own_sources, same_as,
    said_by, formed_from, words_of, taken_over, with_repeating, rests_on, is_rested_on, erase, erase_person, purge_expired, audit_problems,
    agent_ids, chain_links from public;
grant select on history, heads to mnemic_admin;
grant execute on function undo, restore, erase, erase_person, chain_links, history_text, seq_at,
    tells_of_memory, rests_on, is_rested_on to mnemic_app;
grant execute on function undo_as_administrator, restore_as_administrator, as_of_blind, purge_expired, audit_problems,
    agent_ids, seq_at, tells_of_memory to mnemic_admin;
