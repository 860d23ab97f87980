-- enter_session --
-- Locks the session, so that who observes the same messages in another order waits here and not, row by row, for each other.
with agent as (
    insert into agents (agent_id) values (%(agent_id)s) on conflict do nothing
)
insert into sessions as s (agent_id, session_id, last_activity_at, participants)
values (%(agent_id)s, %(session_id)s, clock_timestamp(), %(people)s)
on conflict (agent_id, session_id) do update set participants = array(select unnest(s.participants || %(people)s::text[]) group by 1)
 where not s.participants @> %(people)s
   and (%(user_id)s::text is null or %(user_id)s = any(s.participants) or s.participants = '{}' and s.message_count = 0);

-- observe --
-- Stores messages that are new to the locked session, for a host resends the whole list every turn; how many they are, and
-- how many wait with them for formation; and those that their speaker has edited while they wait.
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
     -- looked up one by one (offset 0): a join that was planned while the table was small would read all of it each time
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
    -- a job forms the session as this run's identity once it is cold
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
       -- another person may have begun a session of this id after this transaction had looked for one
       %(user_id)s::text is null or exists (select from sessions
                                             where agent_id = %(agent_id)s and session_id = %(session_id)s
                                               and %(user_id)s = any(participants)) as is_admitted
  from stored;

-- edit --
-- A message that waits says from now on what its speaker made of it. By itself, for that is rare: within observe it would be
-- planned once and for all while the table is small, and read all of it each time.
update messages set content = %(content)s, submitted_by = %(submitted_by)s
 where agent_id = %(agent_id)s and id = %(id)s and session_id = %(session_id)s and formed_by is null;

-- pending --
-- The oldest messages of a session that wait for formation: those that were set aside, or all others. With the numbers of
-- messages that wait, that were set aside and that the session has, and the time since its last message by the database's
-- clock. One row without a message if none waits.
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

-- quarantined --
-- Leaves messages to a retry.
update messages set quarantined = true where agent_id = %(agent_id)s and id = any(%(ids)s) and formed_by is null;

-- settle --
-- Marks messages as formed, each at most once and if it still says what the run has read: a second run finds fewer rows and
-- saves nothing. Neither does a run in whose scope keys something was erased since it began to read, for a model may have
-- repeated it; mostly nothing happened since.
update messages m set formed_by = %(op_id)s
  from unnest(%(ids)s::uuid[], %(digests)s::bytea[]) as r(id, digest)
 where m.agent_id = %(agent_id)s and m.id = r.id and m.formed_by is null
   and sha256(convert_to(m.content, 'UTF8')) = r.digest
   and ((select revision from heads where agent_id = %(agent_id)s) = %(read_revision)s
        or not exists (select from history
                        where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and revision > %(read_revision)s
                          and event in ('ERASE', 'PURGE')))
returning m.id;

-- forget_later --
-- From then on the words of these messages go; the skeleton that is left makes a resent message harmless.
update messages set forget_at = clock_timestamp() + %(after)s where agent_id = %(agent_id)s and id = any(%(ids)s);

-- listed --
-- Messages of the visible scope keys that still have their words, newest first; of one session, or of all.
select id, session_id, role, author, user_id, content, said_at, utc_offset, submitted_by from messages
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and content is not null
   and (%(session_id)s::text is null or session_id = %(session_id)s)
 order by said_at desc, session_id, place desc limit %(most)s;

-- counted --
-- How many messages of the visible scope keys still have their words.
select count(*) from messages
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and content is not null
   and (%(session_id)s::text is null or session_id = %(session_id)s);

-- index_messages --
-- Makes kept messages searchable under their speaker's scope key; each is looked up by itself, as in observe.
insert into entries (agent_id, scope_key, item_id, piece, kind, category, model, vec, tsv, embed_after)
select %(agent_id)s, m.scope_key, m.id, e.piece, 'message', 'message',
       case when e.vec is null then '' else %(model)s end, e.vec, to_tsvector('english', e.text),
       case when e.vec is null then embedding_due(0::smallint) end
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[], %(texts)s::text[], %(vectors)b::halfvec[]) as e(id, piece, text, vec)
 cross join lateral (select id, scope_key from messages where agent_id = %(agent_id)s and id = e.id offset 0) as m;
