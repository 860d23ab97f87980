-- The rights of the service and of the administrators. Every other right is revoked.
revoke execute on all routines in schema mnemic from public;
grant usage on schema mnemic to mnemic_app, mnemic_admin;
grant select on history, refinements to mnemic_app, mnemic_admin;
grant select (agent_id, revision, hash) on heads to mnemic_app, mnemic_admin;
grant select (agent_id, scope_key, work, holder, until) on leases to mnemic_admin;
grant select on migrations, history_contents, erasures, withdrawn to mnemic_app;
grant select, insert on sources, relations to mnemic_app;
grant select, insert, update on agents, scopes, sessions, messages, memories, token_usage, thread_revisions, memory_use
    to mnemic_app;
grant insert, update on refinements to mnemic_app;
grant select, insert, delete on events to mnemic_app;
grant select, insert, update on maintenance_runs to mnemic_app;
grant select, insert, update, delete on job_failures, schedules, checked_pairs to mnemic_app;
grant select, insert, update, delete on entries, leases, supervisor_checkpoints, checkpoints, checkpoint_blobs,
    checkpoint_writes to mnemic_app;
grant execute on function shared_operations, contribution_keys, plan_rollback, roll_back, changes_memory, forget_messages, purge_expired
    to mnemic_app, mnemic_admin;
grant execute on function set_protection, metadata_as_of, audit_problems, agent_ids to mnemic_admin;
grant execute on function stored_session, begin_operation, is_searchable, embedding_due, local_time, indexed_text, chain_links, history_text,
    source_messages, is_source_in_use,
    in_refinement, begin_refinement_act, protect_in_refinement, is_mergeable, shown_author, is_personal, thread_prefix, owner_part, owners_of_thread,
    owners_of_runs, begin_erasure, plan_erasure, plan_person, follow_erasure, erase_step, end_erasure, preview_erasure,
    count_left_to_erase, vector_models, due_sessions, due_consolidations, due_refinements, due_schedules, failed_jobs,
    all_schedules, due_embeddings, agents_to_reembed, due_reembeddings, claim_to_reembed, is_reembedded, switch_vectors,
    counted_agents, count_activity, context_sizes, tenant_tokens, due_event_prunes, service_figures,
    paired_scope_keys,
    due_retries, expired_memories, expire_memories, stale_threads, due_purges to mnemic_app;
grant execute on function session_groups, similar_claims, speaker_keys, are_strangers, copies_to_withdraw, reactivate_after_withdrawal, due_propagations,
    due_withdrawals, due_insights to mnemic_app;
