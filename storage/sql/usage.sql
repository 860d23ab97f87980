-- record --
-- Adds a step's tokens to the agent's day.
insert into token_usage as u (agent_id, day, step, model, calls, input_tokens, output_tokens)
values (%(agent_id)s, (clock_timestamp() at time zone 'utc')::date, %(step)s, %(model)s, %(calls)s, %(input_tokens)s,
        %(output_tokens)s)
on conflict (agent_id, day, step, model) do update
   set calls = u.calls + excluded.calls, input_tokens = u.input_tokens + excluded.input_tokens,
       output_tokens = u.output_tokens + excluded.output_tokens;

-- totals --
-- Tokens by step, over all days.
select step, model, sum(calls)::bigint as calls, sum(input_tokens)::bigint as input_tokens,
       sum(output_tokens)::bigint as output_tokens
  from token_usage where agent_id = %(agent_id)s group by step, model order by step, model;
