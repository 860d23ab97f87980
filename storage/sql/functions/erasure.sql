-- The switches of the planner stay only where they were needed, because the statistics are older than the rows of a
-- growing agent. Measured on a person with 4,000 memories, after statistics of 100.

-- Erase the contents of memories and messages: text, vectors and their copies in the history. The rows stay as
-- skeletons with their links. The digests stay too, and reveal nothing without their salts. Protection does not prevent
-- an erasure.
create function erase_contents(p_agent text, p_memories uuid[], p_messages uuid[], p_op uuid) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    perform inherit_replaced(p_agent, p_memories);
    delete from entries where agent_id = p_agent and item_id = any(p_memories);
    update memories
       set state = 'purged', content = '', subject = '', said = null, draft = null, tags = null, protected = false,
           pinned = false, utc_offset = 0, superseded_by = null, absorbed_at = null, consolidated_into = null, purge_at = null,
           withdrawn_by = null
     where agent_id = p_agent and id = any(p_memories);
    delete from withdrawn where agent_id = p_agent and memory_id = any(p_memories);
    -- A pair of facts is judged anew after one of them is erased.
    delete from checked_pairs where agent_id = p_agent and (earlier_id = any(p_memories) or later_id = any(p_memories));
    delete from history_contents c using history h
     where h.agent_id = p_agent and h.memory_id = any(p_memories) and h.event not in ({erasure_events}, 'LINK')
       and c.agent_id = p_agent and c.revision = h.revision;
    delete from memory_use where agent_id = p_agent and memory_id = any(p_memories);
    -- Attachments are erased with their message.
    perform clear_messages(p_agent, p_messages || array(
        select id from messages where agent_id = p_agent and attached_to = any(p_messages)), p_op);
    perform reactivate_replaced(p_agent, p_memories, '{}', '{}');
end $$;

-- Erase the content of messages and their entries. Pending messages count as formed, so that no formation reads a
-- message without content.
create function clear_messages(p_agent text, p_messages uuid[], p_op uuid) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
begin
    delete from entries where agent_id = p_agent and item_id = any(p_messages);
    update messages set content = null, author = '', utc_offset = 0, formed_by = coalesce(formed_by, p_op), forget_at = null
     where agent_id = p_agent and id = any(p_messages);
end $$;

-- Return the source messages of memories, except messages of other people.
create function erasable_sources(p_agent text, p_memories uuid[], p_user text) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select distinct m.id
      from sources s join messages m on m.agent_id = p_agent and m.id = s.message_id
     where s.agent_id = p_agent and s.memory_id = any(p_memories) and (m.user_id is null or m.user_id = p_user)
       and m.content is not null
$$;

-- Return the messages of a person with the replies up to the next person's message. In a session without other people,
-- return all messages.
create function messages_of_person(p_agent text, p_user text) returns table (id uuid, session_id text, is_alone boolean)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with spoken as (
        select m.id, m.session_id, m.user_id, m.place,
               count(m.user_id) over (partition by m.session_id order by m.place) as turn,
               bool_and(m.user_id = p_user) over (partition by m.session_id) as is_alone
          from messages m
          join (select distinct session_id from messages where agent_id = p_agent and user_id = p_user) as t using (session_id)
         where m.agent_id = p_agent
    )
    select s.id, s.session_id, s.is_alone
      from (select *, first_value(user_id) over (partition by session_id, turn order by place) as speaker from spoken) as s
     where s.is_alone or s.speaker = p_user
$$;

-- Return the memories of a person in any scope key: their own memories, memories formed from their messages, episodes
-- of formations that read these messages, their contributions to shared scopes, and memories written in sessions
-- without other people. Without the switches the whole erasure takes 24 seconds instead of 8.
create function memories_of_person(p_agent text, p_user text) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp set enable_nestloop = off set enable_seqscan = off as $$
    with said as materialized (
        select * from messages_of_person(p_agent, p_user)
    ), alone as materialized (
        select distinct session_id from said where is_alone
    )
    select id from memories
     where agent_id = p_agent and (scope_key = 'user:' || p_user or subject_user_id = p_user)
    union
    -- offset 0 forces one look-up per row
    select s.memory_id
      from said cross join lateral (select memory_id from sources where agent_id = p_agent and message_id = said.id offset 0) as s
    union
    select m.id
      from (select distinct m.formed_by from said
             cross join lateral (select formed_by from messages where agent_id = p_agent and id = said.id offset 0) as m) as run
     cross join lateral (select memory_id from history
                          where agent_id = p_agent and op_id = run.formed_by and event = 'ADD' offset 0) as h
     cross join lateral (select id from memories where agent_id = p_agent and id = h.memory_id and kind = 'episode' offset 0) as m
    union
    select m.id from memories m join alone on alone.session_id = m.source_session_id
     where m.agent_id = p_agent and (m.scope_key not like 'user:%' or m.scope_key = 'user:' || p_user)
    union
    select m.id from memories m join alone on m.scope_key = 'session:' || alone.session_id where m.agent_id = p_agent
    union
    select m.id from memories m
     where m.agent_id = p_agent and m.actor_id = p_user and m.scope_key not like 'user:%'
       and (is_contribution_of(m, p_user) or exists (
           select from history h where h.agent_id = p_agent and h.memory_id = m.id and h.event = 'ADD'
              and h.reason in ({written_reasons}) offset 0))
$$;

-- Return the distinct words of a text.
create function words_in(p_text text) returns text[]
language sql immutable set search_path = mnemic, pg_temp as $$
    select tsvector_to_array(to_tsvector({text_search}, coalesce(p_text, '')))
$$;

-- Return the memories into which a refinement wrote words that it removed from the given memories and that their own
-- former text lacked. p_event is ADD for new memories and UPDATE for changed ones. The revision is the row of history
-- of that change.
-- The switches are kept for histories with many refinements, which were not measured without them.
create function rewritten_with(p_agent text, p_memories uuid[], p_event text) returns table (memory_id uuid, revision bigint)
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with told as materialized (
        select l.h, k.c
          from unnest(p_memories) as i(id)
         -- offset 0 forces one look-up per row
         cross join lateral (select h from history h where h.agent_id = p_agent and h.memory_id = i.id
                                and h.refinement_id is not null and h.event in ('DELETE', 'MERGE', 'UPDATE') offset 0) as l
         cross join lateral (select c from history_contents c where c.agent_id = p_agent and c.revision = (l.h).revision offset 0) as k
    )
    select w.memory_id, w.revision
      from told cross join lateral (
           select w.* from history w where w.agent_id = p_agent and w.refinement_id = (h).refinement_id offset 0) as w
      join history_contents n on n.agent_id = p_agent and n.revision = w.revision
     where w.event = p_event and w.memory_id <> (h).memory_id
       and exists (select unnest(words_in((c).before ->> 'content')) intersect select unnest(words_in(n.after ->> 'content'))
                   except select unnest(words_in((c).after ->> 'content')) where (h).event = 'UPDATE'
                   except select word from history o join history_contents b on b.agent_id = p_agent and b.revision = o.revision
                                 cross join unnest(words_in(b.before ->> 'content')) as word
                           where o.agent_id = p_agent and o.op_id = w.op_id and o.event in ('MERGE', 'UPDATE'))
$$;

-- Return the memories derived from the given ones, now or earlier: facts that replaced them, consolidations that
-- absorbed them, merged memories, journals of refinements that read them, and memories that a refinement wrote with
-- their words. Each row is looked up by its key.
-- The switches are kept for histories with many refinements, which were not measured without them.
create function derived_memories(p_agent text, p_memories uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with told as materialized (
        select l.h, k.c
          from unnest(p_memories) as i(id)
         -- offset 0 forces one look-up per row
         cross join lateral (select h from history h where h.agent_id = p_agent and h.memory_id = i.id offset 0) as l
          -- For erased contents the operation still shows the connection.
          left join lateral (select c from history_contents c where c.agent_id = p_agent and c.revision = (l.h).revision offset 0) as k on true
    ), born as (
        select (h).scope_key, min((h).ts) as ts from told where (h).event = 'ADD' group by 1
    )
    select coalesce((c).after ->> 'superseded_by', (c).after ->> 'consolidated_into')::uuid from told
     where coalesce((c).after ->> 'superseded_by', (c).after ->> 'consolidated_into') is not null
    union
    select o.memory_id from told join history o on o.agent_id = p_agent and o.op_id = (h).op_id and o.event = 'ADD'
     where (h).event = 'MERGE'
    union
    select j.id from born b
      join memories j on j.agent_id = p_agent and j.scope_key = b.scope_key and j.kind = 'journal' and j.created_at >= b.ts
    union
    select memory_id from rewritten_with(p_agent, p_memories, 'ADD')
    union
    select o.memory_id from told
      join history o on o.agent_id = p_agent and o.op_id = (h).op_id and o.scope_key = (h).scope_key
      join memories m on m.agent_id = p_agent and m.id = o.memory_id
     where (c).revision is null
       and ((h).event in ('ABSORB', 'SUPERSEDE') and m.kind = 'consolidation'
            or (h).event = 'SUPERSEDE' and m.kind = 'fact' and o.event = 'ADD')
$$;

-- Return the sources of a memory: facts that it replaced, now or earlier, and memories that were merged into it.
-- The switches are kept for histories with many refinements, which were not measured without them.
create function source_memories(p_agent text, p_memory uuid) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select m.id from memories m where m.agent_id = p_agent and m.superseded_by = p_memory
    union
    select r.to_id from relations r where r.agent_id = p_agent and r.from_id = p_memory and r.relation_type = 'merged_from'
    union
    select o.memory_id
      from history h join history o on o.agent_id = p_agent and o.op_id = h.op_id and o.event in ('MERGE', 'SUPERSEDE')
     -- offset 0 forces one look-up per row
      left join lateral (select after from history_contents where agent_id = p_agent and revision = o.revision offset 0) as c on true
     where h.agent_id = p_agent and h.memory_id = p_memory and h.event = 'ADD'
       and (o.event = 'MERGE' or c.after ->> 'superseded_by' = p_memory::text)
$$;

-- Return the exact duplicates that a refinement removed in favour of the memory, or the one that it retained instead.
create function same_as(p_agent text, p_memory uuid) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select case r.from_id when p_memory then r.to_id else r.from_id end from relations r
     where r.agent_id = p_agent and p_memory in (r.from_id, r.to_id) and r.relation_type = 'same_as'
$$;

-- Return the given memories and all memories that share their words: their sources, everything derived from these, and
-- exact duplicates. A memory without a word in common is left out, unless one of the two texts is a single word.
create function related_memories(p_agent text, p_memories uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with recursive earlier(origin, id) as (
        select i, i from unnest(p_memories) as i
        union
        select e.origin, n.id from earlier e
         cross join lateral (select source_memories(p_agent, e.id) union select same_as(p_agent, e.id)) as n(id)
    ), kin(origin, id) as (
        select * from earlier
        union
        select k.origin, n.id from kin k
         cross join lateral (select derived_memories(p_agent, array[k.id]) union select same_as(p_agent, k.id)
                              union select memory_id from rewritten_with(p_agent, array[k.id], 'UPDATE')) as n(id)
    ), told as materialized ( -- all words that each memory ever had, without the name of its subject
        select m.id, array(
               select unnest(words_in(m.content))
               union
               select word from history h join history_contents c on c.agent_id = p_agent and c.revision = h.revision
                cross join unnest(words_in(c.before ->> 'content') || words_in(c.after ->> 'content')) as word
                where h.agent_id = p_agent and h.memory_id = m.id and changes_memory(h)
               except
               select unnest(words_in(m.subject))) as words
          from (select distinct id from kin) as k join memories m on m.agent_id = p_agent and m.id = k.id
    )
    select distinct k.id from kin k join told o on o.id = k.origin join told t on t.id = k.id
     where k.id = k.origin or o.words && t.words or least(cardinality(o.words), cardinality(t.words)) < 2
$$;

-- Return messages that may repeat an erased text. They still have content and are not planned yet. They belong to the
-- person, or to no person in one of the person's sessions or in p_keys.
create function repeat_candidates(p_agent text, p_user text, p_keys text[]) returns uuid[]
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with theirs as materialized (
        select distinct session_id from messages where agent_id = p_agent and user_id = p_user
    )
    select array(
        select m.id from messages m
         where m.agent_id = p_agent and m.content is not null
           and (m.user_id = p_user
                or m.user_id is null and (m.scope_key = any(p_keys) or m.session_id in (select session_id from theirs)))
           and not exists (select from erasing e where e.agent_id = p_agent and e.item_id = m.id))
$$;

-- Return the messages among p_among that repeat an erased text. A message repeats it in one of three ways: it has all
-- words of a memory, except its subject's name; it has exactly the words of a source message; or, if no person wrote
-- it, it has all words of a sentence of p_quoted.
create function find_repeats(p_agent text, p_among uuid[], p_memories uuid[], p_sources uuid[], p_quoted uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with theirs as materialized (
        select m.id, m.user_id, words_in(m.content) as words from messages m
         where m.agent_id = p_agent and m.id = any(p_among) and m.content is not null
    ), claim as materialized (
        select m.id as nth, false as is_quoted, array(select unnest(words_in(m.content)) except select unnest(words_in(m.subject))) as words
          from memories m where m.agent_id = p_agent and m.id = any(p_memories)
        union all
        select gen_random_uuid(), true, words_in(s.sentence)
          from messages m cross join regexp_split_to_table(m.content, '[.!?…。！？；\n\r]+') as s(sentence)
         where m.agent_id = p_agent and m.id = any(p_quoted)
    ), given as materialized (
        select words_in(content) as words from messages where agent_id = p_agent and id = any(p_sources)
    ), theirs_words as materialized (
        select id, unnest(words) as word from theirs
    ), rarity as materialized (
        select word, count(*) as messages from theirs_words group by word
    ), sought as materialized ( -- looked up by its rarest word
        select distinct on (c.nth) c.words, c.is_quoted, w.word
          from claim c cross join unnest(c.words) as w(word) join rarity r on r.word = w.word
         where cardinality(c.words) > case when c.is_quoted then 2 else 1 end order by c.nth, r.messages
    )
    select t.id from sought s join theirs_words w on w.word = s.word join theirs t on t.id = w.id
     where t.words @> s.words and (t.user_id is null or not s.is_quoted)
    union
    select t.id from theirs t join given g on g.words = t.words
     -- A source message counts only if it shares a word with the memory: "yes, please" answers many questions.
     where cardinality(t.words) > 1 and t.words && array(select unnest(words) from claim where not is_quoted)
$$;

-- Return the insights drawn from these memories or messages.
create function drawn_from(p_agent text, p_memories uuid[], p_messages uuid[]) returns setof uuid
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select r.from_id from relations r
     where r.agent_id = p_agent and r.to_id = any(p_memories) and r.relation_type = 'drawn_from'
    union
    select m.id from sources s join memories m on m.agent_id = p_agent and m.id = s.memory_id and m.kind = 'insight'
     where s.agent_id = p_agent and s.message_id = any(p_messages)
$$;

-- An erasure is planned before anything is erased. It runs in steps, one operation each, and resumes after an
-- interruption.

-- Begin an erasure for the person, or for the session if there is no person, or return the one to resume.
create function begin_erasure(p_keys text[]) returns table (id uuid, is_whole boolean, goes_on_from timestamptz)
language sql security definer set search_path = mnemic, pg_temp as $$
    insert into erasures (agent_id, id, scope_key)
    select a.agent_id, gen_random_uuid(), k from agents a cross join unnest(permitted_keys(p_keys)) as k
     where a.agent_id = current_setting('mnemic.agent_id') order by k not like 'user:%' limit 1
    on conflict do nothing;
    select e.id, e.is_whole,
           case when e.is_whole or exists (select from erasing i where i.agent_id = e.agent_id and i.erasure_id = e.id) then e.begun_at end
      from erasures e where e.agent_id = current_setting('mnemic.agent_id') and e.scope_key = any(permitted_keys(p_keys))
     order by e.scope_key not like 'user:%' limit 1 for update
$$;

-- Return and lock the erasure of this id if the transaction may access its scope key.
create function own_erasure(p_erasure uuid) returns erasures
language sql security definer set search_path = mnemic, pg_temp as $$
    select e from erasures e
     where e.agent_id = current_setting('mnemic.agent_id') and e.id = p_erasure
       and cardinality(permitted_keys(array[e.scope_key])) = 1 for update
$$;
create function owner_of(e erasures) returns text
language sql immutable
return case when e.scope_key like 'user:%' then substr(e.scope_key, 6) end;

-- Return whether the person may erase a memory by its id: it is in one of their scope keys, or it is their contribution
-- to a shared one.
create function may_erase(m memories, p_keys text[], p_user text) returns boolean
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select m.state <> 'purged' and (m.scope_key = any(p_keys) or p_user is not null and is_contribution_of(m, p_user))
$$;

-- Plan the given memories that the person may erase, with related memories and source messages, and the person's given
-- messages, with the memories formed from them.
create function plan_erasure(p_erasure uuid, p_keys text[], p_ids uuid[]) returns void
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    e     erasures := own_erasure(p_erasure);
    own   text[] := permitted_keys(p_keys);
    ids   uuid[];
    named uuid[];
    said  uuid[];
    alike uuid[];
begin
    named := array(select m.id from messages m
                    where m.agent_id = e.agent_id and m.id = any(p_ids) and m.content is not null
                      and (m.user_id = owner_of(e) or m.user_id is null and m.scope_key = any(own)));
    ids := array(select m.id from memories m
                  where m.agent_id = e.agent_id and may_erase(m, own, owner_of(e))
                    and m.id in (select unnest(p_ids)
                                 union
                                 select memory_id from sources where agent_id = e.agent_id and message_id = any(named)));
    ids := array(select m.id from memories m where m.agent_id = e.agent_id and m.id in (select related_memories(e.agent_id, ids))
                    and may_erase(m, own, owner_of(e)));
    -- Memories with the same source messages and all words of a planned memory are planned too, with their related
    -- memories. Each text is split once, not once per pair.
    alike := array(
        with near as materialized (
            select m.id, words_in(m.content) || words_in(m.subject) as words from memories m
             where m.agent_id = e.agent_id
               -- Source messages that were erased before still count.
               and m.id in (select a.memory_id
                              from sources s join messages w on w.agent_id = e.agent_id and w.id = s.message_id
                              join sources a on a.agent_id = e.agent_id and a.message_id = w.id
                             where s.agent_id = e.agent_id and s.memory_id = any(ids)
                               and (w.user_id is null or w.user_id = owner_of(e)))
        ), told as materialized (
            select words_in(content) as words from memories where agent_id = e.agent_id and id = any(ids)
        )
        select n.id from near n where exists (select from told t where cardinality(t.words) > 1 and n.words @> t.words));
    ids := array(select m.id from memories m
                  where m.agent_id = e.agent_id and may_erase(m, own, owner_of(e))
                    and m.id in (select unnest(ids) union select related_memories(e.agent_id, alike)));
    said := named || array(select erasable_sources(e.agent_id, ids, owner_of(e)));
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_expanded)
    -- A shared memory is followed into all memories derived from it.
    select e.agent_id, m.id, e.id, false, m.scope_key = any(own)
      from memories m where m.agent_id = e.agent_id and m.id = any(ids)
    on conflict do nothing;
    perform plan_related(e, ids, said);
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_expanded)
    select e.agent_id, i, e.id, true, true
      from find_repeats(e.agent_id, repeat_candidates(e.agent_id, owner_of(e), own), ids, said, named) as i
    on conflict do nothing;
end $$;

-- Plan everything that goes with memories and messages in every erasure: the messages, propagated copies, insights, and
-- messages of the same formation with content due to be deleted, except those of other people.
create function plan_related(e erasures, p_memories uuid[], p_messages uuid[]) returns void
language sql security definer set search_path = mnemic, pg_temp as $$
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_expanded)
    select e.agent_id, i, e.id, true, true from unnest(p_messages) as i
    union
    select e.agent_id, i, e.id, false, true from copies_of(e.agent_id, p_memories) as i
    union
    select e.agent_id, m.id, e.id, false, true
      from drawn_from(e.agent_id, p_memories, p_messages) as i
      join memories m on m.agent_id = e.agent_id and m.id = i and m.state <> 'purged'
    union
    select e.agent_id, w.id, e.id, true, true from messages w
     where w.agent_id = e.agent_id and w.forget_at is not null and (w.user_id is null or w.user_id = owner_of(e))
       and w.formed_by in (select formed_by from messages where agent_id = e.agent_id and id = any(p_messages))
    on conflict do nothing
$$;

-- Plan all memories and messages of the person that are found directly, and return the number of new items.
create function plan_person(p_erasure uuid) returns bigint
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    e     erasures := own_erasure(p_erasure);
    added bigint;
begin
    if e.id is not null and owner_of(e) is null then
        raise exception 'a person is erased in a transaction of their own' using errcode = 'insufficient_privilege';
    end if;
    update erasures set is_whole = true where agent_id = e.agent_id and id = e.id;
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_expanded)
    select e.agent_id, m.id, e.id, false, false
      from memories_of_person(e.agent_id, owner_of(e)) as f join memories m on m.agent_id = e.agent_id and m.id = f
     -- An erased memory still shows the memories derived from it.
     where m.state <> 'purged' or not e.is_whole
    union all
    select e.agent_id, m.id, e.id, true, true
      from messages_of_person(e.agent_id, owner_of(e)) as s join messages m on m.agent_id = e.agent_id and m.id = s.id and m.content is not null
    on conflict do nothing;
    get diagnostics added = row_count;
    perform plan_related(e, '{}', array(select item_id from erasing
                                         where agent_id = e.agent_id and erasure_id = e.id and is_message));
    return added;
end $$;

-- Plan the memories derived from these, and everything that goes with them. p_through: also follow memories that were
-- erased before. An erasure by ids leaves texts that other people wrote in place of a memory.
create function expand(e erasures, p_memories uuid[], p_through boolean) returns void
language plpgsql security definer set search_path = mnemic, pg_temp
    -- A plan cached while few items were planned takes a hundred times as long later.
    set plan_cache_mode = force_custom_plan as $$
begin
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_expanded)
    select e.agent_id, m.id, e.id, false, false
      from derived_memories(e.agent_id, p_memories) as w join memories m on m.agent_id = e.agent_id and m.id = w
     where (m.state <> 'purged' or p_through)
       and (e.is_whole or m.provenance = 'consolidated' or m.kind in ('consolidation', 'journal') or may_erase(m, '{}', owner_of(e)))
    on conflict (agent_id, item_id, erasure_id) do update set rewritten_at_revision = null where erasing.rewritten_at_revision is not null;
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_expanded, rewritten_at_revision)
    select e.agent_id, m.id, e.id, false, false, min(w.revision)
      from rewritten_with(e.agent_id, p_memories, 'UPDATE') as w join memories m on m.agent_id = e.agent_id and m.id = w.memory_id
     where m.state <> 'purged'
     group by m.id
    on conflict (agent_id, item_id, erasure_id) do update set rewritten_at_revision = least(erasing.rewritten_at_revision, excluded.rewritten_at_revision)
                                                        where erasing.rewritten_at_revision is not null;
    perform plan_related(e, p_memories, array(select erasable_sources(e.agent_id, p_memories, owner_of(e))));
end $$;

-- Plan the quotations of a person's planned memories and messages by the assistant and by tools, and the memories
-- formed from these. Return the number of items. All memories of the person must be planned before.
create function plan_quotations(e erasures) returns bigint
language plpgsql security definer set search_path = mnemic, pg_temp set plan_cache_mode = force_custom_plan as $$
declare
    among  uuid[] := repeat_candidates(e.agent_id, owner_of(e), array[e.scope_key]);
    quotes uuid[];
    ids    uuid[];
    said   uuid[];
    added  bigint;
begin
    if not e.is_whole or cardinality(among) = 0 then
        return 0;
    end if;
    select array_agg(item_id) filter (where not is_message), array_agg(item_id) filter (where is_message) into ids, said
      from erasing where agent_id = e.agent_id and erasure_id = e.id;
    quotes := array(select find_repeats(e.agent_id, among, ids, said, said));
    insert into erasing (agent_id, item_id, erasure_id, is_message, is_expanded)
    select e.agent_id, i, e.id, true, true from unnest(quotes) as i
    union
    select e.agent_id, m.id, e.id, false, false
      from sources s join memories m on m.agent_id = e.agent_id and m.id = s.memory_id and m.state <> 'purged'
     where s.agent_id = e.agent_id and s.message_id = any(quotes)
    on conflict do nothing;
    get diagnostics added = row_count;
    return added;
end $$;

-- Expand at most p_most planned memories; once all are expanded, plan the quotations. Return the number of items.
create function follow_erasure(p_erasure uuid, p_most integer) returns bigint
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    e   erasures := own_erasure(p_erasure);
    ids uuid[] := array(select item_id from erasing where agent_id = e.agent_id and erasure_id = e.id and not is_expanded
                         limit p_most);
begin
    if cardinality(ids) = 0 then
        return plan_quotations(e);
    end if;
    perform expand(e, ids, true);
    delete from erasing i using memories m
     where i.agent_id = e.agent_id and i.item_id = any(ids) and i.erasure_id = e.id
       and m.agent_id = e.agent_id and m.id = i.item_id and m.state = 'purged';
    update erasing set is_expanded = true where agent_id = e.agent_id and item_id = any(ids) and erasure_id = e.id;
    return cardinality(ids);
end $$;

-- Erase at most p_most planned items in one operation. Messages come first, so that nothing more is formed from them.
-- Memories derived since the planning are added now, because afterwards no row shows the connection.
create function erase_step(p_erasure uuid, p_op uuid, p_actor text, p_most integer) returns table (id uuid, is_message boolean)
language plpgsql security definer set search_path = mnemic, pg_temp as $$
#variable_conflict use_column
declare
    -- Lock the erasure before the head: no other transaction waits while the erasure is planned.
    e    erasures := own_erasure(p_erasure);
    ids  uuid[];
    said uuid[];
    formers memories[];
begin
    select coalesce(array_agg(item_id order by item_id) filter (where not i.is_message), '{}'),
           coalesce(array_agg(item_id order by item_id) filter (where i.is_message), '{}')
      into ids, said
      from (select item_id, is_message from erasing where agent_id = e.agent_id and erasure_id = e.id
             order by is_message desc limit p_most) as i;
    perform open_operation(e.agent_id, p_op, p_actor, 'person', 'erasure', null, null, '{}');
    if e.is_whole then
        perform expand(e, ids, false);
    end if;
    formers := array(select former_version(m, i.rewritten_at_revision)
                       from erasing i join memories m on m.agent_id = e.agent_id and m.id = i.item_id
                      where i.agent_id = e.agent_id and i.erasure_id = e.id and i.item_id = any(ids) and i.rewritten_at_revision is not null);
    perform erase_contents(e.agent_id, ids, said, p_op);
    perform restore_former_versions(formers);
    delete from erasing where agent_id = e.agent_id and item_id = any(ids || said) and erasure_id = e.id;
    perform close_operation(e.agent_id);
    return query select i, false from unnest(ids) as i union all select i, true from unnest(said) as i;
end $$;

-- End an erasure that has no planned items left, and return whether it has ended. For a person, at most p_most threads
-- are deleted first: the person's own, and threads without a user in sessions where only the person spoke.
create function end_erasure(p_erasure uuid, p_most integer) returns boolean
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    e      erasures := own_erasure(p_erasure);
    alone  text[];
    theirs supervisor_checkpoints[];
    ids    text[];
begin
    if exists (select from erasing where agent_id = e.agent_id and erasure_id = e.id) then
        return false;
    end if;
    if e.is_whole then
        alone := array(select distinct session_id from messages_of_person(e.agent_id, owner_of(e)) where is_alone);
        update scopes set name = null, extraction_guidance = null, consolidation_guidance = null
         where agent_id = e.agent_id
           and (scope_key = e.scope_key or scope_key in (select 'session:' || session_id from unnest(alone) as session_id));
        -- These records have the person's id and no content.
        delete from checked_pairs where agent_id = e.agent_id and scope_key = e.scope_key;
        delete from job_failures where agent_id = e.agent_id and scope_key = e.scope_key;
        update events set user_id = null where agent_id = e.agent_id and user_id = owner_of(e);
        theirs := array(select t from supervisor_checkpoints t
                         where t.agent_id = e.agent_id
                           and (t.user_id = owner_of(e) or t.user_id = '' and t.thread_id = any(alone)) limit p_most);
        -- Delete by ids: outside the locale C no index finds a prefix.
        ids := array(select thread_prefix(t.agent_id, t.user_id) || t.thread_id from unnest(theirs) as t);
        delete from checkpoint_writes where thread_id = any(ids);
        delete from checkpoint_blobs where thread_id = any(ids);
        delete from checkpoints where thread_id = any(ids);
        delete from supervisor_checkpoints s using unnest(theirs) as t
         where (s.agent_id, s.user_id, s.thread_id) = (t.agent_id, t.user_id, t.thread_id);
        if found then
            return false;
        end if;
    end if;
    delete from erasures where agent_id = e.agent_id and id = e.id;
    return true;
end $$;

-- Return the number of planned items that are left.
create function count_left_to_erase(p_erasure uuid) returns bigint
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select count(*) from erasing where agent_id = current_setting('mnemic.agent_id') and erasure_id = p_erasure
$$;

-- Return the planned items and the memories and messages that stay, with the reason. Texts are returned only if they
-- are the person's own.
create function preview_erasure(p_erasure uuid, p_keys text[])
returns table (id uuid, kind text, scope_key text, content text, stays text)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    with e as materialized (
        select e.agent_id as agent, owner_of(e) as mine, permitted_keys(p_keys) as own from erasures e
         where e.agent_id = current_setting('mnemic.agent_id') and e.id = p_erasure
           and cardinality(permitted_keys(array[e.scope_key])) = 1
    ), going as materialized (
        select i.item_id as id, i.is_message from e join erasing i on i.agent_id = e.agent and i.erasure_id = p_erasure
    )
    (select m.id, m.kind, m.scope_key, case when m.scope_key = any(e.own) or may_erase(m, e.own, e.mine) then m.content end, null
       from e cross join going g join memories m on m.agent_id = e.agent and m.id = g.id
      order by m.created_at, m.id)
    union all
    (select m.id, 'message', m.scope_key, case when m.user_id = e.mine or m.scope_key = any(e.own) then m.content end, null
       from e cross join going g join messages m on m.agent_id = e.agent and m.id = g.id
      order by m.session_id, m.place)
    union all
    select distinct m.id, 'message', m.scope_key, null, 'said by another'
      from e cross join going g join sources s on s.agent_id = e.agent and s.memory_id = g.id
      join messages m on m.agent_id = e.agent and m.id = s.message_id and m.content is not null
     where m.id not in (select id from going)
    union all
    select m.id, m.kind, m.scope_key, m.content,
           case when m.scope_key = any(e.own) then 'rests on the same messages' else 'shared' end
      from e join memories m on m.agent_id = e.agent and m.state in ({retained_states})
                            and m.scope_key = any(nullif(current_setting('mnemic.scope_keys', true), '')::text[])
     where m.id not in (select id from going)
       and (exists (select from sources s where s.agent_id = e.agent and s.memory_id = m.id
                       and s.message_id in (select id from going))
            or m.scope_key <> all(e.own) and exists (
               select from going g join memories t on t.agent_id = e.agent and t.id = g.id
                where words_in(m.content) || words_in(t.subject) @> words_in(t.content)
                  and cardinality(words_in(t.content)) > 1))
$$;

-- Delete the content of the agent's messages that are due, at most p_most and the oldest first. Return their number.
create function forget_messages(p_most integer) returns integer
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent text := current_setting('mnemic.agent_id');
    due   uuid[];
begin
    -- Usually nothing is due, which needs no lock.
    if not exists (select from messages where agent_id = agent and forget_at <= clock_timestamp()) then
        return 0;
    end if;
    perform from heads where agent_id = agent for update;
    due := array(select id from messages where agent_id = agent and forget_at <= clock_timestamp() order by forget_at limit p_most);
    perform clear_messages(agent, due, null);
    return cardinality(due);
end $$;

-- Return memories after p_beyond that expired at least p_after ago and did not change since.
create function expired_since(p_agent text, p_after interval, p_beyond uuid, p_most integer) returns setof memories
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select m.* from memories m
     cross join lateral (select h.reason, h.ts from history h
                          where h.agent_id = p_agent and h.memory_id = m.id and changes_memory(h)
                          order by h.revision desc limit 1) as l
     where m.agent_id = p_agent and m.id > p_beyond and m.kind in ({expiring_kinds})
       and m.state = 'soft_deleted' and not m.protected and not m.pinned
       and l.reason = 'ttl' and l.ts <= clock_timestamp() - p_after
     order by m.id limit p_most
$$;

-- Count the agent's messages and memories that are due for deletion of their content. p_after is null if memories are
-- not purged.
create function due_purges(p_after interval) returns table (messages bigint, memories bigint)
language sql stable security definer set search_path = mnemic, pg_temp as $$
    select (select count(*) from messages m
             where m.agent_id = current_setting('mnemic.agent_id') and m.forget_at <= clock_timestamp()),
           (select count(*) from expired_since(current_setting('mnemic.agent_id'), p_after,
                                               '00000000-0000-0000-0000-000000000000', null))
$$;

-- Purge at most p_most memories after p_beyond that expired at least p_after ago. p_run is the maintenance run, if any.
create function purge_expired(p_after interval, p_run uuid, p_op uuid, p_actor text, p_beyond uuid, p_most integer)
returns setof uuid
language plpgsql security definer set search_path = mnemic, pg_temp as $$
declare
    agent   text := current_setting('mnemic.agent_id');
    expired memories[] := array(select m from expired_since(agent, p_after, p_beyond, p_most) as m);
    ids     uuid[];
begin
    if cardinality(expired) = 0 then
        return;
    end if;
    perform open_operation(agent, p_op, p_actor, case when session_user = 'mnemic_admin' then 'admin' else 'agent' end,
                           'retention', null, p_run::text, '{}');
    ids := array(select m.id from unnest(expired) as e join memories m on m.agent_id = agent and m.id = e.id
                  where m.version = e.version order by m.id); -- unchanged since
    -- Insights drawn from them go too, and copies that were withdrawn because they expired.
    ids := ids || array(select m.id from memories m
                         where m.agent_id = agent and not m.protected and not m.pinned and m.state <> 'purged' and m.id <> all(ids)
                           and (m.id in (select drawn_from(agent, ids, '{}'))
                                or m.state = 'soft_deleted' and m.id in (select copies_of(agent, ids))));
    -- A message that another memory was formed from stays.
    perform erase_contents(agent, ids, array(
        select s.message_id from sources s where s.agent_id = agent and s.memory_id = any(ids)
           and not exists (select from sources o join memories m on m.agent_id = agent and m.id = o.memory_id
                            where o.agent_id = agent and o.message_id = s.message_id and m.state <> 'purged'
                              and o.memory_id <> all(ids))), p_op);
    perform close_operation(agent);
    return query select unnest(ids);
end $$;
