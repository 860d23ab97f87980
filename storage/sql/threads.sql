-- delete --
-- Threads of one owner, with all that belongs to them.
with ids as (
    select threads_of(%(agent_id)s, %(user_id)s) || t as thread_id from unnest(%(thread_ids)s::text[]) as t
), writes as (
    delete from checkpoint_writes where thread_id in (select thread_id from ids)
), blobs as (
    delete from checkpoint_blobs where thread_id in (select thread_id from ids)
), saved as (
    delete from checkpoints where thread_id in (select thread_id from ids)
)
delete from supervisor_checkpoints
 where agent_id = %(agent_id)s and user_id = %(user_id)s and thread_id = any(%(thread_ids)s::text[]);

-- delete_of_runs --
-- Checkpoints that runs made, with what was written after them; the threads that lost some. A server's checkpoints say on
-- which thread they were made, so that a copy of it keeps its own.
with gone as (
    delete from checkpoints
     where metadata ->> 'run_id' = any(%(run_ids)s::text[])
       and starts_with(reverse(thread_id), coalesce(reverse('/' || (metadata ->> 'thread_id')), ''))
    returning thread_id, checkpoint_ns, checkpoint_id
), writes as (
    delete from checkpoint_writes as w using gone as g
     where w.thread_id = g.thread_id and w.checkpoint_ns = g.checkpoint_ns and w.checkpoint_id = g.checkpoint_id
)
select distinct thread_id from gone;

-- delete_unused --
-- Values of threads that no checkpoint refers to any more.
delete from checkpoint_blobs as b
 where b.thread_id = any(%(threads)s::text[]) and not exists (
       select from checkpoints as c
        where c.thread_id = b.thread_id and c.checkpoint_ns = b.checkpoint_ns
          and c.checkpoint -> 'channel_versions' ->> b.channel = b.version);

-- delete_standings --
-- Where threads stood; the trigger writes down where they stand.
delete from supervisor_checkpoints where threads_of(agent_id, user_id) || thread_id = any(%(threads)s::text[]);

-- stand_again --
-- The latest checkpoint of threads, as if it had just been saved.
update checkpoints as c set metadata = metadata
 where c.thread_id = any(%(threads)s::text[]) and c.checkpoint_ns = ''
   and c.checkpoint_id = (select max(checkpoint_id) from checkpoints where thread_id = c.thread_id and checkpoint_ns = '');

-- copy --
-- All that belongs to a thread, once more under another id; what that one has already stays.
with writes as (
    insert into checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob, task_path)
    select %(target)s, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob, task_path
      from checkpoint_writes where thread_id = %(source)s
    on conflict do nothing
), blobs as (
    insert into checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    select %(target)s, checkpoint_ns, channel, version, type, blob from checkpoint_blobs where thread_id = %(source)s
    on conflict do nothing
)
insert into checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
select %(target)s, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
  from checkpoints where thread_id = %(source)s order by checkpoint_id
on conflict do nothing;

-- standings --
-- Where each thread of an owner stands, the one that moved last first.
select thread_id, checkpoint_data ->> 'checkpoint_id' as checkpoint_id, (checkpoint_data ->> 'step')::integer as step,
       checkpoint_data ->> 'source' as source,
       array(select substr(channel, length('branch:to:') + 1)
               from jsonb_array_elements_text(checkpoint_data -> 'next') as channel order by 1) as next,
       created_at, updated_at
  from supervisor_checkpoints where agent_id = %(agent_id)s and user_id = %(user_id)s
 order by updated_at desc, thread_id;
