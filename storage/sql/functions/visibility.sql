-- Return the author that other users see with a memory: not of a consolidated text, unless it is a typed sentence.
create function shown_author(provenance text, said text, actor_id text) returns text
language sql immutable
return case when provenance <> 'consolidated' or said is not null then actor_id end;

-- Return whether a scope key belongs to one user or session.
create function is_personal(scope_key text) returns boolean
language sql immutable
return split_part(scope_key, ':', 1) in ('user', 'session');
