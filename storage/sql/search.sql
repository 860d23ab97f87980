-- search --
-- Hybrid search over the visible scope keys in one statement. Both branches look through every visible entry: each gives its
-- best candidates, and each candidate has both scores. What is added to a score and in which order they come is up to
-- memory/recall/scoring.py; what no addition can lift among the results is left out before anything is looked up.
-- Common table expressions are brought together by grouping and windows, and tables looked up row by row: a join of two of
-- them is quadratic under the one plan that serves every question, for that knows no sizes.
with word as materialized (
    select row_number() over () as nth, quote_literal(lexeme)::tsquery as query
      from unnest(tsvector_to_array(to_tsvector({text_search}, %(question)s))) as lexeme
), question as materialized (
    select (select string_agg(query::text, ' | ')::tsquery from word) as words,
           (select string_agg('(' || phraseto_tsquery({text_search}, phrase)::text || ')', ' & ')::tsquery
              from unnest(%(phrases)s::text[]) as phrase where numnode(phraseto_tsquery({text_search}, phrase)) > 0) as phrases
/*filtered*/), fitting as materialized (
    -- what the filters leave; nobody asks for it where there are none
    select e.item_id from entries e
     cross join lateral (
           select m.run_id, m.actor_id, m.role, m.pinned, m.importance, m.updated_at as dated,
                  m.scope_key = 'user:' || %(user_id)s or m.subject_user_id = %(user_id)s as is_theirs
             from memories m
            where e.kind <> 'message' and m.agent_id = %(agent_id)s and m.id = e.item_id
              and m.scope_key = any(%(scope_keys)s) and m.category = any(%(categories)s)
           union all
           select null, m.user_id, m.role, false, 2, m.said_at, m.user_id = %(user_id)s
             from messages m
            where e.kind = 'message' and m.agent_id = %(agent_id)s and m.id = e.item_id
              and m.scope_key = any(%(scope_keys)s)) as i
     where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s) and e.searchable
       and e.kind = any(%(kinds)s) and e.category = any(%(categories)s)
       and coalesce(%(of_agent)s::text, %(agent_id)s) = %(agent_id)s
       and (%(run_id)s::text is null or i.run_id = %(run_id)s) and (%(user_id)s::text is null or i.is_theirs)
       and (%(actor_id)s::text is null or i.actor_id = %(actor_id)s) and (%(role)s::text is null or i.role = %(role)s)
       and (%(pinned)s::boolean is null or i.pinned = %(pinned)s)
       and i.importance between %(importance_min)s and %(importance_max)s
       and (%(updated_after)s::timestamptz is null or i.dated >= %(updated_after)s)
       and (%(updated_before)s::timestamptz is null or i.dated < %(updated_before)s)/*end*/
), seen as materialized (
    select item_id, piece, kind, category, case when model = %(model)s then 1 - (vec <=> %(vector)b::halfvec) end as similarity
      from entries
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = any(array[%(model)s, '']) and searchable
       and kind = any(%(kinds)s) and category = any(%(categories)s)
       /*bounded*/and model = %(model)s and 1 - (vec <=> %(vector)b::halfvec) >= %(threshold)s/*end*/
       /*filtered*/and (item_id in (select item_id from fitting)) is true/*end*/
), hit as materialized (
    -- each word of the question in each entry that has it, and in how many it is
    select e.entry, e.item_id, e.piece, e.kind, e.category, ts_rank(e.tsv, w.query) as rank,
           count(*) over (partition by w.nth) as entries
      from (select e.ctid as entry, e.item_id, e.piece, e.kind, e.category, e.tsv from entries e, question q
             where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s) and e.searchable
               and e.kind = any(%(kinds)s) and e.category = any(%(categories)s)
               and e.tsv @@ q.words and (q.phrases is null or e.tsv @@ q.phrases)
               /*bounded*/and e.model = %(model)s and 1 - (e.vec <=> %(vector)b::halfvec) >= %(threshold)s/*end*/
               /*filtered*/and (e.item_id in (select item_id from fitting)) is true/*end*/ offset 0) as e, word w
     where e.tsv @@ w.query
), told as materialized (
    -- a word counts for the more, the fewer of the visible entries have it
    select item_id, piece, kind, category,
           sum(rank * ln((greatest((select count(*) from seen), entries) + 1) / (entries + 0.5::float8))) as text
      from hit group by entry, item_id, piece, kind, category
), scored as materialized (
    select item_id, min(kind) as kind, min(category) as category, max(text) as text, max(similarity) as similarity
      from (select item_id, kind, category, null::float8 as text, similarity,
                   %(w_meaning)s > 0 and similarity >= (
                       select min(similarity) from (select similarity from seen where similarity is not null
                                                     order by similarity desc limit %(candidates)s) as best) as best
              from seen
            union all
            select item_id, kind, category, text, null,
                   text >= (select min(text) from (select text from told order by text desc limit %(candidates)s) as best)
              from told) as either
     group by item_id
    having bool_or(best) and (max(text) is not null or not exists (select from question where phrases is not null))
), unknown as materialized (
    -- of an entry that waits for its vector, or has another embedder's: as similar as others that have a word of the question
    select avg(similarity) as likely from scored where text is not null
), near as materialized (
    -- what may be among the results whatever is added; messages and facts add to each other, and short categories give up places
    select *, %(w_text)s * coalesce(text / nullif((select max(text) from scored), 0), 0)
              + %(w_meaning)s * coalesce(greatest(coalesce(similarity, (select likely from unknown)), 0)
                                         / nullif((select max(similarity) from scored), 0), 0) as fused
      from scored order by fused desc, similarity desc nulls last, item_id
     limit case when exists (select from scored where kind = 'message' or category = any(%(short)s))
                then %(most)s::bigint else %(most_facts)s::bigint end
), passage as (
    -- of a message in several pieces the one that fits best; the first piece needs no row
    select item_id, piece
      from (select item_id, piece, row_number() over (partition by item_id order by sum(fit) desc, piece) as nth
              from (select item_id, piece, %(w_text)s * text / nullif((select max(text) from scored), 0) as fit from told
                     where kind = 'message' and (item_id in (select item_id from near)) is true
                     union all
                    select item_id, piece, %(w_meaning)s * similarity / nullif((select max(similarity) from scored), 0) from seen
                     where kind = 'message' and (item_id in (select item_id from near)) is true) as either
             group by item_id, piece having sum(fit) is not null) as best
     where nth = 1 and piece > 0
), link as materialized (
    select n.item_id, l.other, l.strength, n.fused from near n cross join lateral (
               select to_id as other, strength from relations
                where agent_id = %(agent_id)s and from_id = n.item_id and relation_type <> 'drawn_from'
                  and scope_key = any(%(scope_keys)s) and to_scope_key = any(%(scope_keys)s)
               union all
               select from_id, strength from relations
                where agent_id = %(agent_id)s and to_id = n.item_id and relation_type <> 'drawn_from'
                  and scope_key = any(%(scope_keys)s) and to_scope_key = any(%(scope_keys)s)) as l
), companion as (
    -- what candidates are related to and is none itself
    select l.other as item_id, e.kind, e.category
      from (select other, strength * fused as closeness from link
             where other not in (select item_id from near) order by closeness desc, other) as l
           cross join lateral (
               select kind, category from entries e
                where e.agent_id = %(agent_id)s and e.item_id = l.other and e.scope_key = any(%(scope_keys)s)
                  and e.searchable and e.kind = any(%(kinds)s) and e.category = any(%(categories)s)
                  /*bounded*/and e.model = %(model)s and 1 - (e.vec <=> %(vector)b::halfvec) >= %(threshold)s/*end*/
                  /*filtered*/and (e.item_id in (select item_id from fitting)) is true/*end*/ limit 1) as e
     order by l.closeness desc, l.other limit %(companions)s
)
select c.item_id, c.kind, c.category, i.scope_key, i.subject, i.user_id, i.content, i.dated, i.importance, i.session_id,
       i.pinned, i.tags, i.state, i.created_at, i.updated_at, i.author, i.place, c.text, c.similarity, c.fused,
       case when c.kind not in ('message', 'insight') and exists (select from near where kind = 'message') then array(
           select message_id from sources
            where agent_id = %(agent_id)s and memory_id = c.item_id and scope_key = any(%(scope_keys)s)) end as sources,
       case when c.kind = 'message' then '{}' else array(
           select id from memories
            where agent_id = %(agent_id)s and superseded_by = c.item_id and scope_key = any(%(scope_keys)s)
            order by valid_from, id) end as supersedes,
       i.role, i.said, i.utc_offset, null::uuid as other, null::real as strength, null::smallint as piece
  from (select item_id, kind, category, text, similarity, fused from near
        union all
        select item_id, kind, category, null, null, null from companion) as c
       cross join lateral (
           select m.scope_key, m.subject, m.subject_user_id as user_id, m.content, m.valid_from as dated,
                  m.importance::integer as importance,
                  case when is_personal(m.scope_key) or m.actor_id = %(reader_id)s
                       then m.source_session_id end as session_id, m.pinned,
                  coalesce(m.tags, '{}') as tags, m.state, m.created_at, m.updated_at,
                  shown_author(m.provenance, m.said, m.actor_id) as author, null::bigint as place,
                  null as role, m.utc_offset, m.said
             from memories m
            where c.kind <> 'message' and m.agent_id = %(agent_id)s and m.id = c.item_id
              and m.scope_key = any(%(scope_keys)s) and m.category = any(%(categories)s)
           union all
           select m.scope_key, m.author, m.user_id, m.content, m.said_at, 2, m.session_id,
                  false, '{}', 'active', m.said_at, m.said_at, null, m.place,
                  m.role, m.utc_offset, null
             from messages m
            where c.kind = 'message' and m.agent_id = %(agent_id)s and m.id = c.item_id
              and m.scope_key = any(%(scope_keys)s) and m.content is not null) as i
 union all
select item_id, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null, null, null, other, strength, null from link
 union all
select item_id, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null, null, null, null, null, piece from passage;

-- other_models --
-- How many vectors of the visible scope keys other embedders made: no search by meaning finds them.
select model, count(*) as vectors from entries
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and searchable and model not in ('', %(model)s)
 group by model order by 2 desc, 1;
