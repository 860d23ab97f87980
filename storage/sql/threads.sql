-- delete --
-- Delete threads of one user with their checkpoints.
with writes as (
    delete from checkpoint_writes where thread_id = any(%(threads)s::text[])
), blobs as (
    delete from checkpoint_blobs where thread_id = any(%(threads)s::text[])
), saved as (
    delete from checkpoints where thread_id = any(%(threads)s::text[])
)
delete from supervisor_checkpoints
 where agent_id = %(agent_id)s and user_id = %(user_id)s and thread_id = any(%(thread_ids)s::text[]);

-- delete_of_runs --
-- Delete the checkpoints of runs and the writes after them, and return the affected threads. A server's checkpoints
-- name the thread they were made on, so a copy keeps its own. If an interrupt waited before such a run, or in an
-- enclosing graph, its answer and the results are deleted too: another run must not find it answered.
with gone as (
    delete from checkpoints
     where metadata ->> 'run_id' = any(%(run_ids)s::text[])
       and starts_with(reverse(thread_id), coalesce(reverse('/' || (metadata ->> 'thread_id')), ''))
    returning thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata
), touched as (
    select thread_id, checkpoint_ns, checkpoint_id, true as is_gone from gone
     union
    select thread_id, checkpoint_ns, parent_checkpoint_id, false from gone
     union
    select g.thread_id, around.key, around.value, false from gone g, jsonb_each_text(g.metadata -> 'parents') as around
), writes as (
    delete from checkpoint_writes as w using touched as t
     where w.thread_id = t.thread_id and w.checkpoint_ns = t.checkpoint_ns and w.checkpoint_id = t.checkpoint_id
       and (t.is_gone
            or w.channel = '__resume__'
            or w.channel <> '__interrupt__'
               and exists (select from checkpoint_writes i
                            where i.thread_id = w.thread_id and i.checkpoint_ns = w.checkpoint_ns
                              and i.checkpoint_id = w.checkpoint_id and i.task_id = w.task_id
                              and i.channel = '__interrupt__'))
)
select distinct thread_id from gone;

-- delete_unused --
-- Delete values of threads that no checkpoint refers to.
delete from checkpoint_blobs as b
 where b.thread_id = any(%(threads)s::text[]) and not exists (
       select from checkpoints as c
        where c.thread_id = b.thread_id and c.checkpoint_ns = b.checkpoint_ns
          and c.checkpoint -> 'channel_versions' ->> b.channel = b.version);

-- delete_statuses --
-- Delete the states of threads; the trigger records the new ones.
delete from supervisor_checkpoints where thread_prefix(agent_id, user_id) || thread_id = any(%(threads)s::text[]);

-- restore_statuses --
-- Touch the latest checkpoint of threads, so that the trigger records it.
update checkpoints as c set metadata = metadata
 where c.thread_id = any(%(threads)s::text[]) and c.checkpoint_ns = ''
   and c.checkpoint_id = (select max(checkpoint_id) from checkpoints where thread_id = c.thread_id and checkpoint_ns = '');

-- copy --
-- Copy everything of a thread to another id; existing rows of that id stay.
with writes as (
    insert into checkpoint_writes
    select c.* from checkpoint_writes w cross join lateral jsonb_populate_record(w, %(renamed)s) as c
     where w.thread_id = %(source)s on conflict do nothing
), blobs as (
    insert into checkpoint_blobs
    select c.* from checkpoint_blobs b cross join lateral jsonb_populate_record(b, %(renamed)s) as c
     where b.thread_id = %(source)s on conflict do nothing
)
insert into checkpoints
select c.* from checkpoints k cross join lateral jsonb_populate_record(k, %(renamed)s) as c
 where k.thread_id = %(source)s order by k.checkpoint_id
on conflict do nothing;

-- statuses --
-- Return the state of each thread of a user, the last active first.
select thread_id as id, checkpoint_data ->> 'checkpoint_id' as checkpoint_id, (checkpoint_data ->> 'step')::integer as step,
       checkpoint_data ->> 'source' as source,
       array(select substr(channel, length('branch:to:') + 1)
               from jsonb_array_elements_text(checkpoint_data -> 'next') as channel order by 1) as next,
       created_at, updated_at
  from supervisor_checkpoints where agent_id = %(agent_id)s and user_id = %(user_id)s
 order by updated_at desc, thread_id;
