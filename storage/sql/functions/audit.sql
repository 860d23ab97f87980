-- Return every fault in an agent's history as a code and its place, without any content.
create function audit_problems() returns table (problem text, revision bigint, memory_id uuid)
language sql stable security definer
set search_path = mnemic, pg_temp set timezone = 'UTC' set extra_float_digits = 1 as $$
    with agent as materialized (
        select current_setting('mnemic.agent_id') as id
    ), chain as materialized (
        select h.*, h as whole, lag(h.revision, 1, 0::bigint) over w as before, lag(h.hash) over w as earlier
          from history h, agent a where h.agent_id = a.id window w as (order by h.revision)
    ), told as materialized (
        select c.revision, c.memory_id, c.event, c.before_digest, c.after_digest, c.scope_key,
               k.revision as contents, k.scope_key as contents_key, k.salt, k.before, k.after, m.state
          from chain c
          left join history_contents k on k.agent_id = c.agent_id and k.revision = c.revision
          left join memories m on m.agent_id = c.agent_id and m.id = c.memory_id
    ), last as materialized (
        select distinct on (t.memory_id) t.memory_id, t.revision, t.after from told t
         where t.event <> 'LINK' and (t.before_digest is not null or t.after_digest is not null)
         order by t.memory_id, t.revision desc
    ), linked as materialized (
        select distinct on (l.link ->> 'from_id', l.link ->> 'to_id', l.link ->> 'relation_type') t.revision, l.link, t.after
          from told t cross join lateral (select coalesce(t.after, t.before) as link) as l
         where t.event = 'LINK'
         order by l.link ->> 'from_id', l.link ->> 'to_id', l.link ->> 'relation_type', t.revision desc
    )
    select p.problem, c.revision, c.memory_id
      from chain c cross join agent a
     cross join lateral (values ('hash', c.hash is distinct from history_hash(c.whole)),
                                ('chain', c.prev is distinct
                                          from coalesce(c.earlier, sha256(convert_to(a.id, 'UTF8')))),
                                ('gap', c.revision <> c.before + 1)) as p(problem, is_so)
     where p.is_so
    union all
    select 'head', coalesce(h.revision, l.revision), null
      from (select max(c.revision) as revision, (array_agg(c.hash order by c.revision desc))[1] as hash from chain c) as l
     cross join agent a
      left join heads h on h.agent_id = a.id
     where (h.revision, h.hash) is distinct from (coalesce(l.revision, 0), coalesce(l.hash, sha256(convert_to(a.id, 'UTF8'))))
       and coalesce(h.revision, l.revision) is not null
    union all
    -- Only rows of an erased memory lack contents, except the row of the erasure.
    select 'contents', t.revision, t.memory_id from told t
     where case when t.contents is null
                then (t.before_digest is not null or t.after_digest is not null)
                     and (t.state is distinct from 'purged' or t.event = 'LINK')
                else t.contents_key is distinct from t.scope_key
                     or t.after_digest is distinct from sha256(t.salt || convert_to(t.after::text, 'UTF8'))
                     or (t.before_digest is distinct from sha256(t.salt || convert_to(t.before::text, 'UTF8'))
                         and not (t.event in ({erasure_events}) and t.before is null)) end
    union all
    select 'contents', k.revision, null from history_contents k, agent a
     where k.agent_id = a.id and not exists (select from history h where h.agent_id = k.agent_id and h.revision = k.revision)
    union all
    select 'erased', t.revision, t.memory_id from told t
     where t.state = 'purged' and t.contents is not null and t.event not in ({erasure_events}, 'LINK')
    union all
    -- Compare each row of today with its last row in the history. Columns that an upgrade added or removed are skipped.
    select 'replay', l.revision, coalesce(m.id, l.memory_id)
      from (select m.* from memories m, agent a where m.agent_id = a.id) as m full join last l on l.memory_id = m.id
     where (m.id is null) <> (l.after is null)
        or l.after is distinct from to_jsonb(m)
           and exists (select from jsonb_each(l.after) as t(name, value)
                         join jsonb_each(to_jsonb(m)) as n(name, value) using (name) where t.value is distinct from n.value)
    union all
    select 'relation', l.revision, coalesce(r.from_id, (l.link ->> 'from_id')::uuid)
      from (select r.* from relations r, agent a where r.agent_id = a.id) as r
      full join linked l on l.link ->> 'from_id' = r.from_id::text and l.link ->> 'to_id' = r.to_id::text
                         and l.link ->> 'relation_type' = r.relation_type
     where l.after is distinct from to_jsonb(r)
    union all
    select 'entry', null, e.item_id from entries e join memories m on m.agent_id = e.agent_id and m.id = e.item_id, agent a
     where e.agent_id = a.id
       and ((e.searchable, e.scope_key, e.kind, e.category)
            is distinct from (is_searchable(m.kind, m.state), m.scope_key, m.kind, m.category) or m.state = 'purged')
    union all
    select 'entry', null, m.id from memories m, agent a
     where m.agent_id = a.id and m.kind in ({indexed_kinds}) and m.state <> 'purged'
       and not exists (select from entries e where e.agent_id = m.agent_id and e.item_id = m.id)
    order by 2, 1
$$;

-- Return the agents that have a history or should have one. The recursion looks up one agent after the other instead of
-- reading every row.
create function agent_ids() returns table (agent_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive known(id) as (
        select min(h.agent_id) from history h
        union all
        select (select min(h.agent_id) from history h where h.agent_id > k.id) from known k where k.id is not null
    )
    select id from known where id is not null
    union select a.agent_id from agents a union select h.agent_id from heads h where h.revision > 0
    order by 1
$$;

-- Return the hashes that link rows of the chain, so that a partial export can be checked. It reveals no owner.
create function chain_links(p_after bigint, p_last bigint) returns table (revision bigint, prev bytea, hash bytea)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select h.revision, h.prev, h.hash from history h
     where h.agent_id = current_setting('mnemic.agent_id') and h.revision > p_after and h.revision <= p_last
     order by h.revision
$$;
