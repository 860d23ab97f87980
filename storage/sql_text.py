"""The SQL files, with the values that Python fills in.

`{name}` in a file of `storage/sql` stands for the SQL literals of a list in `state`, so that a kind, an event or a
reason is listed once.
"""

import re
from collections.abc import Iterable
from importlib import resources
from typing import Final

from mnemic.memory.text.shape import MAX_TEXT_BYTES
from mnemic.state import history, kinds

#: Configuration of the text search, which decides how words are split and stemmed.
TEXT_SEARCH: Final = "english"
#: Other languages with function words and stems in every Postgres.
_OTHER_LANGUAGES: Final = (
    "german",
    "spanish",
    "french",
    "portuguese",
    "italian",
    "dutch",
    "danish",
    "norwegian",
    "swedish",
    "finnish",
    "hungarian",
    "russian",
    "turkish",
)
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")


def literals(values: Iterable[str]) -> str:
    """Return values as SQL literals, separated by commas."""
    return ", ".join(f"'{value}'" for value in values)


_VALUES: Final = {
    "max_content_bytes": str(MAX_TEXT_BYTES),
    "text_search": literals([TEXT_SEARCH]),
    "dictionary": literals([f"{TEXT_SEARCH}_stem"]),
    "dictionaries": literals(f"{language}_stem" for language in (TEXT_SEARCH, *_OTHER_LANGUAGES)),
    "context_kinds": literals(kinds.CONTEXT_KINDS),
    "indexed_kinds": literals(kinds.INDEXED_KINDS),
    "expiring_kinds": literals(kinds.EXPIRING_KINDS),
    "mergeable_kinds": literals(kinds.MERGEABLE_KINDS),
    "propagated_kinds": literals(kinds.PROPAGATED_KINDS),
    "insight_source_kinds": literals(kinds.INSIGHT_SOURCE_KINDS),
    "retained_states": literals(kinds.RETAINED_STATES),
    "merge_relations": literals(kinds.MERGE_RELATIONS),
    "erasure_events": literals(history.ERASURE_EVENTS),
    "refinement_events": literals(history.REFINEMENT_EVENTS),
    "written_reasons": literals(history.WRITTEN_REASONS),
    "contribution_reasons": literals(history.CONTRIBUTION_REASONS),
    "rollback_reasons": literals(history.ROLLBACK_REASONS),
    "erasure_reasons": literals(history.ERASURE_REASONS),
    "refinement_reasons": literals(history.REFINEMENT_REASONS),
    "reserved_reasons": literals(history.RESERVED_REASONS),
}


def read_folder(name: str) -> dict[str, str]:
    """Return the texts of the SQL files in a folder of `storage/sql`, by their file names."""
    texts: dict[str, str] = {}
    for entry in resources.files(f"mnemic.storage.sql.{name}").iterdir():
        if entry.name.endswith(".sql"):
            texts[entry.name] = fill(entry.read_text(encoding="utf-8"))
    return texts


def fill(text: str) -> str:
    """Replace each `{name}` by its SQL literals.

    Raises:
        KeyError: if no list has the name.
    """
    return _PLACEHOLDER.sub(lambda match: _VALUES[match[1]], text)
