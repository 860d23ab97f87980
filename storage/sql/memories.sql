-- insert --
-- Store memories with their entries, sources and relations, and return the stored ids. A memory with an active
-- duplicate in its scope key is not stored. Relations have no history of their own. Both ends must be active and
-- visible: the other one may have been closed since it was found.
with new_memory as (
    select * from rows from ( -- each vector next to its memory: a join by ids costs 0.5 ms for 100 memories
        unnest(%(vectors)b::halfvec[]),
        jsonb_to_recordset(%(memories)s)
            as (id uuid, kind text, scope_key text, subject text, subject_user_id text, category text, content text,
                search_text text, importance smallint, private boolean, tags text[], provenance text, valid_from timestamptz,
                utc_offset smallint, source_session_id text, source_message_ids uuid[], relations jsonb, actor_id text,
                said text, draft text)) as g(vec)
), stored as (
    insert into memories (agent_id, id, kind, scope_key, subject, subject_user_id, category, content, importance,
                          private, tags, provenance, valid_from, utc_offset, source_session_id, actor_id, role, run_id, said,
                          draft)
    select %(agent_id)s, id, kind, scope_key, subject, subject_user_id, category, content, importance, private,
           tags, provenance, valid_from, utc_offset, source_session_id, coalesce(actor_id, %(actor_id)s), %(role)s, %(run_id)s,
           said, draft
      from new_memory order by id
    on conflict do nothing
    returning id, scope_key, kind, category
), indexed as (
    insert into entries (agent_id, scope_key, item_id, kind, category, model, vec, tsv, searchable, embed_after)
    select %(agent_id)s, s.scope_key, s.id, s.kind, s.category,
           case when g.vec is null then '' else %(model)s end, g.vec, to_tsvector({text_search}, g.search_text),
           is_searchable(s.kind, 'active'), case when g.vec is null then embedding_due(0::smallint) end
      from stored s join new_memory g using (id) where s.kind in ({indexed_kinds})
), sourced as (
    insert into sources (agent_id, memory_id, message_id, scope_key)
    select %(agent_id)s, s.id, unnest(g.source_message_ids), s.scope_key from stored s join new_memory g using (id)
), related as (
    insert into relations (agent_id, from_id, to_id, relation_type, strength, scope_key, to_scope_key)
    select %(agent_id)s, s.id, r.to_id, r.relation_type, r.strength, s.scope_key, coalesce(other.scope_key, m.scope_key)
      from stored s join new_memory g using (id)
     cross join jsonb_to_recordset(g.relations) as r(to_id uuid, relation_type text, strength real)
      left join stored other on other.id = r.to_id
      left join lateral ( -- one look-up per row: a join would read all memories of the scope keys for many relations
           select scope_key from memories m
            where m.agent_id = %(agent_id)s and m.id = r.to_id and m.scope_key = any(%(scope_keys)s)
              and m.state in ({retained_states})
            limit 1) as m on true
     where coalesce(other.scope_key, m.scope_key) is not null and r.to_id <> s.id
    on conflict do nothing
)
select id from stored;

-- add_sources --
-- Add source messages that repeat existing memories. Each memory is looked up by its key, as in insert.
insert into sources (agent_id, memory_id, message_id, scope_key)
select %(agent_id)s, m.id, s.message_id, m.scope_key
  from unnest(%(memory_ids)s::uuid[], %(message_ids)s::uuid[]) as s(memory_id, message_id)
 cross join lateral (select id, scope_key from memories
                      where agent_id = %(agent_id)s and id = s.memory_id and scope_key = any(%(scope_keys)s)
                        and state <> 'purged' offset 0) as m
on conflict do nothing;

-- find_exact_duplicates --
-- Return the exact active duplicate of each of these memories, independent of the embedding model.
select g.id as new_id, m.id, m.version, m.protected from jsonb_to_recordset(%(memories)s)
       as g(id uuid, kind text, scope_key text, subject_user_id text, content text, draft text)
  join memories m on m.agent_id = %(agent_id)s and m.scope_key = any(%(scope_keys)s) and m.scope_key = g.scope_key
       and m.subject_user_id is not distinct from g.subject_user_id and m.kind = g.kind and m.state = 'active'
       and m.content_hash = md5(coalesce(g.draft, g.content))::uuid;

-- supersede --
-- Close facts that others replace, if they are unchanged since they were read. A fact that is only rephrased gets no
-- end.
update memories m
   set state = 'superseded', superseded_by = g.new_id,
       valid_until = case when g.valid_until is not null then greatest(m.valid_from, g.valid_until) end
  from unnest(%(old_ids)s::uuid[], %(versions)s::integer[], %(new_ids)s::uuid[], %(untils)s::timestamptz[])
       as g(old_id, version, new_id, valid_until)
 where m.agent_id = %(agent_id)s and m.id = g.old_id and m.version = g.version and m.state = 'active'
returning m.id;

-- absorb --
-- Absorb reflections into a consolidation.
update memories
   set state = 'absorbed', absorbed_at = clock_timestamp(), consolidated_into = %(consolidation_id)s
 where agent_id = %(agent_id)s and id = any(%(ids)s) and state = 'active'
returning id;

-- find_stale --
-- Return facts that no longer hold but share source messages with a waiting reflection, or with a text of a
-- consolidation that was not rewritten since. A fact that replaced or merged such a fact shares its sources too. A
-- shared scope key gets no private facts of one person. Repeated and rephrased facts still hold. Each row is looked up
-- by its key, as in insert. The order is fixed, so that equal data gives equal prompts: times within one operation
-- vary.
with recursive consolidation as materialized (
    -- Each consolidation with the time of its last writing; an undone writing used none of these facts.
    select c.id, c.scope_key, w.written
      from memories c
     cross join lateral (
           select coalesce(max(ts) filter (where reason = 'consolidation' and not is_undone), '-infinity') as written
             from (select ts, reason, bool_or(reason in ({rollback_reasons})) over (order by revision desc) as is_undone
                     from history
                    where agent_id = %(agent_id)s and memory_id = c.id and event <> 'LINK' offset 0) as h) as w
     where c.agent_id = %(agent_id)s and c.scope_key = any(%(keys)s) and c.state = 'active'
       and c.kind = 'consolidation' and not c.protected
), source_text as materialized (
    -- Waiting reflections, and the texts that went into a consolidation.
    select id, scope_key, coalesce(draft, content) as content, true as is_waiting, '-infinity'::timestamptz as written
      from memories
     where agent_id = %(agent_id)s and scope_key = any(%(keys)s) and state = 'active' and kind = 'reflection'
       and not protected
    union all
    select m.id, c.scope_key, m.content, false, c.written
      from consolidation c
     cross join lateral (
           select id, coalesce(draft, content) as content, protected from memories
            where agent_id = %(agent_id)s and consolidated_into = c.id
           union all
           select id, coalesce(draft, content), protected from memories
            where agent_id = %(agent_id)s and superseded_by = c.id offset 0) as m
     where not m.protected
), sharing(text_id, id) as (
    -- Memories with a source message of the text, and the memories that replaced or merged these.
    select t.id, o.memory_id
      from source_text t
     cross join lateral (select message_id from sources where agent_id = %(agent_id)s and memory_id = t.id offset 0) as s
     cross join lateral (select memory_id from sources
                          where agent_id = %(agent_id)s and message_id = s.message_id offset 0) as o
    union
    select s.text_id, n.id
      from sharing s
     cross join lateral (
           select superseded_by from memories where agent_id = %(agent_id)s and id = s.id and superseded_by is not null
           union all
           select from_id from relations where agent_id = %(agent_id)s and to_id = s.id
              and relation_type in ({merge_relations}) offset 0) as n(id)
)
select t.id as part_id, t.scope_key, t.content as part, t.is_waiting, f.id, coalesce(f.draft, f.content) as content,
       e.since, e.utc_offset,
       (select coalesce(n.draft, n.content) from memories n
         where n.agent_id = %(agent_id)s and n.id = f.superseded_by and n.scope_key = any(%(scope_keys)s)
           and n.state = 'active' and n.kind = 'fact'
           and (t.scope_key like 'user:%%' or n.scope_key = t.scope_key
                or n.scope_key = f.scope_key and n.category = f.category and n.private <= f.private)) as now
  from sharing s
  join source_text t on t.id = s.text_id
 cross join lateral (
       select * from memories where agent_id = %(agent_id)s and id = s.id and scope_key = any(%(scope_keys)s) offset 0) as f
 cross join lateral ( -- dated by the fact that closed it
       select coalesce(f.valid_until, f.updated_at) as since,
              coalesce((select n.utc_offset from memories n where n.agent_id = %(agent_id)s and n.id = f.superseded_by),
                       f.utc_offset) as utc_offset) as e
 where f.kind = 'fact' and (f.state = 'superseded' and f.valid_until is not null or f.state = 'soft_deleted')
   and f.updated_at > t.written
   and (f.scope_key = t.scope_key or is_personal(t.scope_key)
        or f.scope_key not like 'group:%%' and not f.private and f.category <> all(%(personal)s))
   and not exists (select from relations r where r.agent_id = %(agent_id)s and r.to_id = f.id
                      and r.relation_type in ({merge_relations}))
   and not exists (select from memories n where n.agent_id = %(agent_id)s and n.scope_key = f.scope_key
                      and n.kind = 'fact' and n.state = 'active' and n.content_hash = f.content_hash)
 order by local_time(e.since, e.utc_offset)::date, coalesce(f.draft, f.content) collate "C", t.id;

-- close_parts --
-- Close texts that rested on such facts, now replaced by the new consolidation, and take them out of the search.
update memories
   set state = 'superseded', superseded_by = %(consolidation_id)s, consolidated_into = null,
       valid_until = greatest(valid_from, clock_timestamp())
 where agent_id = %(agent_id)s and id = any(%(ids)s) and state in ({retained_states});

-- forget_derived --
-- Delete waiting reflections that rest on the source messages of this fact alone, if no other active fact shares these
-- messages.
update memories m set state = 'soft_deleted'
  from memories gone
 where gone.agent_id = %(agent_id)s and gone.id = %(id)s and gone.kind = 'fact'
   and m.agent_id = %(agent_id)s and m.scope_key = any(%(scope_keys)s) and m.state = 'active' and m.kind = 'reflection'
   and not m.protected and (m.scope_key = gone.scope_key or m.scope_key like 'session:%%')
   and exists (select from sources s where s.agent_id = %(agent_id)s and s.memory_id = m.id)
   and not exists (
       select from sources s where s.agent_id = %(agent_id)s and s.memory_id = m.id and (
              s.message_id not in (select message_id from source_messages(%(agent_id)s, array[gone.id]))
              or exists (select from sources o join memories f on f.agent_id = o.agent_id and f.id = o.memory_id
                          where o.agent_id = %(agent_id)s and o.message_id = s.message_id and f.id <> gone.id
                            and f.kind = 'fact' and f.state = 'active')));

-- rewrite --
-- Rewrite a context memory if its version is unchanged; its entries follow by trigger.
update memories set content = %(content)s, draft = %(draft)s
 where agent_id = %(agent_id)s and id = %(id)s and version = %(version)s and state = 'active' and kind = any(%(kinds)s)
returning id;

-- read_drafts --
-- Return the drafts of these memories, if readers get other words.
select id, draft from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = any(%(ids)s) and draft is not null;

-- read_absorbed --
-- Return the texts that a consolidation absorbed and still holds, oldest first.
select {memory} from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and consolidated_into = %(id)s and state = 'absorbed'
 order by valid_from, id;

-- find --
-- Return a memory by its id in any state.
select {memory} from memories where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = %(id)s;

-- update --
-- Change the attributes of a memory, not its content; null leaves a value unchanged.
update memories
   set pinned = coalesce(%(pinned)s::boolean, pinned), tags = coalesce(%(tags)s::text[], tags),
       importance = coalesce(%(importance)s::smallint, importance),
       valid_until = case when %(valid_until)s::timestamptz is null then valid_until
                          else greatest(valid_from, %(valid_until)s::timestamptz) end
 where agent_id = %(agent_id)s and id = %(id)s and version = %(version)s
returning id;

-- make_private --
-- Mark an active memory as private. Protected memories stay unchanged.
update memories set private = true
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = %(id)s and state = 'active'
   and not private and not protected;

-- allow_categories --
-- Set the allowlist of the transaction's role; an empty one lifts it.
select set_config('mnemic.categories', %(categories)s, true);

-- forget --
-- Soft-delete a memory if its version is unchanged; its entries follow by trigger. A source message leaves the search
-- unless another active memory was formed from it: else the deleted text would be found in its source. Restoring the
-- memory must restore these messages.
with gone as (
    update memories set state = 'soft_deleted', consolidated_into = null
     where agent_id = %(agent_id)s and id = %(id)s and version = %(version)s and state in ({retained_states})
    returning id
), unsaid as (
    update entries e set searchable = false
      from gone cross join source_messages(%(agent_id)s, array[gone.id]) as s
     where e.agent_id = %(agent_id)s and e.item_id = s.message_id
       and not is_source_in_use(%(agent_id)s, s.message_id, array[gone.id])
)
select id from gone;

-- list_memories --
-- Return active memories of the visible scope keys and the given kinds, newest first.
select {memory} from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and kind = any(%(kinds)s)
   and (state = 'active' or %(with_closed)s)
 order by valid_from desc, id limit %(most)s;

-- read_context --
-- Return the context memories, oldest first, with the agent's overrides; without memories, one row. Facts are limited
-- to the categories that are always in context, the most important and newest ones first. The part `words` counts the
-- searchable entries with each word of the turn, without those facts: -1 for a function word of the turn's language.
/*words*/with language as materialized (
    -- The language with the most function words in the turn.
    select dictionary from unnest(array[{dictionaries}]::regdictionary[]) with ordinality as d(dictionary, nth)
     order by (select count(*) from unnest(%(turn)s::text[]) as word where ts_lexize(dictionary, word) = '{}') desc, nth
     limit 1
), word as materialized (
    -- Entries are indexed in one language. The beginning that a word has in all its forms finds it in another one.
    select w.nth, nullif(concat_ws(' | ', (
               select '(' || string_agg(quote_literal(lexeme), ' & ') || ')'
                 from unnest(tsvector_to_array(to_tsvector({text_search}, w.word))) as lexeme),
               case when dictionary <> {dictionary}::regdictionary and length(l.lexemes[1]) >= greatest(4, length(w.word) - 2)
                    then quote_literal(left(w.word, length(l.lexemes[1]))) || ':*' end), '')::tsquery as query
      from language cross join unnest(%(words)s::text[]) with ordinality as w(word, nth)
     cross join lateral (select ts_lexize(dictionary, w.word) as lexemes) as l
     where l.lexemes <> '{}'
), candidate as not materialized (
    select ctid, tsv from entries
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and searchable
       and kind = any(%(searched)s) and category <> all(%(always)s)
), word_match as materialized (
    -- Each word in each entry, with the number of entries that have it.
    select e.entry, w.nth, count(*) over (partition by w.nth) as entries
      from (select ctid as entry, tsv from candidate
             where tsv @@ (select string_agg('(' || query::text || ')', ' | ')::tsquery from word) offset 0) as e
      join word w on e.tsv @@ w.query
), rare as materialized (
    -- The rare words of each entry as bits.
    select distinct bit_or(1::bigint << (nth - 1)::integer) as bits
      from word_match
     where entries <= (select greatest(%(min_rare)s, least(%(max_rare)s, count(*) * %(rare_share)s)) from candidate)
     group by entry
)/*end*/
select a.settings as overrides,/*words*/
       (select dictionary = {dictionary}::regdictionary from language) as is_indexed_language,
       (select array_agg(case when w.nth is null then -1 else coalesce(c.entries, 0) end order by t.nth)
          from unnest(%(words)s::text[]) with ordinality as t(word, nth)
          left join word w on w.nth = t.nth
          left join (select nth, max(entries) as entries from word_match group by nth) as c on c.nth = t.nth
       ) as entries_by_word,
       (select array_agg(bits) from rare) as rare,/*end*/
       case when %(as_drafted)s then m.draft end as draft, m.{memory}
  from agents a
  left join lateral (
       (select * from memories
         where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and state = 'active' and kind = any(%(kinds)s))
       union all
       (select * from memories
         where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and state = 'active' and kind = 'fact'
           and category = any(%(always)s)
         order by importance desc, valid_from desc, id limit %(most)s)) as m on true
 where a.agent_id = %(agent_id)s
 order by m.valid_from, m.id;

-- similar --
-- Return for each new fact the similar active facts, with one index-only scan each. The part `more` adds facts with
-- common words and facts about the same subject or user, in other words or another language.
with /*more*/text_entry as materialized (
    -- Each scope key is looked up by the index: a plan made for a small table would read all of it.
    select e.* from unnest(%(scope_keys)s::text[]) as k(scope_key) cross join lateral (
           select item_id, scope_key, tsv from entries
            where agent_id = %(agent_id)s and scope_key = k.scope_key and searchable and kind = 'fact' offset 0) as e
), active_fact as materialized (
    select id, scope_key, lower(subject) as subject, subject_user_id, category, importance, valid_from from memories
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and state = 'active' and kind = 'fact'
), /*end*/new_fact as (
    select n.*/*more*/, (select string_agg(quote_literal(lexeme), ' | ')::tsquery from unnest(tsvector_to_array(ts_delete(
               to_tsvector({text_search}, content), tsvector_to_array(to_tsvector({text_search}, subject))))) as lexeme) as words/*end*/
      from rows from (unnest(%(vectors)b::halfvec[]), jsonb_to_recordset(%(facts)s)
           as (scope_keys text[], subject text, user_id text, category text, content text)) with ordinality
           as n(vec, scope_keys, subject, user_id, category, content, place)
)
select (n.place - 1)::integer as place, m.id, m.version, m.scope_key, m.subject, m.subject_user_id, m.category,
       /*more*/coalesce(m.draft, /*end*/m.content/*more*/) as content/*end*/, m.valid_from as dated, m.utc_offset, m.protected, m.private, m.importance::integer,
       nullif(shown_author(m.provenance, m.said, m.actor_id), %(reader_id)s) as author,
       m.said,
       coalesce(1 - e.distance, 0) as similarity
  from new_fact n
 cross join lateral (
       -- Each ranking counts by itself; their scores are added.
       select item_id, min(distance) as distance, sum(score) as score from (
           select item_id, distance, 1.0 / (5 + row_number() over (order by distance)) as score from (
                  select item_id, vec <=> n.vec as distance from entries
                   where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and scope_key = any(n.scope_keys)
                     and model = %(model)s and searchable and kind = 'fact' and n.vec is not null
                   order by distance limit 5 * %(most)s) as nearest/*more*/
           union all
           select item_id, null, 1.0 / (5 + rank() over (order by ts_rank(tsv, n.words) desc))
             from text_entry where scope_key = any(n.scope_keys) and tsv @@ n.words
           union all
           select id, null, case when category = n.category then 0.25 else 0.125 end / (1 + row_number() over (
                  partition by category = n.category
                  order by subject = lower(n.subject) desc, importance desc, valid_from desc, id))
             from active_fact where scope_key = any(n.scope_keys) and (subject = lower(n.subject) or subject_user_id = n.user_id)/*end*/
           ) as ranking group by item_id order by score desc, distance, item_id limit %(most)s) as e
 cross join lateral (
       select * from memories where agent_id = %(agent_id)s and id = e.item_id offset 0) as m
 order by n.place, e.score desc, e.distance, m.id;

-- count_unabsorbed --
-- Count the waiting reflections of each scope key, without protected ones, and return its overrides of consolidations.
-- Scope keys with neither have no row.
select scope_key, coalesce(w.waiting, 0) as waiting, coalesce(s.is_active, true) as is_active, s.threshold
  from (select scope_key, count(*) as waiting from memories
         where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and state = 'active' and kind = 'reflection'
           and not protected
         group by scope_key) as w
  full join (select scope_key, is_active, threshold from scopes
              where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s)) as s using (scope_key);

-- count_uses --
-- Add one use to each of these visible memories. Rows are locked in the order of ids, so that two transactions never
-- deadlock.
insert into memory_use as u (agent_id, memory_id, scope_key, access_count, last_accessed_at)
select agent_id, id, scope_key, 1, clock_timestamp() from memories
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and id = any(%(ids)s)
 order by id
on conflict (agent_id, memory_id) do update
   set access_count = u.access_count + 1, last_accessed_at = greatest(u.last_accessed_at, excluded.last_accessed_at);
