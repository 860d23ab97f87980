"""What is searched, few memories or a crowd's, and the shortest way to search as the service does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from mnemic.memory.recall.search import search
from mnemic.memory.runtime.resources import Resources
from mnemic.state.identity import Identity
from mnemic.state.query import MemoryQuery
from mnemic.state.records import IndexedText, Message, NewMemory, SearchResult
from mnemic.state.search import SearchSetup
from mnemic.state.settings import Settings
from mnemic.storage import inbox
from mnemic.storage.database import Database
from mnemic.storage.transaction import ScopedTransaction
from tests.support.server import Clone
from tests.support.worlds import AGENT, MODEL, MORNING, identity, memory, remember

ME = identity(session="s1")
CATEGORIES = ("profile", "knowledge", "tasks", "procedural", "journal", "message")


async def ask(
    db: Database,
    question: str,
    vector: Sequence[float] | None = None,
    *,
    who: Identity = ME,
    also: Sequence[str] = (),
    allowed: Sequence[str] = CATEGORIES,
    rag_lengths: Mapping[str, int] = MappingProxyType({}),
    settings: Settings | None = None,
    top_k: int = 10,
    **request: Any,
) -> list[SearchResult]:
    """One search; what is left of the arguments are fields of the request."""
    wanted = MemoryQuery(query=question, top_k=top_k, **request)
    setup = SearchSetup(model=MODEL, settings=settings or Settings(), rag_lengths=rag_lengths)
    async with db.transaction(who, also=also) as tx:
        return await search(tx, setup, wanted, vector, allowed if wanted.categories is None else wanted.categories)


async def searched(
    tx: ScopedTransaction,
    request: MemoryQuery,
    vector: Sequence[float] | None = None,
    categories: Sequence[str] = CATEGORIES,
    *,
    model: str = MODEL,
) -> list[SearchResult]:
    """One search in a transaction that is open, with the default settings."""
    return await search(tx, SearchSetup(model=model, settings=Settings()), request, vector, categories)


async def keep(db: Database, said: Message, vector: tuple[float, ...] | None = None, *, who: Identity = ME) -> None:
    """A message that was observed and is searched."""
    async with db.transaction(who) as tx:
        await inbox.observe(tx, said.session_id, [said])
        text = IndexedText(item_id=said.id, text=f"{said.author}: {said.content}", vector=vector)
        await inbox.index_messages(tx, MODEL, [text])


def contents(results: Sequence[SearchResult]) -> list[str]:
    """Their texts in order."""
    return [item.content for item in results]


def fact(
    content: str, category: str, *, key: str = "user:ana", valid_from: datetime = MORNING, **fields: Any
) -> NewMemory:
    """A fact of a category, with further fields of the record."""
    return replace(memory(content, key=key, valid_from=valid_from), category=category, **fields)


async def know(
    resources: Resources, who: Identity, *new: NewMemory, run_id: str | None = None, also: Sequence[str] = ()
) -> Sequence[NewMemory]:
    """Stores memories with their vectors in one operation; actor and role are the identity's."""
    made = await resources.embedder.embed([item.search_text for item in new])
    vectors = {item.id: vector for item, vector in zip(new, made, strict=True)}
    model = resources.embedder.name
    stored = await remember(resources.database, who, *new, vectors=vectors, model=model, run_id=run_id, also=also)
    assert stored == {memory.id for memory in new}
    return new


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
insert into history (agent_id, revision, op_id, event, memory_id, scope_key, category, actor, actor_kind, reason, ts,
                     prev,
                     hash)
select agent_id, row_number() over (partition by agent_id order by random()), gen_random_uuid(), 'ADD', id, scope_key,
       'profile', 'x', 'agent', 'formation', now(), '', '' from crowd where number %% 2 = 0;
insert into heads select agent_id, max(revision), '' from history group by agent_id;
insert into thread_revisions
select agent_id, session_id, json_build_array('supervisor', substr(session_id, 8))::text, 0 from sessions;
"""


def load_crowd(clone: Clone) -> None:
    """50 users of one agent with 200 facts, changes and sources each, a tenth pending, a tenth of another model."""
    who = {"agent": AGENT, "other": OTHER_AGENT, "users": USERS, "each": ENTRIES_EACH}
    values = {"dimensions": DIMENSIONS, "model": MODEL, **who}
    with clone.as_superuser() as connection:
        with connection.transaction(), connection.cursor() as cursor:
            for statement in _LOAD.split(";\n"):
                if statement.strip():
                    cursor.execute(statement, values)
        connection.execute("vacuum analyze")
