"""Lists of English words, read from the text files of this folder: the only place here that reads a file."""

from importlib import resources
from typing import Final

_FOLDER = resources.files("mnemic.memory.text")


def _read_words(name: str) -> frozenset[str]:
    return frozenset(_FOLDER.joinpath(name).read_text("utf-8").split())


FUNCTION_WORDS: Final = _read_words("function_words.txt")
#: Words that are no names if they begin a sentence with a capital: `Yesterday`, but not `Marit`. Base forms only. First
#: names that are also words (Mark, Rose, Grace, Bill) are not in the list: a stored fact usually begins with the name
#: of its subject.
COMMON_WORDS: Final = FUNCTION_WORDS | _read_words("common_words.txt")
