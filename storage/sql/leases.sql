-- waits_for --
-- Whether a failure's wait is not over; else somebody holds it.
select holder is null from leases where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s;

-- claim --
-- Takes the work up, unless somebody holds it, or a failure's wait is not over and nobody insists.
insert into leases as l (agent_id, scope_key, work, holder, until)
values (%(agent_id)s, %(scope_key)s, %(work)s, %(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s))
on conflict (agent_id, scope_key, work) do update
   set holder = excluded.holder, until = excluded.until
 where l.until <= clock_timestamp() or (l.holder is null and %(forced)s)
returning attempts;

-- renew --
-- Holds it for as long again.
update leases set until = clock_timestamp() + make_interval(secs => %(seconds)s)
 where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s
   and until > clock_timestamp()
returning holder;

-- finish --
-- The work is done.
delete from leases where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s;

-- release --
-- The work failed or was broken off; a failure waits four times as long as the one before.
update leases
   set holder = null, attempts = attempts + %(attempts)s, failures = failures + %(failures)s,
       until = clock_timestamp() + %(failures)s * make_interval(
           secs => least(%(first_wait)s * 4 ^ least(failures, 10), %(longest_wait)s))
 where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s;

-- reset_attempts --
-- The attempts of other messages are no longer of interest.
update leases set attempts = 0 where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s;
