"""Administrators verify and anchor, and a person exports: through the objects that an application holds."""

import json
from pathlib import Path

import psycopg
import pytest

from mnemic import Administration, AuditProblem, Mnemic
from mnemic.policy.governance.audit_export import check_export
from mnemic.state.errors import BrokenAuditError, CategoryRefusedError, ConfigurationError, InvalidInputError
from mnemic.storage.database import Database
from tests.support.audited import CUT, EVENTS, Story, administration, person, rebuilt, tampered, tell
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, remember

OTHERS_KEY = "somebody else's secret"


@pytest.fixture
async def story(db: Database, clean_db: Clone) -> Story:
    return await tell(clean_db, db)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "anchors"


def kept(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def leave_open(file: Path) -> None:
    """As an editor may leave the last line."""
    file.write_text(file.read_text().rstrip("\n"))


async def wrong(
    opened: Administration, anchors: Path | None = None, agent: str | None = AGENT
) -> list[tuple[object, ...]]:
    found = await opened.verify(agent, anchors)
    return [(problem.problem, problem.agent_id, problem.seq) for problem in found]


# -- verify


async def test_a_problem_has_its_agent_row_memory_and_meaning(
    clean_db: Clone, superuser: psycopg.Connection, story: Story
) -> None:
    tampered(superuser, "update memories set importance = 5 where content = 'Ana lives in Lisbon.'")
    async with administration(clean_db) as opened:
        (problem,) = await opened.verify(AGENT)
    assert isinstance(problem, AuditProblem)
    assert (problem.agent_id, problem.problem, problem.seq, problem.memory_id) == (AGENT, "replay", 2, story.lisbon)
    assert problem.explanation == "this memory is not as its history left it"


async def test_without_an_agent_every_agent_is_verified(
    db: Database, clean_db: Clone, superuser: psycopg.Connection, story: Story
) -> None:
    await remember(db, identity(agent="museum"), memory("Ana paints."))
    async with administration(clean_db) as opened:
        assert await opened.verify() == []
        tampered(superuser, "update history set actor = 'nobody' where agent_id = 'museum'")
        tampered(superuser, "delete from relations")
        expected = [("relation", "harbor", 3), ("hash", "museum", 1)]
        assert await wrong(opened, agent=None) == expected
        assert await wrong(opened, agent="museum") == expected[1:]


async def test_an_agent_that_is_not_there_is_no_clean_agent(clean_db: Clone, story: Story) -> None:
    async with administration(clean_db) as opened:
        with pytest.raises(InvalidInputError, match="no agent of this id"):
            await opened.verify("habror")


# -- anchors


async def test_an_anchor_names_the_newest_row_and_is_added_to_the_file(
    db: Database, clean_db: Clone, story: Story, file: Path
) -> None:
    async with administration(clean_db) as opened:
        first = await opened.anchor(AGENT, file)
        await remember(db, identity(), memory("Ana sings."))
        second = await opened.anchor(AGENT, str(file))
        assert (first.seq, second.seq) == (len(EVENTS), len(EVENTS) + 1)
        assert lines(file) == [first.model_dump(), second.model_dump()]
        assert await wrong(opened, file) == []


async def test_a_line_that_was_left_open_is_not_written_on(
    db: Database, clean_db: Clone, story: Story, file: Path
) -> None:
    async with administration(clean_db) as opened:
        await opened.anchor(AGENT, file)
        leave_open(file)
        await opened.anchor(AGENT, file)
        assert len(lines(file)) == 2
        assert await wrong(opened, file) == []


async def test_a_cut_tail_is_seen_with_anchors_and_not_without(
    clean_db: Clone, superuser: psycopg.Connection, story: Story, file: Path
) -> None:
    async with administration(clean_db) as opened:
        await opened.anchor(AGENT, file)
        tampered(superuser, *CUT)
        assert await wrong(opened) == []
        assert await wrong(opened, file) == [("cut", AGENT, 17)]


async def test_a_chain_written_anew_is_seen_with_anchors_and_not_without(
    clean_db: Clone, superuser: psycopg.Connection, story: Story, file: Path
) -> None:
    async with administration(clean_db) as opened:
        await opened.anchor(AGENT, file)
        tampered(superuser, "update history set actor = 'nobody' where agent_id = 'harbor' and seq = 5")
        rebuilt(superuser)
        assert await wrong(opened) == []
        assert await wrong(opened, file) == [("rewritten", AGENT, 17)]


async def test_an_agent_that_is_gone_is_missed_by_the_anchor(
    clean_db: Clone, superuser: psycopg.Connection, story: Story, file: Path
) -> None:
    async with administration(clean_db) as opened:
        await opened.anchor(AGENT, file)
        tables = ("history", "history_contents", "heads", "memories", "entries", "relations", "agents")
        tampered(superuser, *(f"delete from {table}" for table in tables))
        assert await wrong(opened, agent=None) == []
        assert await wrong(opened, file, None) == await wrong(opened, file) == [("cut", AGENT, 17)]


async def test_anchors_of_another_agent_are_not_this_ones(
    db: Database, clean_db: Clone, superuser: psycopg.Connection, story: Story, file: Path
) -> None:
    await remember(db, identity(agent="museum"), memory("Ana paints."))
    async with administration(clean_db) as opened:
        await opened.anchor(AGENT, file)
        await opened.anchor("museum", file)
        tampered(superuser, *CUT)
        assert await wrong(opened, file, "museum") == []
        assert await wrong(opened, file, None) == [("cut", AGENT, 17)]


async def test_nothing_is_anchored_that_is_wrong(
    clean_db: Clone, superuser: psycopg.Connection, story: Story, file: Path
) -> None:
    async with administration(clean_db) as opened:
        await opened.anchor(AGENT, file)
        before = kept(file)
        tampered(superuser, *CUT)
        with pytest.raises(BrokenAuditError) as refused:  # what the chain itself does not show
            await opened.anchor(AGENT, file)
        assert [problem.problem for problem in refused.value.problems] == ["cut"]
        tampered(superuser, "update history set actor = 'nobody' where agent_id = 'harbor' and seq = 5")
        with pytest.raises(BrokenAuditError):
            await opened.anchor(AGENT, file.with_name("new"))
        assert kept(file) == before
        assert kept(file.with_name("new")) is None


async def test_a_forged_line_is_a_problem_and_stops_further_anchors(clean_db: Clone, story: Story, file: Path) -> None:
    async with administration(clean_db, key=OTHERS_KEY) as other:
        await other.anchor(AGENT, file)
    async with administration(clean_db) as opened:
        (problem,) = await opened.verify(AGENT, file)
        assert (problem.problem, problem.line, problem.agent_id) == ("anchor", 1, None)
        with pytest.raises(BrokenAuditError):
            await opened.anchor(AGENT, file)


async def test_without_a_key_there_are_no_anchors(clean_db: Clone, story: Story, file: Path) -> None:
    async with administration(clean_db, key=None) as opened:
        with pytest.raises(ConfigurationError, match="MNEMIC_ANCHOR_KEY"):
            await opened.anchor(AGENT, file)
        with pytest.raises(ConfigurationError, match="MNEMIC_ANCHOR_KEY"):
            await opened.verify(AGENT, file)
        assert await opened.verify(AGENT) == []
    assert kept(file) is None
    with pytest.raises(ConfigurationError, match="anchor_key") as refused:
        async with administration(clean_db, key="short"):
            pass
    assert "short" not in str(refused.value).replace("short or", "")


async def test_a_file_that_cannot_be_used_is_named(clean_db: Clone, story: Story, tmp_path: Path) -> None:
    async with administration(clean_db) as opened:
        for name in (tmp_path, tmp_path / "no" / "such", Path("a\0b"), tmp_path / ("x" * 300)):
            with pytest.raises(InvalidInputError, match="cannot be"):
                await opened.verify(AGENT, name)
            with pytest.raises(InvalidInputError, match="cannot be"):
                await opened.anchor(AGENT, name)
        with pytest.raises(InvalidInputError, match="no such file"):
            await opened.verify(AGENT, tmp_path / "anchors")
        with pytest.raises(InvalidInputError):
            await opened.verify(AGENT, 7)  # type: ignore[arg-type]


async def test_who_has_no_history_has_no_anchor(clean_db: Clone, file: Path) -> None:
    async with administration(clean_db) as opened:
        with pytest.raises(InvalidInputError, match="no agent of this id"):
            await opened.anchor("habror", file)
    assert kept(file) is None


# -- export


async def exported(clone: Clone, user: str = "ana") -> list[str]:
    async with Mnemic.open(database_url=clone.service_dsn, embedder="hash") as opened:
        return [line async for line in opened.export_audit(person(user))]


def own(export: list[str]) -> dict[int, dict[str, object]]:
    rows = [json.loads(line) for line in export[1:]]
    return {row["seq"]: row for row in rows if "text" in row}


async def test_an_export_has_the_persons_rows_and_the_hashes_of_all_others(clean_db: Clone, story: Story) -> None:
    export = await exported(clean_db)
    checked = check_export(export)
    assert checked.problems == ()
    assert (checked.rows, checked.own, checked.erased) == (17, 15, 2)
    assert sorted(own(export)) == [*range(1, 15), 16]
    assert json.loads(export[15]).keys() == {"seq", "prev", "hash"}
    mine = own(export)
    assert json.loads(str(mine[1]["after"]))["content"] == "Ana lives in Porto."
    assert "salt" not in mine[10]
    assert [mine[seq]["row"]["event"] for seq in mine] == [EVENTS[seq - 1] for seq in mine]  # type: ignore[index]
    whole = "\n".join(export)
    assert "locker" not in whole  # erased
    assert "Bo sings" not in whole  # bo's
    assert "ferry" not in whole  # the agent's


async def test_what_others_have_stays_theirs(clean_db: Clone, story: Story) -> None:
    export = await exported(clean_db, "bo")
    assert check_export(export).problems == ()
    assert sorted(own(export)) == [17]
    whole = "\n".join(export)
    for secret in ("ana", "Ana ", str(story.porto), str(story.consolidation), "Porto"):
        assert secret not in whole


async def test_an_exports_head_is_the_anchors(clean_db: Clone, story: Story, file: Path) -> None:
    async with administration(clean_db) as opened:
        anchor = await opened.anchor(AGENT, file)
    checked = check_export(await exported(clean_db))
    assert (checked.seq, checked.hash) == (anchor.seq, anchor.hash)


async def test_a_forged_history_shows_in_an_export(
    clean_db: Clone, superuser: psycopg.Connection, story: Story
) -> None:
    tampered(superuser, "update history set actor = 'nobody' where agent_id = 'harbor' and seq = 5")
    (problem,) = check_export(await exported(clean_db)).problems
    assert (problem.line, problem.reason) == (6, "the text is not what was hashed")


async def test_an_export_of_many_pages_is_one_chain(
    db: Database, clean_db: Clone, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    whole = await exported(clean_db)
    monkeypatch.setattr("mnemic.service.governance.audit_export._PAGE", 4)
    assert await exported(clean_db) == whole


async def test_what_happens_during_an_export_is_not_in_it(db: Database, clean_db: Clone, story: Story) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as opened:
        export = opened.export_audit(person())
        got = [await anext(export)]
        await remember(db, identity(), memory("Ana sings."))
        got += [line async for line in export]
    assert check_export(got).problems == ()
    assert len(got) == 18


async def test_an_agent_without_a_history_exports_a_header(clean_db: Clone) -> None:
    export = await exported(clean_db)
    assert len(export) == 1
    assert check_export(export).problems == ()


async def test_an_export_is_for_the_person_alone(clean_db: Clone) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as opened:
        with pytest.raises(CategoryRefusedError, match="owner"):
            await anext(opened.export_audit(identity()))
        nobody = identity(None).model_copy(update={"role": "owner"})
        with pytest.raises(InvalidInputError, match="user_id"):
            await anext(opened.export_audit(nobody))
