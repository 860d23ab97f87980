-- wake --
-- Queue a job for each target without a waiting one, in the order of the targets.
insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
select 'default', %(job)s::text, t.agent_id || ' ' || t.scope_key, %(job)s::text || ' ' || t.agent_id || ' ' || t.scope_key,
       jsonb_build_object('agent_id', t.agent_id, 'scope_key', t.scope_key)
  from unnest(%(agents)s::text[], %(scope_keys)s::text[]) with ordinality as t(agent_id, scope_key, place)
 order by t.place
on conflict (queueing_lock) where status = 'todo' do nothing
returning id;

-- finish --
-- Delete finished jobs. A job that another worker has taken over has another id.
delete from procrastinate_jobs where id = any(%(ids)s);

-- requeue --
-- Queue interrupted jobs as new jobs, except those that a command cancelled.
with broken_off as (
    delete from procrastinate_jobs where id = any(%(ids)s) returning *
)
insert into procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args)
select queue_name, task_name, priority, lock, queueing_lock, args from broken_off where not abort_requested
on conflict (queueing_lock) where status = 'todo' do nothing;

-- requeue_lost --
-- Queue the jobs of workers without a heartbeat as new jobs: such a worker may still run and finish the old id.
with lost as (
    delete from procrastinate_jobs j
     where status = 'doing'
       and not exists (select from procrastinate_workers w
                        where w.id = j.worker_id and w.last_heartbeat > now() - make_interval(secs => %(seconds)s))
    returning *
)
insert into procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args)
select queue_name, task_name, priority, lock, queueing_lock, args from lost where not abort_requested
on conflict (queueing_lock) where status = 'todo' do nothing;

-- heartbeat --
-- Register the worker again if it was taken for dead.
insert into procrastinate_workers (id, last_heartbeat) overriding system value values (%(worker_id)s, now())
on conflict (id) do update set last_heartbeat = excluded.last_heartbeat;
