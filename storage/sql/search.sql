-- search --
-- Return the candidates of a hybrid search over the visible scope keys, each with its scores, piece and relations.
-- Both branches read every visible entry and return their best candidates; memory/recall/scoring.py orders them.
-- Steps are combined by grouping and windows, and tables are looked up row by row. The plan serves every question and
-- knows no sizes, so that a join of two steps would be quadratic.
with question_word as materialized (
    select row_number() over () as nth, quote_literal(lexeme)::tsquery as query
      from unnest(tsvector_to_array(to_tsvector({text_search}, %(question)s))) as lexeme
), question as materialized (
    select (select string_agg(query::text, ' | ')::tsquery from question_word) as words,
           (select string_agg('(' || phraseto_tsquery({text_search}, phrase)::text || ')', ' & ')::tsquery
              from unnest(%(phrases)s::text[]) as phrase
             where numnode(phraseto_tsquery({text_search}, phrase)) > 0) as phrases
), visible as not materialized (
    select ctid as entry, item_id, piece, kind, category, model, vec, tsv from entries
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and searchable
       and kind = any(%(kinds)s) and category = any(%(categories)s)
/*filtered*/), filtered as materialized (
    select v.item_id from visible v
     cross join lateral (
           select m.run_id, m.actor_id, m.role, m.pinned, m.importance, m.updated_at,
                  m.scope_key = 'user:' || %(user_id)s or m.subject_user_id = %(user_id)s as is_of_user
             from memories m
            where v.kind <> 'message' and m.agent_id = %(agent_id)s and m.id = v.item_id
              and m.scope_key = any(%(scope_keys)s) and m.category = any(%(categories)s)
           union all
           select null, m.user_id, m.role, false, 2, m.said_at, m.user_id = %(user_id)s
             from messages m
            where v.kind = 'message' and m.agent_id = %(agent_id)s and m.id = v.item_id
              and m.scope_key = any(%(scope_keys)s)) as i
     where coalesce(%(of_agent)s::text, %(agent_id)s) = %(agent_id)s
       and (%(run_id)s::text is null or i.run_id = %(run_id)s) and (%(user_id)s::text is null or i.is_of_user)
       and (%(actor_id)s::text is null or i.actor_id = %(actor_id)s) and (%(role)s::text is null or i.role = %(role)s)
       and (%(pinned)s::boolean is null or i.pinned = %(pinned)s)
       and i.importance between %(importance_min)s and %(importance_max)s
       and (%(updated_after)s::timestamptz is null or i.updated_at >= %(updated_after)s)
       and (%(updated_before)s::timestamptz is null or i.updated_at < %(updated_before)s)/*end*/
), searched as not materialized (
    select * from visible
     where true/*bounded*/ and model = %(model)s and 1 - (vec <=> %(vector)b::halfvec) >= %(threshold)s/*end*/
       /*filtered*/and (item_id in (select item_id from filtered)) is true/*end*/
), meaning as materialized (
    -- The similarity of each entry; null while its vector is pending.
    select item_id, piece, kind, category,
           case when model = %(model)s then 1 - (vec <=> %(vector)b::halfvec) end as similarity
      from searched where model = any(array[%(model)s, ''])
), word_match as materialized (
    -- Each word of the question in each entry, with the number of entries that have it.
    select e.entry, e.item_id, e.piece, e.kind, e.category, ts_rank(e.tsv, w.query) as rank,
           count(*) over (partition by w.nth) as entries
      from (select s.entry, s.item_id, s.piece, s.kind, s.category, s.tsv from searched s, question q
             where s.tsv @@ q.words and (q.phrases is null or s.tsv @@ q.phrases) offset 0) as e, question_word w
     where e.tsv @@ w.query
), text_match as materialized (
    -- A word weighs more if fewer visible entries have it.
    select item_id, piece, kind, category,
           sum(rank * ln((greatest((select count(*) from meaning), entries) + 1) / (entries + 0.5::float8))) as text
      from word_match group by entry, item_id, piece, kind, category
), scored as materialized (
    -- The best items of either branch, with both scores.
    select item_id, min(kind) as kind, min(category) as category, max(text) as text, max(similarity) as similarity
      from (select item_id, kind, category, null::float8 as text, similarity,
                   %(w_meaning)s > 0 and similarity >= (
                       select min(similarity) from (select similarity from meaning where similarity is not null
                                                     order by similarity desc limit %(candidates)s) as best) as is_best
              from meaning
            union all
            select item_id, kind, category, text, null,
                   text >= (select min(text) from (select text from text_match
                                                    order by text desc limit %(candidates)s) as best)
              from text_match) as branch
     group by item_id
    having bool_or(is_best)
       and (max(text) is not null or not exists (select from question where phrases is not null))
), usual_similarity as materialized (
    -- For entries without a vector of this embedder: the average of the other entries with a word of the question.
    select avg(similarity) as value from scored where text is not null
), candidate as materialized (
    -- Everything that can become a result by later additions: messages and facts add to each other, and short
    -- categories free places.
    select *, %(w_text)s * coalesce(text / nullif((select max(text) from scored), 0), 0)
              + %(w_meaning)s * coalesce(greatest(coalesce(similarity, (select value from usual_similarity)), 0)
                                         / nullif((select max(similarity) from scored), 0), 0) as fused
      from scored order by fused desc, similarity desc nulls last, item_id
     limit case when exists (select from scored where kind = 'message' or category = any(%(short)s))
                then %(most)s::bigint else %(most_facts)s::bigint end
), piece_score as (
    select item_id, piece, %(w_text)s * text / nullif((select max(text) from scored), 0) as score from text_match
     where kind = 'message' and (item_id in (select item_id from candidate)) is true
     union all
    select item_id, piece, %(w_meaning)s * similarity / nullif((select max(similarity) from scored), 0) from meaning
     where kind = 'message' and (item_id in (select item_id from candidate)) is true
), best_piece as (
    -- Of a message in several pieces the best one; 0 needs no row.
    select item_id, piece
      from (select item_id, piece, row_number() over (partition by item_id order by sum(score) desc, piece) as nth
              from piece_score group by item_id, piece having sum(score) is not null) as ranked
     where nth = 1 and piece > 0
), placed as (
    -- The candidates with their best pieces.
    select item_id, max(kind) as kind, max(category) as category, max(text) as text, max(similarity) as similarity,
           max(fused) as fused, coalesce(max(piece), 0) as piece
      from (select item_id, kind, category, text, similarity, fused, null::smallint as piece from candidate
            union all
            select item_id, null, null, null, null, null, piece from best_piece) as part
     group by item_id
), relation as materialized (
    -- The relations of the candidates.
    select c.item_id, r.related_id, r.strength, c.fused
      from candidate c cross join lateral (
           select to_id as related_id, strength from relations
            where agent_id = %(agent_id)s and from_id = c.item_id and relation_type <> 'drawn_from'
              and scope_key = any(%(scope_keys)s) and to_scope_key = any(%(scope_keys)s)
           union all
           select from_id, strength from relations
            where agent_id = %(agent_id)s and to_id = c.item_id and relation_type <> 'drawn_from'
              and scope_key = any(%(scope_keys)s) and to_scope_key = any(%(scope_keys)s)) as r
), companion as (
    -- Items related to candidates, without being candidates.
    select r.related_id as item_id, e.kind, e.category
      from (select related_id, strength * fused as closeness from relation
             where related_id not in (select item_id from candidate) order by closeness desc, related_id) as r
           cross join lateral (select kind, category from searched where item_id = r.related_id limit 1) as e
     order by r.closeness desc, r.related_id limit %(companions)s
), result as (
    select c.item_id, c.kind, c.category, i.scope_key, i.subject, i.user_id, i.content, i.dated, i.importance,
           i.session_id, i.pinned, i.tags, i.state, i.created_at, i.updated_at, i.author, i.place, c.text, c.similarity,
           c.fused,
           case when c.kind not in ('message', 'insight') and exists (select from candidate where kind = 'message')
                then array(
                    select message_id from sources
                     where agent_id = %(agent_id)s and memory_id = c.item_id and scope_key = any(%(scope_keys)s))
           end as sources,
           case when c.kind = 'message' then '{}' else array(
               select id from memories
                where agent_id = %(agent_id)s and superseded_by = c.item_id and scope_key = any(%(scope_keys)s)
                order by valid_from, id) end as supersedes,
           i.role, i.said, c.piece, i.utc_offset
      from (select item_id, kind, category, text, similarity, fused, piece from placed
            union all
            select item_id, kind, category, null, null, null, 0 from companion) as c
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
)
select r.*, null::uuid as from_id, null::uuid as related_id, null::real as strength from result r
 union all
-- Relations follow as rows of their own, with nulls for the columns of a result: arrays cost 0.5 ms of 7.
select r.*, l.item_id, l.related_id, l.strength from relation l left join result r on false;

-- other_models --
-- Count the vectors of other embedders in the visible scope keys, which no search by meaning finds.
select model, count(*) as vectors from entries
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and searchable and model not in ('', %(model)s)
 group by model order by 2 desc, 1;
