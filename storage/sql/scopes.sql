-- settings --
-- What the visible scope keys override.
select scope_key, name, extraction_guidance, consolidation_guidance, is_active, threshold, word_limit
  from scopes where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s);

-- read_snapshot --
-- The agent's overrides, and the revision of its newest row of history; nothing and 0 for an agent not seen yet.
select coalesce((select settings from agents where agent_id = %(agent_id)s), '{}'),
       coalesce((select revision from heads where agent_id = %(agent_id)s), 0);

-- ensure_agent --
-- An agent exists from its first use on.
insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing;

-- lock_agent --
-- What the agent overrides, for whoever is about to change it. The key stays untouched: a lock of it would wait for
-- everybody who has a row that refers to the agent.
insert into agents (agent_id) values (%(agent_id)s)
on conflict (agent_id) do update set settings = agents.settings
returning settings;

-- configure_agent --
-- Replaces the agent's overrides.
insert into agents (agent_id, settings) values (%(agent_id)s, %(settings)s)
on conflict (agent_id) do update set settings = excluded.settings;

-- assign_tenant --
-- Assigns the agent to a tenant.
insert into agents (agent_id, tenant_id) values (%(agent_id)s, %(tenant_id)s)
on conflict (agent_id) do update set tenant_id = excluded.tenant_id;

-- configure_scope --
-- Replaces what a scope key overrides.
insert into scopes (agent_id, scope_key, name, extraction_guidance, consolidation_guidance, is_active, threshold, word_limit)
values (%(agent_id)s, %(scope_key)s, %(name)s, %(extraction_guidance)s, %(consolidation_guidance)s, %(is_active)s,
        %(threshold)s, %(word_limit)s)
on conflict (agent_id, scope_key) do update
   set name = excluded.name, extraction_guidance = excluded.extraction_guidance,
       consolidation_guidance = excluded.consolidation_guidance, is_active = excluded.is_active,
       threshold = excluded.threshold, word_limit = excluded.word_limit;

-- turn_writes_today --
-- Memories written for turns of a user since midnight (UTC).
select turn_writes from scopes
 where agent_id = %(agent_id)s and scope_key = %(counted_key)s
   and turn_writes_on = (clock_timestamp() at time zone 'utc')::date;

-- count_turn_writes --
-- Adds to what was written for the user's turns; a new day begins anew.
insert into scopes (agent_id, scope_key, turn_writes, turn_writes_on)
values (%(agent_id)s, %(counted_key)s, %(written)s, (clock_timestamp() at time zone 'utc')::date)
on conflict (agent_id, scope_key) do update
   set turn_writes = excluded.turn_writes
                     + case when scopes.turn_writes_on = excluded.turn_writes_on then scopes.turn_writes else 0 end,
       turn_writes_on = excluded.turn_writes_on
returning turn_writes;

-- record_usage --
-- Adds a step's tokens to the agent's day.
insert into token_usage as u (agent_id, day, step, model, tier, calls, input_tokens, cached_tokens, output_tokens, unreported_calls)
values (%(agent_id)s, (clock_timestamp() at time zone 'utc')::date, %(step)s, %(model)s, %(tier)s, %(calls)s,
        %(input_tokens)s, %(cached_tokens)s, %(output_tokens)s, %(unreported_calls)s)
on conflict (agent_id, day, step, model) do update
   set tier = excluded.tier, calls = u.calls + excluded.calls, input_tokens = u.input_tokens + excluded.input_tokens,
       cached_tokens = u.cached_tokens + excluded.cached_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
       unreported_calls = u.unreported_calls + excluded.unreported_calls;

-- daily_usage --
-- Tokens by day, step and model, the last day first.
select day, step, model, tier, calls, input_tokens, cached_tokens, output_tokens, unreported_calls from token_usage
 where agent_id = %(agent_id)s and day >= coalesce(%(since)s::date, '-infinity')
   and day < coalesce(%(before)s::date, 'infinity')
 order by day desc, step, model;
