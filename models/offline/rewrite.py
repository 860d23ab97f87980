"""The rest of a statement in the third person, with absolute dates; None where that cannot be done cleanly."""

import re
from datetime import date

from mnemic.models.offline.dates import UNRESOLVED, Direction, Resolved, resolve
from mnemic.models.offline.lexicon import DANGLING, PERSONAL
from mnemic.models.offline.pieces import pattern, words
from mnemic.models.offline.predicate import Aspect, Predicate
from mnemic.models.offline.subjects import Reading, Voice
from mnemic.models.offline.text import WORD
from mnemic.models.offline.verbs import reading, third_person

_PAST_ASPECTS: frozenset[Aspect] = frozenset({"past", "perfect", "past progressive", "perfect progressive"})
#: `We moved the launch to Thursday`: done, but the day lies ahead.
_SETS_A_DATE = words("SETS_A_DATE")
#: Somebody moved, not a date.
_MOVED_HOUSE = re.compile(r"(?:on|to|in|into|out|from|house|here|back|last)\b(?! the \d| \d)")
#: Where a statement may end early and stay true.
_CUT = pattern("<REWRITE_CUT>")
#: In a statement about what was, a clause on the circumstances may go too.
_PAST_CUT = re.compile(r"\s+(?:when|while|after|before|that|with|for|as|from|during|where|to)\b")
_FILLERS = pattern("<REWRITE_FILLERS>", ignore_case=True)
_UNCLEAR = pattern("<REWRITE_UNCLEAR>")
_SECOND_VERB = pattern("<REWRITE_SECOND_VERB>")
_SUBJECT_VERB = pattern("<REWRITE_SUBJECT_VERB>")
#: After `and` these are verbs, whatever follows.
_PLAINLY_VERBS = words("PLAINLY_VERB")
_TASTES = words("TASTE")
_FIRST_PERSON = re.compile(r"\b(?:[Mm]y|me|[Oo]ur)\b")
#: What a speaker without a group shares with a family.
_SHARED_AT_HOME = pattern(r" (?:[\w-]+ )?(?:<PERSON>|<PET>|<HOME>)\b")
_IRREGULAR = {
    "am": "is",
    "have": "has",
    "are": "is",
    "do": "does",
    "don't": "doesn't",
    "haven't": "hasn't",
    "aren't": "isn't",
    "were": "was",
    "weren't": "wasn't",
}
_UNCHANGED = words("UNCHANGED_AUXILIARY")
_ALL_OF_A_TEAM = frozenset({"everyone", "everybody", "nobody", "anyone", "anybody", "each"})
_POSSESSIVE_CAN_STAY = frozenset({"his", "her", "their", "its", "himself", "herself", "themselves"})


def direction(predicate: Predicate) -> Direction:
    """Which way a bare weekday or month points."""
    if predicate.aspect in _PAST_ASPECTS and predicate.lemma == "move" and _MOVED_HOUSE.match(predicate.rest):
        return "past"
    return "past" if predicate.aspect in _PAST_ASPECTS and predicate.lemma not in _SETS_A_DATE else "future"


def _splits_adjectives(before: str, after: str) -> bool:
    """`a safe, quiet place` must not end at its comma."""
    if re.search(
        r"\b(?:safe|new|warm|kind|big|small|nice|good|great|loving|beautiful|fun|calm|quiet|healthy|happy|cozy|welcoming|strong|simple)$",
        before,
    ):
        return True
    return (
        after.startswith(",")
        and bool(re.search(r"\b(?:an?|the|my|our|very|really|so|this|some) [\w-]+$", before))
        and not re.match(r",\s*(?:and|but|so|which|who|where|because|\w+ing)\b", after)
    )


def prefixes(rest: str, predicate: Predicate) -> list[str]:
    """The rest, then the rest cut ever shorter where the statement stays true."""
    ends = {match.start() for match in _CUT.finditer(rest)}
    if predicate.aspect in ("past", "perfect") and predicate.lemma not in ("decide", "agree", "want"):
        ends |= {match.start() for match in _PAST_CUT.finditer(rest)}
    return [rest, *(rest[:end] for end in sorted(ends, reverse=True) if not _splits_adjectives(rest[:end], rest[end:]))]


def third(reading_: Reading, rest: str, voice: Voice, today: date) -> Resolved | None:
    """The rest with the speaker by name and its dates absolute, and whether it names a time."""
    text = _FILLERS.sub(lambda match: _kept_filler(match[0], reading_.predicate), f" {rest}").strip(" ,")
    if reading_.attribute not in ("birthday", "anniversary", "wedding anniversary"):
        resolved = resolve(text, today, direction(reading_.predicate))
    else:
        resolved = Resolved(text=text, dated=True)
    named = _named(resolved.text, reading_, voice)
    if named is None or not _clear(named, reading_):
        return None
    return Resolved(text=named, dated=resolved.dated)


def _kept_filler(filler: str, predicate: Predicate) -> str:
    """`I won't run a race again` isn't the same without its last word."""
    return filler if predicate.denies and filler.split()[-1].lower() in ("again", "already") else ""


def _named(text: str, reading_: Reading, voice: Voice) -> str | None:
    """First persons replaced by names; None where one of them has no clean replacement."""
    ours = voice.team if reading_.kind in ("team", "thing") or voice.group else None
    if voice.alone and reading_.kind == "speaker":
        ours = voice.name  # what somebody says alone of `our wedding` is a family's

    def name(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word == "our":
            shared = ours or (voice.name if _SHARED_AT_HOME.match(match.string, match.end()) else None)
            return f"{shared}'s" if shared else match[0]
        return f"{voice.name}'s" if word == "my" else voice.name

    text, failed = _with_verbs(re.sub(r"\bby myself\b", "alone", text), reading_, voice)
    return None if failed else _FIRST_PERSON.sub(name, text)


def _with_verbs(text: str, reading_: Reading, voice: Voice) -> tuple[str, bool]:
    failed = False

    def agree(match: re.Match[str]) -> str:
        nonlocal failed
        who = voice.name if match["who"] == "I" else voice.team
        verb = _agreeing(match["verb"])
        failed = failed or verb is None or (match["who"] != "I" and reading_.kind != "team")
        return f"{who} {match['adverb'] or ''}{verb}"

    def second(match: re.Match[str]) -> str:
        nonlocal failed
        verb = match["verb"]
        if (
            match["link"] == "who"
            or reading_.predicate.aspect in ("can", "future")
            or _after_infinitive(text[: match.start()].rstrip())
        ):
            return match[0]
        if verb in _IRREGULAR:
            return f"{match['link']} {match['adverb'] or ''}{_IRREGULAR[verb]}"
        known = reading(verb, "base")
        if known is None or reading(verb, "past"):
            return match[0]
        if verb in _PLAINLY_VERBS or (match["next"] or "").split(",")[0] in (
            "a",
            "an",
            "the",
            "my",
            "as",
            "at",
            "for",
            "in",
            "to",
            "with",
            "every",
            "on",
        ):
            failed = failed or reading_.predicate.aspect != "present"
            return f"{match['link']} {match['adverb'] or ''}{third_person(known.lemma)}"
        failed = failed or reading_.predicate.lemma not in _TASTES
        return match[0]

    if reading_.kind in ("speaker", "team"):
        text = _SECOND_VERB.sub(second, text)
    return _SUBJECT_VERB.sub(agree, text), failed


def _after_infinitive(before: str) -> bool:
    return bool(re.search(r"\bto \w+(?: \S+){0,4}$", before))


def _agreeing(verb: str) -> str | None:
    if verb in _IRREGULAR or verb in _UNCHANGED:
        return _IRREGULAR.get(verb, verb)
    known = reading(verb, "past", "base")
    if known is None:
        return None
    return verb if known.form == "past" else third_person(known.lemma)


def _clear(text: str, reading_: Reading) -> bool:
    """Whether a reader who knows nothing else understands it."""
    found = {word.lower() for word in WORD.findall(text)}
    allowed = _POSSESSIVE_CAN_STAY if reading_.kind in ("own", "named") else frozenset[str]()
    if reading_.kind in ("team", "thing"):
        allowed |= _ALL_OF_A_TEAM
    lower = re.sub(r"\bhow to\b|\beverything (?:with|about|around|on) (?=\w)", "", text.lower())
    dangling = {word.lower() for word in WORD.findall(lower)} & DANGLING
    return not (dangling - allowed or found & PERSONAL or _UNCLEAR.search(text) or UNRESOLVED.search(text))
