-- enter_session --
-- Lock the session, so that runs with the same messages in another order wait here instead of row by row for each
-- other.
with agent as (
    insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing
)
insert into sessions as s (agent_id, session_id, last_activity_at, participants)
values (%(agent_id)s, %(session_id)s, clock_timestamp(), %(people)s)
on conflict (agent_id, session_id) do update set participants = array(select unnest(s.participants || %(people)s::text[]) group by 1)
 where not s.participants @> %(people)s
   and (%(user_id)s::text is null or %(user_id)s = any(s.participants) or s.participants = '{}' and s.message_count = 0);

-- observe --
-- Store messages that are new to the locked session, since a host resends the whole list every turn. Return the number
-- of stored and of waiting messages, and the waiting messages that their author has edited.
with listed as (
    select distinct on (id) *
      from rows from (jsonb_to_recordset(%(messages)s) as (id uuid, scope_key text, role text, author text, user_id text,
                                                           content text, said_at timestamptz, utc_offset smallint,
                                                           submitted_by text, attached_to uuid))
           with ordinality as g
     order by id, ordinality
), known as (
    select l.id, m.is_edited
      from listed l
     -- offset 0 forces one look-up per row: a join planned for a small table would read all of it each time.
     cross join lateral (select formed_by is null and session_id = %(session_id)s and role = l.role
                                and user_id is not distinct from l.user_id and content <> l.content as is_edited
                           from messages where agent_id = %(agent_id)s and id = l.id offset 0) as m
), given as (
    select * from listed where id not in (select id from known)
), stored as (
    insert into messages (agent_id, id, session_id, scope_key, place, role, author, user_id, content, said_at, utc_offset,
                          submitted_by, attached_to)
    select %(agent_id)s, g.id, %(session_id)s, g.scope_key, coalesce(s.message_count, 0) + row_number() over (order by g.ordinality),
           g.role, g.author, g.user_id, g.content, g.said_at, g.utc_offset, g.submitted_by, g.attached_to
      from given g left join sessions s on s.agent_id = %(agent_id)s and s.session_id = %(session_id)s
    on conflict do nothing returning 1
), session as (
    -- A job uses this run's identity to form the session once it is cold.
    update sessions
       set message_count = message_count + new.count, last_activity_at = clock_timestamp(), identity = %(identity)s,
           is_waiting = true,
           is_mixed = is_mixed or message_count > 0 and identity -> 'group_ids' is distinct from %(identity)s::jsonb -> 'group_ids'
      from (select count(*) from stored) as new
     where agent_id = %(agent_id)s and session_id = %(session_id)s and new.count > 0
)
select count(*) as accepted,
       count(*) + (select count(*) from messages
                    where agent_id = %(agent_id)s and session_id = %(session_id)s and formed_by is null) as pending,
       array(select id from known where is_edited) as edited,
       -- Another person may have started a session of this id after this transaction looked for one.
       %(user_id)s::text is null or exists (select from sessions
                                             where agent_id = %(agent_id)s and session_id = %(session_id)s
                                               and %(user_id)s = any(participants)) as is_admitted
  from stored;

-- edit --
-- Store the edited content of a waiting message. Edits are rare, so this is a statement of its own: within observe, a
-- plan made for a small table would read all of it.
update messages set content = %(content)s, submitted_by = %(submitted_by)s
 where agent_id = %(agent_id)s and id = %(id)s and session_id = %(session_id)s and formed_by is null;

-- pending --
-- Return the oldest waiting messages of a session: the quarantined ones or all others. Each row has the numbers of
-- waiting, quarantined and all messages, and the time since the last one by the database's clock. Without waiting
-- messages there is one row without a message.
with waiting as (
    select count(*) as pending, count(*) filter (where quarantined) as quarantined
      from messages where agent_id = %(agent_id)s and session_id = %(session_id)s and formed_by is null
), session as (
    select coalesce(max(message_count), 0) as session_messages,
           coalesce(clock_timestamp() - max(last_activity_at), interval '0') as idle
      from sessions where agent_id = %(agent_id)s and session_id = %(session_id)s
)
select w.*, s.*, m.id, m.session_id, m.role, m.author, m.user_id, m.content, m.said_at, m.utc_offset, m.submitted_by,
       m.created_at as observed_at
  from waiting w cross join session s left join lateral (
       select * from messages
        where agent_id = %(agent_id)s and session_id = %(session_id)s and formed_by is null and quarantined = %(quarantined)s
        order by place limit %(most)s
       offset %(skip)s %% greatest(1, case when %(quarantined)s then w.quarantined else w.pending - w.quarantined end)) as m on true
 order by m.place;

-- quarantine --
-- Leave messages to a retry.
update messages set quarantined = true where agent_id = %(agent_id)s and id = any(%(ids)s) and formed_by is null;

-- settle --
-- Mark messages as formed if they are still pending and unchanged since the run read them. A second run finds fewer
-- rows and saves nothing. The same holds if one of the scope keys had an erasure since the run began, because the model
-- may have read the erased text. Usually the head is unchanged, which is checked first. The content of some messages is
-- deleted after a time. Their remaining skeletons make a resent message harmless.
update messages m set formed_by = %(op_id)s, forget_at = clock_timestamp() + r.forget_after
  from unnest(%(ids)s::uuid[], %(digests)s::bytea[], %(forget_after)s::interval[]) as r(id, digest, forget_after)
 where m.agent_id = %(agent_id)s and m.id = r.id and m.formed_by is null
   and m.id = any(%(ids)s) -- looks the rows up by their key: a plan made for a small table would read all of it
   and sha256(convert_to(m.content, 'UTF8')) = r.digest
   and ((select revision from heads where agent_id = %(agent_id)s) = %(read_revision)s
        or not exists (select from history
                        where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and revision > %(read_revision)s
                          and event in ({erasure_events})))
returning m.id;

-- end_formation --
-- End the lease of a formation, and delete the content of messages that are due. Return the number of waiting messages
-- of the session, and whether an entry without a vector may be embedded now.
with finished as (
    delete from leases where agent_id = %(agent_id)s and scope_key = %(scope_key)s and work = %(work)s and holder = %(holder)s
)
select forget_messages(%(most)s),
       (select count(*) from messages
         where agent_id = %(agent_id)s and session_id = %(session_id)s and formed_by is null) as pending,
       -- Entries outside the search wait, except reflections, which become searchable once they are absorbed.
       exists (select from entries
                where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = ''
                  and (searchable or kind = 'reflection')
                  and (embed_after is null or embed_after <= clock_timestamp())) as has_due_vectors;

-- list_messages --
-- Return messages of the visible scope keys that still have content, newest first, of one session or of all.
select id, session_id, role, author, user_id, content, said_at, utc_offset, submitted_by from messages
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and content is not null
   and (%(session_id)s::text is null or session_id = %(session_id)s)
 order by said_at desc, session_id, place desc limit %(most)s;

-- count_messages --
-- Count the messages of the visible scope keys that still have content.
select count(*) from messages
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and content is not null
   and (%(session_id)s::text is null or session_id = %(session_id)s);

-- index_messages --
-- Make kept messages searchable under the scope key of their speaker. Each is looked up by its key, as in observe.
insert into entries (agent_id, scope_key, item_id, piece, kind, category, model, vec, tsv, embed_after)
select %(agent_id)s, m.scope_key, m.id, e.piece, 'message', 'message',
       case when e.vec is null then '' else %(model)s end, e.vec, to_tsvector({text_search}, e.text),
       case when e.vec is null then embedding_due(0::smallint) end
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[], %(texts)s::text[], %(vectors)b::halfvec[]) as e(id, piece, text, vec)
 cross join lateral (select id, scope_key from messages where agent_id = %(agent_id)s and id = e.id offset 0) as m;
