"""Find plain statements of people about themselves: whole main clauses that the table (attributes.txt) lists.

The table is read once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

from mnemic.memory.text.details import DATE_WORDS
from mnemic.memory.text.sharing import content_tokens
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import QUOTED, sentences, word_set
from mnemic.memory.text.writing import check_text
from mnemic.prompts.conversation import Line

#: Slots that select one of several values, such as the owner of a name; all other slots hold a value.
TOPICS = frozenset({"topic", "kin", "owned"})
#: Slots that are matched and not kept.
_PASSED_OVER = frozenset({"recently", "month"})
#: Words that may follow a verb or end a clause; the second group only for attributes with several values.
_BESIDE = ("now|currently|still|just|recently|really|actually", "|also")
_AT_END = (
    "now|these days|nowadays|currently|at the moment|by the way|please|thanks",
    "|also|too|as well|very much|a lot",
)
_CAPITALS = "".join(sign for sign in map(chr, range(0x250)) if sign.isupper())
_WORDS = {"C": rf"(?-i:[{_CAPITALS}])[\w'&.-]*", "W": r"(?!(?:to|over|and)\b)[\w'&-]+"}
#: Maximum length of a plain sentence; it keeps the patterns cheap.
_MAX_CHARS = 160
#: Slots that take any words, except words that refer to another text.
_OPEN = frozenset({"place", "name", "languages", "employer", "thing", "compared", "topic", "job"})
_EMPTY_WORDS = (FUNCTION_WORDS | DATE_WORDS) - word_set("the a an and to over of am")
#: Words before a clause that do not change it.
_OPENER = re.compile(
    r"(?i)^(?:(?:hi|hello|hey|oh|well|so|also|and|but|ok|okay|yes|yeah|no|sorry|actually|anyway|by the way|btw|thanks"
    r"|thank you|good (?:morning|afternoon|evening))(?: there)?(?:[,!–-]+ ?| (?=I\b|my\b|please\b)))+"
)
#: Replaces a quotation: no clause of the table has one.
_QUOTATION = "\0"
#: The text behind it may have another author.
_OTHERS = re.compile(r"[\"“”«»`]|:(?=\s|$)|^[ \t]*(?:--|==|#{1,6}[ \t]|<[a-z!/])", re.MULTILINE | re.IGNORECASE)
#: Words of supposition and doubt: a message with one of them states nothing.
_UNSURE = re.compile(
    r"(?i)\b(?:if|unless|would|could|should|might|(?-i:may)|maybe|perhaps|probably|imagine|suppose|pretend|let's|wish"
    r"|dream\w*|role-?play\w*|hypothetical\w*)\b|\bI'd\b"
)
#: Revokes the speaker's sentence before it.
_TAKES_BACK = re.compile(
    r"(?i)\W*(?:(?:I'm |I was )?(?:just |only )?(?:kidding|joking)|(?:that's|that is|that was|just) (?:a joke|wrong)"
    r"|scratch that|forget|ignore that|correction|I (?:mean|meant|misspoke)|sorry|oops|no,? (?:wait|sorry)"
    r"|wait|not really|lol|haha|or (?:rather|so)|(?:or )?at least|well(?=,)|actually,? no|no, not)\b"
)
#: A sentence about oneself that the table does not know puts statements with the same words in doubt.
_OF_ONESELF = re.compile(r"(?i)\b(?:I|me|my)\b")
_SHORT = {"i'm": "I am", "i've": "I have", "don't": "do not", "can't": "cannot", "name's": "name is"}
#: A reason or a consequence behind a clause; the clause holds without it.
_REASON = re.compile(r"(?i),? (?:because|so(?! (?:to|that|far|long|much|called)\b)) .*")
_ANYMORE = re.compile(r"^(I(?: am)?)(?: do)? not (.+) (?:anymore|any more|any longer)$", re.IGNORECASE)
#: Where a sentence is split: nowhere, between clauses that each name the speaker, at each `and`.
_JOINTS = tuple(map(re.compile, (r"(?!)", r"(?i);|,? (?:and|but) (?=(?:I|my)\b)", r"(?i);|,? and ")))


class Rule(NamedTuple):
    """One row of the table: patterns of a statement about oneself, and the sentence to store."""

    attribute: str
    #: A person has one value of it at a time.
    is_single: bool
    #: It ends a value.
    is_end: bool
    category: str
    importance: int
    sentence: str
    stored: re.Pattern[str]
    clauses: tuple[re.Pattern[str], ...]


@cache
def rules() -> tuple[Rule, ...]:
    """Return the rows of the table, in order."""
    slots: dict[str, str] = {}
    found: list[Rule] = []
    text = resources.files(__package__).joinpath("attributes.txt").read_text("utf-8")
    for block in re.split(r"\n+(?! )", re.sub(r"(?m)^#.*\n", "", text).strip()):
        head, *rest = (line.strip() for line in block.splitlines())
        if slot := re.match(r"<(\w+)> = ", head):
            shape = head[slot.end() :] + "".join(rest)
            slots[slot[1]] = re.sub(r"\b[CW]\b", lambda word: _WORDS[word[0]], shape)
        else:
            found.append(_rule(head, rest, slots))
    return tuple(found)


def _rule(head: str, clauses: list[str], slots: Mapping[str, str]) -> Rule:
    attribute, count, kind, sentence = (column.strip() for column in head.split("|"))
    category, importance = kind.split()
    is_single, is_end = count.endswith("one"), count.startswith("end")
    beside, at_end = (words[0] if is_single else "".join(words) for words in (_BESIDE, _AT_END))
    patterns = []
    for clause in clauses:
        shape = re.sub(r"^I (?:am |have |\(\?:have \)\?)?", lambda start: rf"{start[0]}(?:(?:{beside}) )?", clause)
        patterns.append(re.compile(rf"{_with_slots(shape, slots)}(?:,? (?:{at_end}))?", re.IGNORECASE))
    stored = re.compile(r"(?i)(?P<who>\S.{0,79}?)" + _with_slots(re.escape(sentence[len("<who>") :]), slots))
    return Rule(attribute, is_single, is_end, category, int(importance), sentence, stored, tuple(patterns))


def _with_slots(pattern: str, slots: Mapping[str, str]) -> str:
    """Replace each slot of a pattern with a group of the same name."""

    def group(slot: re.Match[str]) -> str:
        shape = _with_slots(slots[slot[1]], slots)
        return f"(?:{shape})" if slot[1] in _PASSED_OVER else f"(?P<{slot[1]}>{shape})"

    return re.sub(r"<(\w+)>", group, pattern)


class Statement(NamedTuple):
    """A statement about a person that matched a row of the table."""

    rule: Rule
    who: str
    topic: str
    value: str
    #: The number of its message; 0 for a stored sentence.
    message: int = 0

    @property
    def text(self) -> str:
        """Return the sentence in the third person."""
        filled = {"who": self.who, **dict.fromkeys(TOPICS, self.topic)}
        return re.sub(r"<(\w+)>", lambda slot: filled.get(slot[1], self.value), self.rule.sentence)

    def contradicts(self, older: "Statement") -> bool:
        """Return whether it replaces an older one: another single value, or the end of the same value."""
        ours, theirs = ((given.rule.attribute, given.who.casefold(), given.topic.casefold()) for given in (self, older))
        if ours != theirs:
            return False
        if self.rule.is_end != older.rule.is_end:
            return self.value.casefold() == older.value.casefold()
        return self.rule.is_single and not self.rule.is_end and self.value.casefold() != older.value.casefold()


def spoken(lines: Sequence[Line]) -> list[Statement]:
    """Return the statements of users about themselves, in order, without repeated, replaced and revoked ones."""
    found: list[Statement] = []
    before: dict[str, list[Statement]] = {}
    for line in lines:
        own = list(_sentences(line)) if line.role == "user" else []
        if any(_UNSURE.search(sentence) for sentence in own if not sentence.endswith("?")):
            continue
        for sentence in own:
            new = [] if sentence.endswith("?") else _clauses(sentence, line)
            if not new and _TAKES_BACK.match(sentence):
                found = [old for old in found if old not in before.get(line.speaker, [])]
            for statement in new:
                found = [old for old in found if not statement.contradicts(old)]
                if all(statement.text != old.text for old in found):
                    found.append(statement)
            before[line.speaker] = new
            if not new and _OF_ONESELF.search(sentence) and not sentence.endswith("?"):
                words = content_tokens(sentence)
                found = [old for old in found if old.who != line.speaker or not content_tokens(old.value) & words]
    return found


@lru_cache(maxsize=8192)  # a consolidation compares each sentence with all others
def stored(sentence: str) -> Statement | None:
    """Match a sentence in the third person with the row that writes it; None if there is no such row."""
    matches = ((rule, rule.stored.fullmatch(sentence)) for rule in rules() if len(sentence) <= 2 * _MAX_CHARS)
    found = (_statement(rule, match, match["who"]) for rule, match in matches if match)
    # `Ana no longer` is no name: of two readings, the one with the shorter subject is right
    return min((statement for statement in found if statement), key=lambda read: len(read.who), default=None)


def _sentences(line: Line) -> Iterator[str]:
    """Return the sentences of a message, up to the first sign of quoted or forwarded text."""
    own, *others = _OTHERS.split(QUOTED.sub(_QUOTATION, line.content.replace("’", "'")), maxsplit=1)
    for written in (own + _QUOTATION * bool(others)).splitlines():
        if not written.lstrip().startswith((">", "|")):
            yield from sentences(written)


def _clauses(sentence: str, line: Line) -> list[Statement]:
    """Return the statements of a sentence; none if one of its clauses matches no row."""
    text = _REASON.sub("", _OPENER.sub("", sentence.rstrip(" .!"), count=1), count=1)
    for joint in _JOINTS if len(text) <= _MAX_CHARS else ():
        first, *others = (part.strip() for part in joint.split(text))
        found = [_clause(first, line), *(_clause(part, line) or _clause(f"I {part}", line) for part in others)]
        if all(found):
            return [statement for statement in found if statement]
    return []


def _clause(text: str, line: Line) -> Statement | None:
    text = re.sub(r"\w+'\w+", lambda word: _SHORT.get(word[0].lower(), word[0]), text)
    text = _ANYMORE.sub(r"\1 no longer \2", text)
    matches = ((rule, clause.fullmatch(text)) for rule in rules() for clause in rule.clauses)
    found = (_statement(rule, match, line.speaker, line.number) for rule, match in matches if match)
    return next((statement for statement in found if statement), None)


def _statement(rule: Rule, match: re.Match[str], who: str, message: int = 0) -> Statement | None:
    slots = {name: text for name, text in match.groupdict().items() if name != "who"}
    topic = next((text for name, text in slots.items() if name in TOPICS), "")
    value = next((text for name, text in slots.items() if name not in TOPICS), "")
    open_words = " ".join(text for name, text in slots.items() if name in _OPEN).lower()
    if "act" in slots:
        value = re.sub(r"\b(me|my)\b", lambda word: who if word[1] == "me" else f"{who}'s", value)
    if value.casefold() == who.casefold() or _EMPTY_WORDS & set(re.findall(r"[\w'-]+", open_words)):
        return None
    found = Statement(rule, who, topic, value, message)
    checked = check_text(found.text, kind="reflection" if rule.category == "style" else "fact")
    return found if checked.text == found.text else None
