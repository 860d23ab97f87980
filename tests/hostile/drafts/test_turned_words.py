"""A model that turns a member's words round: other people get the typed sentence, and never the turned words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import HumanMessage

from mnemic.memory.background.propagation import propagate
from mnemic.memory.text import proof
from mnemic.service.memory import Mnemic
from mnemic.state.background import Target
from mnemic.state.records import Memory
from tests.support.agents import call
from tests.support.loopback import LoopbackModel
from tests.support.scripted import (
    CONSOLIDATION,
    DECISIONS,
    FACTS,
    REFLECTIONS,
    consolidation,
    decisions,
    fact,
    facts,
    reflection,
    reflections,
    turns,
)
from tests.support.worlds import identity

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("superuser")]

ANA = identity("ana", session="s1", groups=["crew"], teaches=True)
BO = identity("bo", session="s2", groups=["crew"])


class Turned(NamedTuple):
    """What Ana typed, and what a model makes of it."""

    typed: str
    text: str


TURNED = [
    Turned(*pair)
    for pair in (
        # a negation is dropped
        ("We must never approve refunds without a check.", "We must approve refunds without a check."),
        ("Nobody here may open the harbour gate for Mallory.", "The harbour gate may open for Mallory."),
        ("We hardly ever ship the raw data to Kestrel.", "We ship the raw data to Kestrel."),
        ("It is not true that Delta stores the passwords.", "Delta stores the passwords."),
        ("It is a myth that the vault opens on Sundays. Ask Eve.", "The vault opens on Sundays."),
        ("Wir genehmigen Reisen nach Oslo nicht.", "Wir genehmigen Reisen nach Oslo."),
        ("Keine Kündigung gilt ohne Unterschrift von Vera.", "Jede Kündigung gilt ohne Unterschrift von Vera."),
        ("Nous ne payons pas les factures de Brel.", "Nous payons les factures de Brel."),
        ("Nunca entregamos llaves a los proveedores.", "Entregamos llaves a los proveedores."),
        ("Мы не выдаём пропуска подрядчикам.", "Мы выдаём пропуска подрядчикам."),
        ("我们不批准供应商的退款。", "我们批准供应商的退款。"),
        ("لا نسمح للزوار بدخول المستودع.", "نسمح للزوار بدخول المستودع."),
        ("Depoya ziyaretçi almıyoruz.", "Depoya ziyaretçi alıyoruz."),
        ("Emme anna avaimia vuokralaisille.", "Annamme avaimia vuokralaisille."),
        # a negation is added
        ("The board signs each contract above ten pages.", "The board does not sign each contract above ten pages."),
        ("Die Werft prüft jedes Ventil.", "Die Werft prüft kein Ventil."),
        ("我们检查每个阀门。", "我们不检查每个阀门。"),
        ("Проверяем каждый насос в доке.", "Не проверяем каждый насос в доке."),
        # names, numbers and words change or move
        ("The mooring budget is 400 euros a month.", "The mooring budget is 4000 euros a month."),
        ("Sunniva opens the chandlery for Mallory.", "Mallory opens the chandlery for Sunniva."),
        ("The launch is on 15 April at pier 4.", "The launch is on 25 April at pier 4."),
        ("The alarm code changes every 7 days.", "The alarm code changes every 70 days."),
        ("The tide table is for the skipper, not the cook.", "The tide table is for the cook, not the skipper."),
        ("The crane lifts before the inspection.", "The crane lifts after the inspection."),
        ("The ferry is free.", "The ferry is free and sails for Mallory."),
        ("The radar stays < 5 amps.", "The radar stays > 5 amps."),
        # what governs a sentence is left out
        ("If the dean agrees, the pool opens for guests.", "The pool opens for guests."),
        ("Mallory says: the lighthouse belongs to Mallory.", "The lighthouse belongs to Mallory."),
        ('Mallory keeps writing "Ana lends her boat".', "Ana lends her boat."),
        ("Please read my mail. Is there anything about invoices?", "Pay all invoices to Eve via her app."),
        ("We sell the yacht. Just kidding!", "We sell the yacht."),
        ("We give no discounts\non winter berths.", "We give discounts on winter berths."),
        ("We never do this:\n- lend the dinghy to guests", "Lend the dinghy to guests."),
        # another language
        ("Wir streichen den Hafen niemals grün.", "We always paint the harbour green."),
        ("The sauna is closed to the public.", "Die Sauna ist für alle offen."),
    )
]
TYPED = {" ".join(pair.typed.split()) for pair in TURNED}
TEXTS = {pair.text for pair in TURNED}
#: Facts of one formation.
_AT_ONCE = 7


async def form(
    memory: Mnemic, model: LoopbackModel, pairs: Sequence[Turned], session: str, *, as_facts: bool = True
) -> None:
    """Form what Ana typed by a model that turns it, as facts for the group and for everybody, or as reflections."""
    who = ANA.model_copy(update={"session_id": session})
    drafts = [(pair.text, place) for place, pair in enumerate(pairs, start=1)]
    kinds: dict[str, Any] = {"category": "knowledge"}
    wide = [fact(text, place, scope=scope, **kinds) for text, place in drafts for scope in ("group", "agent")]
    model.answer(FACTS, facts(*wide) if as_facts else facts())
    model.answer(DECISIONS, decisions())
    drawn = [] if as_facts else [reflection(text, place, **kinds) for text, place in drafts]
    model.answer(REFLECTIONS, reflections(group=drawn))
    await memory.observe(who, turns(*(pair.typed for pair in pairs)))
    await memory.form(who)


async def seen_by_bo(memory: Mnemic) -> list[Memory]:
    return await memory.memories(BO, ["fact", "reflection", "episode", "core", "procedure", "consolidation"])


async def shown_to_bo(memory: Mnemic, *questions: str) -> str:
    """Everything that a prompt or a tool shows to another member."""
    texts: list[str] = []
    for question in questions:
        context = (await memory.recall(BO, question=question, search="always")).context
        texts += [context.standing, context.turn]
        texts += [found.content for found in await memory.query(BO, question)]
    return "\n".join(texts)


async def formed(memory: Mnemic, model: LoopbackModel) -> list[Memory]:
    """Form all of it; return what another member sees."""
    for start in range(0, len(TURNED), _AT_ONCE):
        await form(memory, model, TURNED[start : start + _AT_ONCE], f"s{start}")
    await form(memory, model, TURNED[:_AT_ONCE], "r", as_facts=False)
    return await seen_by_bo(memory)


async def test_of_100_turned_texts_other_people_get_the_typed_sentences_alone(
    memory: Mnemic, model: LoopbackModel
) -> None:
    found = await formed(memory, model)

    assert 2 * (len(TURNED) + _AT_ONCE) >= 80  # with the tools below more than 100
    assert len({row.content for row in found}) > len(TURNED) / 2  # they do get there
    assert {row.scope_key for row in found} == {"group:crew", "agent:harbor"}
    assert {row.content for row in found} <= TYPED
    assert {row.said for row in found} <= TYPED
    assert {row.author for row in found} == {"ana"}
    shown = await shown_to_bo(memory, *(pair.text for pair in TURNED[::5]))
    assert "It is not true that Delta stores the passwords." in shown
    assert not [pair for pair in TURNED if pair.text in shown and pair.text not in " ".join(TYPED)]


@pytest.mark.parametrize("private", [True, False], ids=["in confidence", "control"])
async def test_a_sentence_that_a_private_fact_rests_on_is_given_to_nobody(
    memory: Mnemic, model: LoopbackModel, private: bool
) -> None:
    typed = "I am the only one with the pager, and I have migraine when I sleep badly."
    pager = fact("Ana is the only one with the pager.", scope="group")
    model.answer(FACTS, facts(pager, fact("Ana has migraine when she sleeps badly.", private=private)))
    model.answer(DECISIONS, decisions())
    model.answer(REFLECTIONS, reflections(group=[reflection("The crew has one pager, which Ana has.")]))
    await memory.observe(ANA, turns(typed))
    await memory.form(ANA)
    assert {row.content for row in await seen_by_bo(memory)} == (set() if private else {typed})


async def test_control_without_the_comparison_the_turned_texts_reach_them(
    memory: Mnemic, model: LoopbackModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "agrees", lambda *_: True)
    await form(memory, model, TURNED[:_AT_ONCE], "s1")
    found = {row.content for row in await seen_by_bo(memory)}
    assert len(TEXTS & found) > 2


@pytest.mark.parametrize("scope", ["group", "agent"])
async def test_by_a_tool_no_turned_text_is_shared(memory: Mnemic, scope: str) -> None:
    for place, pair in enumerate(TURNED):
        who = ANA.model_copy(update={"session_id": f"t{place}"})
        said = [HumanMessage(pair.typed)]
        given: dict[str, Any] = {"content": pair.text, "category": "knowledge", "scope": scope}
        answer = await call(memory, who, "remember", said=said, **given)
        assert not answer.artifact or answer.artifact["scope_key"] == "user:ana", pair
    assert await seen_by_bo(memory) == []


async def test_by_a_tool_no_shared_memory_is_corrected_into_a_turned_text(memory: Mnemic, model: LoopbackModel) -> None:
    pairs = {" ".join(pair.typed.split()): pair for pair in TURNED[:_AT_ONCE]}
    await form(memory, model, TURNED[:_AT_ONCE], "s1")
    before = await seen_by_bo(memory)
    for place, row in enumerate(before):
        who = ANA.model_copy(update={"session_id": f"t{place}"})
        pair = pairs[row.content]
        await call(memory, who, "correct", said=[HumanMessage(pair.typed)], id=str(row.id), content=pair.text)
    assert before
    assert await seen_by_bo(memory) == before


async def test_shared_consolidation_contains_typed_sentences_with_their_authors(
    memory: Mnemic, model: LoopbackModel
) -> None:
    pairs = TURNED[:_AT_ONCE]
    await form(memory, model, pairs, "s1", as_facts=False)
    model.answer(CONSOLIDATION, consolidation("\n".join(pair.text for pair in pairs)))
    result = await memory.admin.consolidate(ANA, "group:crew", force=True)

    assert result.outcome == "saved"
    (text,) = await memory.memories(BO, ["consolidation"])
    assert set(text.content.splitlines()) <= {f"- Ana: {typed}" for typed in TYPED}
    assert "- Ana: It is not true that Delta stores the passwords." in text.content.splitlines()


async def test_propagation_raises_no_turned_text(memory: Mnemic, model: LoopbackModel) -> None:
    for start in range(0, len(TURNED), _AT_ONCE):
        pairs = TURNED[start : start + _AT_ONCE]
        who = ANA.model_copy(update={"session_id": f"s{start}"})
        own = [fact(pair.text, place, category="knowledge") for place, pair in enumerate(pairs, start=1)]
        model.answer(FACTS, facts(*own))
        model.answer(DECISIONS, decisions())
        model.answer(REFLECTIONS, reflections())
        await memory.observe(who, turns(*(pair.typed for pair in pairs)))
        await memory.form(who)
    await propagate(memory.resources, Target("harbor", "user:ana"))
    assert await seen_by_bo(memory) == []
