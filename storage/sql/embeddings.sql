-- are_due --
-- A row if an entry without a vector may be embedded now. Entries that no search reads can wait, but for reflections, which
-- are searched once they are absorbed.
select 1 from entries
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = '' and (searchable or kind = 'reflection')
   and (embed_after is null or embed_after <= clock_timestamp())
 limit 1;

-- claim --
-- The entries that have waited longest. A claim ends by itself after a minute, so that a killed process keeps no text from
-- being embedded.
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
-- What was indexed of entries. Each memory and message is looked up by itself, as in insert.
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
-- Vectors of claimed texts, if their items still say the same. A refused text waits longer.
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
-- Entries that were claimed may be embedded now.
update entries e set embed_after = null
  from unnest(%(ids)s::uuid[], %(pieces)s::smallint[]) as g(id, piece)
 where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s)
   and e.item_id = g.id and e.piece = g.piece;

-- make_due --
-- Entries without a vector as if none had been asked for.
update entries set embed_after = null, refusals = 0
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = '' and embed_after is not null;

-- count_pending --
-- Entries that are found by their words alone until they have a vector.
select count(*) from entries
 where agent_id = %(agent_id)s and scope_key = any(%(scope_keys)s) and model = '' and (searchable or kind = 'reflection');

-- stage --
-- Vectors of the embedder to which the agent moves, beside those that are searched, if the items still say the same.
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
-- Former embedder whose vectors are searched: until the switch of a move, and of an agent that has its vectors before a move.
select coalesce(a.searched_model, case when not coalesce(
           a.next_model = %(model)s or starts_with(a.next_model, %(model)s || ':'), false) then (
       select e.model from entries e
        where e.agent_id = %(agent_id)s and e.scope_key = any(%(scope_keys)s) and e.searchable
          and (e.model = %(previous)s or starts_with(e.model, %(previous)s || ':')) limit 1) end)
  from agents a where a.agent_id = %(agent_id)s;

-- begin_move --
-- Begins a move to an embedder, or goes on with it. The embedder of most vectors is searched until the switch.
update agents
   set next_model = %(model)s, moved_at = null,
       searched_model = nullif(coalesce(searched_model, %(main_model)s), %(model)s)
 where agent_id = %(agent_id)s;

-- end_move --
-- After a switch. A look 15 minutes later that finds no entry of a writer that began before the switch is the last one.
update agents
   set searched_model = null,
       moved_at = case when %(switched)s or moved_at is null then clock_timestamp()
                       when moved_at > clock_timestamp() - interval '15 minutes' then moved_at else 'infinity' end
 where agent_id = %(agent_id)s and next_model = %(model)s;
