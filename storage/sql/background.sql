-- note_failure --
-- Record that a job failed on a scope key. `final`: only a command starts the job again.
insert into job_failures as f (agent_id, job, scope_key, reason, failures, retry_at)
values (%(agent_id)s, %(job)s, %(scope_key)s, %(reason)s, 1,
        case when not %(final)s or %(max_attempts)s > 1 then clock_timestamp() + make_interval(secs => %(first_wait)s) end)
on conflict (agent_id, job, scope_key) do update
   set reason = excluded.reason, failures = f.failures + 1, failed_at = clock_timestamp(),
       retry_at = case when not %(final)s or f.failures + 1 < %(max_attempts)s
                       then clock_timestamp() + make_interval(
                            secs => least(%(first_wait)s * 4 ^ least(f.failures, 10), %(longest_wait)s)) end
returning failures, retry_at;

-- note_pause --
-- Record that a job waits until a time. A pause is no failure and uses up no attempt.
insert into job_failures (agent_id, job, scope_key, reason, failures, retry_at)
values (%(agent_id)s, %(job)s, %(scope_key)s, %(reason)s, 0, %(until)s)
on conflict (agent_id, job, scope_key) do update
   set reason = excluded.reason, failed_at = clock_timestamp(), retry_at = excluded.retry_at;

-- clear_failure --
-- Delete the failure of a job that succeeded or that a command starts again.
delete from job_failures where agent_id = %(agent_id)s and job = %(job)s and scope_key = %(scope_key)s returning 1;

-- note_schedule --
-- Record when a schedule fired last and when it fires next.
insert into schedules (agent_id, job, cron, last_at, next_at)
values (%(agent_id)s, %(job)s, %(cron)s, %(last_at)s, %(next_at)s)
on conflict (agent_id, job) do update
   set cron = excluded.cron, last_at = coalesce(excluded.last_at, schedules.last_at), next_at = excluded.next_at;

-- read_session --
-- Return the identity that observed a session last, its last activity, and whether the session is cold.
select s.identity, s.last_activity_at,
       s.last_activity_at <= clock_timestamp() - make_interval(
           mins => coalesce((a.settings ->> 'session_cold_minutes')::integer, %(cold)s)) as is_cold
  from sessions s join agents a using (agent_id) where s.agent_id = %(agent_id)s and s.session_id = %(session_id)s;

-- rest_session --
-- Skip the session until its next message, unless a message arrived after the session was read.
update sessions set is_waiting = false
 where agent_id = %(agent_id)s and session_id = %(session_id)s and last_activity_at = %(last_activity_at)s;
