-- Who may do what; nothing else opens anything to the roles of the service and of the administrators.
revoke execute on all functions in schema mnemic from public;
grant usage on schema mnemic to mnemic_app, mnemic_admin;
grant select on migrations to mnemic_app;
grant select, insert, update on agents, scopes, sessions, messages, memories, token_usage, thread_revisions, memory_use
    to mnemic_app;
grant select, insert on sources, relations to mnemic_app;
grant select, insert, update, delete on entries, leases to mnemic_app;
grant select on history, history_contents to mnemic_app;
grant execute on function begin_operation to mnemic_app;
grant execute on function searchable to mnemic_app;
grant execute on function set_protection to mnemic_admin;
grant select on history to mnemic_admin;
grant select (agent_id, seq, hash) on heads to mnemic_app, mnemic_admin;
grant execute on function plan_rollback, roll_back, seq_at, tells_of_memory to mnemic_app, mnemic_admin;
grant execute on function chain_links, history_text, rests_on, is_rested_on to mnemic_app;
grant execute on function as_of_blind, purge_expired, audit_problems, agent_ids, forget_messages to mnemic_admin;
grant select, insert, update on refinements to mnemic_app;
grant select on refinements to mnemic_admin;
grant select (agent_id, scope_key, work, holder, until) on leases to mnemic_admin;
grant execute on function is_held to mnemic_app, mnemic_admin;
grant execute on function in_refinement, begin_refinement_act, protect_in_refinement, is_mergeable, indexed_text to mnemic_app;
grant select, insert, update, delete on supervisor_checkpoints, checkpoints, checkpoint_blobs, checkpoint_writes to mnemic_app;
grant select on checkpoint_migrations to mnemic_app;
grant execute on function threads_of, owner_part, owners_of_thread, owners_of_runs to mnemic_app;
grant select on erasures to mnemic_app;
grant execute on function begin_erasure, plan_erasure, plan_person, follow_erasure, erase_step, end_erasure, tell_erasure,
    left_to_erase to mnemic_app;
