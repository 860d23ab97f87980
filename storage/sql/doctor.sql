-- server --
-- The server, and who asks. What is not there, pgvector or the schema, is null.
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
       current_setting('server_encoding') as encoding, current_setting('session_replication_role') as replication_role,
       current_setting('search_path') as search_path, 'mnemic' = any(current_schemas(false)) as is_on_path,
       session_user, current_user, (select extversion from pg_extension where extname = 'vector') as vector,
       (select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'mnemic') as schema_owner;

-- roles --
-- Who asks, and the administrators. A superuser counts as a member of every role.
select r.rolname as name, quote_ident(r.rolname) as quoted, k.kind,
       array(select p.power from (values ('superuser', r.rolsuper), ('bypassrls', r.rolbypassrls),
                                         ('createrole', r.rolcreaterole), ('replication', r.rolreplication))
                                 as p(power, has) where p.has) as powers,
       array(select m.oid::regrole::text from pg_roles m where pg_has_role(r.oid, m.oid, 'member')) as member_of
  from (values (session_user::text, %(service)s::text), (%(admin)s::text, %(admin)s::text)) as k(role, kind)
  join pg_roles r on r.rolname = k.role;

-- relations --
-- The tables, and the views that read them, be it through other views.
with recursive readers as (
    select oid from pg_class where relnamespace = to_regnamespace('mnemic') and relkind in ('r', 'p')
    union
    select w.ev_class from readers r
      join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = r.oid
                      and d.classid = 'pg_rewrite'::regclass
      join pg_rewrite w on w.oid = d.objid
)
select c.relname as name, format('%%I.%%I', n.nspname, c.relname) as quoted, c.relkind as kind,
       pg_get_userbyid(c.relowner) as owner, c.relrowsecurity and c.relforcerowsecurity as is_secured,
       has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') as is_readable,
       exists (select from pg_options_to_table(case c.relkind when 'v' then c.reloptions end)
                where option_name = 'security_invoker' and option_value::boolean) as is_invoker
  from readers join pg_class c using (oid) join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('v', 'm') or n.nspname = 'mnemic';

-- functions --
-- Those that run with the owner's rights count wherever they are. An expression has no body.
select p.proname as name, format('%%I.%%I', n.nspname, p.proname) as quoted, pg_get_userbyid(p.proowner) as owner,
       p.prosecdef as is_definer, coalesce(p.proconfig, '{}') as settings,
       case when p.prosqlbody is null then p.prosrc end as body
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname = 'mnemic' or p.prosecdef and pg_get_userbyid(p.proowner) = %(owner)s;

-- policies --
select p.polname as name, c.relname as table, format('%%I on mnemic.%%I', p.polname, c.relname) as quoted,
       p.polpermissive as is_permissive,
       array(select case role when 0 then 'public' else role::regrole::text end from unnest(p.polroles) as role) as roles,
       array_remove(array[pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)], null)
           as conditions
  from pg_policy p join pg_class c on c.oid = p.polrelid where c.relnamespace = to_regnamespace('mnemic');

-- grants --
-- What others than its owner may do with each object; of columns what was granted by itself.
with objects(object, "column", place, acl, owner) as (
    select relname::text, null, format('mnemic.%%I', relname), relacl, relowner
      from pg_class where relnamespace = to_regnamespace('mnemic') and relkind in ('r', 'p')
    union all
    select c.relname, quote_ident(a.attname), format('mnemic.%%I', c.relname), a.attacl, null
      from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = to_regnamespace('mnemic') and c.relkind in ('r', 'p')
    union all
    select 'function ' || p.proname, null, format('function %%I.%%I', n.nspname, p.proname),
           coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = 'mnemic' or p.prosecdef and pg_get_userbyid(p.proowner) = %(owner)s
    union all
    select 'schema mnemic', null, 'schema mnemic', nspacl, nspowner from pg_namespace where nspname = 'mnemic'
    union all -- whoever may set it writes without a trigger
    select parname, null, 'parameter ' || parname, paracl, null
      from pg_parameter_acl where parname = 'session_replication_role'
)
select o.object, o.column, o.place, lower(a.privilege_type) as privilege,
       case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee
  from objects o cross join aclexplode(o.acl) as a where a.grantee is distinct from o.owner;

-- triggers --
select t.tgname as name, c.relname as table, format('%%I.%%I', n.nspname, p.proname) as function,
       t.tgenabled in ('O', 'A') as is_enabled
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  join pg_proc p on p.oid = t.tgfoid join pg_namespace n on n.oid = p.pronamespace
 where c.relnamespace = to_regnamespace('mnemic');

-- record --
-- The files that were applied.
select name, checksum from mnemic.migrations;

-- vectors --
select model, vectors from mnemic.vector_models();
