-- problems --
-- As administrator: all that is wrong with the agent's history.
select problem, %(agent_id)s as agent_id, seq, memory_id from audit_problems();

-- head --
-- As administrator: the newest row of the agent's history.
select seq, hash from heads where agent_id = %(agent_id)s and seq > 0;

-- hashes --
-- As administrator: what these rows of the agent's history hash to.
select seq, hash from history where agent_id = %(agent_id)s and seq = any(%(seqs)s);

-- agents --
-- As administrator: whose history there is.
select agent_id from agent_ids();

-- exported_head --
-- For a person: the newest row of the agent's history, whose hash is no secret.
select l.seq, l.hash from heads h cross join lateral chain_links(h.seq - 1, h.seq) as l where h.agent_id = %(agent_id)s;

-- exported --
-- For a person: rows of the chain, with all there is of those of the person's own scope keys.
select l.seq, l.prev, l.hash, case when h.seq is not null then history_text(h) end as text,
       c.salt, c.before::text as before, c.after::text as after
  from chain_links(%(after)s, %(last)s) as l
  left join history h on h.agent_id = %(agent_id)s and h.scope_key = any(%(scope_keys)s) and h.scope_key = any(%(own)s)
                     and h.seq = l.seq
  left join history_contents c on c.agent_id = h.agent_id and c.seq = h.seq
 order by l.seq;
