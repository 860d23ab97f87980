-- owners --
-- Who has a thread of this id, who moved it last first.
select agent_id, user_id from owners_of_thread(%(thread_id)s);

-- of_runs --
-- Who has checkpoints of these runs.
select agent_id, user_id from owners_of_runs(%(run_ids)s);
