-- Counts across agents and users. These functions return counts, names of steps and ids of agents, never contents or
-- users.

-- Return the agents of a tenant or, if p_tenant is null, the transaction's agent.
create function counted_agents(p_tenant text) returns setof text
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select agent_id from agents
     where case when p_tenant is null then agent_id = nullif(current_setting('mnemic.agent_id', true), '')
                else tenant_id = p_tenant end
$$;

-- Count memories formed, messages stored, events and tokens by day (UTC).
create function count_activity(p_tenant text, p_since date, p_before date)
returns table (measure text, day date, name text, op text, status text, amount bigint, duration_ms double precision)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with counted as materialized (select counted_agents as agent_id from counted_agents(p_tenant)),
    bounds as (select coalesce(p_since, '-infinity'::date)::timestamp at time zone 'utc' as since,
                      coalesce(p_before, 'infinity'::date)::timestamp at time zone 'utc' as before)
    select 'memories', (m.created_at at time zone 'utc')::date, m.kind, null, null, count(*), null::double precision
      from memories m join counted using (agent_id), bounds
     where m.created_at >= since and m.created_at < before group by 2, 3
    union all
    select 'messages', (m.created_at at time zone 'utc')::date, m.role, null, null, count(*), null
      from messages m join counted using (agent_id), bounds
     where m.created_at >= since and m.created_at < before group by 2, 3
    union all
    select 'events', (e.ts at time zone 'utc')::date, e.node, e.op, e.status, sum(e.occurrences), sum(e.duration_ms)
      from events e join counted using (agent_id), bounds
     where e.ts >= since and e.ts < before group by 2, 3, 4, 5
    union all
    select 'tokens', u.day, u.step, null, null, sum(u.input_tokens + u.output_tokens)::bigint, null
      from token_usage u join counted using (agent_id)
     where u.day >= coalesce(p_since, '-infinity') and u.day < coalesce(p_before, 'infinity') group by 2, 3
$$;

-- Return the tokens of the context memories by scope. p_budget is the budget of agents without an override.
create function context_sizes(p_tenant text, p_budget integer)
returns table (scope text, scope_keys bigint, largest_tokens bigint, total_tokens bigint, over_budget bigint)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with sizes as (
        select split_part(m.scope_key, ':', 1) as scope, sum(m.tokens) as tokens,
               coalesce((a.settings ->> 'refinement_budget_tokens')::integer, p_budget) as budget
          from memories m join counted_agents(p_tenant) as c (agent_id) using (agent_id) join agents a using (agent_id)
         where m.state = 'active' and m.kind in ({context_kinds})
         group by m.agent_id, m.scope_key, a.settings
    )
    select s.scope, count(*), max(s.tokens)::bigint, sum(s.tokens)::bigint, count(*) filter (where s.tokens > s.budget)
      from sizes s group by s.scope order by 1
$$;

-- Return the tokens that all agents of a tenant used today (UTC), and the start of the next day. If p_tenant is null,
-- the tenant is that of p_agent.
create function tenant_tokens(p_tenant text, p_agent text) returns table (tenant_id text, tokens bigint, next_day timestamptz)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with today as (select (clock_timestamp() at time zone 'utc')::date as day),
    tenant as (select coalesce(p_tenant, (select a.tenant_id from agents a where a.agent_id = p_agent), 'default') as id)
    select tenant.id,
           (select coalesce(sum(u.input_tokens + u.output_tokens), 0)::bigint
              from token_usage u join agents a using (agent_id)
             where u.day = today.day and a.tenant_id = tenant.id),
           (today.day + 1)::timestamp at time zone 'utc'
      from today, tenant
$$;

-- Return agents with events from before a time.
create function due_event_prunes(p_before timestamptz, p_most integer) returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct e.agent_id, 'agent:' || e.agent_id from events e where e.ts < p_before limit p_most
$$;

-- Count failed work by job, and calls and tokens of models by step, over the whole database.
create function service_figures() returns table (measure text, name text, status text, amount double precision)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select 'failed_jobs', f.job, case when f.retry_at is null then 'failed' else 'waiting' end, count(*)::double precision
      from job_failures f group by 2, 3
    union all
    select 'model_calls', u.step, '', sum(u.calls)::double precision from token_usage u group by 2
    union all
    select 'model_tokens', u.step, 'input', sum(u.input_tokens)::double precision from token_usage u group by 2
    union all
    select 'model_tokens', u.step, 'output', sum(u.output_tokens)::double precision from token_usage u group by 2
$$;
