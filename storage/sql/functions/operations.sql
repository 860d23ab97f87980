-- Lock the agent's head first, because a trigger that locks it last deadlocks, and store the values that the audit
-- triggers record. A setting could not open a write: every role can change settings.
-- The switch corrects plans that were cached while the tables were small. With 50,000 later rows a save takes 16 ms, and
-- 65 ms without the switches of open_operation, open_head and record_history.
create function open_operation(p_agent text, p_op uuid, p_actor text, p_actor_kind text, p_reason text,
                                          p_session text, p_run text, p_meta jsonb) returns void
language plpgsql security definer set search_path = mnemic, pg_temp set enable_seqscan = off as $$
begin
    if p_agent is null then
        raise exception 'an operation needs a scoped transaction' using errcode = 'insufficient_privilege';
    end if;
    insert into heads as h (agent_id, revision, hash, op_xid, op_began, operation)
    values (p_agent, 0, sha256(convert_to(p_agent, 'UTF8')), pg_current_xact_id(), transaction_timestamp(),
            jsonb_build_object('op_id', p_op, 'actor', p_actor, 'actor_kind', p_actor_kind, 'reason', p_reason,
                               'session_id', p_session, 'run_id', p_run, 'meta', p_meta))
    on conflict (agent_id) do update
       set op_xid = excluded.op_xid, op_began = excluded.op_began, operation = excluded.operation;
    if exists (select from history where agent_id = p_agent and op_id = p_op) then
        raise exception 'an operation has an id of its own' using errcode = 'insufficient_privilege';
    end if;
end $$;

-- Close an operation of a person or an administrator at the end of its function; the rest of the transaction does not
-- belong to it.
create function close_operation(p_agent text) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    update heads set op_xid = null where agent_id = p_agent
$$;

-- Return this transaction's open operation on the agent as a history row, with the revision and hash of the last row;
-- without an open operation all its columns are null.
-- The switch corrects plans that were cached while the tables were small. With 50,000 later rows a save takes 16 ms, and
-- 65 ms without the switches of open_operation, open_head and record_history.
create function open_head(p_agent text) returns history
language plpgsql stable security definer set search_path = mnemic, pg_temp set enable_seqscan = off as $$
begin
    return (select jsonb_populate_record(null::history, to_jsonb(h) || h.operation) from heads h
             where agent_id = p_agent and op_xid = pg_current_xact_id() and op_began = transaction_timestamp());
end $$;

-- Open an operation for the service. The agent is that of the transaction, and the actor is an agent. Reasons that
-- belong to other functions are refused, because rollback, purge and event names depend on them.
create function begin_operation(p_op uuid, p_actor text, p_reason text, p_session text, p_run text, p_meta jsonb)
returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    if p_reason in ({reserved_reasons}) then
        raise exception 'this reason is given by the function that does it' using errcode = 'insufficient_privilege';
    end if;
    perform open_operation(nullif(current_setting('mnemic.agent_id', true), ''), p_op, p_actor, 'agent', p_reason,
                           p_session, p_run, p_meta);
end $$;

-- Set or lift the protection of a memory as administrator. Return whether it changed, or null if the agent has no such
-- active memory.
create function set_protection(p_agent text, p_memory uuid, p_protected boolean, p_actor text) returns boolean
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

-- Return the keys that the transaction may access. Null means all keys and is for administrators only.
create function permitted_keys(p_keys text[]) returns text[]
language sql stable set search_path = mnemic, pg_temp as $$
    select coalesce(array_agg(k), case when p_keys is not null or session_user <> 'mnemic_admin' then '{}'::text[] end)
      from unnest(p_keys) as k where k = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[])
$$;
