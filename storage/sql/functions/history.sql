-- Return the text that the hash of a history row covers, version h1: every column except the hash, in the table's
-- order.
create function history_text(h history) returns text
language sql stable
return jsonb_build_array(
    'h1', h.agent_id, h.revision, h.op_id, h.event, h.memory_id, h.scope_key, h.category, h.actor, h.actor_kind, h.reason,
    h.session_id, h.run_id, h.refinement_id, h.undo_of, encode(h.before_digest, 'hex'), encode(h.after_digest, 'hex'),
    h.token_delta, h.meta, (extract(epoch from h.ts) * 1000000)::bigint, encode(h.prev, 'hex'))::text;
create function history_hash(h history) returns bytea
language sql stable
return sha256(convert_to(history_text(h), 'UTF8'));

-- Write one row of history per changed memory, relation or refinement, once per statement and in order. 100 memories
-- then cost one look-up and one new version of the head instead of 100. Results depend on no time zone or float setting
-- of the session.
-- The switch corrects plans that were cached while the tables were small. With 50,000 later rows a save takes 16 ms, and
-- 65 ms without the switches of open_operation, open_head and record_history.
create function record_history() returns trigger
language plpgsql security definer set search_path = mnemic, pg_temp set enable_seqscan = off
    set timezone = 'UTC' set extra_float_digits = 1 as $$
declare
    changed  refcursor;
    change   record;
    subject  jsonb;
    h        history;
    c        history_contents;
    rows     history[];
    contents history_contents[];
    -- Never stored, so a deleted salt does not follow from the others. Drawn once, because each draw opens a file.
    pepper   bytea := uuid_send(gen_random_uuid());
begin
    case tg_op
    when 'INSERT' then
        open changed for select null::jsonb as earlier, to_jsonb(n) as later from new_rows n;
    when 'DELETE' then
        open changed for select to_jsonb(o) as earlier, null::jsonb as later from old_rows o;
    else -- the guard keeps ids; without it both rows would still be recorded
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
        continue when tg_table_name = 'refinements' and change.earlier -> 'ended' = change.later -> 'ended';
        if h.agent_id is distinct from subject ->> 'agent_id' then
            update heads set revision = h.revision, hash = h.hash where agent_id = h.agent_id;
            h := open_head(subject ->> 'agent_id');
            if h.agent_id is null then
                raise exception 'a memory changes only inside an operation' using errcode = 'insufficient_privilege';
            end if;
        end if;
        h.revision := h.revision + 1;
        h.prev := h.hash;
        h.event := case
            when tg_table_name = 'refinements' then 'SESSION'
            when tg_table_name = 'relations' then 'LINK'
            when h.reason = 'erasure' and change.later ->> 'state' = 'purged' then 'ERASE'
            when h.reason = 'merge' and change.later ->> 'state' = 'soft_deleted' then 'MERGE'
            when h.reason = 'dedup' and change.later ->> 'state' = 'soft_deleted' then 'DEDUP'
            when h.reason = 'ttl' and change.later ->> 'state' = 'soft_deleted' then 'TTL'
            when change.earlier is null then 'ADD'
            when change.later is null then 'DELETE'
            when change.later -> 'state' = change.earlier -> 'state' then
                case when change.later -> 'protected' = change.earlier -> 'protected' then 'UPDATE'
                     when (change.later -> 'protected')::boolean then 'PROTECT' else 'UNPROTECT' end
            when change.later ->> 'state' = 'absorbed' then 'ABSORB'
            when change.later ->> 'state' = 'superseded' then 'SUPERSEDE'
            when change.later ->> 'state' = 'soft_deleted' then 'DELETE'
            when change.later ->> 'state' = 'purged' then 'PURGE'
            else 'RESTORE'
        end;
        h.scope_key := subject ->> 'scope_key';
        h.category := subject ->> 'category';
        h.ts := clock_timestamp();
        if h.event = 'SESSION' then -- has figures and no contents
            h.refinement_id := subject ->> 'id';
            h.token_delta := 0;
            h.meta := jsonb_strip_nulls(subject - '{agent_id,id,scope_key}'::text[]);
        else
            h.memory_id := coalesce(subject ->> 'id', subject ->> 'from_id');
            c := (h.agent_id, h.revision, h.scope_key, sha256(pepper || int8send(h.revision)), change.earlier, change.later);
            h.before_digest := sha256(c.salt || convert_to(c.before::text, 'UTF8'));
            if c.after ->> 'state' = 'purged' then -- the former content is erased, and so is the salt of its digest
                c.before := null;
                c.salt := sha256(pepper || int8send(-h.revision));
            end if;
            h.after_digest := sha256(c.salt || convert_to(c.after::text, 'UTF8'));
            h.token_delta :=
                case when c.after ->> 'state' = 'active' then (c.after ->> 'tokens')::integer else 0 end
                - case when change.earlier ->> 'state' = 'active' then (change.earlier ->> 'tokens')::integer else 0 end;
            contents := contents || c;
        end if;
        h.hash := history_hash(h);
        rows := rows || h;
    end loop;
    insert into history select * from unnest(rows);
    insert into history_contents select * from unnest(contents);
    update heads set revision = h.revision, hash = h.hash where agent_id = h.agent_id;
    return null;
end $$;
create trigger record_insert after insert on memories
    referencing new table as new_rows for each statement execute function record_history();
create trigger record_update after update on memories
    referencing old table as old_rows new table as new_rows for each statement execute function record_history();
create trigger record_delete after delete on memories
    referencing old table as old_rows for each statement execute function record_history();
create trigger record_insert after insert on relations
    referencing new table as new_rows for each statement execute function record_history();
create trigger record_delete after delete on relations
    referencing old table as old_rows for each statement execute function record_history();
create trigger record_insert after insert on refinements
    referencing new table as new_rows for each statement execute function record_history();
create trigger record_update after update on refinements
    referencing old table as old_rows new table as new_rows for each statement execute function record_history();

create function refuse_change() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    raise exception 'history is append-only' using errcode = 'insufficient_privilege';
end $$;
create trigger append_only before update or delete or truncate on history
    for each statement execute function refuse_change();
create trigger append_only before update or truncate on history_contents
    for each statement execute function refuse_change();
-- Contents of the history never change; an erasure or a purge deletes them.
create function refuse_contents_change() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    if exists (select from (select distinct agent_id from old_rows) as gone
                where (open_head(gone.agent_id)).reason in ({erasure_reasons}) is not true) then
        raise exception 'history is append-only' using errcode = 'insufficient_privilege';
    end if;
    return null;
end $$;
create trigger erased_only after delete on history_contents referencing old table as old_rows
    for each statement execute function refuse_contents_change();
create trigger never_truncated before truncate on memories for each statement execute function refuse_change();
