-- settings --
-- Return the overrides of the visible scope keys.
select scope_key, name, extraction_guidance, consolidation_guidance, is_active, threshold, word_limit
  from scopes where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s);

-- read_snapshot --
-- Return the agent's overrides and the newest revision of its history; empty and 0 for a new agent.
select coalesce((select settings from agents where agent_id = %(agent_id)s), '{}'),
       coalesce((select revision from heads where agent_id = %(agent_id)s), 0);

-- ensure_agent --
-- Store an agent at its first use.
insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing;

-- lock_agent --
-- Return and lock the agent's overrides before a change. The key stays unlocked, so that rows that refer to the agent
-- do not wait.
insert into agents (agent_id) values (%(agent_id)s)
on conflict (agent_id) do update set settings = agents.settings
returning settings;

-- configure_agent --
-- Replace the agent's overrides.
insert into agents (agent_id, settings) values (%(agent_id)s, %(settings)s)
on conflict (agent_id) do update set settings = excluded.settings;

-- assign_tenant --
-- Assign the agent to a tenant.
insert into agents (agent_id, tenant_id) values (%(agent_id)s, %(tenant_id)s)
on conflict (agent_id) do update set tenant_id = excluded.tenant_id;

-- configure_scope --
-- Replace the overrides of a scope key.
insert into scopes (agent_id, scope_key, name, extraction_guidance, consolidation_guidance, is_active, threshold, word_limit)
values (%(agent_id)s, %(scope_key)s, %(name)s, %(extraction_guidance)s, %(consolidation_guidance)s, %(is_active)s,
        %(threshold)s, %(word_limit)s)
on conflict (agent_id, scope_key) do update
   set name = excluded.name, extraction_guidance = excluded.extraction_guidance,
       consolidation_guidance = excluded.consolidation_guidance, is_active = excluded.is_active,
       threshold = excluded.threshold, word_limit = excluded.word_limit;

-- turn_writes_today --
-- Return the number of memories written for the user's turns since midnight (UTC).
select turn_writes from scopes
 where agent_id = %(agent_id)s and scope_key = %(counted_key)s
   and turn_writes_on = (clock_timestamp() at time zone 'utc')::date;

-- count_turn_writes --
-- Add to the memories written for the user's turns; a new day starts at zero.
insert into scopes (agent_id, scope_key, turn_writes, turn_writes_on)
values (%(agent_id)s, %(counted_key)s, %(written)s, (clock_timestamp() at time zone 'utc')::date)
on conflict (agent_id, scope_key) do update
   set turn_writes = excluded.turn_writes
                     + case when scopes.turn_writes_on = excluded.turn_writes_on then scopes.turn_writes else 0 end,
       turn_writes_on = excluded.turn_writes_on
returning turn_writes;

-- record_usage --
-- Add a step's tokens to the agent's day; store an agent at its first use.
with agent as (insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing)
insert into token_usage as u (agent_id, day, step, model, tier, calls, input_tokens, cached_tokens, output_tokens, unreported_calls)
values (%(agent_id)s, (clock_timestamp() at time zone 'utc')::date, %(step)s, %(model)s, %(tier)s, %(calls)s,
        %(input_tokens)s, %(cached_tokens)s, %(output_tokens)s, %(unreported_calls)s)
on conflict (agent_id, day, step, model) do update
   set tier = excluded.tier, calls = u.calls + excluded.calls, input_tokens = u.input_tokens + excluded.input_tokens,
       cached_tokens = u.cached_tokens + excluded.cached_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
       unreported_calls = u.unreported_calls + excluded.unreported_calls;

-- daily_usage --
-- Return tokens by day, step and model, the newest day first.
select day, step, model, tier, calls, input_tokens, cached_tokens, output_tokens, unreported_calls from token_usage
 where agent_id = %(agent_id)s and day >= coalesce(%(since)s::date, '-infinity')
   and day < coalesce(%(before)s::date, 'infinity')
 order by day desc, step, model;
