-- plain_names --
-- Write every name in a definition with its schema, independent of the role's search path.
select set_config('search_path', 'pg_catalog', true), set_config('quote_all_identifiers', 'off', true);

-- definitions --
-- Return each object of Mnemic's schemas and each object that acts on them: kind, name, definition, the statement that
-- drops it, and whether an extra object of this kind is harmless.
with spaces as materialized (
    select oid, nspname, nspowner, nspacl from pg_namespace where nspname in ('mnemic', %(queue)s::text)
), vector as materialized (
    select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'
), relations as materialized (
    select c.oid, c.relkind, c.relowner, c.relacl, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.reloptions,
           c.reltoastrelid, c.relnamespace, format('%%I.%%I', n.nspname, c.relname) as name,
           case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
                          when 'f' then 'foreign table' else 'table' end as noun
      from pg_class c join spaces n on n.oid = c.relnamespace where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
), tables as materialized (
    select * from relations where relkind in ('r', 'p', 'f')
), routines as materialized (
    select p.*, p.oid::regprocedure::text as name,
           case p.prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end as noun
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.oid in (select oid from spaces) or p.prosecdef and p.proowner = to_regrole(%(owner)s::text)
), roles as materialized (
    -- The session's role and the administrators. A superuser counts as a member of every role.
    select r.oid, r.rolname from pg_roles r where r.rolname in (session_user, %(admin)s::text) and not r.rolsuper
), owned(place, owner, acl, usual) as (
    select name, relowner, relacl, acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner) from relations
     union all
    select noun || ' ' || name, proowner, proacl, acldefault('f', proowner) from routines
     union all
    select 'schema ' || quote_ident(nspname), nspowner, nspacl, acldefault('n', nspowner) from spaces
), granted(place, col, owner, privilege, grantee, is_grantable) as (
    select o.place, null, o.owner, a.privilege_type, a.grantee, a.is_grantable
      from owned o cross join aclexplode(coalesce(o.acl, o.usual)) as a where a.grantee <> o.owner
     union all
    select t.name, quote_ident(a.attname), t.relowner, g.privilege_type, g.grantee, g.is_grantable
      from tables t join pg_attribute a on a.attrelid = t.oid cross join aclexplode(a.attacl) as g where g.grantee <> t.relowner
     union all
    select 'database ' || quote_ident(d.datname), null, d.datdba, a.privilege_type, a.grantee, a.is_grantable
      from pg_database d cross join aclexplode(d.datacl) as a
     where d.datname = current_database() and a.privilege_type = 'CREATE' and a.grantee in (select oid from roles)
     union all -- a role that may set this parameter writes without triggers
    select 'parameter ' || p.parname, null, 0, a.privilege_type, a.grantee, a.is_grantable
      from pg_parameter_acl p cross join aclexplode(p.paracl) as a
     where p.parname = 'session_replication_role'
       and (a.grantee = 0 or exists (select from roles r where pg_has_role(r.oid, a.grantee, 'member')))
), grants as (
    select lower(g.privilege) || coalesce(' (' || g.col || ')', '') || ' on ' || g.place as "right", h.holder,
           g.is_grantable as may_pass_on,
           g.privilege in ('SELECT', 'USAGE') and h.holder not in ('public', %(service)s::text, %(admin)s::text)
           and not exists (select from roles r where pg_has_role(r.oid, g.grantee, 'member')) as is_harmless
      from granted g
     cross join lateral (select case g.grantee when 0 then 'public' else g.grantee::regrole::text end) as h(holder)
     -- Since Postgres 17 the privilege is a part of "all"; it reveals and changes nothing.
     where not (g.privilege = 'MAINTAIN' and h.holder = %(service)s::text and starts_with(g.place, %(queue)s::text || '.'))
), settings as (
    select split_part(c.setting, '=', 1) as name, substring(c.setting from position('=' in c.setting) + 1) as value,
           coalesce(s.setrole::regrole::text, '') as role, s.setdatabase <> 0 as is_here,
           case when s.setrole is null and s.setdatabase = 0 then 'role all'
                when s.setrole is null then 'database ' || quote_ident(current_database())
                else 'role ' || s.setrole::regrole || case when s.setdatabase <> 0 then ' in database ' || quote_ident(current_database()) else '' end
           end as place
      from (select setdatabase, nullif(setrole, 0) as setrole, setconfig from pg_db_role_setting) as s
     cross join unnest(s.setconfig) as c(setting)
     where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
       and (s.setrole is null or s.setrole::regrole::text in (%(owner)s::text, %(service)s::text, %(admin)s::text))
), objects(kind, object, definition, dropping, is_harmless) as (
    select 'schema', quote_ident(nspname), jsonb_build_object('owner', nspowner::regrole::text), null, false from spaces
     union all
    select 'table', t.name, jsonb_build_object(
               'kind', t.noun || case t.relkind when 'p' then ', partitioned' else '' end,
               'owner', t.relowner::regrole::text,
               'persistence', case t.relpersistence when 'u' then 'unlogged' end,
               'row security', nullif(concat_ws(', ', case when t.relrowsecurity then 'enabled' end, case when t.relforcerowsecurity then 'forced' end), ''),
               'vacuum', (select 'off' from pg_class c cross join pg_options_to_table(c.reloptions) as o
                           where c.oid in (t.oid, t.reltoastrelid) and o.option_name = 'autovacuum_enabled'
                             and not o.option_value::boolean limit 1)),
           format('alter %%s %%s set schema public', t.noun, t.name), false
      from relations t where t.relkind <> 'S'
     union all
    select 'column', format('%%I on %%s', a.attname, t.name), jsonb_build_object(
               'type', format_type(a.atttypid, a.atttypmod),
               'not null', case when a.attnotnull and not exists (
                   select from pg_constraint n where n.conrelid = t.oid and n.contype = 'n' and n.conkey = array[a.attnum] and not n.convalidated)
                   then 'yes' end,
               'default', case a.attgenerated when '' then pg_get_expr(d.adbin, d.adrelid) end,
               'generated', case when a.attgenerated <> '' then format('%%s as %%s', a.attgenerated, pg_get_expr(d.adbin, d.adrelid)) end,
               'identity', nullif(a.attidentity::text, ''),
               'collation', case when a.attcollation <> y.typcollation then a.attcollation::regcollation::text end,
               'statistics', nullif(a.attstattarget, -1)),
           format('alter %%s %%s drop column %%I', t.noun, t.name, a.attname), false
      from tables t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
      join pg_type y on y.oid = a.atttypid
      left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
     union all
    select 'constraint', format('%%I on %%s', c.conname, t.name), jsonb_build_object(
               'definition', regexp_replace(pg_get_constraintdef(c.oid), ' NOT VALID$', ''),
               'not validated', case when not c.convalidated then 'yes' end,
               'triggers off', (select 'yes' from pg_trigger g where g.tgconstraint = c.oid and g.tgenabled not in ('O', 'A') limit 1),
               'index', (select 'invalid' from pg_index i where i.indexrelid = c.conindid and i.indrelid = t.oid and not (i.indisvalid and i.indisready and i.indislive))),
           format('alter table %%s drop constraint %%I', t.name, c.conname), false
      from tables t join pg_constraint c on c.conrelid = t.oid and c.contype in ('c', 'f', 'p', 'u', 'x')
     union all
    select 'foreign key', format('%%I on %%s', c.conname, c.conrelid::regclass), '{}',
           format('alter table %%s drop constraint %%I', c.conrelid::regclass, c.conname), false
      from tables t join pg_constraint c on c.confrelid = t.oid and c.contype = 'f' and c.conrelid not in (select oid from tables)
     union all
    select 'index', i.indexrelid::regclass::text, jsonb_build_object(
               'definition', pg_get_indexdef(i.indexrelid),
               'state', case when not (i.indisvalid and i.indisready and i.indislive) then 'invalid' end),
           format('drop index %%s', i.indexrelid::regclass),
           not i.indisunique and not i.indisexclusion and i.indexprs is null and i.indpred is null
      from tables t join pg_index i on i.indrelid = t.oid
     where not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.conrelid = t.oid and c.contype in ('p', 'u', 'x'))
     union all
    select 'policy', format('%%I on %%s', p.polname, t.name), jsonb_build_object(
               'kind', case when not p.polpermissive then 'restrictive' end, 'command', p.polcmd,
               'roles', array(select case r when 0 then 'public' else r::regrole::text end from unnest(p.polroles) as r order by 1),
               'using', pg_get_expr(p.polqual, p.polrelid), 'with check', pg_get_expr(p.polwithcheck, p.polrelid)),
           format('drop policy %%I on %%s', p.polname, t.name), false
      from tables t join pg_policy p on p.polrelid = t.oid
     union all
    select 'trigger', format('%%I on %%s', g.tgname, t.name), jsonb_build_object(
               'definition', pg_get_triggerdef(g.oid), 'state', case when g.tgenabled not in ('O', 'A') then 'off' end),
           format('drop trigger %%I on %%s', g.tgname, t.name), false
      from relations t join pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
     union all
    select 'rule', format('%%I on %%s', r.rulename, t.name), '{}', format('drop rule %%I on %%s', r.rulename, t.name), false
      from relations t join pg_rewrite r on r.ev_class = t.oid and (t.relkind in ('r', 'p', 'f') or r.rulename <> '_RETURN')
     union all
    select 'function', p.name, jsonb_build_object(
               'kind', p.noun, 'owner', p.proowner::regrole::text, 'language', l.lanname,
               'result', pg_get_function_result(p.oid), 'arguments', pg_get_function_arguments(p.oid),
               'volatility', p.provolatile, 'security', case when p.prosecdef then 'definer' end,
               'leakproof', case when p.proleakproof then 'yes' end, 'strict', case when p.proisstrict then 'yes' end,
               'parallel', nullif(p.proparallel, 'u'), 'settings', p.proconfig,
               'support', nullif(p.prosupport::text, '-'),
               'body', md5(coalesce(pg_get_function_sqlbody(p.oid), p.prosrc))),
           format('drop %%s %%s', p.noun, p.name), false
      from routines p join pg_language l on l.oid = p.prolang
     union all
    select 'sequence', t.name, jsonb_build_object(
               'owner', t.relowner::regrole::text,
               'definition', format('as %%s increment by %%s minvalue %%s maxvalue %%s start with %%s%%s cycle', format_type(s.seqtypid, null),
                                    s.seqincrement, s.seqmin, s.seqmax, s.seqstart, case when not s.seqcycle then ' no' else '' end),
               'persistence', case t.relpersistence when 'u' then 'unlogged' end),
           format('drop sequence %%s', t.name), false
      from relations t join pg_sequence s on s.seqrelid = t.oid
     union all
    select 'type', format('%%I.%%I', n.nspname, t.typname), jsonb_build_object(
               'owner', t.typowner::regrole::text,
               'labels', (select array_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid),
               'attributes', (select array_agg(format('%%I %%s', a.attname, format_type(a.atttypid, a.atttypmod)) order by a.attnum)
                                from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped)),
           format('drop type %%I.%%I', n.nspname, t.typname), false
      from pg_type t join spaces n on n.oid = t.typnamespace left join pg_class c on c.oid = t.typrelid
     where t.typtype in ('e', 'd', 'r') or c.relkind = 'c'
     union all
    select 'grant', format('%%s to %%s', "right", holder), jsonb_build_object('grant option', case when may_pass_on then 'yes' end),
           format('revoke %%s from %%s', "right", holder), is_harmless
      from grants
     union all
    select 'owner''s right', format('%%s on %%s to %%s', lower(u.privilege_type), o.place, o.owner::regrole), '{}',
           format('grant %%s on %%s to %%s', lower(u.privilege_type), o.place, o.owner::regrole), false
      from owned o cross join aclexplode(o.usual) as u
     where not o.acl @> o.usual[cardinality(o.usual)] and u.grantee = o.owner and u.privilege_type <> 'MAINTAIN' and not exists (
           select from aclexplode(o.acl) as a where a.grantee = o.owner and a.privilege_type = u.privilege_type)
     union all
    select 'default privilege', format('%%s on %%s to %%s by %%s', lower(a.privilege_type), k.noun, h.holder, d.defaclrole::regrole), '{}',
           format('alter default privileges for role %%s%%s revoke %%s on %%s from %%s', d.defaclrole::regrole,
                  ' in schema ' || nullif(d.defaclnamespace, 0)::regnamespace, lower(a.privilege_type), k.noun, h.holder), false
      from pg_default_acl d cross join aclexplode(d.defaclacl) as a
     cross join lateral (select case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions'
                                    when 'T' then 'types' when 'n' then 'schemas' else 'large objects' end) as k(noun)
     cross join lateral (select case a.grantee when 0 then 'public' else a.grantee::regrole::text end) as h(holder)
     where (d.defaclrole = to_regrole(%(owner)s::text) or d.defaclnamespace in (select oid from spaces)) and a.grantee <> d.defaclrole
     union all
    select 'inheritance', format('%%s from %%s', i.inhrelid::regclass, i.inhparent::regclass), '{}',
           case when c.relispartition then format('alter table %%s detach partition %%s', i.inhparent::regclass, i.inhrelid::regclass)
                else format('alter table %%s no inherit %%s', i.inhrelid::regclass, i.inhparent::regclass) end, false
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhrelid in (select oid from tables) or i.inhparent in (select oid from tables)
     union all
    select 'publication', format('%%I of %%s', p.pubname, t.name), '{}',
           case when p.puballtables then format('drop publication %%I', p.pubname)
                when r.oid is not null then format('alter publication %%I drop table %%s', p.pubname, t.name)
                else format('alter publication %%I drop tables in schema %%s', p.pubname, t.relnamespace::regnamespace) end, false
      from pg_publication p join tables t on t.relkind <> 'f'
      left join pg_publication_rel r on r.prpubid = p.oid and r.prrelid = t.oid
     where p.puballtables or r.oid is not null
        or exists (select from pg_publication_namespace s where s.pnpubid = p.oid and s.pnnspid = t.relnamespace)
     union all
    select 'subscription', format('%%I to %%s', s.subname, t.name), '{}', format('drop subscription %%I', s.subname), false
      from pg_subscription_rel r join tables t on t.oid = r.srrelid join pg_subscription s on s.oid = r.srsubid
     union all
    select 'event trigger', quote_ident(e.evtname), jsonb_build_object('event', e.evtevent),
           format('alter event trigger %%I disable', e.evtname), e.evtevent <> 'login'
      from pg_event_trigger e where e.evtenabled <> 'D'
     union all
    select 'extension', format('%%I of %%s', e.extname, t.name), '{}', format('alter extension %%I drop %%s %%s', e.extname, t.noun, t.name), false
      from relations t join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = t.oid and d.deptype = 'e'
      join pg_extension e on e.oid = d.refobjid
     union all
    select 'membership', format('%%s in %%s', m.member::regrole, m.roleid::regrole), '{}',
           format('revoke %%s from %%s', m.roleid::regrole, m.member::regrole), true
      from pg_auth_members m join pg_roles r on r.oid = m.member and not r.rolsuper
     where m.roleid in (to_regrole(%(owner)s::text), to_regrole(%(service)s::text), to_regrole(%(admin)s::text))
     union all
    select 'statistics', format('%%s.%%I', s.stxnamespace::regnamespace, s.stxname), '{}',
           format('drop statistics %%s.%%I', s.stxnamespace::regnamespace, s.stxname), false
      from pg_statistic_ext s where s.stxrelid in (select oid from tables)
     union all
    select i.type, i.identity, '{}', format('drop %%s %%s', i.type, i.identity), false
      from spaces n join pg_depend d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid and d.deptype = 'n'
     cross join pg_identify_object(d.classid, d.objid, 0) as i
     where d.classid not in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_statistic_ext'::regclass, 'pg_default_acl'::regclass,
                             'pg_publication_namespace'::regclass, 'pg_extension'::regclass)
     union all
    select 'setting', format('%%s of %%s', s.name, case when s.name = 'search_path' and s.is_here and s.role <> '' then s.role else s.place end),
           jsonb_build_object('value', case when s.name = 'search_path' and s.value = format('mnemic, %%I, %%I', v.nspname, %(queue)s::text)
                                            then 'as set up' else s.value end),
           format('alter %%s reset %%s', s.place, s.name),
           s.name not like 'mnemic.%%' and s.name <> all (%(settings)s::text[])
      from settings s left join vector v on true
)
select o.kind, replace(o.object, v.used, '@vector@.') as object,
       replace(jsonb_strip_nulls(o.definition)::text, v.used, '@vector@.') as definition, o.dropping, o.is_harmless
  from objects o cross join (select coalesce((select quote_ident(nspname) from vector), 'public') || '.' as used) as v;
