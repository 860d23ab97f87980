-- The trigger runs with the rights of the writing role, which is the owner only inside a definer function. Erased
-- memories never change. Content changes only in a running refinement, except the consolidation, which is rewritten.
create function guard_memory() returns trigger
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
create trigger guard before insert or update or delete on memories for each row execute function guard_memory();
