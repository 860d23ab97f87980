"""What the tests of the pure rules share."""

import pytest

#: Texts of 100,000 characters that a careless pattern would take hours for.
HOSTILE = {
    "letters": "a" * 100_000,
    "capitals": "A" * 100_000,
    "digits": "1" * 100_000,
    "blanks": " " * 100_000,
    "lines": "\n" * 100_000,
    "dots": "." * 100_000 + "a",
    "exclamations": "!" * 100_000 + "a",
    "quotes": '"' * 99_999,
    "opening quotes": "“" * 100_000,
    "apostrophes": "a'" * 50_000,
    "closing apostrophes": "‘" + "’a" * 50_000,
    "backticks": "`" * 99_999,
    "dashes": "-" * 100_000,
    "at signs": "a@" * 50_000,
    "grouped digits": "1,000," * 16_000,
    "spaced digits": "1 " * 50_000,
    "dated": "1/1/" * 25_000,
    "tags": "<MemoryContext " * 6_666,
    "open tags": "<MemoryContext>" * 6_666,
    "close tags": "</MemoryContext" * 6_666,
    "angle brackets": "<" * 100_000,
    "question words": "what " * 20_000,
    "pronouns": "I " * 50_000,
    "roman": "World War I " * 8_000,
    "headings": "1.1.1.1" * 14_000,
    "quoted lines": "> " * 50_000,
    "house numbers": "12 a b c " * 11_000,
    "one": "no one " * 14_000,
}


@pytest.fixture(params=list(HOSTILE.values()), ids=list(HOSTILE))
def hostile(request: pytest.FixtureRequest) -> str:
    """A text made to hang a pattern."""
    text = request.param
    assert isinstance(text, str)
    return text
