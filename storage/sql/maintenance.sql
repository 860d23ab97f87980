-- begin_run --
-- Store the start of a maintenance run.
insert into maintenance_runs (agent_id, id, actor, is_dry_run)
values (%(agent_id)s, %(run_id)s, %(actor)s, %(is_dry_run)s);

-- note_step --
-- Add the counts of one step. `failed`: names of failed steps.
update maintenance_runs
   set counts = counts || %(counts)s, failed = failed || %(failed)s::text[], spent = spent || %(spent)s
 where agent_id = %(agent_id)s and id = %(run_id)s;

-- end_run --
-- Store the end of a maintenance run.
update maintenance_runs set ended_at = clock_timestamp() where agent_id = %(agent_id)s and id = %(run_id)s
returning id, actor, is_dry_run, started_at, ended_at, counts, failed, spent;

-- list_runs --
-- Return the agent's maintenance runs, newest first.
select id, actor, is_dry_run, started_at, ended_at, counts, failed, spent from maintenance_runs
 where agent_id = %(agent_id)s order by started_at desc limit %(most)s;
