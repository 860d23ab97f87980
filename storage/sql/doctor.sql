-- server --
-- Return the server's version, its settings and the session's role. A missing pgvector or schema is null.
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
       current_setting('server_encoding') as encoding, current_setting('session_replication_role') as replication_role,
       current_setting('search_path') as search_path, current_schemas(false)::text[] as schemas,
       session_user, current_user, (select extversion from pg_extension where extname = 'vector') as vector,
       (select n.nspname::text from pg_extension e join pg_namespace n on n.oid = e.extnamespace
         where e.extname = 'vector') as vector_schema,
       (select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = 'mnemic' and c.relname = 'migrations') as has_record;

-- roles --
-- Return the session's role, the administrators and the owner; the owner needs no login. A superuser counts as a member
-- of every role.
select r.rolname as name, quote_ident(r.rolname) as quoted, k.kind,
       array(select p.power from (values ('superuser', r.rolsuper), ('bypassrls', r.rolbypassrls),
                                         ('createrole', r.rolcreaterole), ('replication', r.rolreplication),
                                         ('login', r.rolcanlogin and k.kind = %(owner)s))
                                 as p(power, has) where p.has) as powers,
       array(select m.oid::regrole::text from pg_roles m where pg_has_role(r.oid, m.oid, 'member')) as member_of
  from (values (session_user::text, %(service)s::text), (%(admin)s::text, %(admin)s::text),
               (%(owner)s::text, %(owner)s::text)) as k(role, kind)
  join pg_roles r on r.rolname = k.role;

-- views --
-- Return the views that read the tables, directly or through other views.
with recursive readers as (
    select oid from pg_class where relnamespace = to_regnamespace('mnemic') and relkind in ('r', 'p')
    union
    select w.ev_class from readers r
      join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = r.oid
                      and d.classid = 'pg_rewrite'::regclass
      join pg_rewrite w on w.oid = d.objid
)
select format('%%I.%%I', n.nspname, c.relname) as quoted, c.relkind as kind,
       exists (select from pg_options_to_table(case c.relkind when 'v' then c.reloptions end)
                where option_name = 'security_invoker' and option_value::boolean) as is_invoker
  from readers join pg_class c using (oid) join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('v', 'm');

-- record --
-- Return the files that were applied.
select name, checksum from mnemic.migrations;

-- vectors --
select model, vectors from mnemic.vector_models();
