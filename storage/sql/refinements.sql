-- begin --
-- Store a refinement with the figures of its start.
insert into refinements (agent_id, id, scope_key, actor, target_tokens, tokens_before, memories_before)
values (%(agent_id)s, %(id)s, %(key)s, %(actor)s, %(target)s, %(tokens)s, %(memories)s);

-- add_progress --
-- Add turns, tokens and removed memories, and return the progress of the refinement.
update refinements set steps = steps + %(steps)s, model_tokens = model_tokens + %(tokens)s, removed = removed + %(removed)s
 where agent_id = %(agent_id)s and id = %(id)s and ended is null
returning steps, model_tokens, extract(epoch from clock_timestamp() - started_at)::float8, removed, memories_before;

-- read_ledger --
-- Return the context memories of the scope key, oldest first.
select id, version, kind, category, content, subject, subject_user_id, valid_from, utc_offset, tokens,
       importance::integer as importance, protected, pinned, private, coalesce(tags, '{}') as tags, scope_key,
       nullif(shown_author(provenance, said, actor_id), %(reader_id)s) as author, said
  from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and state = 'active' and kind = any(%(kinds)s)
 order by valid_from, id;

-- search_ledger --
-- Return context memories with one of the words, between two days, the best match first.
select m.id from memories m
 cross join lateral (
       select string_agg(quote_literal(lexeme)::tsquery::text, ' | ')::tsquery as words
         from unnest(tsvector_to_array(to_tsvector({text_search}, %(query)s))) as lexeme) as q
 where m.agent_id = %(agent_id)s and m.scope_key = any(%(scope_keys)s) and m.state = 'active' and m.kind = any(%(kinds)s)
   and (%(query)s = '' or to_tsvector({text_search}, m.subject || ' ' || m.content) @@ q.words)
   and (%(after)s::date is null or local_time(m.valid_from, m.utc_offset) >= %(after)s)
   and (%(before)s::date is null or local_time(m.valid_from, m.utc_offset) < %(before)s)
 order by ts_rank(to_tsvector({text_search}, m.subject || ' ' || m.content), q.words) desc nulls last, m.valid_from, m.created_at, m.id
 limit %(most)s;

-- duplicates --
-- Count, and with `remove` soft-delete, exact duplicates: the same text about the same person, apart from white space
-- and Unicode form. No model reads them. Raised, lowered, circled and fractional digits stay distinct: 10² is not 102.
-- The protected one is retained, then a core memory, then the most important, and gets a relation to the others.
with ranked as (
    select id, protected, row_number() over same as nth, first_value(id) over same as kept
      from memories
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and state = 'active' and is_mergeable(kind)
    window same as (partition by scope_key, subject_user_id, case when subject_user_id is null then subject end,
                                 category, private, regexp_replace(content, '[^\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209f\u2150-\u218f\u2460-\u24ff]', '', 'g'),
                                 btrim(regexp_replace(normalize(content, nfkc), '\s+', ' ', 'g'))
                        order by protected desc, kind = 'core' desc, pinned desc, importance desc, valid_from, id)
), extra as (
    select id, kept from ranked where nth > 1 and not protected
), gone as (
    update memories m set state = 'soft_deleted' from extra e
     where %(remove)s and m.agent_id = %(agent_id)s and m.id = e.id
    returning m.id, m.scope_key, e.kept
), related as (
    insert into relations (agent_id, from_id, to_id, relation_type, strength, scope_key, to_scope_key)
    select %(agent_id)s, kept, id, 'same_as', 1, scope_key, scope_key from gone
)
select count(*)::integer from extra;

-- close_merged --
-- Soft-delete merged memories, if they are unchanged since they were read.
update memories m set state = 'soft_deleted'
  from unnest(%(ids)s::uuid[], %(versions)s::integer[]) as g(id, version)
 where m.agent_id = %(agent_id)s and m.scope_key = any(%(scope_keys)s) and m.id = g.id and m.version = g.version
   and m.state = 'active' and is_mergeable(m.kind)
returning m.id;

-- insert_merged --
-- Store the merged memory. It is as old as the oldest part, as important, pinned and private as any part, and has all
-- their source messages.
with merged as (
    select * from memories where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = any(%(ids)s)
), stored as (
    insert into memories (agent_id, id, kind, scope_key, subject, subject_user_id, category, content, importance, pinned,
                          private, tags, provenance, valid_from, utc_offset, source_session_id, actor_id, role, said)
    select %(agent_id)s, %(id)s, 'core', min(scope_key), (array_agg(subject order by valid_from, id))[1],
           min(subject_user_id), %(category)s, %(content)s, max(importance), bool_or(pinned), bool_or(private),
           (select array_agg(distinct tag order by tag) from merged cross join unnest(tags) as tag), 'consolidated',
           least(min(valid_from), clock_timestamp()), (array_agg(utc_offset order by valid_from, id))[1],
           case when count(distinct coalesce(source_session_id, '')) = 1 then min(source_session_id) end,
           case when bool_or(said is not null) then min(actor_id) else %(actor_id)s end, %(role)s,
           -- Other users read a merged memory in the words of its one author.
           case when bool_or(said is not null) then %(content)s end
      from merged
    on conflict do nothing
    returning id, scope_key
), sourced as (
    insert into sources (agent_id, memory_id, message_id, scope_key)
    select %(agent_id)s, n.id, s.message_id, n.scope_key from stored n cross join source_messages(%(agent_id)s, %(ids)s) as s
), related as (
    insert into relations (agent_id, from_id, to_id, relation_type, strength, scope_key, to_scope_key)
    select %(agent_id)s, n.id, m.id, 'merged_from', 1, n.scope_key, m.scope_key from stored n cross join merged m
)
select id from stored;

-- count_outcomes --
-- Count the refinement's changes of memories by event.
select event, count(*)::integer from history
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and refinement_id = %(id)s
   and event in ({refinement_events})
 group by event;

-- finish --
-- Store the outcome of the refinement.
update refinements
   set ended = %(ended)s, ended_at = clock_timestamp(), tokens_after = %(tokens)s, memories_after = %(memories)s,
       duplicates = %(DEDUP)s, merged = %(MERGE)s, updated = %(UPDATE)s, deleted = %(DELETE)s,
       protected = %(PROTECT)s, journal_id = %(journal_id)s
 where agent_id = %(agent_id)s and id = %(id)s and ended is null;

-- list_refinements --
-- Return refinements of the visible scope keys, or all that the transaction sees, newest first.
select id, scope_key, started_at, actor, ended, ended_at,
       ended is null and exists (select from leases l
                                  where l.agent_id = r.agent_id and l.scope_key = r.scope_key and l.work = 'refinement'
                                    and l.holder is not null and l.until > clock_timestamp()) as is_held, steps,
       model_tokens, target_tokens, tokens_before, tokens_after, memories_before, memories_after, duplicates, merged,
       updated, deleted, protected, removed, journal_id
  from refinements r
 where agent_id = %(agent_id)s and (%(keys)s::text[] is null or scope_key = any(%(keys)s))
   and (%(id)s::uuid is null or id = %(id)s) and (ended is null or not %(is_running)s)
 order by started_at desc, id limit %(most)s;

-- set_vector --
-- Store the vector of a memory's new text.
update entries set model = %(model)s, vec = (%(vectors)b::halfvec[])[1]
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and item_id = %(memory_id)s and model = '';

-- read_originals --
-- Return the texts that memories had at the start of the refinement, with subject and date. For memories that the
-- refinement itself created, their parts count. Without ids, all memories that it changed.
with recursive part(id) as (
    select unnest(coalesce(%(ids)s::uuid[], array(
           select h.memory_id from history h
            where h.agent_id = %(agent_id)s and h.refinement_id = %(id)s and h.memory_id is not null)))
    union
    select r.to_id from part p
      join history h on h.agent_id = %(agent_id)s and h.memory_id = p.id and h.refinement_id = %(id)s and h.event = 'ADD'
      join relations r on r.agent_id = h.agent_id and r.from_id = p.id and r.relation_type = 'merged_from'
)
select coalesce(b.content, m.content) as content, m.subject, m.valid_from as since, m.utc_offset
  from part p join memories m on m.agent_id = %(agent_id)s and m.scope_key = any(%(scope_keys)s) and m.id = p.id
  left join lateral (
       select c.before ->> 'content' as content
         from history h join history_contents c on c.agent_id = h.agent_id and c.revision = h.revision
        where h.agent_id = %(agent_id)s and h.memory_id = p.id and h.refinement_id = %(id)s and h.event <> 'LINK'
        order by h.revision limit 1) as b on true
 where not exists (select from history h
                    where h.agent_id = %(agent_id)s and h.memory_id = p.id and h.refinement_id = %(id)s and h.event = 'ADD')
 order by p.id;
