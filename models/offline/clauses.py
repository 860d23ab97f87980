"""From a sentence to the plain statements in it; questions, hypotheticals, jokes and hearsay are left out."""

import re

from mnemic.models.offline import joints
from mnemic.models.offline.lexicon import MONTHS, WEEKDAYS
from mnemic.models.offline.pieces import pattern

#: The sentence takes itself, or the one before it, back.
_JOKE = pattern("<CLAUSES_JOKE>", ignore_case=True)
#: Anywhere in a clause: what follows is not asserted.
_UNASSERTED = pattern("<CLAUSES_UNASSERTED>", ignore_case=True)
#: Somebody else's word.
_HEARSAY = pattern("<CLAUSES_HEARSAY>", ignore_case=True)
_QUESTION = pattern("<CLAUSES_QUESTION>", ignore_case=True)
_GOVERNING = re.compile(
    r"\b(?:if|unless|whether|wish|imagine|suppose|according to|hypothetically)\b"
    r"|^(?:when|whenever|once|every time|as long as)\b",
    re.IGNORECASE,
)
_QUOTED_SPEECH = re.compile(r'"[^"]*\b(?:I|we|my|our|you|your)\b[^"]*"', re.IGNORECASE)
#: One of these, then a comma, a space or the like, opens a sentence without saying anything.
_OPENERS = pattern("<CLAUSES_OPENERS>", ignore_case=True)
#: `I live in Rome, he says`: a report behind what it reports.
_REPORT_BEHIND = re.compile(r"^\S+(?: \S+)? \w+[.!]*$")
_OWN_SUBJECT = re.compile(r"(?:I|we|my|our)\b", re.IGNORECASE)
#: After one of these, a hedge no longer holds.
_TURN = re.compile(r"[;—–]|\b(?:but|though|although|yet)\b")
_FRONT = pattern(
    r"(?:^|(?<=[,;] )|(?<=\band )|(?<=\bbut ))"
    r"((?:<STATEMENT_LEAD_WORDS>|<STATEMENT_NOTHING_WORDS>|usually|often|sometimes|normally)),\s+(?=(?:I|we|my|our|the)\b)",
    ignore_case=True,
)
_PAIR = re.compile(
    r"(?:(?<=, )|^)((?:my (?!\w+ (?:is|was)\b)(?:[\w-]+ )?[\w-]+|[A-Z][a-z]+)(?: [A-Z]\w+)?) and I ", re.IGNORECASE
)
#: The subject of a sentence is the speaker where a typed one has none: `Started a new job`.
_ELIDED = (
    (pattern("<CLAUSES_ELIDED_PAST>", ignore_case=True), "I "),
    (pattern(r"been (?=\w+ing\b)", ignore_case=True), "I have "),
    (pattern("<CLAUSES_ELIDED_NOW>", ignore_case=True), "I am "),
    (pattern("<CLAUSES_ELIDED_TASTE>", ignore_case=True), "I "),
)
_CONTRACTIONS = tuple(
    (pattern(shape, ignore_case=True), text)
    for shape, text in (
        (r"\bI'm\b", "I am"),
        (r"\bI ?'?ma\b(?= )", "I am going to"),
        (r"\bim\b(?= \w+ing\b)", "I am"),
        (r"\b(I|we|they)'ve\b", r"\1 have"),
        (r"\b(I|we|they|he|she)'ll\b", r"\1 will"),
        (r"\b(we|they)'re\b", r"\1 are"),
        (r"\b(he|she|it)'s (?=<CLAUSES_HAS_DONE>\b)", r"\1 has "),
        (r"\b(he|she|it|that|there)'s (?=\w)", r"\1 is "),
        ("<CLAUSES_IS>", " is "),
        (r"\b(<ATTRIBUTE>|<PROJECT>)'s (?=(?:on|in|at|the|every|(?-i:[A-Z])|\d))", r"\1 is "),
        (r"\b(have|has) got (?=to\b|an?\b|the\b|my\b|our\b|\d|two|three|four|five|six|no\b)", r"\1 "),
        (r"\bon (?=\d{1,2}(?:st|nd|rd|th)\b(?! (?:of )?<MONTH>))", "on the "),
        (r"\bgonna\b", "going to"),
        (r"\bwanna\b", "want to"),
        (r"\bgotta\b", "have to"),
        (r"\b'?cause\b|\bcuz\b|\bbcs\b", "because"),
        (r"\bfave\b", "favorite"),
        (r"\bcannot\b|\bcan not\b", "can't"),
        (r"\b(is|are|was|were|do|does|did|have|has) not\b", r"\1n't"),
        (r"\bweek-?end\b", "weekend"),
        (r"\bMon\.?(?=[\s,]|$)(?<!mon)", "Monday"),
        (r"\bTues?\.?(?=[\s,]|$)", "Tuesday"),
        (r"\bThurs?\.?(?=[\s,]|$)", "Thursday"),
        (r"\bFri\.?(?=[\s,]|$)", "Friday"),
        *((rf"\b{day}(s?)\b", rf"{day}\1") for day in WEEKDAYS),
        *((rf"\b{month}\b", month) for month in MONTHS if month not in ("March", "May")),
        # `march` and `may` are verbs, too
        *(
            (rf"\b((?:\d|\d(?:st|nd|rd|th)|of|in|since|until|till|from|by|next|last) ){month}\b", rf"\1{month}")
            for month in ("March", "May")
        ),
        (r"\s{2,}", " "),
    )
)
#: A colleague's remark or a note on a picture, not on a life: `(laughs)`.
_LOWER_I = re.compile(r"(?<![\w.'])i(?=(?:'m|'ve|'ll|'d)?\b(?![.]))")


def is_joke(sentence: str) -> bool:
    """Whether the sentence marks itself, or what was said before it, as not meant."""
    return bool(_JOKE.search(sentence))


def is_question(sentence: str) -> bool:
    """Whether it asks."""
    return bool(_QUESTION.search(sentence))


def is_asserted(text: str) -> bool:
    """Whether its author claims it: no hedge, no condition, not somebody else's word."""
    return not (_UNASSERTED.search(text) or _HEARSAY.search(text) or _QUOTED_SPEECH.search(text))


def opened(sentence: str, names: frozenset[str] = frozenset()) -> str:
    """The sentence without the discourse words and the names it is addressed to at its start."""
    text = sentence
    for _ in range(6):  # `Oh well, anyway, thanks Ana, ...` has five
        head = re.match(r"^(\w+)[,!.]+\s+", text)
        if head and head[1] in names:
            text = text[head.end() :]
            continue
        match = _OPENERS.match(text)
        if not match or match.end() == 0:
            break
        text = text[match.end() :]
    return text


def expanded(text: str) -> str:
    """The text with contractions of speaker and verb written out, and `i` as `I`."""
    text = _LOWER_I.sub("I", text)
    for shape, replacement in _CONTRACTIONS:
        text = shape.sub(replacement, text)
    return text.strip()


def statements(sentence: str, names: frozenset[str] = frozenset()) -> list[str]:
    """The statements of one sentence, in order, each ready to be read as subject and predicate."""
    text = expanded(sentence)
    if is_question(opened(text, names)) or _QUOTED_SPEECH.search(text):
        return []
    text = _FRONT.sub(r"\1 ", opened(text, names))  # a time at the front belongs to what follows
    text = _PAIR.sub(r"\1 & I ", text)  # `Ana and I` is one subject, no joint
    parts = [
        (link, opened(part.replace(" & I ", " and I ").strip(" ,"), names)) for link, part in joints.split(text, names)
    ]
    parts[0] = ("", _with_subject(parts[0][1]))
    return [_reason(part.rstrip(" .!,:"), names) for part in _asserted(parts) if part]


def _asserted(parts: list[tuple[str, str]]) -> list[str]:
    """What the author claims: a condition or a report reaches to the end, a hedge to the next subject or `but`."""
    kept: list[str] = []
    hedged = False
    for link, part in parts:
        if _governs_all(part):
            return [] if _REPORT_BEHIND.search(part) else kept
        reached = hedged and not _OWN_SUBJECT.match(part) and not _TURN.search(link)
        hedged = reached or not is_asserted(part)
        if not hedged:
            kept.append(part)
    return kept


def _reason(part: str, names: frozenset[str]) -> str:
    """`Two rooms because I work from home`: where no statement comes first, the reason is one."""
    before, _, after = part.partition(" because ")
    if after and _OWN_SUBJECT.match(after) and not (_OWN_SUBJECT.match(before) or " is " in f" {before} "):
        return part if joints.begins_statement(before, names) or before.split()[0] in names else after
    return part


def _with_subject(part: str) -> str:
    for shape, subject in _ELIDED:
        match = shape.match(part)
        if match:
            return subject + part[0].lower() + part[1:]
    return part


def _governs_all(part: str) -> bool:
    """A condition or a report reaches over what follows it."""
    return bool(_GOVERNING.search(part) or _HEARSAY.search(part) or _QUOTED_SPEECH.search(part))
