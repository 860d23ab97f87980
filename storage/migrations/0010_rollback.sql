-- Rollbacks take as long as there are memories, are planned without a lock, and are done in steps where there are many.

drop function undo;
drop function restore;
drop function undo_as_administrator;
drop function restore_as_administrator;
drop function undo_operations;
drop function restore_scope;
drop function first_links;
drop function roll_back;
drop function roll_back_links;
drop function rolled_back;
drop function is_orphaned;
drop type rollback_target;

-- The steps of a rollback that took more than one.
create index history_rollback on history (agent_id, (meta ->> 'rollback'), seq) where meta ->> 'rollback' is not null;

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
create or replace function operations_after(p_agent text, p_keys text[], p_ops uuid[]) returns uuid[]
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
create or replace function seq_at(p_key text, p_ts timestamptz) returns bigint
language sql stable set search_path = mnemic, pg_temp as $$
    select coalesce(max(h.seq), 0) from history h
     where h.agent_id = current_setting('mnemic.agent_id') and h.scope_key = p_key and h.ts <= p_ts
       and coalesce(h.meta ->> 'rollback', h.op_id::text) not in (
           select coalesce(l.meta ->> 'rollback', l.op_id::text) from history l
            where l.agent_id = current_setting('mnemic.agent_id') and l.scope_key = p_key and l.ts > p_ts offset 0)
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

revoke execute on all functions in schema mnemic from public;
grant execute on function plan_undo, plan_restore, roll_back to mnemic_app;
grant execute on function plan_undo_as_administrator, plan_restore_as_administrator, roll_back_as_administrator to mnemic_admin;
