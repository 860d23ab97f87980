"""Every rule answers for texts that are made to hang it; a catastrophic pattern would never come back."""

from mnemic.policy.formation.bands import same_fact
from mnemic.policy.formation.sharing import is_pasted, is_personal
from mnemic.policy.recall.heuristics import candidate_names, search_reason, unknown_names
from mnemic.policy.text.details import kept_share
from mnemic.policy.text.shape import clean_text, clip_text, display_name, pieces, strip_recalled
from mnemic.policy.text.words import sentences
from mnemic.policy.text.writing import check_text, is_degenerate


def test_hygiene_comes_back(hostile: str) -> None:
    assert clean_text(hostile) == clean_text(clean_text(hostile))
    assert "<MemoryContext" not in strip_recalled(hostile)
    assert len(clip_text(hostile, 100)) <= 100
    assert len(display_name(hostile)) <= len(hostile)


def test_comparison_comes_back(hostile: str) -> None:
    assert same_fact(hostile, hostile)
    assert kept_share([hostile], hostile) == 1.0


def test_judgement_comes_back(hostile: str) -> None:
    assert check_text(hostile, kind="fact").text is None
    assert is_degenerate(hostile) in (True, False)
    assert is_pasted(hostile)
    assert is_personal(hostile, "knowledge") in (True, False)


def test_reading_comes_back(hostile: str) -> None:
    search_reason(hostile)
    assert unknown_names(candidate_names(hostile), hostile) == ()
    assert max(map(len, pieces(hostile)), default=0) <= 1000
    assert "".join("".join(sentences(hostile)).split()) == "".join(hostile.split())
