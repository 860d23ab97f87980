-- search --
-- Hybrid search over the visible scope keys in one statement. Both branches look through every visible entry: each gives its
-- best candidates, and each candidate has both scores. What is added to a score is a number of policy/ranking.py (w_name).
-- Common table expressions are brought together by grouping and windows, and tables looked up row by row: a join of two of
-- them is quadratic under the one plan that serves every question, for that knows no sizes.
with word as materialized (
    select row_number() over () as nth, quote_literal(lexeme)::tsquery as query
      from unnest(tsvector_to_array(to_tsvector('english', %(question)s))) as lexeme
), question as materialized (
    select (select string_agg(query::text, ' | ')::tsquery from word) as words,
           (select string_agg('(' || phraseto_tsquery('english', phrase)::text || ')', ' & ')::tsquery
              from unnest(%(phrases)s::text[]) as phrase where numnode(phraseto_tsquery('english', phrase)) > 0) as phrases
), fitting as materialized (
    -- what the filters leave; nobody asks for it where there are none
    select e.item_id from entries e
     where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s) and e.living
       and e.kind = any(%(kinds)s) and e.category = any(%(categories)s)
       and coalesce(%(of_agent)s::text, %(agent_id)s) = %(agent_id)s and case when e.kind = 'message' then (
               select %(run_id)s::text is null
                      and (%(user_id)s::text is null or m.user_id = %(user_id)s)
                      and (%(actor_id)s::text is null or m.user_id = %(actor_id)s)
                      and (%(role)s::text is null or m.role = %(role)s)
                      and not coalesce(%(pinned)s::boolean, false)
                      and 2 between %(importance_min)s and %(importance_max)s
                      and (%(updated_after)s::timestamptz is null or m.said_at >= %(updated_after)s)
                      and (%(updated_before)s::timestamptz is null or m.said_at < %(updated_before)s)
                 from messages m where m.agent_id = %(agent_id)s and m.id = e.item_id and m.scope_key = any(%(scope_keys)s))
           else (
               select (%(run_id)s::text is null or m.run_id = %(run_id)s)
                      and (%(user_id)s::text is null or m.scope_key = 'user:' || %(user_id)s
                           or m.subject_user_id = %(user_id)s)
                      and (%(actor_id)s::text is null or m.actor_id = %(actor_id)s)
                      and (%(role)s::text is null or m.role = %(role)s)
                      and (%(pinned)s::boolean is null or m.pinned = %(pinned)s)
                      and m.importance between %(importance_min)s and %(importance_max)s
                      and (%(updated_after)s::timestamptz is null or m.updated_at >= %(updated_after)s)
                      and (%(updated_before)s::timestamptz is null or m.updated_at < %(updated_before)s)
                 from memories m
                where m.agent_id = %(agent_id)s and m.id = e.item_id
                  and m.scope_key = any(%(scope_keys)s) and m.category = any(%(categories)s)) end
), seen as materialized (
    select item_id, kind, category, case when model = %(model)s then 1 - (vec <=> %(vector)b::halfvec) end as similarity
      from entries
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = any(array[%(model)s, '']) and living
       and kind = any(%(kinds)s) and category = any(%(categories)s)
       and (%(threshold)s::float8 is null or (model = %(model)s and 1 - (vec <=> %(vector)b::halfvec) >= %(threshold)s))
       and (not %(filtered)s or item_id in (select item_id from fitting))
), hit as materialized (
    -- each word of the question in each entry that has it
    select e.entry, e.item_id, e.kind, e.category, w.nth, ts_rank(e.tsv, w.query) as rank
      from (select e.ctid as entry, e.item_id, e.kind, e.category, e.tsv from entries e, question q
             where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s) and e.living
               and e.kind = any(%(kinds)s) and e.category = any(%(categories)s)
               and e.tsv @@ q.words and (q.phrases is null or e.tsv @@ q.phrases)
               and (%(threshold)s::float8 is null
                    or (e.model = %(model)s and 1 - (e.vec <=> %(vector)b::halfvec) >= %(threshold)s))
               and (not %(filtered)s or e.item_id in (select item_id from fitting)) offset 0) as e, word w
     where e.tsv @@ w.query
), rarity as materialized (
    -- a word counts for the more, the fewer of the visible entries have it
    select array_agg(ln((greatest(s.entries, h.entries) + 1) / (h.entries + 0.5::float8)) order by h.nth) as weights
      from (select w.nth, count(hit.nth) as entries from word w left join hit on hit.nth = w.nth group by w.nth) as h,
           (select count(*) as entries from seen) as s
), told as materialized (
    select item_id, kind, category, sum(rank * ((select weights from rarity))[nth]) as text
      from hit group by entry, item_id, kind, category
), scored as materialized (
    select item_id, kind, category, max(text) as text, max(similarity) as similarity
      from (select item_id, kind, category, null::float8 as text, similarity,
                   %(w_meaning)s > 0 and similarity >= (
                       select min(similarity) from (select similarity from seen where similarity is not null
                                                     order by similarity desc limit %(candidates)s) as best) as best
              from seen
            union all
            select item_id, kind, category, text, null,
                   text >= (select min(text) from (select text from told order by text desc limit %(candidates)s) as best)
              from told) as either
     group by item_id, kind, category
    having bool_or(best) and (max(text) is not null or not exists (select from question where phrases is not null))
), fused as materialized (
    select *, %(w_text)s * coalesce(text / nullif((select max(text) from scored), 0), 0)
              + %(w_meaning)s * coalesce(greatest(similarity, 0) / nullif((select max(similarity) from scored), 0), 0) as fused
      from scored where %(fusion)s = 'weighted'
    union all
    select item_id, kind, category, text, similarity, (%(rrf_k)s + 1) * (
               %(w_text)s * case when text > 0 then 1 / (%(rrf_k)s + text_rank)::float8 else 0 end
               + %(w_meaning)s * case when similarity is not null then 1 / (%(rrf_k)s + meaning_rank)::float8 else 0 end)
      from (select *, row_number() over (order by text desc nulls last, item_id) as text_rank,
                   row_number() over (order by similarity desc nulls last, item_id) as meaning_rank
              from scored where %(fusion)s = 'rrf') as ranked
), own as materialized (
    select *, fused + insight + named + important as own
      from (select f.*, null as session_id, null::bigint as place, false as is_long,
                   case f.kind when 'insight' then (%(w_insight)s - 1) * f.fused else 0 end as insight,
                   case when string_to_array(lower(m.subject), ' ') && %(named)s or m.subject_user_id = %(self)s
                        then %(w_named)s else 0 end as named, %(w_importance)s * (m.importance - 2) as important
              from fused f join memories m on m.agent_id = %(agent_id)s and m.id = f.item_id
                   and m.scope_key = any(%(scope_keys)s) and m.category = any(%(categories)s)
             where f.kind <> 'message'
            union all
            select f.*, m.session_id, m.place, octet_length(m.content) > %(long_bytes)s, 0,
                   case when string_to_array(lower(m.author), ' ') && %(named)s or m.user_id = %(self)s
                        then %(w_named)s else 0 end, 0
              from fused f join messages m on m.agent_id = %(agent_id)s and m.id = f.item_id
                   and m.scope_key = any(%(scope_keys)s) and m.content is not null
             where f.kind = 'message') as described
), said as materialized (
    -- messages beside others that fit, in sessions that fit
    select *, sum(own) filter (where nth <= 3) over (partition by session_id) / 3 as session
      from (select *, max(own) over (partition by session_id order by place
                                     range between 1 preceding and 1 following exclude current row) as neighbour,
                   row_number() over (partition by session_id order by own desc) as nth
              from own where kind = 'message') as placed
), formed as materialized (
    -- facts and the messages among them that they were formed from
    select o.item_id, o.category, o.own, s.message_id from own o cross join lateral (
               select message_id from sources
                where agent_id = %(agent_id)s and memory_id = o.item_id and scope_key = any(%(scope_keys)s) offset 0) as s
     where o.kind <> 'message' and exists (select from said) and s.message_id in (select item_id from said)
), turn as (
    -- each message with the facts formed from it: the one that fits best speaks for all, with the best of their scores
    select *, row_number() over (partition by message_id order by is_long, own desc, is_message desc, item_id) as nth,
           max(own) filter (where is_message) over turn as source,
           max(own) filter (where is_message and not is_long) over turn >= own as is_said,
           coalesce(%(w_neighbour)s * max(neighbour) over turn, 0) as near,
           coalesce(%(w_session)s * max(session) over turn / nullif((select max(session) from said), 0), 0) as within
      from (select item_id, item_id as message_id, category, own, true as is_message, is_long, neighbour, session from said
            union all
            select item_id, message_id, category, own, false, false, null, null from formed) as telling
    window turn as (partition by message_id)
), summed as (
    (select distinct on (item_id) item_id, category, own, source, near, within,
            (%(w_repeated)s - 1) * repeats * (own + source + near + within) as repeated,
            (1 + (%(w_repeated)s - 1) * repeats) * (own + source + near + within) as score
       from (select item_id, category, own, near, within,
                    case when nth = 1 then greatest(source - own, 0) else 0 end as source,
                    case when nth > 1 and (is_message or is_said) then 1 else 0 end as repeats
               from turn) as parts
      order by item_id, repeats desc, own + source + near + within desc)
    union all
    select item_id, category, own, 0, 0, 0, 0, own from own
     where kind <> 'message' and item_id not in (select item_id from formed)
), allowed as (
    -- many more than asked for, since a category gives no more than its length
    select *, row_number() over (partition by category order by score desc, own desc, item_id) as nth
      from (select * from summed order by score desc, own desc, item_id limit 5 * %(top_k)s + 50) as highest
), front as materialized (
    select a.*, r.others, r.strengths, coalesce(%(w_related)s * r.strongest, 0) as related
      from (select * from allowed
             where nth <= coalesce((%(rag_lengths)s::jsonb ->> category)::integer, %(top_k)s)
             order by score desc, own desc, item_id limit 2 * %(top_k)s + 10) as a
           cross join lateral (
               select max(strength) filter (where other in (select item_id from own)) as strongest,
                      array_agg(other) as others, array_agg(strength) as strengths
                 from (select to_id as other, strength from relations
                        where agent_id = %(agent_id)s and from_id = a.item_id
                          and scope_key = any(%(scope_keys)s) and to_scope_key = any(%(scope_keys)s)
                       union all
                       select from_id, strength from relations
                        where agent_id = %(agent_id)s and to_id = a.item_id
                          and scope_key = any(%(scope_keys)s) and to_scope_key = any(%(scope_keys)s)) as link) as r
), best as materialized (
    select *, score + related as total from front order by score + related desc, own desc, item_id limit %(top_k)s
), companion as (
    -- what the results are related to and does not stand among them
    select c.other as item_id, c.category, c.related_to, c.strength * c.total as total,
           row_number() over (partition by c.category order by c.strength * c.total desc, c.other)
           + (select count(*) from best b where b.category = c.category) as nth
      from (select distinct on (l.other) l.other, l.strength, b.item_id as related_to, b.total, e.category
              from best b cross join lateral unnest(b.others, b.strengths) as l(other, strength)
                   cross join lateral (
                       select category from entries e
                        where e.agent_id = %(agent_id)s and e.item_id = l.other and e.scope_key = any(%(scope_keys)s)
                          and e.living and e.kind = any(%(kinds)s) and e.category = any(%(categories)s)
                          and (%(threshold)s::float8 is null
                               or (e.model = %(model)s and 1 - (e.vec <=> %(vector)b::halfvec) >= %(threshold)s))
                          and (not %(filtered)s or e.item_id in (select item_id from fitting)) limit 1) as e
             where l.other not in (select item_id from best)
             order by l.other, l.strength * b.total desc, b.item_id) as c
)
select r.item_id, i.kind, i.category, i.scope_key, i.subject, i.content, i.dated, i.importance::integer as importance,
       i.session_id, d.text, d.similarity, coalesce(d.fused, 0)::float8 as fused, r.source, coalesce(d.insight, 0)::float8 as insight,
       coalesce(d.named, 0)::float8 as named, coalesce(d.important, 0)::float8 as important, r.near as neighbour,
       r.within as in_session, r.repeated, r.related, r.total as score, r.related_to
  from (select item_id, source, near, within, repeated, related, total, own, null::uuid as related_to from best
        union all
        (select item_id, 0, 0, 0, 0, total, total, 0, related_to from companion
          where nth <= coalesce((%(rag_lengths)s::jsonb ->> category)::integer, nth)
          order by total desc, item_id limit %(most_related)s)) as r
       left join own d on d.item_id = r.item_id and r.related_to is null
       cross join lateral (
           select m.kind, m.category, m.scope_key, m.subject, m.content, m.valid_from as dated, m.importance,
                  m.source_session_id as session_id
             from memories m
            where m.agent_id = %(agent_id)s and m.id = r.item_id
              and m.scope_key = any(%(scope_keys)s) and m.category = any(%(categories)s)
           union all
           select 'message', 'message', m.scope_key, m.author, m.content, m.said_at, 2, m.session_id
             from messages m
            where m.agent_id = %(agent_id)s and m.id = r.item_id and m.scope_key = any(%(scope_keys)s)) as i
 order by r.related_to is not null, r.total desc, r.own desc, r.item_id;
