-- note_insights --
-- Record that insights about the user were drawn now, even if there were none.
insert into scopes (agent_id, scope_key, insights_at) values (%(agent_id)s, %(key)s, clock_timestamp())
on conflict (agent_id, scope_key) do update set insights_at = excluded.insights_at
 where scopes.insights_at is null or scopes.insights_at <= clock_timestamp() - interval '1 day'
returning 1;

-- are_insights_due --
-- Return whether there are new facts or episodes about the user and no insights from the last 24 hours.
with last as (
    select coalesce((select insights_at from scopes where agent_id = %(agent_id)s and scope_key = %(key)s), '-infinity') as moment
)
select moment <= clock_timestamp() - interval '1 day'
       and exists (select from memories m where m.agent_id = %(agent_id)s and m.scope_key = %(key)s and m.state = 'active'
                      and m.kind in ({insight_source_kinds}) and m.created_at > moment)
  from last;

-- recent_messages --
-- Return the user's newest messages that still have content, without attachments.
select m.id, m.author, m.content from messages m
 where m.agent_id = %(agent_id)s and m.scope_key = %(key)s and m.role = 'user' and m.content is not null and m.formed_by is not null
 order by m.said_at desc, m.id limit %(most)s;
