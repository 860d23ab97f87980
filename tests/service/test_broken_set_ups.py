"""Nothing starts on a set-up that would not keep what Mnemic promises: each refusal names its remedy."""

from collections.abc import Iterator

import pytest
from psycopg import sql

from mnemic.service.memory import Mnemic
from mnemic.state.errors import DatabaseSetupError
from mnemic.storage import doctor
from tests.support.matrix import few_first
from tests.support.server import Clone
from tests.support.set_ups import carry_out, other_role

#: What was done to a database, and what the message says to do about it.
DATABASES = [
    (
        "alter table mnemic.memories no force row level security",
        "alter table mnemic.memories enable row level security",
    ),
    ("alter table mnemic.memories owner to mnemic_app", "alter table mnemic.memories owner to mnemic_owner"),
    ("create view public.everything as select * from mnemic.memories", "set (security_invoker = true)"),
    ("grant truncate on mnemic.memories to mnemic_app", "revoke truncate on mnemic.memories from mnemic_app"),
    (
        "grant execute on function mnemic.open_operation to mnemic_app",
        "revoke execute on function mnemic.open_operation",
    ),
    ("grant update on mnemic.heads to mnemic_app", "revoke update on mnemic.heads from mnemic_app"),
    ("alter function mnemic.begin_operation reset search_path", "set search_path = mnemic, pg_temp"),
    ("grant select on mnemic.history_contents to mnemic_admin", "revoke select on mnemic.history_contents from"),
    ("alter table mnemic.memories disable trigger record_update", "enable trigger record_update"),
]
#: What the role is that a service logs in as, and what the message says to do about it.
ROLES = [
    ("alter role {role} superuser", "alter role {role} nosuperuser"),
    ("alter role {role} bypassrls", "alter role {role} nobypassrls"),
    ("grant mnemic_owner to {role}", "revoke mnemic_owner from {role}"),
    ("grant mnemic_admin to {role}", "revoke mnemic_admin from {role}"),
    (
        "grant set on parameter session_replication_role to {role}",
        "revoke set on parameter session_replication_role from {role}",
    ),
]


async def opened(dsn: str) -> None:
    async with Mnemic.open(database_url=dsn, embedder="hash"):
        pass


async def refused(dsn: str) -> str:
    with pytest.raises(DatabaseSetupError) as refusal:
        await opened(dsn)
    return str(refusal.value)


@pytest.mark.parametrize(("harm", "remedy"), few_first(DATABASES), ids=[harm for harm, _ in DATABASES])
async def test_a_broken_database_is_refused_until_the_remedy_is_carried_out(
    fresh_db: Clone, harm: str, remedy: str
) -> None:
    await opened(fresh_db.service_dsn)
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.encode())
    told = await refused(fresh_db.service_dsn)
    assert remedy in told
    assert len(carry_out(fresh_db, told)) == 1
    await opened(fresh_db.service_dsn)


@pytest.fixture
def service(fresh_db: Clone, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A role that the doctor takes for the service's: the server's own must not be changed, others use it."""
    with other_role(fresh_db, "grant mnemic_app to {role}") as role:
        monkeypatch.setattr(doctor, "SERVICE_ROLE", role)
        yield role


@pytest.mark.parametrize(("harm", "remedy"), few_first(ROLES), ids=[harm for harm, _ in ROLES])
async def test_a_role_with_too_much_power_is_refused_until_the_remedy_is_carried_out(
    fresh_db: Clone, service: str, harm: str, remedy: str
) -> None:
    with fresh_db.as_superuser() as connection:
        connection.execute(harm.format(role=service).encode())
    told = await refused(fresh_db.dsn_of(service))
    assert f"`{remedy.format(role=service)}`" in told
    assert len(carry_out(fresh_db, told)) == 1
    await opened(fresh_db.dsn_of(service))


async def test_a_server_without_the_fixes_of_row_security_is_refused(
    fresh_db: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts as fixed is moved, not the server."""
    with fresh_db.as_superuser() as connection:
        number = connection.info.server_version
        (version,) = connection.execute("select current_setting('server_version')").fetchone() or ("",)
    assert doctor.FIXED_SERVERS == (150014, 160010, 170006)  # CVE-2025-8713
    monkeypatch.setattr(doctor, "FIXED_SERVERS", (number + 1,))
    told = await refused(fresh_db.service_dsn)
    assert f"- server: Postgres {version}: " in told
    assert "install Postgres 15.14, 16.10, 17.6 or newer" in told
    # a release after that one, and whatever is fixed in other majors
    monkeypatch.setattr(doctor, "FIXED_SERVERS", (number, number + 10_000, number - 10_000))
    await opened(fresh_db.service_dsn)


@pytest.mark.thorough
async def test_what_a_view_without_the_remedy_would_show(fresh_db: Clone) -> None:
    """The control: rows of other agents are to be seen, and after the remedy none is."""
    with fresh_db.as_superuser() as connection:
        connection.execute(
            "insert into mnemic.agents (agent_id) values ('harbor');"
            " create view public.leak as select * from mnemic.agents; grant select on public.leak to mnemic_app"
        )
    count = sql.SQL("select count(*) from public.leak")
    with fresh_db.as_role("mnemic_app") as service:
        assert service.execute(count).fetchone() == (1,)
        carry_out(fresh_db, await refused(fresh_db.service_dsn))
        assert service.execute(count).fetchone() == (0,)
