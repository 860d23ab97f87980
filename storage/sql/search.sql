-- search --
-- Hybrid search over the visible scope keys in one statement: each branch gives its best candidates, every candidate gets
-- both scores, the scores are fused, a fact counts for at least as much as its visible source messages.
with question as materialized (
    select case when %(question)s = '' then null::tsquery else (
               select string_agg(quote_literal(word), ' | ')::tsquery
                 from unnest(tsvector_to_array(to_tsvector('english', %(question)s))) as word) end as words,
           (select string_agg('(' || phraseto_tsquery('english', phrase)::text || ')', ' & ')::tsquery
              from unnest(%(phrases)s::text[]) as phrase where numnode(phraseto_tsquery('english', phrase)) > 0) as phrases
), semantic as (
    select item_id from entries
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = %(model)s and living
       and kind = any(%(kinds)s) and %(vector)b::halfvec is not null
     order by vec <=> %(vector)b::halfvec limit %(candidates)s
), textual as (
    select e.item_id from entries e, question q
     where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s) and e.living and e.kind = any(%(kinds)s)
       and e.tsv @@ q.words and (q.phrases is null or e.tsv @@ q.phrases)
     order by ts_rank(e.tsv, q.words) desc limit %(candidates)s
), candidates as (
    select item_id from semantic where not exists (select from question where phrases is not null)
    union select item_id from textual
), scored as (
    select e.item_id, min(e.kind) as kind, min(e.scope_key) as scope_key,
           max(ts_rank(e.tsv, q.words)) as text_score,
           max(case when e.model = %(model)s then 1 - (e.vec <=> %(vector)b::halfvec) end) as similarity
      from candidates c join entries e on e.agent_id = %(agent_id)s and e.item_id = c.item_id, question q
     where e.scope_key = any(%(scope_keys)s) and e.living
     group by e.item_id
), ranked as (
    select *, row_number() over (order by text_score desc nulls last, item_id) as text_rank,
           row_number() over (order by similarity desc nulls last, item_id) as semantic_rank
      from scored
), fused as (
    select item_id, kind, scope_key, text_score, similarity, case %(fusion)s
             when 'rrf' then coalesce(case when text_score > 0 then 1.0 / (%(rrf_k)s + text_rank) end, 0)
                           + coalesce(case when similarity is not null then 1.0 / (%(rrf_k)s + semantic_rank) end, 0)
             else 0.4 * coalesce(text_score / nullif(max(text_score) over (), 0), 0)
                + 0.6 * coalesce(greatest(similarity, 0) / nullif(max(similarity) over (), 0), 0) end as score
      from ranked
), lifted as (
    select f.item_id, f.kind, f.scope_key, f.text_score, f.similarity, greatest(f.score, max(m.score)) as score
      from fused f
      left join sources s on s.agent_id = %(agent_id)s and s.memory_id = f.item_id
      left join fused m on m.item_id = s.message_id
     group by f.item_id, f.kind, f.scope_key, f.text_score, f.similarity, f.score
     order by 6 desc, f.item_id limit %(most)s
)
select l.item_id, l.kind, l.scope_key, coalesce(m.category, 'message') as category, coalesce(m.subject, s.author) as subject,
       coalesce(m.content, s.content) as content, coalesce(m.valid_from, s.said_at) as dated,
       coalesce(m.importance, 2)::integer as importance, l.text_score::float8 as text_score, l.similarity,
       l.score::float8 as score, coalesce(m.source_session_id, s.session_id) as session_id
  from lifted l
  left join memories m on l.kind <> 'message' and m.agent_id = %(agent_id)s and m.id = l.item_id
  left join messages s on l.kind = 'message' and s.agent_id = %(agent_id)s and s.id = l.item_id
 where coalesce(m.content, s.content) is not null
 order by l.score desc, l.item_id;
