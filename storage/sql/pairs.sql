-- find --
-- Return pairs of similar active facts of one scope key and subject, at least one of them a candidate, the most similar
-- first. Pairs judged within the last days are left out.
with facts as materialized (
    select id, importance, updated_at from memories
     where agent_id = %(agent_id)s and scope_key = %(scope_key)s and state = 'active' and kind = 'fact' and not protected
       and updated_at >= clock_timestamp() - make_interval(days => %(updated_days)s)
), used as (
    select u.memory_id, percent_rank() over (order by u.access_count) as rank
      from memory_use u join facts f on f.id = u.memory_id where u.agent_id = %(agent_id)s
), candidate as (
    select f.* from facts f left join used u on u.memory_id = f.id
     where f.updated_at >= clock_timestamp() - make_interval(hours => %(changed_hours)s)
        or f.importance >= %(importance)s or u.rank >= 1 - %(use_percent)s / 100.0
     order by f.updated_at >= clock_timestamp() - make_interval(hours => %(changed_hours)s) desc,
              md5(f.id::text || current_date::text)
     limit least(%(candidates)s::bigint, 1 + %(comparisons)s::bigint / (select count(*) + 1 from facts))
), near as (
    select least(c.id, n.item_id) as one, greatest(c.id, n.item_id) as other, max(n.similarity) as similarity
      from candidate c
     cross join lateral (
           select model, vec from entries
            where agent_id = %(agent_id)s and item_id = c.id and searchable
              and starts_with(model || ':', %(model)s || ':') limit 1) as own
     cross join lateral ( -- one index-only scan each
           select e.item_id, 1 - e.distance as similarity from (
                  select item_id, vec <=> own.vec as distance from entries
                   where agent_id = %(agent_id)s and scope_key = %(scope_key)s and model = own.model and searchable
                     and kind = 'fact' offset 0) as e
            where e.item_id <> c.id and e.distance <= 1 - %(least)s::double precision
              and (%(below)s::double precision is null or e.distance > 1 - %(below)s::double precision)
            order by e.distance limit %(neighbours)s) as n
     group by 1, 2
), pair as (
    select o.*, n.similarity, md5(concat_ws(' ', o.earlier_id, o.earlier_version, o.later_id, o.later_version))::uuid as fingerprint
      from near n
     cross join lateral ( -- looked up row by row, independent of the estimated number of pairs
           select a.id as earlier_id, a.version as earlier_version, b.id as later_id, b.version as later_version
             from memories a join memories b on b.agent_id = a.agent_id and b.id <> a.id
            where a.agent_id = %(agent_id)s and a.id in (n.one, n.other) and b.id in (n.one, n.other)
              and (a.valid_from, a.created_at, a.id) < (b.valid_from, b.created_at, b.id)
              and lower(a.subject) = lower(b.subject) and a.subject_user_id is not distinct from b.subject_user_id
              and least(a.updated_at, b.updated_at) >= clock_timestamp() - make_interval(days => %(updated_days)s)
              and not a.protected and not b.protected offset 0) as o
)
select p.fingerprint, p.earlier_id, p.later_id, p.similarity,
       exists (select from relations r
                where r.agent_id = %(agent_id)s and r.from_id in (p.earlier_id, p.later_id)
                  and r.to_id in (p.earlier_id, p.later_id)) as is_linked
  from pair p
 where not exists (select from checked_pairs c
                    where c.agent_id = %(agent_id)s and c.scope_key = %(scope_key)s and c.fingerprint = p.fingerprint
                      and c.checked_at > clock_timestamp() - make_interval(days => %(rest_days)s))
 order by p.similarity desc, p.fingerprint limit %(most)s;

-- of_ids --
-- Return active facts by their ids.
select {memory} from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = any(%(ids)s) and state = 'active';

-- unchanged --
-- Return the facts that are active in the version that was read.
select m.id from memories m join unnest(%(ids)s::uuid[], %(versions)s::integer[]) as g(id, version) using (id)
 where m.agent_id = %(agent_id)s and m.scope_key = any(%(scope_keys)s) and m.version = g.version and m.state = 'active'
   and not m.protected;

-- sources --
-- Return the source messages of these facts.
select message_id from source_messages(%(agent_id)s, %(ids)s) order by message_id;

-- neighbours --
-- Return the memories related to these facts, the strongest relation first.
select other, max(strength) as strength
  from (select to_id as other, strength from relations
         where agent_id = %(agent_id)s and from_id = any(%(ids)s) and relation_type = 'related_to'
        union all
        select from_id, strength from relations
         where agent_id = %(agent_id)s and to_id = any(%(ids)s) and relation_type = 'related_to') as r
 where other <> all(%(ids)s)
 group by other order by strength desc, other limit %(most)s;

-- relate --
-- Relate two facts of the scope key, unless they already have a relation of this type.
insert into relations (agent_id, from_id, to_id, relation_type, strength, scope_key, to_scope_key)
select %(agent_id)s, f.id, t.id, %(relation_type)s, %(strength)s, f.scope_key, t.scope_key
  from memories f join memories t on t.agent_id = f.agent_id
 where f.agent_id = %(agent_id)s and f.id = %(from_id)s and t.id = %(to_id)s
   and f.scope_key = any(%(scope_keys)s) and t.scope_key = any(%(scope_keys)s)
on conflict do nothing;

-- pin --
-- Pin a fact because the fact that it replaces was pinned.
update memories set pinned = true
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = %(id)s and state = 'active' and not pinned;

-- checked_today --
-- Count the pairs of the scope key that were judged since midnight (UTC).
select count(*) from checked_pairs
 where agent_id = %(agent_id)s and scope_key = %(scope_key)s
   and checked_at >= date_trunc('day', clock_timestamp(), 'UTC');

-- note_checked --
-- Record judged pairs.
insert into checked_pairs (agent_id, scope_key, fingerprint, earlier_id, later_id)
select %(agent_id)s, %(scope_key)s, * from unnest(%(fingerprints)s::uuid[], %(earlier_ids)s::uuid[], %(later_ids)s::uuid[])
on conflict (agent_id, scope_key, fingerprint) do update set checked_at = excluded.checked_at;

-- prune --
-- Delete fingerprints that no longer count.
delete from checked_pairs
 where agent_id = %(agent_id)s and checked_at <= clock_timestamp() - make_interval(days => %(rest_days)s);
