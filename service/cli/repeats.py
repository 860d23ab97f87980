"""Counts how often each of any number of texts was seen, on disk: memory stays flat."""

import hashlib
import sqlite3


class Repeats:
    """A count for each text.

    SQLite keeps it in a temporary file of its own and 2 MB of it in memory; a dict takes 100 MB for a million texts.
    """

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("pragma journal_mode = off")  # the file dies with this object: nothing is ever rolled back
        self._file.execute("create table seen (digest blob primary key, times integer not null) without rowid")

    def count(self, text: str) -> int:
        """How often this text was seen, this time included."""
        digest = hashlib.sha256(text.encode()).digest()
        self._file.execute(
            "insert into seen values (?, 1) on conflict (digest) do update set times = times + 1", (digest,)
        )
        (times,) = self._file.execute("select times from seen where digest = ?", (digest,)).fetchone()
        return int(times)

    def close(self) -> None:
        """Gives the file back."""
        self._file.close()
