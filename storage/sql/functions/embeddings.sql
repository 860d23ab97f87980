-- Vectors across scope keys and agents. These functions return ids, names and counts, never contents.

-- Return scope keys with entries that may be embedded now.
create function due_embeddings(p_now timestamptz, p_most integer) returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select e.agent_id, e.scope_key from entries e
     where e.model = '' and (e.searchable or e.kind = 'reflection') and (e.embed_after is null or e.embed_after <= p_now)
       and not is_blocked(e.agent_id, 'embed', e.scope_key, p_now)
     group by e.agent_id, e.scope_key order by min(e.embed_after) nulls first, 1, 2 limit p_most
$$;

-- Return agents with vectors of other embedders than p_model, with the embedder of most vectors and the number of
-- vectors to make.
create function agents_to_reembed(p_agent text, p_model text)
returns table (agent_id text, main_model text, entries bigint)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with counted as (
        select e.agent_id, e.model, count(*) as entries,
               count(*) filter (where e.model <> p_model and e.next_model is distinct from p_model) as remaining
          from entries e where e.model <> '' and (p_agent is null or e.agent_id = p_agent) group by e.agent_id, e.model
    )
    select c.agent_id, (array_agg(c.model order by c.entries desc, c.model))[1], sum(c.remaining)::bigint
      from counted c group by c.agent_id having bool_or(c.model <> p_model) order by 1
$$;

-- Return agents that move to this embedder. p_model lacks the length of the vectors until the first one is made. A move
-- is checked again 15 minutes after its switch, for entries of writers that began before it.
create function due_reembeddings(p_model text, p_now timestamptz, p_most integer)
returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select a.agent_id, 'agent:' || a.agent_id from agents a
     where a.next_model is not null and (a.moved_at is null or a.moved_at < 'infinity') and (a.next_model = p_model or starts_with(a.next_model, p_model || ':'))
       and (a.moved_at is null or a.moved_at <= p_now - interval '15 minutes')
       and not is_blocked(a.agent_id, 'reembed', 'agent:' || a.agent_id, p_now)
     order by 1 limit p_most
$$;

-- Claim entries of the transaction's agent, after a given entry, that lack a vector of this embedder. A claim expires.
create function claim_to_reembed(p_model text, p_item uuid, p_piece smallint, p_most integer)
returns table (item_id uuid, piece smallint, kind text, scope_key text)
language sql volatile security definer set search_path = mnemic, pg_temp as $$
    with due as (
        select e.agent_id, e.item_id, e.piece from entries e
         where e.agent_id = nullif(current_setting('mnemic.agent_id', true), '') and (e.item_id, e.piece) > (p_item, p_piece)
           and e.model not in ('', p_model) and e.next_model is distinct from p_model and e.refusals = 0
           and (e.embed_after is null or e.embed_after <= clock_timestamp())
         order by e.item_id, e.piece limit p_most
           for update skip locked
    )
    update entries e set embed_after = embedding_due(0::smallint)
      from due where e.agent_id = due.agent_id and e.item_id = due.item_id and e.piece = due.piece
    returning e.item_id, e.piece, e.kind, e.scope_key
$$;

-- Return whether every entry of the transaction's agent has a vector of this embedder or was refused by it. The move
-- stays locked until the transaction ends.
create function is_reembedded(p_model text) returns boolean
language plpgsql volatile security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := nullif(current_setting('mnemic.agent_id', true), '');
begin
    perform pg_advisory_xact_lock(hashtextextended('mnemic move ' || agent, 0));
    return not exists (
        select from entries e where e.agent_id = agent and e.model not in ('', p_model)
           and e.next_model is distinct from p_model and e.refusals = 0);
end $$;

-- Replace former vectors by the new ones, at most p_most at a time, and return their number. A refused entry waits for
-- its vector.
create function switch_vectors(p_model text, p_most integer) returns bigint
language sql volatile security definer set search_path = mnemic, pg_temp as $$
    with ready as (
        select e.agent_id, e.item_id, e.piece, coalesce(e.next_model = p_model, false) as is_made,
               e.model not in ('', p_model) and e.next_model is distinct from p_model and e.refusals > 0 as is_refused
          from entries e
         where e.agent_id = nullif(current_setting('mnemic.agent_id', true), '')
           and (e.next_model is not null or (e.model not in ('', p_model) and e.refusals > 0))
         order by e.item_id, e.piece limit p_most
           for update
    ), switched as (
        update entries e
           set model = case when r.is_made then p_model when r.is_refused then '' else e.model end,
               vec = case when r.is_made then e.next_vec when r.is_refused then null else e.vec end,
               embed_after = case when r.is_refused then embedding_due(e.refusals) end,
               next_model = null, next_vec = null
          from ready r where e.agent_id = r.agent_id and e.item_id = r.item_id and e.piece = r.piece
        returning 1
    )
    select count(*) from switched
$$;
