"""Administrators verify and anchor, and a person exports: through the objects that an application holds."""

import json
from pathlib import Path

import psycopg
import pytest

from mnemic import Administration, Mnemic
from mnemic.memory.governance.chain import check_export
from mnemic.state.errors import BrokenAuditError, CategoryRefusedError, ConfigurationError, InvalidInputError
from mnemic.state.governance import EXPLANATIONS
from mnemic.state.identity import Identity
from mnemic.storage.database import Database
from tests.support.audited import CUT, EVENTS, REBUILT, Story, administration, person, tampered, tell
from tests.support.server import Clone
from tests.support.worlds import AGENT, identity, memory, remember

OTHERS_KEY = "somebody else's secret"
FORGED = "update history set actor = 'nobody' where agent_id = 'harbor' and revision = 5"
#: All that the database has of an agent.
GONE = tuple(
    f"delete from {table}"
    for table in ("history", "history_contents", "heads", "memories", "entries", "relations", "agents")
)


@pytest.fixture
async def story(db: Database, clean_db: Clone) -> Story:
    return await tell(clean_db, db)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "anchors"


def kept(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def leave_open(file: Path) -> None:
    """As an editor may leave the last line."""
    file.write_text(file.read_text().rstrip("\n"))


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def wrong(
    opened: Administration, anchors: Path | None = None, agent: str | None = AGENT
) -> list[tuple[object, ...]]:
    found = await opened.verify(Identity(agent_id=agent) if agent else None, anchors)
    return [(problem.problem, problem.agent_id, problem.revision) for problem in found]


# -- verify


async def test_a_problem_has_its_agent_row_memory_and_meaning(
    db: Database, clean_db: Clone, superuser: psycopg.Connection, story: Story
) -> None:
    await remember(db, identity(agent="museum"), memory("Ana paints."))
    async with administration(clean_db) as opened:
        assert await opened.verify() == []
        tampered(superuser, "update memories set importance = 5 where content = 'Ana lives in Lisbon.'")
        tampered(superuser, "update history set actor = 'nobody' where agent_id = 'museum'")
        (problem,) = await opened.verify(Identity(agent_id=AGENT))
        assert (problem.agent_id, problem.problem, problem.revision, problem.memory_id) == (
            AGENT,
            "replay",
            2,
            story.lisbon,
        )
        assert problem.explanation == EXPLANATIONS["replay"]
        expected = [("replay", "harbor", 2), ("hash", "museum", 1)]
        assert await wrong(opened, agent=None) == expected
        assert await wrong(opened, agent="museum") == expected[1:]


# -- anchors


@pytest.mark.usefixtures("story")
async def test_an_anchor_names_the_newest_row_and_is_added_to_the_file(
    db: Database, clean_db: Clone, file: Path
) -> None:
    async with administration(clean_db) as opened:
        first = await opened.anchor(Identity(agent_id=AGENT), file)
        leave_open(file)
        await remember(db, identity(), memory("Ana sings."))
        second = await opened.anchor(Identity(agent_id=AGENT), str(file))
        assert (first.revision, second.revision) == (len(EVENTS), len(EVENTS) + 1)
        assert lines(file) == [first.model_dump(), second.model_dump()]
        assert await wrong(opened, file) == []


@pytest.mark.usefixtures("story")
@pytest.mark.parametrize(
    ("statements", "problem"), [(CUT, "cut"), (GONE, "cut"), ((FORGED,), "rewritten")], ids=["tail", "all", "anew"]
)
async def test_what_fits_together_again_is_seen_with_an_anchor_and_not_without(
    db: Database,
    clean_db: Clone,
    superuser: psycopg.Connection,
    file: Path,
    statements: tuple[str, ...],
    problem: str,
) -> None:
    async with administration(clean_db) as opened:
        await opened.anchor(Identity(agent_id=AGENT), file)
        tampered(superuser, *statements)
        if problem == "rewritten":
            assert await wrong(opened) == [("hash", AGENT, 5)]
            tampered(superuser, REBUILT)
        assert await wrong(opened, agent=None) == []
        assert await wrong(opened, file, None) == await wrong(opened, file) == [(problem, AGENT, 17)]
        await remember(db, identity(agent="museum"), memory("Ana paints."))
        assert await wrong(opened, file, "museum") == []  # another agent's anchor says nothing of this one


@pytest.mark.usefixtures("story")
async def test_nothing_is_anchored_that_is_wrong(clean_db: Clone, superuser: psycopg.Connection, file: Path) -> None:
    new, others = file.with_name("new"), file.with_name("others")
    async with administration(clean_db, key=OTHERS_KEY) as other:
        await other.anchor(Identity(agent_id=AGENT), others)
    async with administration(clean_db) as opened:
        (problem,) = await opened.verify(Identity(agent_id=AGENT), others)  # a line that was signed with another key
        assert (problem.problem, problem.line, problem.agent_id) == ("anchor", 1, None)
        await opened.anchor(Identity(agent_id=AGENT), file)
        before = kept(file)
        tampered(superuser, *CUT)
        for anchors, problems in ((file, ["cut"]), (others, ["anchor"])):  # what the chain itself does not show
            with pytest.raises(BrokenAuditError) as refused:
                await opened.anchor(Identity(agent_id=AGENT), anchors)
            assert [item.problem for item in refused.value.problems] == problems
        tampered(superuser, FORGED)
        with pytest.raises(BrokenAuditError):
            await opened.anchor(Identity(agent_id=AGENT), new)
    assert kept(file) == before
    assert kept(new) is None


@pytest.mark.usefixtures("story")
async def test_without_a_key_there_are_no_anchors(clean_db: Clone, file: Path) -> None:
    async with administration(clean_db, key=None) as opened:
        for act in (opened.anchor(Identity(agent_id=AGENT), file), opened.verify(Identity(agent_id=AGENT), file)):
            with pytest.raises(ConfigurationError, match="MNEMIC_ANCHOR_KEY"):
                await act
        assert await opened.verify(Identity(agent_id=AGENT)) == []
    assert kept(file) is None
    with pytest.raises(ConfigurationError, match="anchor_key") as refused:
        async with administration(clean_db, key="tooshrt"):
            pass
    assert "tooshrt" not in str(refused.value)


@pytest.mark.usefixtures("story")
async def test_what_cannot_be_verified_or_anchored_is_refused(clean_db: Clone, tmp_path: Path) -> None:
    async with administration(clean_db) as opened:
        for name in (tmp_path, tmp_path / "no" / "such", Path("a\0b"), tmp_path / ("x" * 300)):
            for act in (opened.verify(Identity(agent_id=AGENT), name), opened.anchor(Identity(agent_id=AGENT), name)):
                with pytest.raises(InvalidInputError):
                    await act
        for act in (
            opened.verify(Identity(agent_id=AGENT), tmp_path / "anchors"),
            opened.verify(Identity(agent_id=AGENT), 7),  # type: ignore[arg-type]
            opened.verify(Identity(agent_id="habror")),  # who is not there is no clean agent
            opened.anchor(Identity(agent_id="habror"), tmp_path / "anchors"),
        ):
            with pytest.raises(InvalidInputError):
                await act
    assert kept(tmp_path / "anchors") is None


# -- export


async def exported(clone: Clone, user: str = "ana") -> list[str]:
    async with Mnemic.open(database_url=clone.service_dsn, embedder="hash") as opened:
        return [line async for line in opened.privacy.export_audit(person(user))]


def own(export: list[str]) -> dict[int, dict[str, object]]:
    rows = [json.loads(line) for line in export[1:]]
    return {row["revision"]: row for row in rows if "text" in row}


async def test_an_export_has_the_persons_rows_and_the_hashes_of_all_others(
    clean_db: Clone, story: Story, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    export = await exported(clean_db)
    checked = check_export(export)
    assert checked.problems == []
    assert (checked.rows, checked.own, checked.erased) == (17, 15, 2)
    assert sorted(own(export)) == [*range(1, 15), 16]
    assert json.loads(export[15]).keys() == {"revision", "prev", "hash"}
    mine = own(export)
    assert json.loads(str(mine[1]["after"]))["content"] == "Ana lives in Porto."
    assert "salt" not in mine[10]
    assert [mine[revision]["row"]["event"] for revision in mine] == [EVENTS[revision - 1] for revision in mine]  # type: ignore[index]
    whole = "\n".join(export)
    assert not [secret for secret in ("locker", "Bo sings", "ferry") if secret in whole]  # erased, bo's, the agent's
    others = "\n".join(await exported(clean_db, "bo"))
    assert sorted(own(others.splitlines())) == [17]
    secrets = ("ana", "Ana ", str(story.porto), str(story.consolidation), "Porto")
    assert not [secret for secret in secrets if secret in others]

    async with administration(clean_db) as opened:
        anchor = await opened.anchor(Identity(agent_id=AGENT), file)
    assert (checked.revision, checked.hash) == (anchor.revision, anchor.hash)
    monkeypatch.setattr("mnemic.memory.governance.audit.PAGE_ROWS", 4)
    assert await exported(clean_db) == export  # however many pages it is read in


@pytest.mark.usefixtures("story")
async def test_what_happens_during_an_export_is_not_in_it_and_a_forged_row_shows(
    db: Database, clean_db: Clone, superuser: psycopg.Connection
) -> None:
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as opened:
        export = opened.privacy.export_audit(person())
        got = [await anext(export)]
        await remember(db, identity(), memory("Ana sings."))
        got += [line async for line in export]
    assert (check_export(got).problems, len(got)) == ([], 18)
    tampered(superuser, FORGED)
    (problem,) = check_export(await exported(clean_db)).problems
    assert (problem.line, problem.reason) == (6, "the text is not what was hashed")


async def test_an_export_is_for_the_person_alone(clean_db: Clone) -> None:
    export = await exported(clean_db)
    assert (len(export), check_export(export).problems) == (1, [])  # no history yet
    async with Mnemic.open(database_url=clean_db.service_dsn, embedder="hash") as opened:
        with pytest.raises(CategoryRefusedError, match="owner"):
            await anext(opened.privacy.export_audit(identity()))
        with pytest.raises(InvalidInputError, match="user_id"):
            await anext(opened.privacy.export_audit(identity(None).model_copy(update={"role": "owner"})))
