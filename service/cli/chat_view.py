"""What `mnemic chat` shows: the answer as it comes on standard output, all else on standard error."""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mnemic.policy.text.hygiene import visible
from mnemic.service.cli.output import note
from mnemic.state.changes import Bullet, Sign
from mnemic.state.supervisor import Progress

PROMPT: Final = "you> "
#: What became of a memory, in the person's words.
_WORDS: Final[Mapping[Sign, str]] = MappingProxyType(
    {
        "+created": "+ remembered",
        "↑updated": "↑ updated",
        "↔merged": "↔ merged",
        "~soft-deleted": "~ forgotten",
        "−deleted": "− deleted",
        "⟲restored": "⟲ restored",
    }
)


class ChatView:
    """The terminal, or a pipe, where nothing asks for input."""

    def __init__(self) -> None:
        #: Whether somebody types.
        self.watched = sys.stdin is not None and sys.stdin.isatty()
        #: Whether the answer's last line is still open.
        self._open = False
        self._waiting = ""

    def ask(self, prompt: str = PROMPT) -> None:
        """Asks for a line at a terminal."""
        self.close()
        self._waiting = prompt if self.watched else ""
        self._prompt()

    def heard(self) -> None:
        """The line has come."""
        self._waiting = ""

    def piece(self, text: str) -> None:
        """The next piece of the answer."""
        shown = visible(text)
        sys.stdout.write(shown)
        sys.stdout.flush()
        self._open = not shown.endswith("\n") if shown else self._open

    def close(self) -> None:
        """What follows begins on a line of its own."""
        if self._open:
            self.piece("\n")

    def tell(self, *lines: str) -> None:
        """Lines beside the conversation; where somebody is being asked, the prompt comes again."""
        self.close()
        if self._waiting:
            sys.stderr.write("\n")
        for line in lines:
            note(line)
        self._prompt()

    def progress(self, event: Progress) -> None:
        """The tools that a step uses; the other steps show by themselves."""
        if tools := event.get("tools"):
            self.tell(f"· {', '.join(tools)}")

    def updates(self, bullets: Sequence[Bullet]) -> None:
        """What became of memories, a line each."""
        self.notes([_update(bullet) for bullet in bullets])

    def notes(self, lines: Sequence[str]) -> None:
        """Lines beside the conversation, if there are any."""
        if lines:
            self.tell(*lines)

    def _prompt(self) -> None:
        sys.stderr.write(self._waiting)
        sys.stderr.flush()


def _update(bullet: Bullet) -> str:
    notes = f" {bullet.combined} {'note' if bullet.combined == 1 else 'notes'}" if bullet.combined else ""
    return f"{_WORDS[bullet.sign]}{notes}: {bullet.text or 'a memory whose words are not shown'}"
