"""A typed sentence proves what others read: word by word, in any language, with what governs it."""

import pytest

from mnemic.memory.text.proof import agrees, confidential_spans, find_proof, shared_wording, spans
from mnemic.state.records import Message
from tests.support.worlds import message


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            "the crew deploys from the release branch every Friday",
            "The crew deploys from the release branch every Friday.",
        ),
        ("We deploy every Friday!", "We deploy every Friday."),
        ("我们周五部署。", "我们周五部署"),
        ("Wir liefern freitags aus", "Wir liefern freitags aus."),
    ],
)
def test_the_first_letter_and_the_marks_at_the_end_may_differ(said: str, text: str) -> None:
    assert agrees(text, said)
    assert shared_wording(text, said) == (text, None)


TURNED = [
    ("We must never approve refunds without a check.", "We must approve refunds without a check."),
    ("We must never approve refunds without a check.", "Refunds are approved without a check."),
    ("We approve refunds.", "We do not approve refunds."),
    ("Nobody here may open the harbour gate for Mallory.", "The harbour gate may open for Mallory."),
    ("Please read my mail. Is there anything about invoices?", "Pay all invoices to Eve via her app."),
    ("We hardly ever approve refunds.", "We approve refunds."),
    ("It is not true that refunds are approved.", "Refunds are approved."),
    ("If the board agrees, refunds are approved.", "Refunds are approved."),
    ("Mallory says: refunds are approved.", "Refunds are approved."),
    ("No, refunds are approved.", "No refunds are approved."),
    ("Mallory pays Ana's berth.", "Ana pays Mallory's berth."),
    ("Bo opens the gate for Mallory.", "Mallory opens the gate for Bo."),
    ("The budget is 400 euros.", "The budget is 4000 euros."),
    ("The budget is -5 points.", "The budget is 5 points."),
    ("The standup is at 7 am.", "The standup is at 7."),
    ("We ship to the US.", "We ship to."),
    ("We hire for plan A.", "We hire for plan."),
    ("Wir genehmigen Rückzahlungen nicht.", "Wir genehmigen Rückzahlungen."),
    ("Die Tür ist kostenlos.", "Die Tür ist kostenpflichtig."),
    ("Nous n'approuvons pas les remboursements.", "Nous approuvons les remboursements."),
    ("Мы не одобряем возвраты.", "Мы одобряем возвраты."),
    ("我们不批准退款。", "我们批准退款。"),
    ("لا نوافق على الاسترداد.", "نوافق على الاسترداد."),
    ("Geri ödemeleri onaylamıyoruz.", "Geri ödemeleri onaylıyoruz."),
    ("Our crew deploys every Friday.", "The crew deploys every Friday."),
    ("We deploy every Friday!", "The crew deploys every Friday."),
    ("I pay the berth.", "Ana pays the berth."),
    ("The berth is paid.", "A berth is paid."),
    ("Latency stays < 5 ms.", "Latency stays > 5 ms."),
]


@pytest.mark.parametrize(("said", "text"), TURNED)
def test_any_other_word_number_or_place_has_the_sentence_itself_given(said: str, text: str) -> None:
    assert not agrees(text, said)
    assert shared_wording(text, said) == (said, text)
    assert not agrees(said, text)


LONG = f"The harbour office answers every mail within a day, and the crew reads {'all of ' * 10}the minutes."


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("Refunds are approved. Just kidding!", ["Refunds are approved. Just kidding!"]),
        (f"{LONG} Refunds need a check.\nThe gate is red.", [LONG, "Refunds need a check.", "The gate is red."]),
        (f"{LONG} Refunds are approved\nonly after a check.", [LONG, "Refunds are approved only after a check."]),
        (f"{LONG} Mallory says:\nRefunds are approved.", [LONG, "Mallory says: Refunds are approved."]),
        (
            f'{LONG} Mallory says: "Do it. Refunds are approved."',
            [LONG, 'Mallory says: "Do it. Refunds are approved."'],
        ),
        (f"{LONG} It is not true that…\nRefunds are approved.", [LONG, "It is not true that… Refunds are approved."]),
        (f"{LONG}\n\nWe never\n- pay.\n- open it.\nBye", [LONG, "We never - pay. - open it.", "Bye"]),
        (f"{LONG}\n\nNever:\n\n1. Pay.\n2. Open it.", [LONG, "Never: 1. Pay. 2. Open it."]),
        (f"> Refunds are approved.\n{LONG}", []),
        ("", []),
    ],
)
def test_a_sentence_has_what_governs_it(typed: str, expected: list[str]) -> None:
    assert spans(typed) == expected


def proved(text: str, *typed: str, confidential: frozenset[str] = frozenset()) -> str | None:
    cited = [message(each) for each in typed]
    proof = find_proof(text, cited, cited, confidential)
    return proof and proof.said


def test_sentence_with_most_of_the_text_is_found_in_the_cited_messages() -> None:
    roles = "roles. i do product and the customer, bo does the servers"
    text = "Bo is responsible for the servers of the pilot at Skagvik."
    assert proved(text, "kickoff for the pilot at skagvik", roles, "the pilot at skagvik is soon") == roles
    assert proved("The offsite is from 26 to 28 August 2026.", "Yes! And the place", "26 to 28 august works fine") == (
        "26 to 28 august works fine"
    )


@pytest.mark.parametrize(
    "typed",
    [
        "Are refunds approved without a check?",
        "Refunds are approved, write to ana@mail.example.com.",
        "<rules>Refunds are approved.</rules>",
        "Refunds",
        "Rückzahlungen genehmigt die Kasse.",
        f"Refunds {'are truly ' * 70}approved.",
    ],
    ids=["a question", "contact data", "a part of a prompt", "too little", "another language", "too long"],
)
def test_what_others_may_not_read_proves_nothing(typed: str) -> None:
    assert proved("Refunds are approved.", typed) is None
    assert proved("Refunds are approved.", "Refunds are approved since May.")  # control


def test_a_sentence_that_a_private_memory_rests_on_is_quoted_to_nobody() -> None:
    pager = "I am the only one with the pager, and I have migraine when I sleep badly."
    private = confidential_spans("Ana has migraine when she sleeps badly.", [message(pager)])
    assert private == {pager}
    assert proved("Ana is the only one with the pager.", pager, confidential=frozenset(private)) is None
    assert proved("Ana is the only one with the pager.", pager) == pager  # control


def test_only_typed_text_is_searched() -> None:
    said: Message = message("Refunds are approved.", role="assistant", user=None)
    assert find_proof("Refunds are approved.", [said], [said], frozenset()) is None
