"""What people plainly say of themselves in a conversation: whole main clauses that the table knows, nothing else.

The table (attributes.txt) is read once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

from mnemic.policy.formation.sharing import content_tokens
from mnemic.policy.text.details import DATE_WORDS
from mnemic.policy.text.words import FUNCTION_WORDS, QUOTED, sentences, word_set
from mnemic.policy.text.writing import check_text
from mnemic.prompts.conversation import Line

#: Slots that tell which of several values is meant, such as whose name; all others hold a value.
TOPICS = frozenset({"topic", "kin", "owned"})
#: Slots that are read and not kept.
_PASSED_OVER = frozenset({"recently", "month"})
#: These may stand beside a verb, or at the end of a clause; the second ones only where values stand side by side.
_BESIDE = ("now|currently|still|just|recently|really|actually", "|also")
_AT_END = (
    "now|these days|nowadays|currently|at the moment|by the way|please|thanks",
    "|also|too|as well|very much|a lot",
)
_CAPITALS = "".join(sign for sign in map(chr, range(0x250)) if sign.isupper())
_WORDS = {"C": rf"(?-i:[{_CAPITALS}])[\w'&.-]*", "W": r"(?!(?:to|over|and)\b)[\w'&-]+"}
#: A longer sentence is no plain one; the bound keeps the patterns cheap.
_MOST_CHARS = 160
#: Slots that take any words, but for those that lead to something unsaid.
_OPEN = frozenset({"place", "name", "languages", "employer", "thing", "compared", "topic", "job"})
_EMPTY_WORDS = (FUNCTION_WORDS | DATE_WORDS) - word_set("the a an and to over of am")
#: What may stand before a clause without changing it.
_OPENER = re.compile(
    r"(?i)^(?:(?:hi|hello|hey|oh|well|so|also|and|but|ok|okay|yes|yeah|no|sorry|actually|anyway|by the way|btw|thanks"
    r"|thank you|good (?:morning|afternoon|evening))(?: there)?(?:[,!–-]+ ?| (?=I\b|my\b|please\b)))+"
)
#: Stands for a quotation: no clause with one is of the table.
_QUOTATION = "\0"
#: What follows may be somebody else's text.
_OTHERS = re.compile(r"[\"“”«»`]|:(?=\s|$)|^[ \t]*(?:--|==|#{1,6}[ \t]|<[a-z!/])", re.MULTILINE | re.IGNORECASE)
#: Of a message that supposes or doubts something nothing is taken for said.
_UNSURE = re.compile(
    r"(?i)\b(?:if|unless|would|could|should|might|(?-i:may)|maybe|perhaps|probably|imagine|suppose|pretend|let's|wish"
    r"|dream\w*|role-?play\w*|hypothetical\w*)\b|\bI'd\b"
)
#: Takes back what its speaker said in the sentence before.
_TAKES_BACK = re.compile(
    r"(?i)\W*(?:(?:I'm |I was )?(?:just |only )?(?:kidding|joking)|(?:that's|that is|that was|just) (?:a joke|wrong)"
    r"|scratch that|forget|ignore that|correction|I (?:mean|meant|misspoke)|sorry|oops|no,? (?:wait|sorry)"
    r"|wait|not really|lol|haha|or (?:rather|so)|(?:or )?at least|well(?=,)|actually,? no|no, not)\b"
)
#: What its speaker comes back to in other words than the table knows is in doubt.
_OF_ONESELF = re.compile(r"(?i)\b(?:I|me|my)\b")
_SHORT = {"i'm": "I am", "i've": "I have", "don't": "do not", "can't": "cannot", "name's": "name is"}
#: A reason or a consequence behind a clause, which holds without it.
_REASON = re.compile(r"(?i),? (?:because|so(?! (?:to|that|far|long|much|called)\b)) .*")
_ANYMORE = re.compile(r"^(I(?: am)?)(?: do)? not (.+) (?:anymore|any more|any longer)$", re.IGNORECASE)
#: Nowhere, between clauses that each name the speaker, at each `and`.
_JOINTS = tuple(map(re.compile, (r"(?!)", r"(?i);|,? (?:and|but) (?=(?:I|my)\b)", r"(?i);|,? and ")))


class Rule(NamedTuple):
    """One row: how something is said of oneself, and the sentence that is stored of it."""

    attribute: str
    #: A person has one value of it at a time.
    is_single: bool
    #: It says that a value no longer holds.
    is_end: bool
    category: str
    importance: int
    sentence: str
    stored: re.Pattern[str]
    clauses: tuple[re.Pattern[str], ...]


@cache
def rules() -> tuple[Rule, ...]:
    """The rows in their order."""
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
    """The pattern with a group of its name in the place of each slot."""

    def group(slot: re.Match[str]) -> str:
        shape = _with_slots(slots[slot[1]], slots)
        return f"(?:{shape})" if slot[1] in _PASSED_OVER else f"(?P<{slot[1]}>{shape})"

    return re.sub(r"<(\w+)>", group, pattern)


class Statement(NamedTuple):
    """Something said of somebody, as a row of the table has it."""

    rule: Rule
    who: str
    topic: str
    value: str
    #: The number of the message it stands in; 0: it is stored.
    message: int = 0

    @property
    def text(self) -> str:
        """The sentence in the third person."""
        filled = {"who": self.who, **dict.fromkeys(TOPICS, self.topic)}
        return re.sub(r"<(\w+)>", lambda slot: filled.get(slot[1], self.value), self.rule.sentence)

    def contradicts(self, older: "Statement") -> bool:
        """Whether it takes the place of the older one: another value of a single one, or the end of the same value."""
        ours, theirs = ((given.rule.attribute, given.who.casefold(), given.topic.casefold()) for given in (self, older))
        if ours != theirs:
            return False
        if self.rule.is_end != older.rule.is_end:
            return self.value.casefold() == older.value.casefold()
        return self.rule.is_single and not self.rule.is_end and self.value.casefold() != older.value.casefold()


def spoken(lines: Sequence[Line]) -> list[Statement]:
    """What users say of themselves in all, in order, without what they say again, replace or take back."""
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
    """A sentence in the third person as the row that writes it; None: of no row."""
    matches = ((rule, rule.stored.fullmatch(sentence)) for rule in rules() if len(sentence) <= 2 * _MOST_CHARS)
    found = (_statement(rule, match, match["who"]) for rule, match in matches if match)
    # `Ana no longer` is nobody: of two readings the one with the shorter subject is meant
    return min((statement for statement in found if statement), key=lambda read: len(read.who), default=None)


def _sentences(line: Line) -> Iterator[str]:
    """Return the sentences of a message, up to the first sign of quoted or forwarded text."""
    own, *others = _OTHERS.split(QUOTED.sub(_QUOTATION, line.content.replace("’", "'")), maxsplit=1)
    for written in (own + _QUOTATION * bool(others)).splitlines():
        if not written.lstrip().startswith((">", "|")):
            yield from sentences(written)


def _clauses(sentence: str, line: Line) -> list[Statement]:
    """The clauses of a sentence; none where one of them is of no row."""
    text = _REASON.sub("", _OPENER.sub("", sentence.rstrip(" .!"), count=1), count=1)
    for joint in _JOINTS if len(text) <= _MOST_CHARS else ():
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
