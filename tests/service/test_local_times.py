"""Times are kept, and shown to models and people, at the offset that came with a message, or in the person's zone."""

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, reset_tzpath

import psycopg
import pytest
from langchain_core.messages import HumanMessage

from mnemic import Mnemic
from mnemic.memory.messages.incoming import HostMessage
from mnemic.state.errors import ConfigurationError, InvalidInputError
from mnemic.state.identity import Identity
from mnemic.state.settings import Settings
from mnemic.state.times import load_zones
from mnemic.storage import inbox, transaction
from tests.support.agents import agent, asked, says
from tests.support.loopback import LoopbackModel, schema_name
from tests.support.refinements import merge, play, search
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
    last_prompt,
    reflection,
    reflections,
)
from tests.support.worlds import identity, remember
from tests.support.worlds import memory as stored

ANA = identity("ana", session="s1")
DENTIST, RENT = "Tomorrow I have a dentist appointment.", "Today I paid the rent."


def said(content: str, time: object = None) -> HostMessage:
    return {"role": "user", "content": content, "time": time}


def in_zone(zone: str | None) -> Identity:
    return ANA.model_copy(update={"timezone": zone})


async def waiting_times(memory: Mnemic, who: Identity) -> list[datetime]:
    async with memory.resources.database.transaction(who) as tx:
        waiting = await inbox.read_inbox(tx, "s1", limit=9)
    return [message.said_at for message in waiting.messages]


async def conversation(memory: Mnemic, model: LoopbackModel, who: Identity, *messages: HostMessage) -> str:
    """Return the part of the formation prompt with these messages: days and lines."""
    await memory.observe(who, messages)
    await memory.form(who)
    (request, *_) = [each for each in reversed(model.chat_requests) if schema_name(each) == FACTS]
    shown = re.findall(r"^(?:\w{3} \d{4}-\d\d-\d\d|\d+ \[.*)$", request["messages"][-1]["content"], re.MULTILINE)
    return "\n".join(line.replace(" Ana:", "") for line in shown)


#: A message, its time, and its lines in the prompt: on both sides of midnight, in UTC and where it was said.
SIDES = {
    "a morning east": (DENTIST, "2026-03-02T07:30:00+08:00", f"Mon 2026-03-02\n1 [07:30] {DENTIST}"),
    "an evening east": (DENTIST, "2026-03-02T23:30:00+08:00", f"Mon 2026-03-02\n1 [23:30] {DENTIST}"),
    "an evening west": (RENT, "2026-03-02T20:30:00-05:00", f"Mon 2026-03-02\n1 [20:30] {RENT}"),
    "a morning west": (RENT, "2026-03-02T00:10:00-05:00", f"Mon 2026-03-02\n1 [00:10] {RENT}"),
    "half an hour": (RENT, "2026-03-02T00:10:00+05:30", f"Mon 2026-03-02\n1 [00:10] {RENT}"),
    "UTC": (RENT, "2026-03-02T23:59:00Z", f"Mon 2026-03-02\n1 [23:59] {RENT}"),
}


@pytest.mark.parametrize(("content", "time", "lines"), SIDES.values(), ids=SIDES)
async def test_a_message_is_shown_at_its_own_offset(
    memory: Mnemic, model: LoopbackModel, content: str, time: str, lines: str
) -> None:
    # the person's zone counts for times without an offset alone
    assert await conversation(memory, model, in_zone("America/New_York"), said(content, time)) == lines


@pytest.mark.thorough
async def test_control_without_the_stored_offset_tomorrow_is_another_day(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "at_offset", lambda moment, _: moment)
    content, time, _ = SIDES["a morning east"]
    assert await conversation(memory, model, ANA, said(content, time)) == f"Sun 2026-03-01\n1 [23:30] {content}"


async def test_a_traveller_sees_each_line_at_its_own_offset(memory: Mnemic, model: LoopbackModel) -> None:
    lines = await conversation(
        memory,
        model,
        ANA,
        said("I board in Singapore.", "2026-03-02T23:50:00+08:00"),
        said("We are above the Gulf.", "2026-03-02T20:10:00+04:00"),
        said("I have landed in Lisbon.", "2026-03-03T06:05:00+00:00"),
        said("Off to Boston.", "2026-03-03T23:00:00-05:00"),
    )
    assert lines == (
        "Mon 2026-03-02\n1 [23:50] I board in Singapore.\n2 [20:10] We are above the Gulf.\n"
        "Tue 2026-03-03\n3 [06:05] I have landed in Lisbon.\n4 [23:00] Off to Boston."
    )


#: Local times of Lisbon around both changes of the clock in 2025, and the moments that they are.
LISBON = {
    "winter": ("2025-03-29T23:30:00", "2025-03-29T23:30:00+00:00"),
    "before spring": ("2025-03-30T00:59:00", "2025-03-30T00:59:00+00:00"),
    "skipped by the clock": ("2025-03-30T01:30:00", "2025-03-30T01:30:00+00:00"),
    "after spring": ("2025-03-30T02:00:00", "2025-03-30T01:00:00+00:00"),
    "summer": ("2025-07-01T00:30:00", "2025-06-30T23:30:00+00:00"),
    "twice, the first meant": ("2025-10-26T01:30:00", "2025-10-26T00:30:00+00:00"),
    "twice, the second meant": (
        datetime.fromisoformat("2025-10-26T01:30:00").replace(fold=1),
        "2025-10-26T01:30:00+00:00",
    ),
    "after autumn": ("2025-10-26T02:00:00", "2025-10-26T02:00:00+00:00"),
}


async def test_local_time_is_read_in_the_zone_of_the_person_across_clock_changes(memory: Mnemic) -> None:
    who = in_zone("Europe/Lisbon")
    await memory.observe(who, [said(RENT, time) for time, _ in LISBON.values()])
    kept = dict(zip(LISBON, await waiting_times(memory, who), strict=True))
    assert kept == {name: datetime.fromisoformat(moment) for name, (_, moment) in LISBON.items()}
    for name, (time, _) in LISBON.items():  # each is shown as it was written
        assert f"{kept[name]:%Y-%m-%dT%H:%M:%S}" == f"{time}"[:19].replace(" ", "T")


@pytest.mark.parametrize(
    ("setting", "own"),
    [("UTC", None), ("Pacific/Kiritimati", None), ("UTC", "Pacific/Pago_Pago"), ("Pacific/Pago_Pago", "UTC")],
)
async def test_a_message_without_a_time_was_said_now_where_the_person_is(
    memory: Mnemic, model: LoopbackModel, setting: str, own: str | None
) -> None:
    settings = memory.resources.settings.model_copy(update={"timezone": setting})
    memory = Mnemic(replace(memory.resources, settings=settings))
    zone = ZoneInfo(own or setting)
    before = datetime.now(zone)
    lines = await conversation(memory, model, in_zone(own), said(DENTIST))
    days = {before.date(), datetime.now(zone).date()}
    assert lines.splitlines()[0] in {f"{day:%a %Y-%m-%d}" for day in days}


@pytest.mark.parametrize("name", ["Mars/Base", "Europe", "", "../../etc/passwd", "europe lisbon"])
def test_a_zone_that_does_not_exist_is_refused_by_its_field(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"timezone: .*Europe/Lisbon"):
        in_zone(name)
    with pytest.raises(ConfigurationError, match=r"timezone: .*Europe/Lisbon"):
        Settings(timezone=name)
    monkeypatch.setenv("MNEMIC_TIMEZONE", name)
    with pytest.raises(ConfigurationError, match="MNEMIC_TIMEZONE"):
        Settings()


def test_an_identity_with_a_zone_is_plain_json() -> None:
    who = in_zone("Europe/Lisbon")
    assert Identity(**who.model_dump(mode="json")) == who


TIMES: dict[str, Any] = {
    "text": "2026-03-02T07:30:00+08:00",
    "a datetime": datetime(2026, 3, 2, 7, 30, tzinfo=timezone(timedelta(hours=8))),
    "a datetime of a zone": datetime(2026, 3, 2, 7, 30, tzinfo=ZoneInfo("Asia/Singapore")),
}


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
async def test_a_langchain_message_brings_its_time(memory: Mnemic, model: LoopbackModel, time: object) -> None:
    message = HumanMessage(DENTIST, additional_kwargs={"time": time})
    assert await conversation(memory, model, ANA, message) == f"Mon 2026-03-02\n1 [07:30] {DENTIST}"


WRONG = ["yesterday", "1850-01-01T00:00:00Z", 1772400000, "2026-03-02T07:30:00+14:30", "2026-03-02T07:30:00-23:59"]


@pytest.mark.parametrize("time", WRONG)
async def test_a_time_that_cannot_be_used_is_refused_in_either_form(
    memory: Mnemic, superuser: psycopg.Connection, time: object
) -> None:
    for message in (said(DENTIST, time), HumanMessage(DENTIST, additional_kwargs={"time": time})):
        with pytest.raises(InvalidInputError, match="message 1: time: "):
            await memory.observe(ANA, [message])
    assert superuser.execute("select count(*) from mnemic.messages").fetchone() == (0,)


async def test_agent_message_keeps_its_time_or_gets_the_zone_of_the_person(
    memory: Mnemic, model: LoopbackModel
) -> None:
    says(model)
    who = in_zone("Pacific/Kiritimati")
    graph = agent(memory, model, memory.middleware(form=False))
    messages = [HumanMessage(DENTIST, id="m1", additional_kwargs={"time": TIMES["text"]})]
    await graph.ainvoke({"messages": messages}, context=who)
    mine, answer = await waiting_times(memory, who)
    assert (mine.isoformat(), answer.utcoffset()) == (TIMES["text"], timedelta(hours=14))


@pytest.mark.parametrize("time", ["2026-03-02T07:30:00+08:00", "2026-03-02T07:30:00", None])
async def test_resent_message_is_stored_once_although_the_person_has_moved(
    memory: Mnemic, superuser: psycopg.Connection, time: str | None
) -> None:
    await memory.observe(in_zone("Asia/Singapore"), [said(DENTIST, time)])
    again = await memory.observe(in_zone("Europe/Lisbon"), [said(DENTIST, time)])
    assert (again.accepted, again.pending) == (0, 1)
    (offset,) = superuser.execute("select utc_offset from mnemic.messages").fetchone() or ()
    assert offset == 8 * 60


# -- what is formed

#: In New York; in UTC it is 3 March by then.
EVENING = "2026-03-02T20:30:00-05:00"
PAID = "Ana paid the rent."


async def form_rent(memory: Mnemic, model: LoopbackModel, time: str = EVENING) -> None:
    """Form a fact and a reflection from one message."""
    model.answer(FACTS, facts(fact(PAID)))
    model.answer(REFLECTIONS, reflections(user=[reflection("Ana pays on time.")]))
    await memory.observe(ANA, [said(RENT, time)])
    await memory.form(ANA)


async def test_fact_and_message_show_the_day_of_the_speaker_in_every_view(
    memory: Mnemic, model: LoopbackModel, superuser: psycopg.Connection
) -> None:
    await form_rent(memory, model)
    results = await memory.query(ANA, "Who paid the rent?")
    assert {(item.kind, item.dated.isoformat()) for item in results} == {("fact", EVENING), ("message", EVENING)}
    (rent,) = await memory.memories(ANA, ["fact"])
    assert rent.valid_from.isoformat() == EVENING

    recalled = await memory.recall(ANA, "When did I pay the rent?", search="always")
    answer = await asked(memory.tools("supervisor"), ANA, query="Who paid the rent?")
    for shown in (str(recalled.context), str(answer.content)):
        assert "[2 March 2026]" in shown
        assert "3 March" not in shown

    # text as formation embeds it, and as the database indexes it once a memory gets other words
    embedded = [text for request in model.embedding_requests for text in request["input"]]
    assert {f"[2 March 2026] Ana: {PAID}", f"[2 March 2026] Ana: {RENT}"} <= {*embedded}
    statement = "select mnemic.indexed_text(m) from mnemic.memories m where kind = 'fact'"
    assert superuser.execute(statement).fetchone() == (f"[2 March 2026] Ana: {PAID}",)


async def test_decisions_are_shown_the_day_of_each_fact_where_it_was_said(memory: Mnemic, model: LoopbackModel) -> None:
    await form_rent(memory, model)
    model.answer(FACTS, facts(fact("Ana paid the rent and the power.")))
    model.answer(DECISIONS, decisions(decision(1, "ADD")))
    await memory.observe(ANA, [said("And the power.", "2026-03-04T07:00:00+08:00")])
    await memory.form(ANA)
    prompt = last_prompt(model, DECISIONS)
    assert ("[2026-03-04" in prompt, "[2026-03-02" in prompt) == (True, True)
    assert not re.search(r"2026-03-03", prompt)


async def test_consolidation_receives_the_local_days_of_beginnings_and_ends(
    memory: Mnemic, model: LoopbackModel
) -> None:
    await form_rent(memory, model)
    model.answer(FACTS, facts(fact("Ana owns her flat and pays no rent.")))
    model.answer(DECISIONS, decisions(decision(1, "DELETE", 1)))
    model.answer(REFLECTIONS, reflections())
    await memory.observe(ANA, [said("I own my flat now.", "2026-03-05T07:00:00+08:00")])
    model.answer(CONSOLIDATION, consolidation("Ana pays on time."))
    await memory.form(ANA)  # what has ended makes a consolidation due
    prompt = last_prompt(model, CONSOLIDATION)
    assert "[2026-03-02] Ana pays on time." in prompt
    assert f"{PAID} (since 2026-03-05)" in prompt


async def test_undo_and_a_look_back_keep_the_local_day(memory: Mnemic, model: LoopbackModel) -> None:
    await form_rent(memory, model)
    (rent,) = await memory.memories(ANA, ["fact"])
    await memory.forget(ANA, rent.id)
    (forgotten, *_) = await memory.history.operations(ANA)
    await memory.history.undo(ANA, forgotten.id)
    (restored,) = await memory.memories(ANA, ["fact"])
    past = await memory.history.as_of(ANA, "user:ana", forgotten.first_revision - 1)
    assert [item.valid_from.isoformat() for item in [restored, *past] if item.kind == "fact"] == [EVENING] * 2


@pytest.mark.parametrize("own", [None, "America/New_York"])
async def test_a_bare_day_of_a_filter_begins_where_the_person_is(
    memory: Mnemic, model: LoopbackModel, own: str | None
) -> None:
    await form_rent(memory, model)
    texts: dict[str, list[str]] = {}
    for day in ("2026-03-02", "2026-03-03"):
        filters = {"actor_id": "ana", "updated_before": day}
        texts[day] = [item.kind for item in await memory.query(in_zone(own), "rent", filters=filters)]
    # the midnight after the message: that of UTC comes before it, that of New York after it
    assert texts["2026-03-02"] == []
    assert ("message" in texts["2026-03-03"]) == (own is not None)


def test_a_server_reads_no_file_for_the_zone_of_a_request() -> None:
    load_zones()
    ZoneInfo.clear_cache()
    reset_tzpath(to=())
    try:
        assert in_zone("Antarctica/Troll").timezone == "Antarctica/Troll"
    finally:
        reset_tzpath()


async def test_an_explicit_memory_and_a_correction_have_the_persons_day(memory: Mnemic) -> None:
    who = in_zone("Pacific/Kiritimati")
    kept = await memory.remember(who, "Ana sings in a choir.", category="profile")
    assert kept.id
    await memory.correct(who, kept.id, "Ana sings in two choirs.")
    (corrected,) = await memory.memories(who, ["fact"])
    assert corrected.valid_from.utcoffset() == timedelta(hours=14)


async def test_a_refinement_sees_local_days_and_a_merge_keeps_that_of_the_oldest(
    memory: Mnemic, model: LoopbackModel
) -> None:
    monthly = stored("Ana pays her rent monthly.", kind="core", valid_from=datetime.fromisoformat(EVENING))
    morning = datetime.fromisoformat("2026-03-05T07:00:00+08:00")
    by_card = stored("Ana pays her rent by card.", kind="core", valid_from=morning)
    await remember(memory.resources.database, ANA, monthly, by_card)

    looks = [search(query="rent", before="2026-03-03"), search(query="rent", after="2026-03-05")]
    both = "Ana pays her rent monthly by card."
    (early, late, _), _ = await play(memory, model, *looks, merge(1, 2, into=both), who=ANA)
    assert ("Mon 2026-03-02" in early, monthly.content in early, by_card.content in early) == (True, True, False)
    assert ("Thu 2026-03-05" in late, monthly.content in late, by_card.content in late) == (True, False, True)
    (merged,) = await memory.memories(ANA, ["core"])
    assert (merged.content, merged.valid_from.isoformat()) == (both, EVENING)
