-- begin --
-- The erasure that runs for a person, or a session that is nobody's.
select id, begun_at, is_whole, goes_on from begin_erasure(%(keys)s, %(actor)s);

-- plan --
-- Memories of a person's own scope keys, and where their words live on.
select plan_erasure(%(erasure_id)s, %(keys)s, %(ids)s);

-- plan_person --
-- All that the agent has of a person.
select plan_person(%(erasure_id)s);

-- follow --
-- What planned memories went into.
select follow_erasure(%(erasure_id)s, %(most)s);

-- step --
-- So much of what is planned, for good.
select id, is_message from erase_step(%(erasure_id)s, %(op_id)s, %(actor)s, %(most)s);

-- left --
-- What is left to do.
select left_to_erase(%(erasure_id)s);

-- tell --
-- What goes, and what stays and why.
select part, id, kind, scope_key, content from tell_erasure(%(erasure_id)s, %(keys)s);

-- end --
-- Whether nothing is left.
select end_erasure(%(erasure_id)s, %(most)s);

-- purge_expired --
-- What expired so long ago.
select purge_expired(%(after)s, %(op_id)s, %(actor)s, %(beyond)s, %(most)s);

-- forget_messages --
-- The words of messages whose time has come.
select forget_messages(%(most)s);
