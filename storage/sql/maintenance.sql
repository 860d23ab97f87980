-- begin_run --
-- A run of maintenance begins.
insert into maintenance_runs (agent_id, id, actor, is_dry_run)
values (%(agent_id)s, %(run_id)s, %(actor)s, %(is_dry_run)s);

-- note_step --
-- Adds what one step did. failed: names of steps that did not end well.
update maintenance_runs
   set counts = counts || %(counts)s, failed = failed || %(failed)s::text[], spent = spent || %(spent)s
 where agent_id = %(agent_id)s and id = %(run_id)s;

-- end_run --
-- The run is over.
update maintenance_runs set ended_at = clock_timestamp() where agent_id = %(agent_id)s and id = %(run_id)s
returning id, actor, is_dry_run, started_at, ended_at, counts, failed, spent;

-- list_runs --
-- Runs of the agent's maintenance, the newest first.
select id, actor, is_dry_run, started_at, ended_at, counts, failed, spent from maintenance_runs
 where agent_id = %(agent_id)s order by started_at desc limit %(most)s;
