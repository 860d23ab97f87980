-- Up to which row of history a scope key was looked at for propagation, and when insights about its user were drawn last.
alter table scopes add column propagated_revision bigint not null default 0, add column insights_at timestamptz;
-- Whether runs with different groups observed the session: then none of them can claim its messages by itself.
alter table sessions add column is_mixed boolean not null default false;
-- Memories that were raised from others are few, and looked at every minute.
create index relations_propagated on relations (agent_id, from_id, to_id) where relation_type = 'propagated_from';
