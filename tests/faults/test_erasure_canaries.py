"""Sixty strings that went in by every path of the product: after an erasure none is left, and rollbacks say so."""

import logging
import subprocess
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import psycopg
import pytest
from langgraph.types import Command

from mnemic.service.memory import Mnemic
from mnemic.storage.embedded.binaries import find_binaries
from tests.faults.processes import CrashingServer
from tests.faults.refining import shown
from tests.faults.strikes import REFINE
from tests.support.erasing import problems
from tests.support.loopback import LoopbackModel, Request, calling, offering
from tests.support.mutating import mutate
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    consolidation,
    decision,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    scripted_memory,
    turns,
)
from tests.support.scripted import model as model  # the plain one, without the jobs of this room
from tests.support.server import Clone
from tests.support.threads import answering, asking, said, words
from tests.support.worlds import identity, remember
from tests.support.worlds import memory as draft

ANA = identity("ana", groups=["crew"], session="s1")
SHARED = identity("ana", groups=["crew"], session="s2")
BO = identity("bo", groups=["crew"], session="s2")
STEM = "quok"
#: Letters alone, for numbers make a text personal.
CANARIES = [f"{STEM}{first}{second}zz" for first, second in product("abcdef", "bcdfghjklm")]
AT_WORK = "Ana works every day at the big old harbor office near the {} bridge in {}."


@pytest.fixture
def ordinary_db(crashing: CrashingServer) -> Clone:
    """A database on a server with the settings that everybody's has, its log among them."""
    return crashing.clone


@dataclass
class Planting:
    """Puts the canaries in, one by one, by every path there is."""

    memory: Mnemic
    model: LoopbackModel
    left: list[str] = field(default_factory=lambda: [*CANARIES])

    def canary(self) -> str:
        return self.left.pop(0)

    async def all_of_it(self) -> None:
        await self.conversation()
        await self.correction()
        await self.explicit()
        await self.refined()
        await self.refined_for_all()
        await self.shared()
        await self.pending()
        assert not self.left

    def says(self, *texts: str, **more: str) -> list[dict[str, str]]:
        """Messages with a canary each, `{}`'s or at the end."""
        filled = [text.format(self.canary()) if "{}" in text else f"{text} {self.canary()}" for text in texts]
        return [{**turn, **(more if turn["role"] == "user" else {})} for turn in turns(*filled)]

    async def conversation(self) -> None:
        """Facts, an episode, reflections that are consolidated twice, kept and dropped messages, a name, a tool."""
        name, extraction, consolidation_guidance = f"Ana {self.canary()}", self.canary(), self.canary()
        await self.memory.admin.configure_scope(
            ANA,
            "user:ana",
            name=name,
            extraction_guidance=extraction,
            consolidation_guidance=consolidation_guidance,
        )
        self.model.answer(FACTS, facts(fact(AT_WORK.format(self.canary(), "Lisbon"), 1),
                                       fact(f"Ana keeps {self.canary()} in a box.", 3, private=True,
                                            subject=f"Ana {self.canary()}")))  # fmt: skip
        for rounds in range(2):
            drafts = [reflection(f"Ana wants {self.canary()} answers.", 1), reflection(f"Ana is {self.canary()}.", 2)]
            told = f"Ana spoke of {self.canary()}."
            self.model.answer(
                REFLECTIONS, reflections(user=drafts, session=[reflection(self.sentence(), 3)], episode=told)
            )
            said = self.says("I work in Lisbon", "I am", "My box is full of", "assistant: I see",
                             author=f"Ana {self.canary()}", user="ana")  # fmt: skip
            tool = {"role": "tool", "content": f"found {self.canary()}", "id": f"t{rounds}"}
            await self.memory.observe(ANA, [*said, tool])
            await self.memory.form(ANA)
            self.model.answer(CONSOLIDATION, consolidation(f"Ana wants answers and {self.canary()}."))
            await self.memory.admin.consolidate(ANA, "user:ana", force=True)
            self.model.answer(FACTS, facts())

    def sentence(self) -> str:
        return f"Ana looks for the {self.canary()} on the table."

    async def correction(self) -> None:
        """A fact that another replaces."""
        self.model.answer(FACTS, facts(fact(AT_WORK.format(self.canary(), "Porto"))))
        self.model.answer(DECISIONS, decisions(decision(1, "DELETE", 1)))
        self.model.answer(REFLECTIONS, reflections())
        await self.memory.observe(ANA, self.says("I moved to Porto"))
        await self.memory.form(ANA)

    async def explicit(self) -> None:
        """What is remembered and forgotten on purpose, and recalled, as a fact, a core memory and a procedure."""
        for kind in ("fact", "core"):
            text = f"Ana keeps {self.canary()} at home."
            await self.memory.remember(ANA, text, category="projects", kind=kind)
        steps = [f"Open the {self.canary()}.", "Close it."]
        await self.memory.remember(ANA, f"The {self.canary()}", kind="procedure", steps=steps)
        for _ in range(2):
            known = await self.memory.remember(ANA, f"The cat {self.canary()} is old.", category="projects")
            assert known.id
            await self.memory.forget(ANA, known.id)
        await self.memory.query(ANA, f"What does Ana keep, {STEM}?")
        await self.memory.recall(ANA, "What does Ana keep at home?", search="always")

    async def refined(self) -> None:
        """A merge, an update, a deletion and the summary of a refinement, and what it was asked to look for."""
        for of in ("spoons", "more spoons", "forks", "knives"):
            text = f"Ana counts {self.canary()} {of} on her own long table at home."
            await self.remember_core(text, "user:ana", "s1")
        merged = f"Ana counts {self.canary()} spoons and more."
        updated = f"Ana counts {self.canary()} forks at home."

        def cut(request: Request) -> dict[str, Any]:
            by_text = {text: number for number, _, text in shown(request)}
            spoons = [number for text, number in by_text.items() if "spoons" in text]
            (forks,) = (number for text, number in by_text.items() if "forks" in text)
            (knives,) = (number for text, number in by_text.items() if "knives" in text)
            return calling(
                ("search_memories", {"query": self.left[0]}),
                ("consolidate_memories", {"ids_to_merge": spoons, "new_content": merged}),
                ("update_memory", {"id": forks, "content": updated}),
                ("delete_memory", {"id": knives}),
            )

        summary = f"Put the {self.canary()} spoons together."
        self.model.answer(offering(REFINE), cut, calling(("complete_refinement", {"summary": summary})))
        result = await self.memory.refine(ANA, "user:ana", force=True)
        assert (result.merged, result.updated, result.deleted) == (2, 1, 1)

    async def refined_for_all(self) -> None:
        """A merge of what the agent keeps for all: one part was stored in a session of Ana's, the other in Bo's."""
        await self.remember_core(f"The office keeps {self.canary()} forks for all of its guests.", "agent:harbor", "s1")
        await self.remember_core("The office keeps sixty forks for all of its guests.", "agent:harbor", "s9")
        merged = f"The office keeps {self.canary()} and sixty forks for guests."

        def cut(request: Request) -> dict[str, Any]:
            numbers = [number for number, _, text in shown(request) if "forks" in text]
            return calling(("consolidate_memories", {"ids_to_merge": numbers, "new_content": merged}))

        summary = f"Put the {self.canary()} forks together."
        self.model.answer(offering(REFINE), cut, calling(("complete_refinement", {"summary": summary})))
        assert (await self.memory.refine(ANA, "agent:harbor", force=True)).merged == 2

    async def remember_core(self, text: str, key: str, session: str) -> None:
        author = "bo" if session == "s9" else None
        new = replace(draft(text, kind="core", key=key), source_session_id=session, actor_id=author)
        await remember(self.memory.resources.database, ANA, new)

    async def shared(self) -> None:
        """A group's fact, a shared session's reflection and the consolidation that takes it in, beside Bo's."""
        berth = f"The {self.canary()} ferry of the crew sails from berth nine."
        task = f"The {self.canary()} list is open."
        said = [{"role": "user", "content": berth, "user": "ana"},
                {"role": "assistant", "content": f"So the {self.canary()} list is open."},
                {"role": "user", "content": "Berth ten is free for the crew.", "user": "bo"},
                {"role": "assistant", "content": "Good."}]  # fmt: skip
        free = fact("Berth ten is free for the crew.", 3, scope="group", subject="Berth")
        self.model.answer(FACTS, facts(fact(berth, 1, scope="group"), free))
        bos = reflection("The berth list is at the gate.", 3)
        self.model.answer(REFLECTIONS, reflections(session=[reflection(task, 2), bos]))
        await self.memory.observe(SHARED, said, several_speakers=True)
        await self.memory.form(BO)
        self.model.answer(CONSOLIDATION, consolidation(f"The {self.canary()} list is at the gate."))
        await self.memory.admin.consolidate(SHARED, "session:s2", force=True)

    async def pending(self) -> None:
        """Messages that wait; as many as there are canaries left."""
        await self.memory.observe(
            SHARED, [{"role": "user", "content": c, "user": "ana"} for c in self.left[:-3]], several_speakers=True
        )
        del self.left[:-3]
        await self.memory.observe(identity("ana", session="s3"), self.says("Hm", "assistant: So", "Well"))


def dumped(clone: Clone) -> str:
    """The whole database as `pg_dump` writes it."""
    done = subprocess.run(
        [find_binaries() / "pg_dump", clone.superuser_dsn], capture_output=True, text=True, check=True
    )
    return done.stdout.lower()


def found(text: str) -> list[str]:
    return [canary for canary in CANARIES if canary in text]


def logged(clone: Clone) -> str:
    return clone.server.log.read_text(errors="replace").lower()


async def test_after_erasing_a_person_no_canary_is_left_anywhere(
    ordinary_db: Clone, model: LoopbackModel, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with scripted_memory(ordinary_db, model, keep_messages="all") as memory:
            await Planting(memory, model).all_of_it()
            assert found(dumped(ordinary_db)) == CANARIES
            with ordinary_db.as_superuser() as superuser:
                superuser.execute("analyze")
            erased = (await memory.privacy.erase_person(ANA)).erased
            left = [item.content for item in await memory.memories(BO.model_copy(update={"role": "owner"}))]
            assert (await memory.privacy.erase_person(ANA)).erased == ()
    after = dumped(ordinary_db)
    assert STEM not in after
    assert STEM not in logged(ordinary_db)
    with ordinary_db.as_superuser() as superuser:  # the log would show it
        superuser.execute("set log_statement = 'all'")
        superuser.execute("select 'wombatzz'")
    assert "wombatzz" in logged(ordinary_db)
    assert "http request" in caplog.text.lower()
    assert STEM not in caplog.text.lower()
    assert problems(ordinary_db) == []
    with ordinary_db.as_superuser() as superuser:
        assert superuser.execute(
            "select count(*) from pg_stats s where s::text ilike %s", (f"%{STEM}%",)
        ).fetchone() == (0,)
        kinds = superuser.execute("select distinct kind from mnemic.memories where state = 'purged'").fetchall()
    assert {kind for (kind,) in kinds} == {
        "fact", "reflection", "consolidation", "core", "episode", "procedure", "journal"
    }  # fmt: skip
    assert len(erased) > 15
    assert sorted(left) == [
        "Berth ten is free for the crew.",
        "The berth list is at the gate.",
        "The office keeps sixty forks for all of its guests.",  # in use again without what it was merged with
    ]
    assert "berth ten is free for the crew." in after  # what Bo said is Bo's


@pytest.mark.thorough
@pytest.mark.parametrize(
    "followed",
    [
        [("derived_memories", "(h).event = 'MERGE'")],
        [("derived_memories", "j.kind = 'journal'"), ("rewritten_with", "h.event in ('DELETE', 'MERGE', 'UPDATE')")],
    ],
    ids=["a merge", "a journal, and what took words over"],
)
async def test_an_erasure_that_does_not_follow_refinements_leaves_canaries(
    fresh_db: Clone, model: LoopbackModel, followed: list[tuple[str, str]]
) -> None:
    """The control: what was merged from a person's part, and what tells of it, belongs to the agent."""
    async with scripted_memory(fresh_db, model) as memory:
        planting = Planting(memory, model)
        await planting.conversation()
        await planting.refined_for_all()
        with fresh_db.as_superuser() as superuser:
            for function, rule in followed:
                mutate(superuser, function, rule, "false")
        await memory.privacy.erase_person(ANA)
    assert found(dumped(fresh_db))


@pytest.mark.thorough
async def test_after_erasing_a_person_their_threads_are_gone_and_nobody_elses(
    ordinary_db: Clone, model: LoopbackModel
) -> None:
    """Messages, plain values, metadata, questions and their answers, and what a subgraph knows."""
    nobody = ANA.model_copy(update={"user_id": None, "session_id": "s3"})
    async with scripted_memory(ordinary_db, model) as memory:
        saver = memory.threads.checkpointer()
        for number, who in enumerate((ANA, SHARED, nobody, BO)):
            canary = CANARIES[number] if who is not BO else "wombatzz"
            config = memory.threads.config(who)
            told = {**said(f"My {canary}"), "note": f"my {canary}"}
            await answering(saver).ainvoke(told, {**config, "metadata": {"mine": canary}})
            await asking(saver).ainvoke(said(f"More {canary}"), config)
        await asking(saver).ainvoke(Command(resume=CANARIES[3]), memory.threads.config(ANA))
        await memory.observe(
            nobody, [{"role": "user", "content": f"Hm {CANARIES[4]}", "user": "ana"}], several_speakers=True
        )
        with ordinary_db.as_superuser() as superuser:
            superuser.execute("analyze")
            assert in_bytes(superuser) == [*CANARIES[:4], "wombatzz"]
            await memory.privacy.erase_person(ANA)
            superuser.execute("analyze")
            assert in_bytes(superuser) == ["wombatzz"]
            assert superuser.execute(
                "select count(*) from pg_stats s where s::text ilike %s", (f"%{STEM}%",)
            ).fetchone() == (0,)
        assert await memory.threads.list(ANA) == await memory.threads.list(nobody) == []
        done = await asking(saver).ainvoke(Command(resume="yes"), memory.threads.config(BO))
        assert words(done)[-1] == "Asked: yes"
        begun = await answering(saver).ainvoke(said("Again"), memory.threads.config(ANA))
        assert words(begun) == ["Again", "Heard Again"]
    after = dumped(ordinary_db)
    assert STEM not in after
    assert STEM.encode().hex() not in after  # bytes are dumped so
    assert b"wombatzz".hex() in after
    assert STEM not in logged(ordinary_db)


def in_bytes(superuser: psycopg.Connection) -> list[str]:
    """The canaries that stand in blobs of threads."""
    found = superuser.execute(
        "select blob from mnemic.checkpoint_blobs union all select blob from mnemic.checkpoint_writes"
    )
    blobs = b"".join(blob for (blob,) in found if blob)
    return [canary for canary in (*CANARIES, "wombatzz") if canary.encode() in blobs]
