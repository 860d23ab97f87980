-- A replaced memory becomes active again once its replacement is erased, purged, undone or withdrawn.

-- Return whether a memory was replaced after a revision, and not by the open rollback.
create function is_replaced_since(p_agent text, p_memory uuid, p_revision bigint) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select l.revision > p_revision
           and coalesce(l.meta ->> 'rollback', l.op_id::text) <> coalesce(o.meta ->> 'rollback', o.op_id::text)
      from open_head(p_agent) as o
     cross join (select * from history h
                  where h.agent_id = p_agent and h.memory_id = p_memory and changes_memory(h)
                    and h.event not in ('UPDATE', 'PROTECT', 'UNPROTECT')
                  order by h.revision desc limit 1) as l
$$;

-- Return the memories that these directly replaced: superseded facts, absorbed or closed texts, merged memories and
-- duplicates, and reflections that a correction removed with its fact. Merges are followed through memories that were
-- erased before. A withdrawn memory stays withdrawn; the memories that it replaced are returned. For a memory that a
-- rollback returns to an earlier deletion, p_since is the first change that the rollback undoes: memories that were
-- replaced before that change, or by the rollback itself, are not returned.
-- The switches are kept for histories with many refinements, which were not measured without them.
create function replaced_memories(p_agent text, p_gone uuid[], p_since bigint[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with recursive gone(id, since) as (
        select * from unnest(p_gone, p_since)
        union
        select n.id, g.since from gone g cross join lateral (
               select m.id from memories m
                where m.agent_id = p_agent and m.superseded_by = g.id and m.withdrawn_by is not null
               union all
               select m.id from relations r join memories m on m.agent_id = p_agent and m.id = r.to_id
                where r.agent_id = p_agent and r.from_id = g.id and r.relation_type in ({merge_relations})
                  and (m.state = 'purged' or m.withdrawn_by is not null) offset 0) as n
    ), closed as materialized (
        select m.id, g.since, l.op_id
          from gone g
          join memories m on m.agent_id = p_agent and m.superseded_by = g.id
         cross join lateral (select h.op_id from history h
                              where h.agent_id = p_agent and h.memory_id = m.id and h.event = 'SUPERSEDE'
                              order by h.revision desc limit 1) as l
    ), replaced(id, since) as (
        select id, since from closed
        union
        select m.id, g.since from gone g join memories m on m.agent_id = p_agent and m.consolidated_into = g.id
        union
        -- Relations are deleted when a merge is undone and restored when the undo is undone.
        select r.to_id, g.since
          from gone g join relations r on r.agent_id = p_agent and r.from_id = g.id
          join memories m on m.agent_id = p_agent and m.id = r.to_id and m.state = 'soft_deleted'
         where r.relation_type in ({merge_relations}) and not is_active_or_deleted(p_agent, r.from_id, true)
        union
        select m.id, c.since
          from closed c
          join history h on h.agent_id = p_agent and h.op_id = c.op_id and h.event = 'DELETE' and h.reason = 'correct'
          join memories m on m.agent_id = p_agent and m.id = h.memory_id and m.state = 'soft_deleted'
         where not exists (select from history l where l.agent_id = p_agent and l.memory_id = m.id and l.revision > h.revision and changes_memory(l))
    )
    select distinct r.id from replaced r
     where r.since is null or is_replaced_since(p_agent, r.id, r.since)
$$;

-- Return the end that a memory had before it was superseded.
create function earlier_end(m memories) returns timestamptz
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select case when m.state <> 'superseded' then m.valid_until
                else (select (c.before ->> 'valid_until')::timestamptz
                        from history h join history_contents c on c.agent_id = h.agent_id and c.revision = h.revision
                       where h.agent_id = m.agent_id and h.memory_id = m.id and h.event = 'SUPERSEDE'
                       order by h.revision desc limit 1) end
$$;

-- Make these memories active and their source messages searchable. Memories that duplicate an active one or are planned
-- for erasure stay. Of several duplicates one is restored.
create function reactivate(p_agent text, p_memories uuid[]) returns uuid[]
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    back uuid[] := array(
        select (array_agg(m.id order by m.id))[1]
          from unnest(p_memories) as i(id) join memories m on m.agent_id = p_agent and m.id = i.id
         where m.state not in ('active', 'purged') and m.withdrawn_by is null
           and not exists (select from find_active_duplicate(p_agent, m.scope_key, m.kind, m.content_hash, m.subject_user_id))
           and not exists (select from erasing e where e.agent_id = p_agent and e.item_id = m.id)
         group by uniqueness_key(m));
begin
    update memories m
       set state = 'active', superseded_by = null, absorbed_at = null, consolidated_into = null, purge_at = null,
           valid_until = earlier_end(m)
     where m.agent_id = p_agent and m.id = any(back);
    update entries e set searchable = true
      from source_messages(p_agent, back) as s
     where e.agent_id = p_agent and e.item_id = s.message_id and not e.searchable;
    return back;
end $$;

-- Reactivate the memories that these replaced, and copies that were withdrawn because their source was replaced. For
-- p_since see replaced_memories; it may be empty.
create function reactivate_replaced(p_agent text, p_gone uuid[], p_since bigint[], p_back uuid[]) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    back uuid[] := p_back;
begin
    if cardinality(p_gone) > 0 then
        back := back || reactivate(p_agent, array(select replaced_memories(p_agent, p_gone, p_since)));
    end if;
    if cardinality(back) = 0 then
        return;
    end if;
    perform reactivate(p_agent, array(
        select c.id from copies_of(p_agent, back) as c(id)
         where (select h.event = 'DELETE' and h.reason = 'propagation' from history h
                 where h.agent_id = p_agent and h.memory_id = c.id and changes_memory(h) order by h.revision desc limit 1)
           and not exists (select from relations r
                            where r.agent_id = p_agent and r.from_id = c.id and r.relation_type = 'propagated_from'
                              and not is_still_valid(p_agent, r.to_id))));
end $$;

-- Assign the memories replaced by an erased memory to its successor. The end of the successor reactivates them.
create function inherit_replaced(p_agent text, p_gone uuid[]) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    with recursive heir(id, successor) as (
        select m.id, m.superseded_by from memories m
         where m.agent_id = p_agent and m.id = any(p_gone) and m.superseded_by is not null
        union
        select h.id, m.superseded_by from heir h join memories m on m.agent_id = p_agent and m.id = h.successor
         where h.successor = any(p_gone) and m.superseded_by is not null
    )
    update memories m set superseded_by = h.successor
      from heir h
     where m.agent_id = p_agent and m.superseded_by = h.id and h.successor <> all(p_gone) and m.id <> all(p_gone)
       and m.id <> h.successor
$$;

-- Return an active memory as it was before a row of history.
create function former_version(m memories, p_revision bigint) returns setof memories
language sql stable security definer set search_path = mnemic, pg_temp set timezone = 'UTC' as $$
    select f.* from history_contents c cross join lateral jsonb_populate_record(m, c.before) as f
     where c.agent_id = m.agent_id and c.revision = p_revision and m.state = 'active' and c.before is not null
$$;

-- Store former versions as new memories with their source messages, because the rows with their later text are erased.
create function restore_former_versions(p_formers memories[]) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    f      memories;
    new_id uuid;
begin
    foreach f in array p_formers loop
        continue when exists (select from find_active_duplicate(f.agent_id, f.scope_key, f.kind, f.content_hash, f.subject_user_id));
        new_id := gen_random_uuid();
        insert into memories (agent_id, id, kind, scope_key, subject, subject_user_id, category, content, importance, pinned, private,
                              tags, provenance, valid_from, utc_offset, valid_until, created_at, source_session_id, run_id,
                              actor_id, role, said, draft)
        values (f.agent_id, new_id, f.kind, f.scope_key, f.subject, f.subject_user_id, f.category, f.content, f.importance, f.pinned,
                f.private, f.tags, f.provenance, f.valid_from, f.utc_offset, f.valid_until, f.created_at, f.source_session_id,
                f.run_id, f.actor_id, f.role, f.said, f.draft);
        insert into entries (agent_id, scope_key, item_id, kind, category, model, tsv, searchable)
        select m.agent_id, m.scope_key, m.id, m.kind, m.category, '', to_tsvector({text_search}, indexed_text(m)),
               is_searchable(m.kind, m.state)
          from memories m where m.agent_id = f.agent_id and m.id = new_id and m.kind in ({indexed_kinds});
        insert into sources (agent_id, memory_id, message_id, scope_key)
        select agent_id, new_id, message_id, scope_key from sources where agent_id = f.agent_id and memory_id = f.id;
    end loop;
end $$;

-- Reactivate the memories replaced by copies that the transaction's operation has withdrawn from one of its scope keys.
create function reactivate_after_withdrawal(p_copies uuid[]) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    select reactivate_replaced(current_setting('mnemic.agent_id'), array(
        select m.id from memories m
         where m.agent_id = current_setting('mnemic.agent_id') and m.id = any(p_copies) and m.state = 'soft_deleted'
           and m.scope_key = any(current_setting('mnemic.scope_keys')::text[])
           and (open_head(m.agent_id)).reason = 'propagation'
           and exists (select from relations r
                        where r.agent_id = m.agent_id and r.from_id = m.id and r.relation_type = 'propagated_from')), '{}', '{}')
$$;
