"""Find plain statements of people about themselves: whole main clauses that the table attributes.txt lists."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

from mnemic.memory.text.details import DATE_WORDS, content_tokens
from mnemic.memory.text.questions import is_question
from mnemic.memory.text.word_lists import FUNCTION_WORDS
from mnemic.memory.text.words import QUOTED, sentences, word_set
from mnemic.memory.text.writing import check_text
from mnemic.prompts.conversation import Line

#: Slots that select one of several values, such as the owner of a name; all other slots hold a value.
TOPICS = frozenset({"topic", "kin", "owned"})
#: Slots that are matched and not kept.
_PASSED_OVER = frozenset({"recently", "month"})
#: Words that may follow a verb or end a clause; the second text only for attributes with several values.
_AFTER_VERB = ("now|currently|still|just|recently|really|actually", "|also")
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
    #: Words that a question may have for the attribute.
    words: frozenset[str]
    #: Whether a person has one value of it at a time.
    is_single: bool
    #: Whether it ends a value.
    is_end: bool
    category: str
    importance: int
    sentence: str
    stored: re.Pattern[str]
    clauses: tuple[re.Pattern[str], ...]


@cache
def _table() -> tuple[Mapping[str, str], tuple[Rule, ...]]:
    """Return the slots and the rows of the table, in order."""
    slots: dict[str, str] = {}
    rows: list[Rule] = []
    text = resources.files(__package__).joinpath("attributes.txt").read_text("utf-8")
    for block in re.split(r"\n+(?! )", re.sub(r"(?m)^#.*\n", "", text).strip()):
        head, *rest = map(str.strip, block.splitlines())
        if slot := re.match(r"<(\w+)> = ", head):
            shape = head[slot.end() :] + "".join(rest)
            slots[slot[1]] = re.sub(r"\b[CW]\b", lambda word: _WORDS[word[0]], shape)
        else:
            rows.append(_rule(head, rest, slots))
    return slots, tuple(rows)


def rules() -> tuple[Rule, ...]:
    """Return the rows of the table, in order."""
    return _table()[1]


def order_rest(name: str, request: str) -> str:
    """Return the object of an order to `keep`, `forget` or `ask` something; empty if the message is no such order."""
    order = rf"(?is)\s*(?:{_table()[0][name]})[,:]?\s+(.+)"  # `re` keeps the compiled pattern
    match = re.fullmatch(order, request.replace("’", "'"))
    return match[1] if match and not is_question(request) else ""


def says_plainly(text: str, speaker: str) -> bool:
    """Return whether a message has a statement or a lasting instruction that the rules store."""
    return bool(spoken([Line(1, speaker, "user", datetime.now(UTC), text)]))


def asked_sentences(words: frozenset[str]) -> list[str]:
    """Return the sentences, without their values, that state an attribute with one of these words in its name."""
    found = [rule.sentence for rule in rules() if words & rule.words]
    return [re.sub(r"<\w+>", "", sentence) for sentence in found]


def asked_words(text: str, asked: frozenset[str]) -> frozenset[str]:
    """Return the words of a text, with those of the attributes that it states and a question has."""
    words = content_tokens(text)
    statement = stored(text)
    if statement and not content_tokens(statement.topic) <= asked:
        # what is said of a sister does not answer a question about a brother
        return statement.rule.words - {"name"} | content_tokens(statement.value)
    for rule in rules():
        verb = content_tokens(re.sub(r"<\w+>", "", rule.sentence))
        if rule == (statement and statement.rule) or (verb and verb <= words and not rule.is_end):
            words |= rule.words
    return words


def _rule(head: str, clauses: list[str], slots: Mapping[str, str]) -> Rule:
    names, count, kind, sentence = map(str.strip, head.split("|"))
    attribute = names.partition(",")[0]
    category, importance = kind.split()
    is_single, is_end = count.endswith("one"), count.startswith("end")
    after_verb, at_end = _AFTER_VERB[0], _AT_END[0]
    if not is_single:
        after_verb, at_end = "".join(_AFTER_VERB), "".join(_AT_END)
    patterns: list[re.Pattern[str]] = []
    for clause in clauses:
        shape = re.sub(r"^I (?:am |have |\(\?:have \)\?)?", lambda start: f"{start[0]}(?:(?:{after_verb}) )?", clause)
        patterns.append(re.compile(rf"{_with_slots(shape, slots)}(?:,? (?:{at_end}))?", re.IGNORECASE))
    stored = re.compile(r"(?i)(?P<who>\S.{0,79}?)" + _with_slots(re.escape(sentence[len("<who>") :]), slots))
    kinds = (is_single, is_end, category, int(importance))
    return Rule(attribute, content_tokens(names), *kinds, sentence, stored, tuple(patterns))


def _with_slots(pattern: str, slots: Mapping[str, str]) -> str:
    """Replace each slot of a pattern with a group of the same name."""

    def group(slot: re.Match[str]) -> str:
        shape = _with_slots(slots[slot[1]], slots)
        if slot[1] in _PASSED_OVER:
            return f"(?:{shape})"
        return f"(?P<{slot[1]}>{shape})"

    return re.sub(r"<(\w+)>", group, pattern)


class Statement(NamedTuple):
    """A statement about a person that matched a row of the table."""

    rule: Rule
    #: Name of the person.
    subject: str
    topic: str
    value: str
    #: Number of its message; 0 for a stored sentence.
    message: int = 0

    @property
    def text(self) -> str:
        """Return the sentence in the third person."""
        filled = {"who": self.subject, **dict.fromkeys(TOPICS, self.topic)}
        return re.sub(r"<(\w+)>", lambda slot: filled.get(slot[1], self.value), self.rule.sentence)

    @property
    def attribute_key(self) -> tuple[str, str, str]:
        """Return the attribute with its subject and topic, for comparison with another statement."""
        return self.rule.attribute, self.subject.casefold(), self.topic.casefold()

    def contradicts(self, older: "Statement") -> bool:
        """Return whether it replaces an older one: another single value, or the end of the same value."""
        if self.attribute_key != older.attribute_key:
            return False
        is_same_value = self.value.casefold() == older.value.casefold()
        if self.rule.is_end != older.rule.is_end:
            return is_same_value
        return self.rule.is_single and not self.rule.is_end and not is_same_value


class _Reading:
    """Statements of a conversation, as its messages are read in order."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        #: Statements of the last sentence of each speaker.
        self._last: dict[str, list[Statement]] = {}

    def read(self, sentence: str, line: Line) -> None:
        """Add the statements of a sentence; remove those that it replaces, revokes or puts in doubt."""
        is_question = sentence.endswith("?")
        statements: list[Statement] = []
        if not is_question:
            statements = _clauses(sentence, line)
        if not statements and _TAKES_BACK.match(sentence):
            revoked = self._last.get(line.speaker, [])
            self._keep(lambda old: old not in revoked)
        for statement in statements:
            self._add(statement)
        self._last[line.speaker] = statements
        if not statements and not is_question and _OF_ONESELF.search(sentence):
            words = content_tokens(sentence)
            self._keep(lambda old: old.subject != line.speaker or not content_tokens(old.value) & words)

    def _add(self, new: Statement) -> None:
        self._keep(lambda old: not new.contradicts(old))
        if all(new.text != old.text for old in self.statements):
            self.statements.append(new)

    def _keep(self, condition: Callable[[Statement], bool]) -> None:
        self.statements = [old for old in self.statements if condition(old)]


def spoken(lines: Sequence[Line]) -> list[Statement]:
    """Return the statements of users about themselves, in order, without repeated, replaced and revoked ones."""
    reading = _Reading()
    for line in lines:
        if line.role != "user":
            continue
        written = list(_sentences(line))
        if not _is_unsure(written):
            for sentence in written:
                reading.read(sentence, line)
    return reading.statements


def _is_unsure(written: Sequence[str]) -> bool:
    return any(_UNSURE.search(sentence) for sentence in written if not sentence.endswith("?"))


@lru_cache(maxsize=8192)  # a consolidation compares each sentence with all others
def stored(sentence: str) -> Statement | None:
    """Return the statement that a sentence in the third person stores, or None if no row has such a sentence."""
    if len(sentence) > 2 * _MAX_CHARS:
        return None
    shortest: Statement | None = None
    for rule in rules():
        match = rule.stored.fullmatch(sentence)
        statement = _statement(rule, match, match["who"]) if match else None
        # `Ana no longer` is no name: of two readings, the one with the shorter subject is right
        if statement and (shortest is None or len(statement.subject) < len(shortest.subject)):
            shortest = statement
    return shortest


def _sentences(line: Line) -> Iterator[str]:
    """Return the sentences of a message, up to the first sign of quoted or forwarded text."""
    typed, *others = _OTHERS.split(QUOTED.sub(_QUOTATION, line.content.replace("’", "'")), maxsplit=1)
    if others:
        typed += _QUOTATION
    for written in typed.splitlines():
        if not written.lstrip().startswith((">", "|")):
            yield from sentences(written)


def _clauses(sentence: str, line: Line) -> list[Statement]:
    """Return the statements of a sentence, or an empty list if one of its clauses matches no row."""
    opened = _OPENER.sub("", sentence.rstrip(" .!"), count=1)
    text = _REASON.sub("", order_rest("keep", opened) or opened, count=1)
    if len(text) > _MAX_CHARS:
        return []
    for joint in _JOINTS:
        if statements := _joined_clauses(joint.split(text), line):
            return statements
    return []


def _joined_clauses(parts: Sequence[str], line: Line) -> list[Statement]:
    """Return a statement for each part of a sentence, or an empty list if a part matches no row."""
    statements: list[Statement] = []
    for part in map(str.strip, parts):
        statement = _clause(part, line)
        if statement is None and statements:
            statement = _clause(f"I {part}", line)
        if statement is None:
            return []
        statements.append(statement)
    return statements


def _clause(text: str, line: Line) -> Statement | None:
    text = re.sub(r"\w+'\w+", lambda word: _SHORT.get(word[0].lower(), word[0]), text)
    text = _ANYMORE.sub(r"\1 no longer \2", text)
    for rule in rules():
        for clause in rule.clauses:
            match = clause.fullmatch(text)
            statement = _statement(rule, match, line.speaker, line.number) if match else None
            if statement:
                return statement
    return None


def _statement(rule: Rule, match: re.Match[str], subject: str, message: int = 0) -> Statement | None:
    """Return the statement of a match, or None if it names nothing or is no text that can be stored."""
    slots = match.groupdict()
    slots.pop("who", None)
    topic = next((slots[name] for name in slots if name in TOPICS), "")
    value = next((slots[name] for name in slots if name not in TOPICS), "")
    if "act" in slots:
        forms = {"me": subject, "my": f"{subject}'s"}
        value = re.sub(r"\b(?:me|my)\b", lambda word: forms[word[0]], value)
    open_words = " ".join(slots[name] for name in slots if name in _OPEN).lower()
    if value.casefold() == subject.casefold() or _EMPTY_WORDS & set(re.findall(r"[\w'-]+", open_words)):
        return None
    statement = Statement(rule, subject, topic, value, message)
    checked = check_text(statement.text, kind="reflection" if rule.category == "style" else "fact")
    if checked.text != statement.text:
        return None
    return statement
