-- erase --
-- Memories of a person's own scope keys, for good.
select erase(%(keys)s, %(ids)s, %(op_id)s, %(actor)s);

-- erase_person --
-- All that the agent has of a person.
select erase_person(%(user_id)s, %(op_id)s, %(actor)s);

-- purge_expired --
-- What expired so long ago.
select purge_expired(%(after)s, %(op_id)s, %(actor)s);

-- forget_messages --
-- The words of messages whose time has come.
select forget_messages(%(most)s);
