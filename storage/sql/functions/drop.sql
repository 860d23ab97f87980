-- Drop the routines, triggers, policies and rights of the last set-up before the files of this folder are applied. The
-- server's error names a foreign object that depends on one of these routines.
do $$
declare
    command text;
begin
    foreach command in array array(
        select format('drop policy %I on %s', p.polname, p.polrelid::regclass)
          from pg_policy p join pg_class c on c.oid = p.polrelid where c.relnamespace = 'mnemic'::regnamespace
        union all
        select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
          from pg_trigger t join pg_class c on c.oid = t.tgrelid
         where c.relnamespace = 'mnemic'::regnamespace and not t.tgisinternal
        union all
        select 'drop routine ' || string_agg(p.oid::regprocedure::text, ', ') from pg_proc p
         where p.pronamespace = 'mnemic'::regnamespace
           and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
        having count(*) > 0)
    loop
        execute command;
    end loop;
    revoke all on all tables in schema mnemic from public, mnemic_app, mnemic_admin;
end $$;
-- Postgres checks each body at its first run, so the files need no order.
set local check_function_bodies = off;
