-- Replace the check of a column if its definition differs. Adding a check scans the table, so an equal one stays.
create procedure check_column(p_table text, p_column text, p_definition text)
language plpgsql set search_path = mnemic, pg_temp as $$
declare
    name    text := p_table || '_' || p_column || '_check';
    current text := (select pg_get_constraintdef(c.oid) from pg_constraint c
                      where c.conrelid = p_table::regclass and c.conname = name);
begin
    if current is distinct from p_definition then
        execute format('alter table %I drop constraint if exists %I, add constraint %I %s',
                       p_table, name, name, p_definition);
    end if;
end $$;
