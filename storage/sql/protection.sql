-- set_protection --
-- Protects a memory of any scope key, or lifts that.
select set_protection(%(agent_id)s, %(memory_id)s, %(protected)s, %(actor)s);
