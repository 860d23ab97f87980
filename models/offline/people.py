"""Whom `he` and `she` mean: the one person just spoken of, where there is exactly one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from mnemic.models.offline.capitals import is_rare, restored
from mnemic.models.offline.clauses import expanded
from mnemic.models.offline.joints import begins_statement
from mnemic.models.offline.pieces import pattern
from mnemic.models.offline.subjects import is_plural
from mnemic.models.offline.text import fold
from mnemic.prompts.conversation import Line

_MENTION = pattern("<PEOPLE_MENTION>")
_SOMEBODY = pattern("<PEOPLE_SOMEBODY>")
_PRONOUN = pattern(
    r"(?P<before>(?:<STATEMENT_LEAD_WORDS>,? |<STATEMENT_NOTHING_WORDS>,? )?)(?P<word>he|she|his|her)\b(?= \w)",
    ignore_case=True,
)
_SHE = pattern("<PEOPLE_SHE>", ignore_case=True)
_HE = pattern("<PEOPLE_HE>", ignore_case=True)
#: Nobody introduces people over more of a message; the bound keeps pasted documents cheap.
_MAX_CHARS = 4000
#: Who or what a sentence begins with may well be meant, known or not.
_BEGINS = re.compile(r"(?:^|[.!?;,] |\b(?:and|but|so) )$")
_SAME_KIN = {"mom": "mum", "mother": "mum", "dad": "father"}


@dataclass(frozen=True)
class Person:
    """Somebody mentioned."""

    #: How to name them in the speaker's words; empty where that cannot be said.
    text: str
    #: `she` or `he`, or empty where unknown.
    pronoun: str

    @property
    def key(self) -> str:
        """The same for `my mum` and `my mother`."""
        if not self.text.startswith("my "):
            return _first(self.text) if self.text else ""
        *before, last = self.text.lower().split()
        return " ".join([*before, _SAME_KIN.get(last, last)])


@dataclass
class People:
    """Who is mentioned in a conversation, message by message."""

    lines: tuple[Line, ...]
    names: frozenset[str]
    _resolved: dict[int, list[Person]] = field(default_factory=dict)
    _pronouns: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        users = {line.speaker for line in self.lines if line.role == "user"}
        self._speakers = {name for user in users for name in user.split()}
        self.alone = len(users) == 1
        self._somebody = set[str]() if len(users) < 3 else set(self._speakers)
        self._texts = {
            line.number: expanded(restored(fold(line.content[:_MAX_CHARS]), line.content, self.names))
            for line in self.lines
            if line.role in ("user", "assistant")
        }
        for text in self._texts.values():
            self._somebody.update(self._told(text))

    @property
    def somebody(self) -> frozenset[str]:
        """First names that people of the conversation have."""
        return frozenset(self._somebody | self._speakers)

    def text(self, line: Line) -> str:
        """What the line says, with the capitals of names and contractions written out."""
        return self._texts.get(line.number, "")

    def said_before(self, line: Line, lines: int) -> str:
        """What so many lines before this one say."""
        numbers = sorted(number for number in self._texts if number < line.number)[-lines:]
        return " ".join(self._texts[number] for number in numbers)

    def named(self, statement: str, before: str, line: Line) -> str:
        """The statement with the person meant in place of a pronoun at its start; unchanged where nobody fits.

        `before` is what the same message says ahead of the statement.
        """
        match = _PRONOUN.match(statement)
        if match is None:
            return statement
        word = match["word"].lower()
        pronoun = {"his": "he", "her": "she"}.get(word, word)
        person = self._meant(pronoun, before, line)
        if person is None:
            return statement
        self._pronouns[person.key] = pronoun
        self._resolved.setdefault(line.number, []).append(Person(person.text, pronoun))
        ending = "'s" if word in ("his", "her") else ""
        return f"{statement[: match.start('word')]}{person.text}{ending}{statement[match.end('word') :]}"

    def _meant(self, pronoun: str, before: str, line: Line) -> Person | None:
        mentioned = self._mentioned(before, line, line)
        resolved = self._resolved.get(line.number, [])
        own = [*resolved, *mentioned]
        still = [person for person in own if person.text and person.pronoun == pronoun and person in resolved]
        if still:  # who has been called `she` in a message stays `she` in it
            return still[-1]
        for people in (own, self._since_last(line)):
            fitting = {person.key: person for person in people if self._fits(person, pronoun)}
            if fitting:
                found = next(iter(fitting.values()))
                return found if len(fitting) == 1 and found.text else None
        return None

    def _fits(self, person: Person, pronoun: str) -> bool:
        return (person.pronoun or self._pronouns.get(person.key, pronoun)) == pronoun

    def _since_last(self, line: Line) -> list[Person]:
        """Everybody mentioned from the speaker's last message on."""
        found: list[Person] = []
        for earlier in reversed([known for known in self.lines if known.number < line.number]):
            found += self._resolved.get(earlier.number, [])
            for person in self._mentioned(self._texts.get(earlier.number, ""), earlier, line):
                # a speaker could be meant, but somebody whose name is not plain just as well
                found.append(Person("", "") if person.key in self._speakers else person)
            if earlier.role == "user" and earlier.speaker == line.speaker:
                break
        return found

    def _mentioned(self, text: str, said_in: Line, asked_in: Line) -> list[Person]:
        found = (self._person(match, said_in, asked_in) for match in _MENTION.finditer(text))
        return [person for person in found if person is not None and not is_plural(person.text)]

    def _person(self, match: re.Match[str], said_in: Line, asked_in: Line) -> Person | None:
        name = match["called"] or match["name"] or match["before"] or match["role_name"] or match["asked"]
        kin = match["kin"] or match["called_kin"] or match["behind"] or match["role"] or ""
        gender = "she" if _SHE.search(kin) else "he" if _HE.search(kin) else ""
        if match["pro"]:
            gender = "she" if match["pro"].lower() == "her" else "he"
        if name:
            found = Person(name, gender)
            if match["pro"] and said_in is asked_in:  # `Her name is Ana`: the next `she` is Ana
                self._resolved.setdefault(asked_in.number, []).append(found)
            return found
        if match["alone"]:
            first = _first(match["alone"])
            if first in (said_in.speaker, asked_in.speaker):
                return None
            if first not in self._somebody and not match["behind"]:
                return Person("", "") if _is_subject(match, first) else None
            return Person(match["alone"], gender)
        whose = (match["whose"] or "").lower()
        own = (whose == "my" and said_in.speaker == asked_in.speaker) or (
            whose == "your" and self.alone and said_in.role == "assistant"
        )
        return Person(f"my {kin}" if own else "", gender)

    def _told(self, text: str) -> Iterable[str]:
        """First names that only somebody can have."""
        for match in _MENTION.finditer(text):
            yield from (_first(match[group]) for group in ("called", "name", "before", "role_name") if match[group])
        for match in _SOMEBODY.finditer(text):
            name = _first(match["name"] or match["asked"])
            if name in self.names and name not in self._speakers:
                yield name


def _is_subject(match: re.Match[str], word: str) -> bool:
    """Whether a word that may be anybody's name begins a statement."""
    begins = _BEGINS.search(match.string[: match.start()]) and is_rare(word.lower())
    return bool(begins) and begins_statement(match.string[match.start() :], frozenset({word}))


def _first(name: str) -> str:
    return name.split()[0]
