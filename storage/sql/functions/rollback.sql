-- A rollback is planned without writing. It runs in steps, each an operation that holds the agent's head for a short
-- time. Transactions are limited to their agent and, except for administrators, to their scope keys. An orphan is a
-- memory merged into a memory since erased.
--
-- Rows of plan_rollback by `part`; columns that are not named are null:
--   change     memory_id, kind, scope_key, before_state, after_state, version, revision, is_orphan, turn: a memory to
--              change; `revision` is the row of history that it returns to, null if it did not exist then
--   removal    memory_id, revision: a memory that returns to an earlier deletion, and its first change that is undone; of
--              an interrupted rollback also the memories of the finished steps
--   relation   memory_id, scope_key, revision: a relation to restore, by its first memory and its row of history
--   erased     memory_id, kind, scope_key, before_state, after_state: cannot be restored, since its contents are erased
--   protected  the same columns: a protected memory that a person may not change
--   twin       the same columns: memories that would be active with one uniqueness key
--   operation  op_id: a requested operation, or rollback, that changed a visible memory or relation
--   resumed    op_id: the interrupted rollback that the plan continues
--   conflict   op_id, reason: a later operation on the same memories, or the rollback that it belongs to
--
-- `turn` orders the changes, because one active memory may have a uniqueness key:
--   0  becomes soft-deleted
--   1  becomes inactive otherwise, or is an inactive contribution that is withdrawn
--   2  becomes or stays active, and takes a key that another active memory of the plan gives up, or gives up such a key
--   3  becomes or stays active otherwise
--
-- Keys of p_request; the operation stores them in its `meta`:
--   key, revision  scope key to restore, and the revision that it returns to
--   keys           scope keys of a person; none for an administrator
--   undone         operations to undo, or a hash of their ids if they are many
--   only           ids of the memories to change; later operations that cascade are not limited
--   cascade        undo later operations on the same memories too
--   unshared_by    author whose shared memories are withdrawn
-- A step of a rollback in several steps adds to `meta`:
--   rollback       id of the whole rollback, the same in all steps
--   left           number of changes and relations that remain after the step

-- Return whether a row of history records a change of a memory, not of a relation, a read or a refusal.
create function changes_memory(h history) returns boolean
language sql immutable
return h.event <> 'LINK' and (h.before_digest is not null or h.after_digest is not null);

-- Return these operations, extended to all steps of their rollbacks.
create function complete_operations(p_agent text, p_ops uuid[]) returns uuid[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select array(
        select unnest(p_ops)
        union
        select s.op_id from history s
         where s.agent_id = p_agent and s.meta ->> 'rollback' = any(array(
               select distinct h.meta ->> 'rollback' from history h
                where h.agent_id = p_agent and h.op_id = any(p_ops) and h.meta ->> 'rollback' is not null)))
$$;

-- Return the interrupted rollback of the same request, with or without cascade: its last step had items left.
create function unfinished_rollback(p_agent text, p_request jsonb) returns uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select (h.meta ->> 'rollback')::uuid from history h
     where h.agent_id = p_agent and h.meta ->> 'rollback' is not null and (h.meta ->> 'left')::integer > 0
       and h.meta - '{rollback,left,cascade}'::text[] = p_request - 'cascade'
       and h.revision = (select max(l.revision) from history l where l.agent_id = p_agent and l.meta ->> 'rollback' = h.meta ->> 'rollback')
     order by h.revision desc limit 1
$$;

-- Return these operations and the later ones that must be undone with them: those that changed the same memories,
-- recursively. Erased memories cause no conflict.
create function operations_after(p_agent text, p_keys text[], p_ops uuid[]) returns uuid[]
language plpgsql stable security definer set search_path = mnemic, pg_temp as $$
declare
    ops   uuid[] := p_ops;
    later uuid[] := p_ops;
begin
    loop
        later := array(
            select distinct l.op_id
              from (select h.memory_id, min(h.revision) as revision
                      from history h join memories m on m.agent_id = h.agent_id and m.id = h.memory_id and m.state <> 'purged'
                     where h.agent_id = p_agent and h.op_id = any(later) and (p_keys is null or h.scope_key = any(p_keys))
                       and changes_memory(h)
                     group by h.memory_id) as f
              join history l on l.agent_id = p_agent and l.memory_id = f.memory_id and l.revision > f.revision
             where changes_memory(l) and l.reason not in ({erasure_reasons}) and l.op_id not in (select unnest(ops) offset 0));
        exit when cardinality(later) = 0;
        later := complete_operations(p_agent, later);
        ops := ops || later;
    end loop;
    return ops;
end $$;

-- Return whether a memory, or one that it was merged into, is active, or was deleted or expired by an operation other
-- than a rollback. With p_erased, erased memories count by their last state.
create function is_active_or_deleted(p_agent text, p_memory uuid, p_erased boolean) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive whole(id) as (
        select p_memory
        union
        select r.from_id from whole w join relations r on r.agent_id = p_agent and r.to_id = w.id
         where r.relation_type in ({merge_relations})
    )
    select exists (select from whole w join memories o on o.agent_id = p_agent and o.id = w.id
                    where o.state = 'active'
                       or ((p_erased or o.state <> 'purged')
                           and (select h.event in ('DELETE', 'TTL') and h.reason not in ({rollback_reasons}) from history h
                                 where h.agent_id = p_agent and h.memory_id = o.id
                                   and h.event in ('ADD', 'RESTORE', 'DELETE', 'TTL', 'MERGE', 'DEDUP')
                                 order by h.revision desc limit 1)))
$$;

-- Return a memory as it will be: as in its former row, or soft-deleted if it did not exist then. An orphan becomes
-- active, and so does a memory whose former row names an erased successor or consolidation. Its valid_until is then
-- cleared if the row names a successor.
create function restored_row(m memories, p_was jsonb, p_is_orphan boolean) returns setof memories
language sql stable
begin atomic
    select r.* from jsonb_populate_record(m, coalesce(p_was, '{"state": "soft_deleted", "superseded_by": null,
           "absorbed_at": null, "consolidated_into": null, "purge_at": null}') - '{version,updated_at}'::text[]
           -- If its successor or consolidation was erased, the memory is active, as after that erasure.
           || case when p_is_orphan or exists (select from memories c where c.agent_id = m.agent_id and c.state = 'purged'
                                                and c.id in ((p_was ->> 'consolidated_into')::uuid, (p_was ->> 'superseded_by')::uuid))
                   then '{"state": "active", "superseded_by": null, "absorbed_at": null, "consolidated_into": null}'
                        || case when p_was ? 'superseded_by' and p_was ->> 'superseded_by' is not null
                                then '{"valid_until": null}' else '{}'::jsonb end
                   else '{}'::jsonb end) as r;
end;

-- Return the key that only one active memory may have.
create function uniqueness_key(m memories) returns text
language sql stable
return jsonb_build_array(m.scope_key, m.kind,
                         case when m.kind <> 'consolidation' then jsonb_build_array(m.content_hash, m.subject_user_id) end)::text;

-- Return the active memory with the same uniqueness key.
create function find_active_duplicate(p_agent text, p_key text, p_kind text, p_hash uuid, p_subject text) returns setof memories
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

-- Return the source messages of memories, including those of memories merged into them or removed as their duplicates.
create function source_messages(p_agent text, p_memories uuid[]) returns table (message_id uuid)
language sql stable set search_path = mnemic, pg_temp as $$
    with recursive part(id) as (
        select unnest(p_memories)
        union
        select r.to_id from part p join relations r on r.agent_id = p_agent and r.from_id = p.id
         where r.relation_type in ({merge_relations})
    )
    select distinct s.message_id from part p join sources s on s.agent_id = p_agent and s.memory_id = p.id
$$;

-- Return whether an active memory other than p_except was formed from a message. Insights do not count: they do not
-- repeat their messages.
create function is_source_in_use(p_agent text, p_message uuid, p_except uuid[]) returns boolean
language sql stable set search_path = mnemic, pg_temp as $$
    with recursive holder(id) as (
        select memory_id from sources where agent_id = p_agent and message_id = p_message
        union
        select r.from_id from holder h join relations r on r.agent_id = p_agent and r.to_id = h.id
         where r.relation_type in ({merge_relations})
    )
    select exists (select from holder h join memories m on m.agent_id = p_agent and m.id = h.id
                    where m.state in ({retained_states}) and m.kind <> 'insight' and m.id <> all(p_except))
$$;

-- Return whether a shared memory is a person's contribution: typed, remembered, corrected, or propagated from such a
-- memory.
create function is_contribution_of(m memories, p_user text) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select m.actor_id = p_user and not is_personal(m.scope_key) and exists (
           select from history h where h.agent_id = m.agent_id and h.memory_id = m.id and h.event = 'ADD'
              and h.reason in ({contribution_reasons}) offset 0)
$$;

-- Return an actor's contributions to shared scopes with their propagated copies, active or not.
create function contributions_of(p_actor text) returns setof memories
language sql stable strict security definer set search_path = mnemic, pg_temp as $$
    with recursive contributed(id) as (
        select id from memories where agent_id = current_setting('mnemic.agent_id') and actor_id = p_actor
        union
        select r.from_id from contributed b
          join relations r on r.agent_id = current_setting('mnemic.agent_id') and r.to_id = b.id
         where r.relation_type = 'propagated_from'
    )
    select m.* from contributed b join memories m on m.agent_id = current_setting('mnemic.agent_id') and m.id = b.id
     where (session_user = 'mnemic_admin' or m.scope_key = any(current_setting('mnemic.scope_keys')::text[]))
       and m.state <> 'purged' and is_contribution_of(m, m.actor_id)
$$;

-- Return whether a memory was merged into an active one.
create function is_merged_into_active(p_agent text, p_memory uuid) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive whole(id) as (
        select from_id from relations where agent_id = p_agent and to_id = p_memory and relation_type = 'merged_from'
        union
        select r.from_id from whole w join relations r on r.agent_id = p_agent and r.to_id = w.id
         where r.relation_type in ({merge_relations})
    )
    select exists (select from whole w join memories m on m.agent_id = p_agent and m.id = w.id and m.state = 'active')
$$;

-- Return the operations that brought an actor's contributions into shared scopes, if they are still in use there, alone
-- or merged, with the memories that they closed.
create function shared_operations(p_actor text) returns table (op_id uuid, scope_key text, memory_ids uuid[])
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select h.op_id, h.scope_key,
           array(select w.id union select o.id from memories o where o.agent_id = w.agent_id and o.superseded_by = w.id
                 union
                 select r.from_id from relations r
                  where r.agent_id = w.agent_id and r.to_id = w.id and r.relation_type = 'merged_from'
                 union -- reflections that a correction removed with its fact
                 select d.memory_id from history d
                  where d.agent_id = w.agent_id and d.op_id = h.op_id and d.event = 'DELETE' and d.reason = 'correct')
      from contributions_of(p_actor) w
      join history h on h.agent_id = w.agent_id and h.memory_id = w.id and h.event = 'ADD'
     where not w.protected and w.withdrawn_by is null
       and (w.state in ({retained_states}) or is_merged_into_active(w.agent_id, w.id)
            or exists (select from memories n where n.agent_id = w.agent_id and n.id = w.superseded_by and n.actor_id = p_actor))
    union all
    -- Memories of other people that a refinement rewrote with these words.
    select h.op_id, h.scope_key, array[r.memory_id]
      from contributions_of(p_actor) w cross join lateral rewritten_with(w.agent_id, array[w.id], 'UPDATE') as r
      join history h on h.agent_id = w.agent_id and h.revision = r.revision
      join memories m on m.agent_id = w.agent_id and m.id = r.memory_id and m.state in ({retained_states})
     where w.withdrawn_by is null and not m.protected
$$;

-- Return the scope keys of an actor's contributions that were not withdrawn, active or not.
create function contribution_keys(p_actor text) returns setof text
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct scope_key from contributions_of(p_actor) where withdrawn_by is null
$$;

-- Plan the undo of operations, or the restore of a scope key to a revision, which undoes the changes since. The result
-- has the changes, the obstacles and the values that a step needs. A memory with later changes is a conflict: its later
-- operations are listed and, with cascade, undone too. An interrupted rollback of the same request is no conflict. Each
-- part is sorted or looked up once and never joined to itself, so the time grows linearly with the memories.
create function plan_rollback(p_keys text[], p_ops uuid[], p_request jsonb)
returns table (part text, memory_id uuid, kind text, scope_key text, before_state text, after_state text, version integer,
               revision bigint, is_orphan boolean, turn integer, op_id uuid, reason text)
language plpgsql stable security definer set search_path = mnemic, pg_temp set timezone = 'UTC' as $$
#variable_conflict use_column
declare
    agent    text := current_setting('mnemic.agent_id');
    own      text[] := permitted_keys(p_keys);
    restored text := p_request ->> 'key';
    concerns text[] := coalesce(own, case when restored is not null then array[restored] end);
    resumed  uuid := unfinished_rollback(agent, p_request);
    asked    uuid[] := complete_operations(agent, p_ops);
    begun    uuid[] := asked || complete_operations(agent, array_remove(array[resumed], null));
    ops      uuid[] := operations_after(agent, own, begun);
    later    uuid[] := array(select unnest(ops) except select unnest(begun));
    chosen   uuid[] := (select array_agg(o::uuid) from jsonb_array_elements_text(p_request -> 'only') as o);
begin
    if restored is not null then
        ops := array(select distinct h.op_id from history h
                      where h.agent_id = agent and h.scope_key = restored and h.revision > (p_request ->> 'revision')::bigint);
        later := '{}';
    elsif cardinality(later) > 0 and not (p_request ->> 'cascade')::boolean then
        ops := '{}';
    end if;
    return query
    with orphan as materialized ( -- memories merged by an operation into a memory that was erased: they are restored by themselves
        select (k.after ->> 'to_id')::uuid as id, l.op_id
          from memories w
          join history l on l.agent_id = agent and l.memory_id = w.id and l.event = 'LINK'
          join history_contents k on k.agent_id = agent and k.revision = l.revision
         where w.agent_id = agent and w.state = 'purged' and k.after ->> 'relation_type' in ({merge_relations})
           and not is_active_or_deleted(agent, w.id, false)
    ), target as materialized (
        select t.id, t.first, p.revision, c.after as was, p.after_digest is not null and c.after is null as is_erased,
               coalesce(c.after ->> 'state' = 'soft_deleted'
                        and (t.id, p.op_id) in (select o.id, o.op_id from orphan o offset 0), false) as is_orphan
          from (select h.memory_id as id, min(h.revision) as first from history h
                 where h.agent_id = agent and h.op_id = any(ops) and changes_memory(h)
                   and (concerns is null or h.scope_key = any(concerns))
                   and (chosen is null or h.memory_id = any(chosen) or h.op_id = any(later))
                 group by h.memory_id) as t
          left join lateral (
               select h.revision, h.op_id, h.after_digest from history h
                where h.agent_id = agent and h.memory_id = t.id and h.revision < t.first and changes_memory(h)
                order by h.revision desc limit 1) as p on true
          left join history_contents c on c.agent_id = agent and c.revision = p.revision
    ), final as materialized (
        select m.id, m.kind, m.scope_key, m.state as before_state, r.state as after_state, m.version, t.revision, t.is_orphan,
               m.protected or r.protected as is_protected, r.content_hash, r.subject_user_id,
               case when m.state = 'active' then uniqueness_key(m) end as key_before,
               case when r.state = 'active' then uniqueness_key(r) end as key_after
          from target t join memories m on m.agent_id = agent and m.id = t.id
         cross join lateral restored_row(m, t.was, t.is_orphan) as r
         where m.state <> 'purged' and not t.is_erased and r is distinct from m
    ), in_exchange as (
        select p.id from (
            select s.id, bool_or(s.is_after) over same_key and not bool_and(s.is_after) over same_key as is_in_exchange
              from (select id, key_after as key, true as is_after from final where key_after is not null
                    union all select id, key_before, false from final where key_before <> key_after) as s
            window same_key as (partition by s.key)) as p
         where p.is_in_exchange
    ), twin as (
        select f.id, f.kind, f.scope_key, f.before_state, f.after_state
          from (select *, count(*) over (partition by key_after) as same_key_count from final where key_after is not null) as f
         where f.same_key_count > 1
        union
        select o.id, o.kind, o.scope_key, o.state, null
          from final f cross join lateral find_active_duplicate(agent, f.scope_key, f.kind, f.content_hash, f.subject_user_id) as o
         where f.key_after is not null and o.id not in (select id from final offset 0)
    ), link as (
        select distinct on (e.link ->> 'from_id', e.link ->> 'to_id', e.link ->> 'relation_type')
               c.revision, c.scope_key, e.link, c.before is not null as is_removed_relation
          from history h join history_contents c on c.agent_id = agent and c.revision = h.revision
         cross join lateral (select coalesce(c.after, c.before) as link) as e
         where h.agent_id = agent and h.op_id = any(ops) and h.event = 'LINK'
           and (concerns is null or h.scope_key = any(concerns))
           and (chosen is null or (e.link ->> 'from_id')::uuid = any(chosen) or (e.link ->> 'to_id')::uuid = any(chosen))
         order by e.link ->> 'from_id', e.link ->> 'to_id', e.link ->> 'relation_type', c.revision
    )
    select 'change', id, kind, scope_key, before_state, after_state, version, revision, is_orphan,
           case when after_state = 'soft_deleted' then 0 when after_state <> 'active' then 1
                when id in (select t.id from in_exchange t offset 0) then 2 else 3 end, null::uuid, null
      from final
    union all
    -- The history of withdrawn contributions is hidden even if they are inactive today.
    select 'change', w.id, w.kind, w.scope_key, w.state, w.state, w.version, l.revision, false, 1, null, null
      from contributions_of(p_request ->> 'unshared_by') w
     cross join lateral (select h.revision from history h where h.agent_id = agent and h.memory_id = w.id and changes_memory(h)
                          order by h.revision desc limit 1) as l
     where w.withdrawn_by is null and w.state not in ({retained_states}) and w.scope_key = any(concerns)
       and w.id not in (select id from final offset 0)
    union all
    select 'removal', id, null, null, null, null, null, first, null, null, null, null
      from target where was ->> 'state' = 'soft_deleted'
    union all
    select 'erased', m.id, m.kind, m.scope_key, m.state, t.was ->> 'state', null, null, null, null, null, null
      from target t join memories m on m.agent_id = agent and m.id = t.id
     where t.is_erased or (m.state = 'purged' and t.was is not null)
    union all
    select 'protected', id, kind, scope_key, before_state, after_state, null, null, null, null, null, null
      from final where is_protected and own is not null
    union all
    select 'twin', id, kind, scope_key, before_state, after_state, null, null, null, null, null, null from twin
    union all
    select 'relation', (l.link ->> 'from_id')::uuid, null, l.scope_key, null, null, null, l.revision, null, null, null, null
      from link l
     where l.is_removed_relation
           <> exists (select from relations r
                       where r.agent_id = agent and r.from_id = (l.link ->> 'from_id')::uuid
                         and r.to_id = (l.link ->> 'to_id')::uuid and r.relation_type = l.link ->> 'relation_type')
    union all
    select 'operation', null, null, null, null, null, null, null, null, null, o, null from unnest(p_ops) as o
     where o in (select unnest(array[h.op_id, (h.meta ->> 'rollback')::uuid]) from history h
                  where h.agent_id = agent and h.op_id = any(asked) and (h.event = 'LINK' or changes_memory(h))
                    and (own is null or h.scope_key = any(own)) offset 0)
    union all
    select 'resumed', null, null, null, null, null, null, null, null, null, resumed, null where resumed is not null
    union all
    select distinct 'conflict', null::uuid, null, null, null, null, null::integer, null::bigint, null::boolean, null::integer,
           coalesce((h.meta ->> 'rollback')::uuid, h.op_id), h.reason
      from history h where h.agent_id = agent and h.op_id = any(later)
    order by 1, 10, 2;
end $$;

-- Apply one step of a planned rollback as an operation. p_rollback_id is the id of the rollback if it takes several
-- steps. The last step gets the removals of the whole plan. Return false and write nothing if anything differs from the
-- plan.
create function roll_back(p_keys text[], p_ids uuid[], p_versions integer[], p_revisions bigint[], p_orphans boolean[],
                          p_links bigint[], p_removed uuid[], p_since bigint[], p_request jsonb, p_rollback_id uuid, p_items_left integer,
                          p_op uuid, p_actor text)
returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp set timezone = 'UTC' as $$
declare
    agent  text := current_setting('mnemic.agent_id');
    own    text[] := permitted_keys(p_keys);
    finals memories[];
    hidden uuid[];
    shown  uuid[];
    withdrawn_ids uuid[]; -- withdrawn by their author
    reworded      uuid[]; -- with changed content
    is_active     boolean;
begin
    perform open_operation(agent, p_op, p_actor, case when session_user = 'mnemic_admin' then 'admin' else 'person' end,
                           case when p_request ? 'revision' then 'restore' else 'undo' end, null, null,
                           p_request || case when p_rollback_id is null then '{}'::jsonb
                                             else jsonb_build_object('rollback', p_rollback_id, 'left', p_items_left) end);
    update heads set operation = operation || jsonb_build_object('undo_of', p_request #>> '{undone,0}')
     where agent_id = agent and p_request #>> '{undone,1}' is null;
    finals := array(
        select r from unnest(p_ids, p_versions, p_revisions, p_orphans) as t(id, version, revision, is_orphan)
          join memories m on m.agent_id = agent and m.id = t.id and m.version = t.version
          left join history h on h.agent_id = agent and h.revision = t.revision and h.memory_id = t.id
          left join history_contents c on c.agent_id = agent and c.revision = h.revision
         cross join lateral restored_row(m, c.after, t.is_orphan) as r
         where (t.revision is null or c.after is not null) and m.state <> 'purged'
           and (own is null or (m.scope_key = any(own) and not (m.protected or r.protected)))
         order by r.id);
    if cardinality(finals) <> cardinality(p_ids)
       or exists (select from unnest(finals) as f
                   cross join lateral find_active_duplicate(agent, f.scope_key, f.kind, f.content_hash, f.subject_user_id) as o
                   where f.state = 'active' and o.id <> all(p_ids)) then
        perform close_operation(agent);
        return false;
    end if;
    hidden := array(select f.id from unnest(finals) as f join memories m on m.agent_id = agent and m.id = f.id
                     where f.state = 'soft_deleted' and m.state <> 'soft_deleted');
    shown := array(select f.id from unnest(finals) as f join memories m on m.agent_id = agent and m.id = f.id
                    where f.state <> 'soft_deleted' and m.state <> f.state);
    if p_request ? 'unshared_by' then
        reworded := array(select f.id from unnest(finals) as f join memories m on m.agent_id = agent and m.id = f.id
                           where m.content_hash <> f.content_hash);
        withdrawn_ids := array(select f.id from unnest(finals) as f
                                where f.state <> 'active'
                                  and (f.id in (select id from contributions_of(p_request ->> 'unshared_by'))
                                       or (f.state = 'soft_deleted' and f.provenance = 'consolidated')));
    end if;
    -- Undoing a withdrawal makes its rows of history readable again.
    delete from withdrawn w
     using unnest(p_ids, p_revisions) as t(id, revision), history h
     where w.agent_id = agent and w.memory_id = t.id and h.agent_id = agent and h.memory_id = t.id and h.op_id = w.op_id
       and h.revision > coalesce(t.revision, 0);
    -- Free each uniqueness key before another memory takes it: first the memories in the way.
    update memories m set state = 'soft_deleted'
      from unnest(finals) as f
     where m.agent_id = agent and m.id = f.id and m.state = 'active' and f.state = 'active' and m.content_hash <> f.content_hash
       and exists (select from unnest(finals) as g where g.state = 'active' and g.id <> m.id and uniqueness_key(g) = uniqueness_key(m));
    -- Restore every column except the identity, which never changes, the version and the time of change, which go on.
    foreach is_active in array array[false, true] loop
        update memories m
           set content = f.content, subject = f.subject, importance = f.importance, pinned = f.pinned,
               protected = f.protected, private = f.private, tags = f.tags, provenance = f.provenance, state = f.state,
               superseded_by = f.superseded_by, absorbed_at = f.absorbed_at, consolidated_into = f.consolidated_into,
               valid_from = f.valid_from, utc_offset = f.utc_offset, valid_until = f.valid_until, purge_at = f.purge_at,
               source_session_id = f.source_session_id, run_id = f.run_id,
               actor_id = f.actor_id, role = f.role, said = f.said, draft = f.draft,
               withdrawn_by = case when f.id = any(withdrawn_ids) then p_request ->> 'unshared_by' else f.withdrawn_by end
          from unnest(finals) as f
         where m.agent_id = agent and m.id = f.id and (f.state = 'active') = is_active;
    end loop;
    -- Restore relations to their state before these rows of history; each relation has one row.
    delete from relations r
     using history_contents l
     where l.agent_id = agent and l.revision = any(p_links) and l.before is null and (own is null or l.scope_key = any(own))
       and r.agent_id = agent and r.from_id = (l.after ->> 'from_id')::uuid
       and r.to_id = (l.after ->> 'to_id')::uuid and r.relation_type = l.after ->> 'relation_type';
    insert into relations
    select r.* from history_contents l cross join lateral jsonb_populate_record(null::relations, l.before) as r
     where l.agent_id = agent and l.revision = any(p_links) and l.before is not null and (own is null or l.scope_key = any(own))
       and l.before ? 'from_id'
    on conflict do nothing;
    -- A source message leaves the search with its last memory and returns with the first restored one. A superseded
    -- memory may have been closed before the last one was deleted.
    update entries e set searchable = s.is_shown
      from (select x.message_id, bool_or(x.is_shown) as is_shown
              from (select message_id, false as is_shown from source_messages(agent, hidden)
                    union all select message_id, true from source_messages(agent, shown)) as x group by x.message_id) as s
     where e.agent_id = agent and e.item_id = s.message_id
       and (own is null or e.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[]))
       and (s.is_shown or not is_source_in_use(agent, s.message_id, '{}'));
    if p_request ? 'unshared_by' then -- all rows of withdrawn memories, and the undone rows of rewritten ones
        insert into withdrawn (agent_id, revision, memory_id, op_id, withdrawn_by)
        select agent, h.revision, h.memory_id, p_op, p_request ->> 'unshared_by'
          from unnest(p_ids, p_revisions) as t(id, revision)
          join memories m on m.agent_id = agent and m.id = t.id
          join history h on h.agent_id = agent and h.memory_id = t.id and changes_memory(h)
         where m.id = any(withdrawn_ids) or (m.id = any(reworded) and h.revision > t.revision)
        on conflict do nothing;
    end if;
    -- Only after the last step: earlier steps would change rows that later steps have planned.
    if p_items_left = 0 and p_rollback_id is not null then
        select array_agg(m.id) filter (where m.state = 'soft_deleted'), array_agg(m.id) filter (where m.state <> 'soft_deleted')
          into hidden, shown
          from (select distinct h.memory_id from history h
                 where h.agent_id = agent and h.meta ->> 'rollback' = p_rollback_id::text and changes_memory(h)) as h
          join memories m on m.agent_id = agent and m.id = h.memory_id;
    end if;
    if p_items_left = 0 then
        perform reactivate_replaced(agent, coalesce(hidden, '{}'), array(
            select r.since from unnest(hidden) with ordinality as g(id, place)
              left join unnest(p_removed, p_since) as r(id, since) on r.id = g.id order by g.place), coalesce(shown, '{}'));
    end if;
    perform close_operation(agent);
    return true;
end $$;

-- Return the memories of a scope key at a revision, without contents.
create function metadata_as_of(p_key text, p_revision bigint)
returns table (id uuid, kind text, category text, state text, tokens integer, importance integer, protected boolean)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select l.memory_id, m.kind, m.category,
           case when c.after is null then 'purged' else c.after ->> 'state' end,
           coalesce((c.after ->> 'tokens')::integer, 0),
           coalesce((c.after ->> 'importance')::integer, m.importance),
           coalesce((c.after ->> 'protected')::boolean, false)
      from (select distinct on (h.memory_id) h.memory_id, h.revision, h.after_digest from history h
             where h.agent_id = current_setting('mnemic.agent_id') and h.scope_key = p_key and h.revision <= p_revision
               and changes_memory(h)
             order by h.memory_id, h.revision desc) as l
      join memories m on m.agent_id = current_setting('mnemic.agent_id') and m.id = l.memory_id
      left join history_contents c on c.agent_id = m.agent_id and c.revision = l.revision
     where l.after_digest is not null and c.after ->> 'state' is distinct from 'purged'
     order by l.memory_id
$$;
