"""What a role may not read is not shown to its refinement, and leaves search with what the refinement deletes."""

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from mnemic.storage import memories
from tests.support.erasing import ANA, form
from tests.support.loopback import LoopbackModel
from tests.support.played_refinements import ENGLISH, SHORT, delete, drafts, play
from tests.support.scripted import scripted_memory
from tests.support.server import Clone
from tests.support.worlds import message

#: Its keeper refines, and reads no messages.
FILE = "{categories: {}, allowlists: {keeper: {standing: true, categories: [profile, journal]}}}"
KEEPER = ANA.model_copy(update={"role": "keeper"})


@pytest.mark.parametrize("left_out", [None, "see_every_category", "see_categories"])
async def test_source_messages_leave_search_whatever_the_role_reads_and_it_is_shown_no_more(
    clean_db: Clone,
    model: LoopbackModel,
    superuser: psycopg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    left_out: str | None,
) -> None:
    """With two controls: a deletion that sees what the role reads alone, and one that goes on seeing everything."""
    file = tmp_path / "categories.yaml"
    file.write_text(FILE, encoding="utf-8")
    said = message("I always want short answers.")
    short, english, hidden = drafts(SHORT, ENGLISH, "Ana mends the bell of the north quay.")
    if left_out:
        monkeypatch.setattr(memories, left_out, _nothing)
    async with scripted_memory(clean_db, model, categories_file=file) as memory:
        first = replace(short, source_message_ids=(said.id,))
        await form(memory.resources.database, ANA, [said], first, english, replace(hidden, category="projects"))
        told, _ = await play(memory, model, delete(1), who=KEEPER)

    entries = superuser.execute("select distinct living from mnemic.entries where item_id = %s", (said.id,)).fetchall()
    is_hidden, is_the_roles = entries == [(False,)], told[0].endswith("tokens in 1 memories; target 5,000.")
    assert (is_hidden, is_the_roles) == (left_out != "see_every_category", left_out != "see_categories")


async def _nothing(*given: object) -> None:
    """What is left out."""
