"""The form every sentence of the offline model has: short, in the third person, standing on its own."""

import re

from mnemic.models.offline.lexicon import PERSONAL
from mnemic.models.offline.text import WORD
from mnemic.policy.text.writing import check_text

MAX_FACT_WORDS = 30
MAX_REFLECTION_WORDS = 35
MAX_CHARS = 280
_PRONOUN_FIRST = re.compile(
    r"(?:he|she|it|they|this|that|these|those|there|his|her|their|its|here|one)\b", re.IGNORECASE
)
_MIN_WORDS = 3


def sentence(text: str) -> str:
    """The text as one sentence: single spaces, no loose punctuation, a full stop."""
    text = re.sub(r"\s+([,.;:])", r"\1", " ".join(text.split()))
    text = text.rstrip(" ,.;:!-–—…")
    return f"{text}." if text else ""


def is_well_formed(text: str, max_words: int = MAX_FACT_WORDS) -> bool:
    """Whether a sentence may be stored as it is."""
    found = text.split()
    if not _MIN_WORDS <= len(found) <= max_words or len(text) > MAX_CHARS or not text.endswith("."):
        return False
    if any(word.lower() in PERSONAL for word in WORD.findall(text)) or _PRONOUN_FIRST.match(text):
        return False
    if check_text(text, kind="fact", max_words=max_words).text != text:
        return False
    return text.count('"') % 2 == 0 and text.count("(") == text.count(")") and text.isprintable() and "?" not in text
