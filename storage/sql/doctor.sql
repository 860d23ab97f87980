-- offences --
-- Everything about the set-up that would let a row be seen, changed or lost that should not be: the check, what was
-- found and, where one statement mends it, that statement.
with recursive tables as (
    select c.oid, c.relname, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity,
           format('mnemic.%%I', c.relname) as named
      from pg_class c where c.relnamespace = to_regnamespace('mnemic') and c.relkind in ('r', 'p')
), functions as ( -- those that run with the owner's rights count wherever they are
    select p.proname, p.proowner, p.proacl, p.prosecdef, p.proconfig, p.prosrc, p.prosqlbody,
           format('%%I.%%I', n.nspname, p.proname) as named
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = 'mnemic' or p.prosecdef and pg_get_userbyid(p.proowner) = %(owner)s::text
), roles as (
    select r.oid, r.rolname, k.kind, r.rolsuper, r.rolbypassrls, r.rolcreaterole, r.rolreplication
      from (values (session_user::text, %(service)s::text), (%(admin)s::text, %(admin)s::text)) as k(role, kind)
      join pg_roles r on r.rolname = k.role
), apart(role) as (
    values (%(owner)s::text), (%(service)s::text), (%(admin)s::text), ('pg_read_all_data'), ('pg_write_all_data')
), compared as ( -- the settings with which each policy compares a row
    select c ->> 0 as table_name, c ->> 1 as policy, c ->> 2 as kind, c ->> 3 as setting
      from jsonb_array_elements(%(policies)s) as c
), grants as ( -- as they are; of columns those that were granted by themselves
    select t.relname::text as whole, t.relname::text as object, lower(a.privilege_type) as privilege, t.named as place,
           a.grantee
      from tables t cross join aclexplode(t.relacl) as a where a.grantee <> t.relowner
    union all
    select t.relname, t.relname || '.' || c.attname, lower(a.privilege_type) || format(' (%%I)', c.attname), t.named,
           a.grantee
      from tables t join pg_attribute c on c.attrelid = t.oid cross join aclexplode(c.attacl) as a
    union all
    select object, object, lower(a.privilege_type), 'function ' || named, a.grantee
      from functions f cross join aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) as a
     cross join lateral (select 'function ' || f.proname) as o(object)
     where a.grantee <> f.proowner
    union all
    select 'schema mnemic', 'schema mnemic', lower(a.privilege_type), 'schema mnemic', a.grantee
      from pg_namespace n cross join aclexplode(n.nspacl) as a where n.nspname = 'mnemic' and a.grantee <> n.nspowner
    union all -- whoever may set it writes without a trigger
    select p.parname, p.parname, lower(a.privilege_type), 'parameter ' || p.parname, a.grantee
      from pg_parameter_acl p cross join aclexplode(p.paracl) as a where p.parname = 'session_replication_role'
), readers as ( -- tables, and what reads them
    select oid from tables
    union
    select w.ev_class from readers r
      join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = r.oid
                      and d.classid = 'pg_rewrite'::regclass
      join pg_rewrite w on w.oid = d.objid
), conditions as ( -- of the policies that open tables to the two roles
    select p.polname, t.relname, t.named, r.kind, c.condition
      from pg_policy p join tables t on t.oid = p.polrelid
      join roles r on p.polroles @> array[0::oid]
                   or exists (select from pg_roles g
                               where g.oid = any(p.polroles) and pg_has_role(r.oid, g.oid, 'member')
                                 and (g.rolname = r.kind or g.rolname not in (select role from apart)))
     cross join lateral (values (pg_get_expr(p.polqual, p.polrelid)), (pg_get_expr(p.polwithcheck, p.polrelid)))
                as c(condition)
     where p.polpermissive
)
select 'server' as name, 'Postgres ' || current_setting('server_version') as offence, null as statement
  from (select current_setting('server_version_num')::integer) as v(number)
 where number < %(server)s::integer or exists (select from unnest(%(fixed)s::integer[]) as f(number)
                                       where f.number / 10000 = v.number / 10000 and v.number < f.number)
union all
select 'pgvector', coalesce('pgvector ' || max(extversion), 'pgvector is not enabled'), null from pg_extension
 where extname = 'vector'
having max(extversion) is null
    or array[split_part(max(extversion), '.', 1), split_part(max(extversion), '.', 2)]::integer[] < %(vector)s::integer[]
union all
select 'encoding', current_setting('server_encoding'), null where current_setting('server_encoding') <> 'UTF8'
union all
select 'migrations', 'none has run, or their record cannot be read', null
 where not exists (select from tables t where t.relname = 'migrations' and has_table_privilege(t.oid, 'select')
                      and has_schema_privilege(to_regnamespace('mnemic')::oid, 'usage'))
union all
select 'search path', current_setting('search_path'), null where not 'mnemic' = any(current_schemas(false))
union all
select 'service role', session_user, null where session_user <> %(service)s::text or current_user <> %(service)s::text
union all
select 'powers', r.rolname || ' is ' || p.power, format('alter role %%I no%%s', r.rolname, p.power)
  from roles r
 cross join lateral (values ('superuser', rolsuper), ('bypassrls', rolbypassrls), ('createrole', rolcreaterole),
                            ('replication', rolreplication)) as p(power, has)
 where p.has
union all
select 'powers', r.rolname || ' is a member of ' || m.rolname, format('revoke %%I from %%I', m.rolname, r.rolname)
  from roles r join pg_roles m on m.rolname in (select role from apart) and m.rolname <> r.kind
 where not r.rolsuper and pg_has_role(r.oid, m.oid, 'member')
union all
select 'ownership', o.object || ' belongs to ' || pg_get_userbyid(o.owner),
       format('alter %%s owner to %%I', o.object, %(owner)s::text)
  from (select 'table ' || named, relowner from tables
        union all select 'function ' || named, proowner from functions
        union all select 'schema mnemic', nspowner from pg_namespace where nspname = 'mnemic') as o(object, owner)
 where pg_get_userbyid(o.owner) <> %(owner)s::text
union all
select 'row security', relname, format('alter table %%s enable row level security, force row level security', named)
  from tables where not (relrowsecurity and relforcerowsecurity)
                and relname not in ('migrations', 'checkpoint_migrations')
union all
select distinct case when c.setting = 'categories' and p.condition like '%%mnemic.agent_id%%'
                           and p.condition like '%%mnemic.scope_keys%%' then 'allowlists' else 'policies' end,
       p.polname || ' on ' || p.relname,
       case when p.polname not in ('service', 'administrator')
            then format('drop policy %%I on %%s', p.polname, p.named) end
  from conditions p
  left join compared c on c.table_name = p.relname -- what opens it to others has to compare as much
                      and (c.kind = p.kind or not exists (select from compared o
                                                           where o.table_name = p.relname and o.kind = p.kind))
 where p.condition not like '%%mnemic.' || coalesce(c.setting, 'agent_id') || '%%'
union all
select distinct 'policies', c.policy || ' on ' || c.table_name, null::text
  from compared c join tables t on t.relname = c.table_name
 where not exists (select from pg_policy p where p.polrelid = t.oid and p.polname = c.policy)
union all
select 'views', format('%%I.%%I', n.nspname, c.relname),
       format(case c.relkind when 'v' then 'alter view %%I.%%I set (security_invoker = true)'
                             else 'drop materialized view %%I.%%I' end, n.nspname, c.relname)
  from readers join pg_class c using (oid) join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'm'
    or c.relkind = 'v' and not exists (select from pg_options_to_table(c.reloptions)
                                        where option_name = 'security_invoker' and option_value::boolean)
union all
select 'privileges', concat(g.privilege, ' on ', g.whole, ' to ', w.grantee),
       format('revoke %%s on %%s from %%s', g.privilege, g.place, w.grantee)
  from grants g
 cross join lateral (select case g.grantee when 0 then 'public' else g.grantee::regrole::text end) as w(grantee)
 where g.grantee = 0
    or exists (select from roles r where not r.rolsuper and pg_has_role(r.oid, g.grantee, 'member')
                  and not exists (select from jsonb_array_elements(%(grants)s) as e
                                   where e ->> 0 in (w.grantee, r.kind) and e ->> 2 in (g.whole, g.object)
                                     and e ->> 1 = split_part(g.privilege, ' ', 1)))
union all
select 'functions', named || ' runs as its owner on another search path',
       format('alter function %%s set search_path = mnemic, pg_temp', named)
  from functions where prosecdef and not coalesce(proconfig @> array['search_path=mnemic, pg_temp'], false)
union all
select 'functions', named || ' is not what the package has', null
  from functions where prosqlbody is null and prosrc is distinct from %(functions)s::jsonb ->> proname
union all
select 'functions', 'mnemic.' || name || ' is missing', null from jsonb_object_keys(%(functions)s) as name
 where name <> all (select proname from functions) and exists (select from functions)
union all
select 'triggers',
       concat(n.trigger_name, ' on ', n.table_name, ' calls ' || nullif(f.named, 'mnemic.' || n.function_name)),
       case when f.named = 'mnemic.' || n.function_name
            then format('alter table %%s enable trigger %%I', t.named, n.trigger_name) end
  from (select t ->> 0 as trigger_name, t ->> 1 as table_name, t ->> 2 as function_name
          from jsonb_array_elements(%(triggers)s) as t) as n
  left join tables t on t.relname = n.table_name
  left join pg_trigger g on g.tgrelid = t.oid and g.tgname = n.trigger_name
  left join lateral (select format('%%I.%%I', s.nspname, p.proname)
                       from pg_proc p join pg_namespace s on s.oid = p.pronamespace where p.oid = g.tgfoid)
            as f(named) on true
 where g.oid is null or g.tgenabled not in ('O', 'A') or f.named <> 'mnemic.' || n.function_name
union all
select 'replication role', current_setting('session_replication_role'), null
 where current_setting('session_replication_role') <> 'origin'
 order by 1, 2;

-- record --
-- The files that were applied.
select name, checksum from mnemic.migrations;
