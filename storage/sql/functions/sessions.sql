-- Return the id under which a session is stored for a user. If another person's session has this id, the user gets an
-- id made of both. A row without messages and participants belongs to its first user.
create function stored_session(p_agent text, p_session text, p_user text) returns text
language plpgsql stable security definer set search_path = mnemic, pg_temp as $$
declare
    stored text := p_session;
begin
    while exists (select from sessions s
                   where s.agent_id = p_agent and s.session_id = stored and p_user <> all(s.participants)
                     and (s.message_count > 0 or s.participants <> '{}')) loop
        stored := case when octet_length(stored) <= 100 then stored else md5(stored) end || '~' || left(md5(p_user), 12);
    end loop;
    return stored;
end $$;
