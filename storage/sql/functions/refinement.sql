-- Return whether a refinement merges and protects memories of this kind.
create function is_mergeable(memory_kind text) returns boolean
language sql immutable
return memory_kind in ({mergeable_kinds});

-- Return whether the transaction acts for a running refinement of this scope key.
create function in_refinement(p_agent text, p_key text) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select exists (select from refinements r
                     join leases l on l.agent_id = r.agent_id and l.scope_key = r.scope_key and l.work = 'refinement'
                    where r.agent_id = p_agent and r.id = (open_head(p_agent)).refinement_id
                      and r.scope_key = p_key and r.ended is null and l.until > clock_timestamp())
$$;

-- Open an operation of a refinement. Return false if the refinement has ended or its lease has passed to another
-- holder.
create function begin_refinement_act(p_refinement uuid, p_holder uuid, p_op uuid, p_actor text, p_reason text)
returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    scoped_agent text := nullif(current_setting('mnemic.agent_id', true), '');
begin
    if p_reason not in ({refinement_reasons}) then
        raise exception 'this is no act of a refinement' using errcode = 'insufficient_privilege';
    end if;
    perform open_operation(scoped_agent, p_op, p_actor, 'agent', p_reason, null, null, '{}');
    perform from refinements r
       join leases l on l.agent_id = r.agent_id and l.scope_key = r.scope_key and l.work = 'refinement'
      where r.agent_id = scoped_agent and r.id = p_refinement and r.ended is null and l.holder = p_holder
        and l.until > clock_timestamp() and cardinality(permitted_keys(array[r.scope_key])) = 1
        for update;
    if not found then
        perform close_operation(scoped_agent);
        return false;
    end if;
    update heads set operation = operation || jsonb_build_object('refinement_id', p_refinement) where agent_id = scoped_agent;
    return true;
end $$;

-- End the lease of a refinement if one of its context memories is erased, because its model may have read the text. The
-- next holder reads the memories again.
create function end_refinement_lease() returns trigger
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    delete from leases where agent_id = new.agent_id and scope_key = new.scope_key and work = 'refinement';
    return null;
end $$;
create trigger sessions_lapse after update on memories for each row
    when (new.state = 'purged' and old.state <> 'purged' and new.kind in ({context_kinds}))
    execute function end_refinement_lease();

-- Protect a context memory within a refinement. An agent cannot lift the protection.
create function protect_in_refinement(p_memory uuid, p_version integer) returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    update memories m set protected = true
     where m.agent_id = current_setting('mnemic.agent_id') and m.id = p_memory and m.version = p_version
       and m.state = 'active' and is_mergeable(m.kind) and not m.protected
       and in_refinement(m.agent_id, m.scope_key) and cardinality(permitted_keys(array[m.scope_key])) = 1;
    return found;
end $$;
