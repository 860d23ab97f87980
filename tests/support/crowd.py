"""A database with many users' memories, loaded in a second or two behind the policies, for plans and figures."""

from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL

USERS = 50
#: Living entries of each user; as many as a heavy user has between two consolidations.
ENTRIES_EACH = 400
DIMENSIONS = 384
OTHER_AGENT = "museum"

_LOAD = """
set local session_replication_role = replica;
set local search_path = mnemic, public;
select setseed(0.5);
create temporary table directions on commit drop as
    select place, array_agg(random() - 0.5)::halfvec as vec
      from generate_series(0, 199) as place, generate_series(1, %(dimensions)s) group by place;
create temporary table vocabulary on commit drop as
    select array['ferry','harbour','lighthouse','bees','honey','Lisbon','Porto','piano','marathon','garden','doctor',
                 'soup','bicycle','museum','chess','tomato','winter','sister','rocket','paint'] as words;
insert into agents (agent_id) values (%(agent)s), (%(other)s);
create temporary table crowd on commit drop as
    select agent_id, 'user:' || person as scope_key, gen_random_uuid() as id, number,
           format('%%s and %%s and %%s, note %%s', words[1 + number %% 20], words[1 + (number * 7 + person) %% 20],
                  words[1 + (number / 3) %% 20], number) as content,
           (a.vec + b.vec) as vec
      from vocabulary, unnest(array[%(agent)s, %(other)s]) as agent_id, generate_series(1, %(users)s) as person,
           generate_series(1, %(each)s) as number, directions a, directions b
     where (agent_id = %(agent)s or number <= 40)
       and a.place = number %% 200 and b.place = (number * 13 + person * 31) %% 199;
insert into sessions (agent_id, session_id, last_activity_at)
select distinct agent_id, 's-' || scope_key, now() from crowd;
insert into memories (agent_id, id, kind, scope_key, subject, category, content, importance, provenance,
                      valid_from)
select agent_id, id, 'fact', scope_key, 'Somebody', 'profile', content, 2, 'asserted', now()
  from crowd where number %% 2 = 0;
insert into messages (agent_id, id, session_id, scope_key, place, role, author, content, said_at, formed_by)
select agent_id, id, 's-' || scope_key, scope_key, (number + 1) / 2, 'user', 'Somebody', content, now(),
       gen_random_uuid()
  from crowd where number %% 2 = 1;
insert into sources (agent_id, memory_id, message_id, scope_key)
select f.agent_id, f.id, m.id, f.scope_key
  from crowd f join crowd m on m.agent_id = f.agent_id and m.scope_key = f.scope_key and m.number = f.number - 1
 where f.number %% 2 = 0;
insert into entries (agent_id, scope_key, item_id, kind, category, model, vec, tsv)
select agent_id, scope_key, id, case number %% 2 when 0 then 'fact' else 'message' end, 'profile',
       case when number %% 20 < 2 then '' when number %% 20 < 4 then 'former-model' else %(model)s end,
       case when number %% 20 > 1 then vec end, to_tsvector('english', content) from crowd order by random();
"""


def load_crowd(clone: Clone) -> None:
    """50 users of one agent with 200 facts and their 200 sources each, a tenth pending and a tenth of another model."""
    who = {"agent": AGENT, "other": OTHER_AGENT, "users": USERS, "each": ENTRIES_EACH}
    values = {"dimensions": DIMENSIONS, "model": MODEL, **who}
    with clone.as_superuser() as connection:
        with connection.transaction(), connection.cursor() as cursor:
            for statement in _LOAD.split(";\n"):
                if statement.strip():
                    cursor.execute(statement, values)
        connection.execute("vacuum analyze")
