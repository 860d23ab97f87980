-- blocked_by --
-- Return true if the lease waits after a failure, and false if a run holds it.
select holder is null from leases where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s;

-- claim --
-- Take the lease, unless a run holds it or it waits after a failure. `forced` skips the wait.
insert into leases as l (agent_id, scope_key, work, holder, until)
values (%(agent_id)s, %(scope_key)s, %(work)s, %(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s))
on conflict (agent_id, scope_key, work) do update
   set holder = excluded.holder, until = excluded.until
 where l.until <= clock_timestamp() or (l.holder is null and %(forced)s)
returning attempts;

-- renew --
-- Extend the lease by its full length.
update leases set until = clock_timestamp() + make_interval(secs => %(seconds)s)
 where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s
   and until > clock_timestamp()
returning holder;

-- finish --
-- Delete the lease after the work is done.
delete from leases where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s;

-- release --
-- Release the lease after a failure or an interruption. Each failure waits four times as long as the one before.
update leases
   set holder = null, attempts = attempts + %(attempts)s, failures = failures + %(failures)s,
       until = clock_timestamp() + %(failures)s * make_interval(
           secs => least(%(first_wait)s * 4 ^ least(failures, 10), %(longest_wait)s))
 where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s;

-- reset_attempts --
-- Reset the attempts, which belong to other messages.
update leases set attempts = 0 where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s;
