-- The entries of a memory follow its state and its content. New content is searched by text at once, until a job stores
-- its vector. A reflection is searched only after it has left the context.
create function is_searchable(memory_kind text, memory_state text) returns boolean
language sql immutable
return case memory_kind when 'reflection' then memory_state = 'absorbed' else memory_state = 'active' end;
create function keep_entries() returns trigger
language plpgsql set search_path = mnemic, pg_temp as $$
begin
    if new.content <> old.content and new.state <> 'purged' then
        delete from entries where agent_id = new.agent_id and item_id = new.id;
        if found then
            insert into entries (agent_id, scope_key, item_id, kind, category, model, tsv, searchable)
            values (new.agent_id, new.scope_key, new.id, new.kind, new.category, '',
                    to_tsvector({text_search}, indexed_text(new)), is_searchable(new.kind, new.state));
        end if;
    else
        update entries set searchable = is_searchable(new.kind, new.state)
         where agent_id = new.agent_id and item_id = new.id;
    end if;
    return null;
end $$;
create trigger entries_follow after update on memories for each row
    when (old.state is distinct from new.state or old.content is distinct from new.content)
    execute function keep_entries();

-- Return a time as a clock at this offset, in minutes, showed it.
create function local_time(moment timestamptz, utc_offset smallint) returns timestamp
language sql immutable
return moment at time zone 'UTC' + utc_offset * interval '1 minute';

-- Return the indexed text of a memory. memory/text/shape.py builds the same text.
create function indexed_text(m memories) returns text
language sql stable set search_path = mnemic, pg_temp as $$
    select '[' || to_char(local_time(m.valid_from, m.utc_offset), 'FMDD FMMonth YYYY') || '] '
           || case when m.subject <> '' then m.subject || ': ' else '' end || coalesce(m.draft, m.content)
$$;

-- Return the time of the next attempt for a refused vector: a minute later, then four times as long each time, up to a
-- day.
create function embedding_due(refusals smallint) returns timestamptz
language sql volatile
return clock_timestamp() + least(interval '1 day', interval '1 minute' * 4.0 ^ least(refusals, 6));

-- Count the vectors of each embedder over all agents. '' counts entries without a vector.
create function vector_models() returns table (model text, vectors bigint)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select e.model, count(*) from entries e where e.searchable group by e.model order by 2 desc, 1
$$;
