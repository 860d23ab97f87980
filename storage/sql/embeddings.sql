-- claim --
-- Claim the entries that have waited longest. A claim ends after a minute, so a killed process blocks no text.
with due as (
    select item_id, piece from entries
     where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = '' and (searchable or kind = 'reflection')
       and (embed_after is null or embed_after <= clock_timestamp())
     order by embed_after nulls first, item_id, piece limit %(most)s
       for update skip locked
)
update entries e set embed_after = embedding_due(0::smallint)
  from due
 where e.agent_id = %(agent_id)s and e.item_id = due.item_id and e.model = '' and e.piece = due.piece
returning e.item_id, e.piece, e.kind;

-- texts --
-- Return the indexed texts of entries. Each memory and message is looked up by its key, as in the statement insert.
select c.item_id, c.piece::integer, c.kind, i.subject, i.content, i.dated, i.utc_offset, md5(i.content)::uuid as content_hash
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[], %(kinds)s::text[]) as c(item_id, piece, kind)
 cross join lateral (
       select subject, coalesce(draft, content) as content, valid_from as dated, utc_offset from memories
        where c.kind <> 'message' and agent_id = %(agent_id)s and id = c.item_id and scope_key = any(%(scope_keys)s)
          and state <> 'purged'
       union all
       select author, content, said_at, utc_offset from messages
        where c.kind = 'message' and agent_id = %(agent_id)s and id = c.item_id and scope_key = any(%(scope_keys)s)
          and content is not null) as i
 order by c.item_id, c.piece;

-- fill --
-- Store the vectors of claimed texts if the items still have the same text. A refused text waits longer.
update entries e
   set model = case when g.vec is null then '' else %(model)s end, vec = g.vec,
       refusals = case when g.vec is null then least(e.refusals + 1, 100) else 0 end,
       embed_after = case when g.vec is null then embedding_due(least(e.refusals + 1, 100)::smallint) end
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[], %(hashes)s::uuid[], %(vectors)b::halfvec[])
       as g(id, piece, content_hash, vec)
 where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s)
   and e.item_id = g.id and e.model = '' and e.piece = g.piece
   and (exists (select from memories m
                 where m.agent_id = %(agent_id)s and m.id = g.id and m.content_hash = g.content_hash)
        or exists (select from messages m
                    where m.agent_id = %(agent_id)s and m.id = g.id and md5(m.content)::uuid = g.content_hash))
returning e.vec is not null as is_filled;

-- release --
-- Make claimed entries due again.
update entries e set embed_after = null
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[]) as g(id, piece)
 where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s)
   and e.item_id = g.id and e.piece = g.piece;

-- make_due --
-- Make all entries without a vector due, as if no embedding had been attempted.
update entries set embed_after = null, refusals = 0
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = '' and embed_after is not null;

-- count_pending --
-- Count the entries that only text search finds until they have a vector.
select count(*) from entries
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = '' and (searchable or kind = 'reflection');

-- stage --
-- Store vectors of the agent's next embedder alongside the searched ones, if the items still have the same text.
update entries e
   set next_model = case when g.vec is not null then %(model)s end, next_vec = g.vec,
       refusals = case when g.vec is null then 1 else 0 end, embed_after = null
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[], %(hashes)s::uuid[], %(vectors)b::halfvec[])
       as g(id, piece, content_hash, vec)
 where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s)
   and e.item_id = g.id and e.model not in ('', %(model)s) and e.piece = g.piece
   and (exists (select from memories m
                 where m.agent_id = %(agent_id)s and m.id = g.id and m.content_hash = g.content_hash)
        or exists (select from messages m
                    where m.agent_id = %(agent_id)s and m.id = g.id and md5(m.content)::uuid = g.content_hash))
returning e.next_vec is not null as is_filled;

-- searched_model --
-- Return the former embedder if its vectors are still searched: until the switch of a move, or before a move of an
-- agent that already has vectors.
select coalesce(a.searched_model, case when not coalesce(
           a.next_model = %(model)s or starts_with(a.next_model, %(model)s || ':'), false) then (
       select e.model from entries e
        where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s) and e.searchable
          and (e.model = %(previous)s or starts_with(e.model, %(previous)s || ':')) limit 1) end)
  from agents a where a.agent_id = %(agent_id)s;

-- begin_move --
-- Begin or continue a move to another embedder. Until the switch, the search uses the embedder of most vectors.
update agents
   set next_model = %(model)s, moved_at = null,
       searched_model = nullif(coalesce(searched_model, %(main_model)s), %(model)s)
 where agent_id = %(agent_id)s;

-- end_move --
-- End a move after its switch. The last check runs 15 minutes later and finds no entry of a writer that began before
-- the switch.
update agents
   set searched_model = null,
       moved_at = case when %(switched)s or moved_at is null then clock_timestamp()
                       when moved_at > clock_timestamp() - interval '15 minutes' then moved_at else 'infinity' end
 where agent_id = %(agent_id)s and next_model = %(model)s;
