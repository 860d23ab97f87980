-- record --
-- Store a batch of events.
insert into events (agent_id, user_id, session_id, node, op, status, memory_id, category, sim, occurrences, duration_ms, ts)
select %(agent_id)s, user_id, session_id, node, op, status, memory_id, category, sim, occurrences, duration_ms, ts
  from jsonb_to_recordset(%(events)s)
       as e (user_id text, session_id text, node text, op text, status text, memory_id uuid, category text, sim real,
             occurrences integer, duration_ms real, ts timestamptz);

-- prune --
-- Delete a bounded number of the agent's events from before a time, the oldest first.
delete from events
 where agent_id = %(agent_id)s
   and id in (select id from events where agent_id = %(agent_id)s and ts < %(before)s order by ts limit %(most)s)
returning 1;

-- figures --
-- Return figures of the whole database: queued jobs, age of the oldest job, failed jobs, calls and tokens of models.
select * from service_figures()
union all
select 'jobs', task_name, case status when 'doing' then 'running' else 'waiting' end, count(*)::double precision
  from mnemic_jobs.procrastinate_jobs where status in ('todo', 'doing') group by 2, 3
union all
select 'oldest_job_seconds', j.task_name, '', extract(epoch from clock_timestamp() - min(e.at))::double precision
  from mnemic_jobs.procrastinate_jobs j join mnemic_jobs.procrastinate_events e on e.job_id = j.id
 where j.status = 'todo' group by 2;
