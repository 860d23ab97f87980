-- Return whether failed work still waits. All functions of this file work across agents and return ids, times and
-- codes, never contents.
create function is_blocked(p_agent text, p_job text, p_key text, p_now timestamptz) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select exists (select from job_failures where agent_id = p_agent and job = p_job and scope_key = p_key
                      and (retry_at is null or retry_at > p_now))
$$;

-- Return sessions that are cold or have enough waiting messages, the oldest first.
create function due_sessions(p_now timestamptz, p_cold_minutes integer, p_messages integer, p_most integer)
returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select s.agent_id, 'session:' || s.session_id from sessions s join agents a using (agent_id)
     where s.is_waiting
       and (s.last_activity_at <= p_now - make_interval(
                mins => coalesce((a.settings ->> 'session_cold_minutes')::integer, p_cold_minutes))
            or (select count(*) from messages m
                 where m.agent_id = s.agent_id and m.session_id = s.session_id and m.formed_by is null and not m.quarantined)
               >= coalesce((a.settings ->> 'formation_messages')::integer, p_messages))
       and not is_blocked(s.agent_id, 'form', 'session:' || s.session_id, p_now)
       and not exists (select from leases l
                        where l.agent_id = s.agent_id and l.scope_key = 'session:' || s.session_id
                          and l.work = 'formation' and l.until > p_now)
     order by s.last_activity_at limit p_most
$$;

-- Return scope keys with enough unabsorbed reflections for a consolidation. p_thresholds maps each scope to its number
-- of reflections.
create function due_consolidations(p_now timestamptz, p_thresholds jsonb, p_most integer)
returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with waiting as (
        select m.agent_id, m.scope_key, count(*) as reflections, min(m.created_at) as since from memories m
         where m.state = 'active' and m.kind = 'reflection' and not m.protected
         group by m.agent_id, m.scope_key
    )
    select w.agent_id, w.scope_key
      from waiting w join agents a using (agent_id)
      left join scopes s on s.agent_id = w.agent_id and s.scope_key = w.scope_key
     where coalesce(s.is_active, true)
       and w.reflections >= coalesce(s.threshold,
                                     (a.settings ->> (split_part(w.scope_key, ':', 1) || '_threshold'))::integer,
                                     (p_thresholds ->> split_part(w.scope_key, ':', 1))::integer)
       and not is_blocked(w.agent_id, 'consolidate', w.scope_key, p_now)
       and not exists (select from leases l
                        where l.agent_id = w.agent_id and l.scope_key = w.scope_key
                          and l.work = 'consolidation' and l.until > p_now)
     order by w.since limit p_most
$$;

-- Return scope keys with more tokens in their context memories than the agent's budget or, if p_agent is given, than
-- its target.
create function due_refinements(p_now timestamptz, p_agent text, p_tokens integer, p_most integer)
returns table (agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with context as (
        select m.agent_id, m.scope_key, sum(m.tokens) as tokens from memories m
         where m.state = 'active' and m.kind in ({context_kinds})
           and (p_agent is null or m.agent_id = p_agent)
         group by m.agent_id, m.scope_key
    )
    select c.agent_id, c.scope_key
      from context c join agents a using (agent_id)
     where c.tokens > case when p_agent is null
                           then coalesce((a.settings ->> 'refinement_budget_tokens')::integer, p_tokens)
                           else least(coalesce((a.settings ->> 'refinement_target_tokens')::integer, p_tokens),
                                      coalesce((a.settings ->> 'refinement_budget_tokens')::integer, p_tokens)) end
       and not is_blocked(c.agent_id, 'refine', c.scope_key, p_now)
       and not exists (select from leases l
                        where l.agent_id = c.agent_id and l.scope_key = c.scope_key
                          and l.work = 'refinement' and l.until > p_now)
       -- A session that ended above its target is not restarted at once.
       and not exists (select from refinements r
                        where r.agent_id = c.agent_id and r.scope_key = c.scope_key
                          and r.ended_at > p_now - interval '1 day')
     order by c.tokens desc, 1, 2 limit p_most
$$;

-- Return the agent's scope keys after p_after that have several facts for maintenance to compare, in order.
create function paired_scope_keys(p_agent text, p_days integer, p_after text, p_most integer) returns table (scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select m.scope_key
      from memories m left join scopes s on s.agent_id = m.agent_id and s.scope_key = m.scope_key
     where m.agent_id = p_agent and m.scope_key > p_after and m.state = 'active' and m.kind = 'fact' and not m.protected
       and m.updated_at >= clock_timestamp() - make_interval(days => p_days) and coalesce(s.is_active, true)
     group by m.scope_key having count(*) > 1
     order by m.scope_key limit p_most
$$;

-- Return agents with a schedule that fires, is new or has another cron line. p_default is the line of agents without an
-- override.
create function due_schedules(p_job text, p_setting text, p_default text, p_now timestamptz, p_most integer)
returns table (agent_id text, tenant_id text, cron text, known text, last_at timestamptz, next_at timestamptz)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select a.agent_id, a.tenant_id, coalesce(a.settings ->> p_setting, p_default), s.cron, s.last_at, s.next_at
      from agents a left join schedules s on s.agent_id = a.agent_id and s.job = p_job
     where s.next_at is null or s.next_at <= p_now or s.cron <> coalesce(a.settings ->> p_setting, p_default)
     order by s.next_at nulls last, a.agent_id limit p_most
$$;

-- Return failed work that may be retried.
create function due_retries(p_now timestamptz, p_most integer) returns table (job text, agent_id text, scope_key text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select f.job, f.agent_id, f.scope_key from job_failures f where f.retry_at <= p_now order by f.retry_at limit p_most
$$;

-- Return failed and waiting work of all agents, and the sessions with quarantined messages.
create function failed_jobs(p_most integer)
returns table (agent_id text, job text, scope_key text, reason text, failures integer, failed_at timestamptz, retry_at timestamptz)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with failed as (
        select f.agent_id, f.job, f.scope_key, f.reason, f.failures, f.failed_at, f.retry_at from job_failures f
        union all
        select m.agent_id, 'retry', 'session:' || m.session_id, count(*) || ' messages are set aside: no model could form them',
               1, max(m.created_at), null
          from messages m
         where m.formed_by is null and m.quarantined
           and not exists (select from job_failures f where f.agent_id = m.agent_id and f.job = 'retry'
                              and f.scope_key = 'session:' || m.session_id)
         group by m.agent_id, m.session_id
    )
    select f.agent_id, f.job, f.scope_key, f.reason, f.failures, f.failed_at, f.retry_at from failed f
     order by f.failed_at desc limit p_most
$$;

-- Return the schedules of all agents.
create function all_schedules(p_most integer)
returns table (agent_id text, job text, cron text, last_at timestamptz, next_at timestamptz)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select s.agent_id, s.job, s.cron, s.last_at, s.next_at from schedules s order by s.next_at, 1, 2 limit p_most
$$;
