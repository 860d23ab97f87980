"""Whatever the database does to it, a public method ends with a result or an error of ours, never with the driver's."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from psycopg import Connection, sql

from mnemic import Administration, Mnemic, MnemicError
from mnemic.state.errors import RefusedCallError
from mnemic.state.records import ScopeSettings
from mnemic.storage.threads import ThreadSaver
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1").model_copy(update={"role": "owner"})
NOW = datetime.now(UTC)
SOME = str(uuid4())
Call = Callable[[Any], Awaitable[Any]]


async def _all(lines: AsyncIterator[Any]) -> list[Any]:
    return [line async for line in lines]


def _config(thread: str = "t1") -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": str(uuid4())}}


#: Methods that touch no database.
WITHOUT_DATABASE = {"checkpointer", "describe", "formation_node", "middleware", "observe_node", "open", "recall_node",
                    "settings", "thread", "tools", "under_way"}  # fmt: skip
#: A call of every other one.
CALLS: dict[str, Call] = {
    "agent_settings": lambda memory: memory.agent_settings(ANA),
    "assign_tenant": lambda memory: memory.assign_tenant(ANA, "default"),
    "as_of": lambda memory: memory.as_of(ANA, "user:ana", NOW),
    "configure_agent": lambda memory: memory.configure_agent(ANA, rag=True),
    "configure_scope": lambda memory: memory.configure_scope(ANA, ScopeSettings(scope_key="user:ana")),
    "consolidate": lambda memory: memory.consolidate(ANA, "user:ana", force=True),
    "count_messages": lambda memory: memory.count_messages(ANA),
    "copy_threads": lambda memory: memory.copy_threads(_with_a_thread(), ANA),
    "correct": lambda memory: memory.correct(ANA, SOME, "Ana moors at pier 5."),
    "embed_pending": lambda memory: memory.embed_pending(ANA),
    "erase": lambda memory: memory.erase(ANA, SOME),
    "erase_person": lambda memory: memory.erase_person(ANA),
    "export_audit": lambda memory: _all(memory.export_audit(ANA)),
    "forget": lambda memory: memory.forget(ANA, SOME),
    "form": lambda memory: memory.form(ANA),
    "form_later": lambda memory: memory.form_later(ANA),
    "history": lambda memory: memory.history(ANA, SOME),
    "maintain": lambda memory: memory.maintain(ANA),
    "maintenance_runs": lambda memory: memory.maintenance_runs(ANA),
    "memories": lambda memory: memory.memories(ANA),
    "messages": lambda memory: memory.messages(ANA),
    "observe": lambda memory: memory.observe(ANA, [{"role": "user", "content": "I moor at pier 4."}]),
    "operations": lambda memory: memory.operations(ANA),
    "prune_threads": lambda memory: memory.prune_threads(ANA, "t1"),
    "query": lambda memory: memory.query(ANA, "pier"),
    "recall": lambda memory: memory.recall(ANA, "Where do I moor?", search="always"),
    "reembed": lambda memory: memory.reembed("harbor"),
    "refine": lambda memory: memory.refine(ANA, "user:ana", force=True),
    "refinements": lambda memory: memory.refinements(ANA),
    "remember": lambda memory: memory.remember(ANA, "Ana rows.", category="activity"),
    "remember_procedure": lambda memory: memory.remember_procedure(ANA, "Mooring", ["Throw the line."]),
    "restore": lambda memory: memory.restore(ANA, "user:ana", 0),
    "shared": lambda memory: memory.shared(ANA),
    "stats": lambda memory: memory.stats(ANA),
    "tenant_stats": lambda memory: memory.tenant_stats("default"),
    "threads": lambda memory: memory.threads(ANA),
    "undo": lambda memory: memory.undo(ANA, SOME),
    "undo_refinement": lambda memory: memory.undo_refinement(ANA, SOME),
    "undo_run": lambda memory: memory.undo_run(ANA, SOME),
    "undo_session": lambda memory: memory.undo_session(ANA, "s1", NOW),
    "unshare": lambda memory: memory.unshare(ANA),
    "update": lambda memory: memory.update(ANA, SOME, pinned=True),
    "updates": lambda memory: memory.updates(ANA, since=0),
    "usage": lambda memory: memory.usage(ANA),
}
#: Calls of the checkpointer, which LangGraph makes.
CHECKPOINTER_CALLS: dict[str, Call] = {
    "aget_tuple": lambda saver: saver.aget_tuple(_config()),
    "alist": lambda saver: _all(saver.alist(_config())),
    "aput": lambda saver: saver.aput(_config(), empty_checkpoint(), {}, {}),
    "aput_writes": lambda saver: saver.aput_writes(_config(), [("messages", "hello")], "task"),
    "adelete_thread": lambda saver: saver.adelete_thread("t1"),
    "adelete_for_runs": lambda saver: saver.adelete_for_runs(["r1"]),
    "acopy_thread": lambda saver: saver.acopy_thread("t1", "t2"),
    "aprune": lambda saver: saver.aprune(["t1"]),
    "aget_delta_channel_history": lambda saver: saver.aget_delta_channel_history(
        config=_config(), channels=["messages"]
    ),
    "statuses": lambda saver: saver.statuses(),
}


ADMINISTRATION_CALLS: dict[str, Call] = {
    "anchor": lambda administration: administration.anchor("harbor", Path(gettempdir(), "no-such-anchors.jsonl")),
    "as_of": lambda administration: administration.as_of("harbor", "user:ana", NOW),
    "forget_messages": lambda administration: administration.forget_messages("harbor"),
    "operations": lambda administration: administration.operations("harbor"),
    "protect": lambda administration: administration.protect("harbor", SOME),
    "purge": lambda administration: administration.purge("harbor"),
    "refinements": lambda administration: administration.refinements("harbor"),
    "restore": lambda administration: administration.restore("harbor", "user:ana", 0),
    "undo": lambda administration: administration.undo("harbor", SOME),
    "undo_refinement": lambda administration: administration.undo_refinement("harbor", SOME),
    "undo_run": lambda administration: administration.undo_run("harbor", SOME),
    "undo_session": lambda administration: administration.undo_session("harbor", "s1", NOW),
    "unprotect": lambda administration: administration.unprotect("harbor", SOME),
    "unshare": lambda administration: administration.unshare("harbor", "ana"),
    "verify": lambda administration: administration.verify("harbor"),
}


def _with_a_thread() -> InMemorySaver:
    source = InMemorySaver()
    source.put({"configurable": {"thread_id": "t9", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
    return source


# -- what happens to the database


def _limit_connections(superuser: Connection, clone: Clone, limit: int) -> None:
    """Limit the connections of this database alone: the role belongs to every test of the server."""
    superuser.execute(
        sql.SQL("alter database {} connection limit {}").format(sql.Identifier(clone.name), sql.Literal(limit))
    )


@contextmanager
def gone(clone: Clone) -> Iterator[None]:
    """It takes no connections, and has ended those that there were."""
    with clone.as_superuser() as superuser:
        _limit_connections(superuser, clone, 0)
        superuser.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where usename = 'mnemic_app' and datname = current_database()"
        )
        yield
        _limit_connections(superuser, clone, -1)


@contextmanager
def without_rights(clone: Clone) -> Iterator[None]:
    """The service's role may no longer use the schema."""
    with clone.as_superuser() as superuser:
        superuser.execute("revoke usage on schema mnemic from mnemic_app")
        yield
        superuser.execute("grant usage on schema mnemic to mnemic_app")


def failing_with(state: str) -> Callable[[Clone], AbstractContextManager[None]]:
    """Every statement that meets a row fails with this SQLSTATE."""

    @contextmanager
    def failing(clone: Clone) -> Iterator[None]:
        with clone.as_superuser() as superuser:
            tables = superuser.execute(
                "select relname from pg_class where relnamespace = 'mnemic'::regnamespace and relkind = 'r'"
                " and relrowsecurity"
            ).fetchall()
            superuser.execute(
                "create function public.fail() returns boolean language plpgsql as"
                f" $$ begin raise exception 'Ana moors' using errcode = '{state}'; end $$"
            )
            for (table,) in tables:
                policy = (
                    "create policy failing on mnemic.{} as restrictive using (public.fail()) with check (public.fail())"
                )
                superuser.execute(sql.SQL(policy).format(sql.Identifier(table)))
            yield
            for (table,) in tables:
                superuser.execute(sql.SQL("drop policy failing on mnemic.{}").format(sql.Identifier(table)))
            superuser.execute("drop function public.fail()")

    return failing


#: Faults, and whether they meet every call.
FAULTS = {
    "gone": (gone, True),
    "a right is missing": (without_rights, True),
    "a serialization failure": (failing_with("40001"), False),
    "a full disk": (failing_with("53100"), False),
    "an error inside Postgres": (failing_with("XX000"), False),
}


def test_every_public_method_has_a_call_here() -> None:
    public = {name for name in dir(Mnemic) if not name.startswith("_")}
    assert public == CALLS.keys() | WITHOUT_DATABASE
    overridden = {
        name
        for name, value in vars(ThreadSaver).items()
        if inspect.isfunction(value) or inspect.isasyncgenfunction(value)
    }
    assert {name for name in overridden if not name.startswith("_")} == CHECKPOINTER_CALLS.keys() | {"setup"}


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
async def test_no_method_lets_the_drivers_error_out(fresh_db: Clone, fault: str) -> None:
    broken, meets_all = FAULTS[fault]
    settings = {"database_url": fresh_db.service_dsn, "embedder": "hash", "pool_timeout_seconds": 0.2, "pool_size": 2}
    async with Mnemic.open(**settings) as memory:
        saver = memory.checkpointer(ANA)
        await memory.remember(ANA, "Ana moors at pier 4.", category="profile")
        await memory.observe(ANA, [{"role": "user", "content": "I moor at pier 4 since May."}])
        await saver.aput(_config(), empty_checkpoint(), {}, {})
        outcomes: dict[str, object] = {}
        with broken(fresh_db):
            for subject, calls in ((memory, CALLS), (saver, CHECKPOINTER_CALLS)):
                for name, call in calls.items():
                    outcomes[name] = await _outcome(call, subject)
        raised = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Exception)}
        assert {name: error for name, error in raised.items() if not isinstance(error, MnemicError)} == {}
        assert not [name for name, error in raised.items() if "Ana moors" in str(error)]
        failed = {name for name, error in raised.items() if not isinstance(error, RefusedCallError)}
        # a recall goes without memory, and work in the background has its own log
        all_calls = outcomes.keys() - {"recall", "form_later"}
        assert failed >= (all_calls if meets_all else {"memories", "observe", "statuses"})


async def _outcome(call: Call, subject: object) -> object:
    try:
        return await call(subject)
    except Exception as error:  # noqa: BLE001 - which kind it is, is what is tested
        return error


@pytest.mark.thorough
async def test_no_administrators_method_lets_the_drivers_error_out(fresh_db: Clone) -> None:
    async with Administration.open(
        database_url=fresh_db.service_dsn, admin_url=fresh_db.administrator_dsn, pool_timeout_seconds=0.2
    ) as administration:
        with fresh_db.as_superuser() as superuser:
            superuser.execute("revoke usage on schema mnemic from mnemic_admin")
        methods = {name for name in dir(Administration) if not name.startswith("_")} - {"open", "purges"}
        assert methods == ADMINISTRATION_CALLS.keys()
        for name, call in ADMINISTRATION_CALLS.items():
            outcome = await _outcome(call, administration)
            assert isinstance(outcome, MnemicError), name
            assert not isinstance(outcome, RefusedCallError), name  # which would come before the database is asked
