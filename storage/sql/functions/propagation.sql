-- Propagation: due scope keys, the speakers of source messages, and copies without a valid source. These functions
-- return ids, keys and similarities, never contents.

-- Return the group of each session in which every run had exactly this group and the user is a member.
create function session_groups(p_sessions text[], p_user text) returns table (session_id text, group_id text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select s.session_id, s.identity -> 'group_ids' ->> 0 from sessions s
     where s.agent_id = current_setting('mnemic.agent_id') and s.session_id = any(p_sessions) and not s.is_mixed
       and jsonb_array_length(s.identity -> 'group_ids') = 1
       and (s.identity ->> 'user_id' = p_user or s.identity -> 'members' ? p_user)
$$;

-- Return memories of other groups, and other users' candidates for the agent scope, that share most words with these
-- memories.
create function similar_claims(p_memories uuid[], p_most integer)
returns table (memory_id uuid, peer_id uuid, peer_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with own as (
        select e.item_id, e.scope_key,
               (select string_agg(quote_literal(lexeme), ' | ')::tsquery from unnest(tsvector_to_array(e.tsv)) as lexeme) as words
          from entries e
         where e.agent_id = current_setting('mnemic.agent_id') and e.item_id = any(p_memories)
           and e.scope_key = any(current_setting('mnemic.scope_keys')::text[])
    )
    select n.item_id, o.item_id, o.scope_key
      from own n cross join lateral (
           select e.item_id, e.scope_key
             from entries e join memories m on m.agent_id = e.agent_id and m.id = e.item_id
            where e.agent_id = current_setting('mnemic.agent_id') and e.kind in ({propagated_kinds})
              and e.scope_key <> n.scope_key and e.tsv @@ n.words and m.state in ({retained_states}) and not m.private
              and (e.scope_key like 'group:%' or e.scope_key like 'user:%' and 'candidate' = any(m.tags))
            order by ts_rank(e.tsv, n.words) desc, e.item_id limit p_most) as o
$$;

-- Return the scope keys of the source messages of memories, also through merges.
create function speaker_keys(p_memories uuid[]) returns setof text
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct m.scope_key from source_messages(current_setting('mnemic.agent_id'), p_memories) as r
      join messages m on m.agent_id = current_setting('mnemic.agent_id') and m.id = r.message_id
$$;

-- Return whether two users have no group and no session in common.
create function are_strangers(p_one text, p_other text) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with spoken as materialized (
        select distinct session_id, user_id from messages
         where agent_id = current_setting('mnemic.agent_id') and user_id in (p_one, p_other)
    ), place(user_id, name) as (
        select user_id, 'session:' || session_id from spoken
        union
        select u.id, 'group:' || g.id
          from sessions s cross join unnest(array[p_one, p_other]) as u(id)
         cross join jsonb_array_elements_text(coalesce(s.identity -> 'group_ids', '[]')) as g(id)
         where s.agent_id = current_setting('mnemic.agent_id')
           and (s.identity ->> 'user_id' = u.id or s.identity -> 'members' ? u.id
                or exists (select from spoken p where p.session_id = s.session_id and p.user_id = u.id))
        union
        select actor_id, scope_key from memories
         where agent_id = current_setting('mnemic.agent_id') and actor_id in (p_one, p_other) and scope_key like 'group:%'
    )
    select p_one <> p_other and not exists (
        select from place a join place b using (name) where a.user_id = p_one and b.user_id = p_other)
$$;

-- Return the memories propagated from these, directly or through other copies.
create function copies_of(p_agent text, p_memories uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive copy(id) as (
        select r.from_id from relations r
         where r.agent_id = p_agent and r.to_id = any(p_memories) and r.relation_type = 'propagated_from'
        union
        select r.from_id from copy c join relations r on r.agent_id = p_agent and r.to_id = c.id
         where r.relation_type = 'propagated_from'
    )
    select c.id from copy c join memories m on m.agent_id = p_agent and m.id = c.id where m.state <> 'purged'
$$;

-- Return whether a memory is valid and may be shared, by itself or as part of a merged memory.
create function is_still_valid(p_agent text, p_memory uuid) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive whole(id) as (
        select p_memory
        union
        select r.from_id from whole w join relations r on r.agent_id = p_agent and r.to_id = w.id
         where r.relation_type in ({merge_relations})
    )
    select not (select private from memories where agent_id = p_agent and id = p_memory)
       and exists (select from whole w join memories m on m.agent_id = p_agent and m.id = w.id
                    where not m.private and (m.state in ({retained_states}) or m.state = 'superseded' and m.valid_until is null))
$$;

-- Return copies, in all scope keys or in one, with a source that is invalid or private.
create function orphaned_copies(p_agent text, p_key text) returns table (agent_id text, scope_key text, memory_id uuid)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct m.agent_id, m.scope_key, m.id
      from relations r join memories m on m.agent_id = r.agent_id and m.id = r.from_id
      join memories s on s.agent_id = r.agent_id and s.id = r.to_id
     where r.relation_type = 'propagated_from' and m.state in ({retained_states}) and not m.protected
       -- Most sources are unchanged; only the others are followed through their merges.
       and (s.private or s.state not in ({retained_states}))
       and (p_agent is null or r.agent_id = p_agent) and (p_key is null or m.scope_key = p_key)
       and not is_still_valid(r.agent_id, r.to_id)
$$;

create function copies_to_withdraw(p_key text) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select memory_id from orphaned_copies(current_setting('mnemic.agent_id'), p_key)
     where p_key = any(current_setting('mnemic.scope_keys')::text[]) order by memory_id
$$;

create function due_withdrawals(p_now timestamptz, p_most integer) returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct c.agent_id, c.scope_key from orphaned_copies(null, null) as c
     where not is_blocked(c.agent_id, 'withdraw', c.scope_key, p_now) limit p_most
$$;

-- Return scope keys that were consolidated, or got memories that are a day old, since their last propagation.
create function due_propagations(p_now timestamptz, p_most integer) returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with known as (
        select distinct m.agent_id, m.scope_key from memories m
         where m.state = 'active' and (m.scope_key like 'user:%' or m.scope_key like 'group:%')
    )
    select k.agent_id, k.scope_key
      from known k left join scopes s on s.agent_id = k.agent_id and s.scope_key = k.scope_key
     where exists (select from history h
                    where h.agent_id = k.agent_id and h.scope_key = k.scope_key and h.revision > coalesce(s.propagated_revision, 0)
                      and (h.reason = 'consolidation' or h.event = 'ADD' and h.ts < p_now - interval '1 day'))
       and not is_blocked(k.agent_id, 'propagate', k.scope_key, p_now)
     limit p_most
$$;

-- Return users with new facts or episodes and without new insights in the last 24 hours. p_default: whether agents
-- without an override have insights.
create function due_insights(p_now timestamptz, p_default boolean, p_most integer) returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select m.agent_id, m.scope_key
      from memories m join agents a using (agent_id)
      left join scopes s on s.agent_id = m.agent_id and s.scope_key = m.scope_key
     where m.state = 'active' and m.kind in ({insight_source_kinds}) and m.scope_key like 'user:%'
       and coalesce((a.settings ->> 'insights')::boolean, p_default)
       and m.created_at > coalesce(s.insights_at, '-infinity')
       and coalesce(s.insights_at, '-infinity') <= p_now - interval '1 day'
       and not is_blocked(m.agent_id, 'insights', m.scope_key, p_now)
     group by m.agent_id, m.scope_key order by max(m.created_at) limit p_most
$$;
