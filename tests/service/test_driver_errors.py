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
from mnemic.service.admin import Admin
from mnemic.service.governance.history import BlindHistory, History
from mnemic.service.governance.privacy import Privacy
from mnemic.service.hosts.nodes import HostNodes
from mnemic.service.hosts.threads import Threads
from mnemic.service.usage import UsageReports
from mnemic.state.errors import RefusedCallError
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.storage.threads import ThreadSaver
from tests.support.server import Clone
from tests.support.worlds import identity

ANA = identity("ana", session="s1").model_copy(update={"role": "owner"})
NOW = datetime.now(UTC)
SOME = str(uuid4())
HARBOR = Identity(agent_id="harbor")
Call = Callable[[Any], Awaitable[Any]]


async def _all(lines: AsyncIterator[Any]) -> list[Any]:
    return [line async for line in lines]


def _config(thread: str = "t1") -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": str(uuid4())}}


#: Methods and attributes that touch no database.
WITHOUT_DATABASE = {
    *("admin.describe", "admin.pending_requests", "middleware", "nodes.form", "nodes.observe", "nodes.recall", "open"),
    *("open_sync", "settings", "threads.checkpointer", "threads.config", "tools"),
}
#: A call of every other one.
CALLS: dict[str, Call] = {
    "admin.agent_settings": lambda memory: memory.admin.agent_settings(ANA),
    "admin.assign_tenant": lambda memory: memory.admin.assign_tenant(ANA, "default"),
    "admin.configure_agent": lambda memory: memory.admin.configure_agent(ANA, rag=True),
    "admin.configure_scope": lambda memory: memory.admin.configure_scope(ANA, "user:ana"),
    "admin.consolidate": lambda memory: memory.admin.consolidate(ANA, "user:ana", force=True),
    "admin.embed_pending": lambda memory: memory.admin.embed_pending(ANA),
    "admin.form_later": lambda memory: memory.admin.form_later(ANA),
    "admin.maintain": lambda memory: memory.admin.maintain(ANA),
    "admin.maintenance_runs": lambda memory: memory.admin.maintenance_runs(ANA),
    "admin.reembed": lambda memory: memory.admin.reembed(ANA),
    "admin.refinements": lambda memory: memory.admin.refinements(ANA),
    "admin.scope_settings": lambda memory: memory.admin.scope_settings(ANA, "user:ana"),
    "correct": lambda memory: memory.correct(ANA, SOME, "Ana moors at pier 5."),
    "forget": lambda memory: memory.forget(ANA, SOME),
    "form": lambda memory: memory.form(ANA),
    "get": lambda memory: memory.get(ANA, SOME),
    "history.as_of": lambda memory: memory.history.as_of(ANA, "user:ana", NOW),
    "history.events": lambda memory: memory.history.events(ANA, SOME),
    "history.operations": lambda memory: memory.history.operations(ANA),
    "history.restore": lambda memory: memory.history.restore(ANA, "user:ana", 0),
    "history.undo": lambda memory: memory.history.undo(ANA, SOME),
    "history.undo_refinement": lambda memory: memory.history.undo_refinement(ANA, SOME),
    "history.undo_run": lambda memory: memory.history.undo_run(ANA, SOME),
    "history.undo_session": lambda memory: memory.history.undo_session(ANA, "s1", NOW),
    "history.updates": lambda memory: memory.history.updates(ANA, revision=0),
    "memories": lambda memory: memory.memories(ANA),
    "observe": lambda memory: memory.observe(ANA, [{"role": "user", "content": "I moor at pier 4."}]),
    "privacy.count_messages": lambda memory: memory.privacy.count_messages(ANA),
    "privacy.erase": lambda memory: memory.privacy.erase(ANA, SOME),
    "privacy.erase_person": lambda memory: memory.privacy.erase_person(ANA),
    "privacy.export_audit": lambda memory: _all(memory.privacy.export_audit(ANA)),
    "privacy.messages": lambda memory: memory.privacy.messages(ANA),
    "privacy.shared": lambda memory: memory.privacy.shared(ANA),
    "privacy.unshare": lambda memory: memory.privacy.unshare(ANA),
    "query": lambda memory: memory.query(ANA, "pier"),
    "recall": lambda memory: memory.recall(ANA, "Where do I moor?", search="always"),
    "refine": lambda memory: memory.refine(ANA, "user:ana", force=True),
    "remember": lambda memory: memory.remember(ANA, "Ana rows.", category="activity"),
    "threads.copy": lambda memory: memory.threads.copy(ANA, _with_a_thread()),
    "threads.delete": lambda memory: memory.threads.delete(ANA, "t1"),
    "threads.list": lambda memory: memory.threads.list(ANA),
    "threads.prune": lambda memory: memory.threads.prune(ANA, "t1"),
    "update": lambda memory: memory.update(ANA, SOME, pinned=True),
    "usage.stats": lambda memory: memory.usage.stats(ANA),
    "usage.tenant_stats": lambda memory: memory.usage.tenant_stats("default"),
    "usage.tokens": lambda memory: memory.usage.tokens(ANA),
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
    "anchor": lambda administration: administration.anchor(HARBOR, Path(gettempdir(), "no-such-anchors.jsonl")),
    "history.as_of": lambda administration: administration.history.as_of(HARBOR, "user:ana", NOW),
    "forget_messages": lambda administration: administration.forget_messages(HARBOR),
    "history.operations": lambda administration: administration.history.operations(HARBOR),
    "protect": lambda administration: administration.protect(HARBOR, SOME),
    "purge": lambda administration: administration.purge(HARBOR),
    "refinements": lambda administration: administration.refinements(HARBOR),
    "history.restore": lambda administration: administration.history.restore(HARBOR, "user:ana", 0),
    "history.undo": lambda administration: administration.history.undo(HARBOR, SOME),
    "history.undo_refinement": lambda administration: administration.history.undo_refinement(HARBOR, SOME),
    "history.undo_run": lambda administration: administration.history.undo_run(HARBOR, SOME),
    "history.undo_session": lambda administration: administration.history.undo_session(HARBOR, "s1", NOW),
    "unprotect": lambda administration: administration.unprotect(HARBOR, SOME),
    "unshare": lambda administration: administration.unshare(Identity(agent_id="harbor", user_id="ana")),
    "verify": lambda administration: administration.verify(HARBOR),
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
    namespaces = {
        "": Mnemic,
        "admin.": Admin,
        "history.": History,
        "nodes.": HostNodes,
        "privacy.": Privacy,
        "threads.": Threads,
        "usage.": UsageReports,
    }
    public = {prefix + name for prefix, of in namespaces.items() for name in dir(of) if not name.startswith("_")}
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
    async with Mnemic.open(settings=Settings(**settings)) as memory:
        saver = memory.threads.checkpointer(ANA)
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
        all_calls = outcomes.keys() - {"recall", "admin.form_later"}
        assert failed >= (all_calls if meets_all else {"memories", "observe", "statuses"})


async def _outcome(call: Call, subject: object) -> object:
    try:
        return await call(subject)
    except Exception as error:  # noqa: BLE001 - which kind it is, is what is tested
        return error


@pytest.mark.thorough
async def test_no_administrators_method_lets_the_drivers_error_out(fresh_db: Clone) -> None:
    async with Administration.open(
        admin_url=fresh_db.administrator_dsn,
        settings=Settings(database_url=fresh_db.service_dsn, pool_timeout_seconds=0.2),
    ) as administration:
        with fresh_db.as_superuser() as superuser:
            superuser.execute("revoke usage on schema mnemic from mnemic_admin")
        methods = {name for name in dir(Administration) if not name.startswith("_")} - {
            "open",
            "open_sync",
            "purges",
            "history",
        }
        methods |= {f"history.{name}" for name in dir(BlindHistory) if not name.startswith("_")}
        assert methods == ADMINISTRATION_CALLS.keys()
        for name, call in ADMINISTRATION_CALLS.items():
            outcome = await _outcome(call, administration)
            assert isinstance(outcome, MnemicError), name
            assert not isinstance(outcome, RefusedCallError), name  # which would come before the database is asked
