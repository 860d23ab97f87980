-- offences --
-- Everything about the set-up that would let a row be seen, changed or lost that should not be: check and what was found.
with tables as (
    select c.oid, c.relname, c.relowner, c.relrowsecurity, c.relforcerowsecurity
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'mnemic' and c.relkind in ('r', 'p')
), functions as (
    select p.proname, p.proowner from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'mnemic'
), service as (
    select oid, rolname, rolsuper, rolbypassrls from pg_roles where rolname = session_user
), categorised(table_name) as (
    values ('memories'), ('entries'), ('history'), ('history_contents'), ('messages')
), needed(table_name, trigger_name) as (
    values ('memories', 'guard'), ('memories', 'record_insert'), ('memories', 'record_update'),
           ('memories', 'record_delete'), ('memories', 'entries_follow'), ('memories', 'never_truncated'),
           ('history', 'append_only'), ('history_contents', 'append_only')
), forbidden(table_name, privilege) as (
    values ('memories', 'delete'), ('history', 'insert'), ('history', 'update'), ('history', 'delete'),
           ('history_contents', 'insert'), ('history_contents', 'update'), ('history_contents', 'delete'),
           ('heads', 'insert'), ('heads', 'update'), ('heads', 'delete')
    union all select relname, 'truncate' from tables
)
select 'server' as name, 'Postgres ' || current_setting('server_version') as offence
 where current_setting('server_version_num')::integer < %(server)s
union all
select 'pgvector', coalesce('pgvector ' || max(extversion), 'pgvector is not enabled') from pg_extension
 where extname = 'vector'
having max(extversion) is null
    or array[split_part(max(extversion), '.', 1), split_part(max(extversion), '.', 2)]::integer[] < %(vector)s::integer[]
union all
select 'encoding', current_setting('server_encoding') where current_setting('server_encoding') <> 'UTF8'
union all
select 'search path', current_setting('search_path') where not 'mnemic' = any(current_schemas(false))
union all
select 'service role', session_user where session_user <> %(role)s or current_user <> %(role)s
union all
select 'powers', concat_ws(', ', case when rolsuper then 'superuser' end, case when rolbypassrls then 'bypassrls' end,
                           case when is_owner then 'member of mnemic_owner' end)
  from service, lateral (
       select exists (select from pg_roles r where r.rolname = 'mnemic_owner' and pg_has_role(service.oid, r.oid, 'member'))
              as is_owner) as membership
 where rolsuper or rolbypassrls or is_owner
union all
select 'ownership', relname || ' belongs to ' || pg_get_userbyid(relowner) from tables
 where pg_get_userbyid(relowner) <> 'mnemic_owner'
union all
select 'ownership', proname || ' belongs to ' || pg_get_userbyid(proowner) from functions
 where pg_get_userbyid(proowner) <> 'mnemic_owner'
union all
select 'row security', relname from tables
 where not (relrowsecurity and relforcerowsecurity) and relname <> 'migrations'
union all
select 'policies', p.polname || ' on ' || t.relname from pg_policy p join tables t on t.oid = p.polrelid
 where (p.polroles @> array[0::oid] or p.polroles && array(select r.oid from pg_roles r, service s
                                                           where r.rolname <> 'mnemic_owner' and pg_has_role(s.oid, r.oid, 'member')))
   and pg_get_expr(p.polqual, p.polrelid) not like '%%mnemic.agent_id%%'
union all
select 'allowlists', p.polname || ' on ' || t.relname from pg_policy p join tables t on t.oid = p.polrelid
  join categorised c on c.table_name = t.relname
 where (p.polroles @> array[0::oid] or p.polroles && array(select r.oid from pg_roles r, service s
                                                           where r.rolname <> 'mnemic_owner' and pg_has_role(s.oid, r.oid, 'member')))
   and pg_get_expr(p.polqual, p.polrelid) like '%%mnemic.agent_id%%'
   and pg_get_expr(p.polqual, p.polrelid) not like '%%mnemic.categories%%'
union all
select 'privileges', f.privilege || ' on ' || f.table_name
  from forbidden f join tables t on t.relname = f.table_name, service s
 where not s.rolsuper and has_table_privilege(s.oid, t.oid, f.privilege)
union all
select 'triggers', n.trigger_name || ' on ' || n.table_name
  from needed n left join tables t on t.relname = n.table_name
  left join pg_trigger g on g.tgrelid = t.oid and g.tgname = n.trigger_name and g.tgenabled in ('O', 'A')
 where g.oid is null
union all
select 'triggers', 'session_replication_role is ' || current_setting('session_replication_role')
 where current_setting('session_replication_role') <> 'origin'
 order by 1, 2;

-- has_record --
-- Whether the record of migrations is there and may be read.
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'mnemic' and c.relname = 'migrations'
                  and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'));

-- record --
-- The migrations that have run.
select number, checksum from mnemic.migrations;
