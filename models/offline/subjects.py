"""Who a statement is about: the speaker, someone or something of theirs, the team, a named person, a project."""

import re
from dataclasses import dataclass
from typing import Literal

from mnemic.models.offline.pieces import pattern, words
from mnemic.models.offline.predicate import Predicate, parse

Kind = Literal["speaker", "own", "attribute", "team", "named", "thing", "possession", "topic"]

_SPEAKER = pattern(r"I\b,? (?P<rest>.+)")
_COMPANIONS = pattern("<SUBJECTS_COMPANIONS>")
_OWN = pattern("<SUBJECTS_OWN>")
_ATTRIBUTE = pattern("<SUBJECTS_ATTRIBUTE>")
_NAMED = pattern(r"(?P<name><PROPER>) (?P<rest>.+)")
_TOPIC = pattern("<SUBJECTS_TOPIC>")
_PROJECT = pattern("<SUBJECTS_PROJECT>")
_WORK_VERBS = frozenset({"deploy", "ship", "release", "migrate", "merge", "hire", "decide", "agree", "vote"})
_WORK = pattern("<SUBJECTS_WORK>")
#: What no team does together.
_IS_PRIVATE = re.compile(r"(?:live|reside|rent|marry)\b|own an? (?:car|house|flat|boat|dog|cat)\b")
_IRREGULAR_PLURALS = frozenset({"children", "in-laws", "parents"})


@dataclass(frozen=True)
class Voice:
    """Whose words they are, and who is known by name."""

    name: str
    group: str | None
    #: Names of people and things that the conversation has brought up.
    known: frozenset[str]
    #: Those of them that people have.
    people: frozenset[str] = frozenset()
    #: Nobody else speaks to the assistant here, so that `we` is often a family.
    alone: bool = False

    @property
    def team(self) -> str:
        """What `we` means."""
        return self.group or f"{self.name}'s team"


@dataclass(frozen=True)
class Reading:
    """A statement as subject and predicate."""

    kind: Kind
    #: The subject as it stands in the sentence: `Mara's sister Ana`.
    text: str
    #: Whom the fact is filed under: `Ana`.
    name: str
    predicate: Predicate
    attribute: str = ""


def read(statement: str, voice: Voice) -> Reading | None:
    """Subject and predicate of a statement, or None where it is not plainly about somebody or something named."""
    readers = (_speaker, _companions, _attribute, _own, _team, _project, _topic, _named)
    return next((found for reader in readers if (found := reader(statement, voice)) is not None), None)


def _reading(kind: Kind, text: str, name: str, rest: str, plural: bool = False, attribute: str = "") -> Reading | None:
    predicate = parse(rest, plural=plural)
    return None if predicate is None else Reading(kind, text, name, predicate, attribute)


def _speaker(statement: str, voice: Voice) -> Reading | None:
    match = _SPEAKER.match(statement)
    return _reading("speaker", voice.name, voice.name, match["rest"]) if match else None


def _companions(statement: str, voice: Voice) -> Reading | None:
    match = _COMPANIONS.match(statement)
    if match is None or (match["name3"] and match["name3"] not in voice.known):
        return None
    kin, name = match["kin"] or match["kin2"], match["name"] or match["name2"] or match["name3"] or ""
    other = " ".join(part for part in (f"{voice.name}'s {kin}" if kin else "", name) if part)
    return _reading("speaker", f"{voice.name} and {other}", voice.name, match["rest"], plural=True)


def is_plural(noun: str) -> bool:
    """Whether a noun for people or animals takes a plural verb."""
    last = noun.lower().rpartition(" ")[2]
    return last in _IRREGULAR_PLURALS or (
        last in words("PERSON") | words("PET") and last.endswith("s") and last != "boss"
    )


def _own(statement: str, voice: Voice) -> Reading | None:
    match = _OWN.match(statement)
    if match is None:
        return None
    whose = voice.group if match["whose"].lower() == "our" and voice.group and not voice.alone else voice.name
    if match["whose"].lower() not in ("my", "our"):
        whose = match["whose"].removesuffix("'s")
        if not set(whose.split()) <= voice.known:
            return None
    text = f"{whose}'s {match['head']}" + (f" {match['name']}" if match["name"] else "")
    name = match["name"] or f"{whose}'s {match['noun']}"
    if match["attribute"]:
        return _reading(
            "attribute", f"{text}'s {match['attribute']}", name, match["rest"], attribute=match["attribute"]
        )
    return _reading("own", text, name, match["rest"], plural=is_plural(match["noun"]))


def _attribute(statement: str, voice: Voice) -> Reading | None:
    match = _ATTRIBUTE.match(statement)
    if match is None:
        return None
    if match["whose"].lower() == "our" and voice.group is None:
        return None
    owner = voice.name if match["whose"].lower() == "my" else voice.team
    plural = match["rest"].startswith(("are", "were"))
    return _reading("attribute", f"{owner}'s {match['attribute']}", owner, match["rest"], plural, match["attribute"])


def _team(statement: str, voice: Voice) -> Reading | None:
    if re.match(r"[Ww]e (?:are|were|have been) (?:together|married|engaged)\b", statement):
        return None
    match = re.match(r"[Ww]e (?:all )?(?P<rest>.+)", statement)
    found = _reading("team", voice.team, voice.team, match["rest"]) if match else None
    if found is None or match is None or voice.group is None:
        return found
    said = f"{found.predicate.lemma} {found.predicate.rest}"
    if _IS_PRIVATE.match(said) or (voice.alone and not is_work(found.predicate.lemma, found.predicate.rest)):
        return _reading("speaker", voice.name, voice.name, match["rest"])
    return found


def is_work(lemma: str, rest: str) -> bool:
    """Whether `we` means colleagues rather than a family."""
    return lemma in _WORK_VERBS or bool(_WORK.search(rest))


def _project(statement: str, voice: Voice) -> Reading | None:
    match = _PROJECT.match(statement)
    if match is None and voice.group and statement.split()[0].lower() in words("PROJECT"):
        match = _PROJECT.match(f"The {statement[0].lower()}{statement[1:]}")
    if match is None:
        return None
    whose, head = match["whose"], match["head"]
    named = bool(re.search(r"\b[A-Z]\w", head)) or bool(re.search(r" (?:for|of|with) (?:the |our )?\w", head))
    owner = {"our": voice.team, "my": voice.name}.get(whose.lower())
    if whose.lower() == "the" and not named:
        owner = voice.group
    if owner is None and whose.lower() == "the" and not named:
        return None
    text = f"{owner}'s {head}" if owner else f"{'The' if whose.lower() == 'the' else whose} {head}"
    proper = re.search(r"\b[A-Z][\w-]*(?: [A-Z][\w-]*)*", head)
    name = owner or (whose.removesuffix("'s") if whose.lower() != "the" else proper[0] if proper else head)
    plural = match["rest"].startswith("are ")
    kind: Kind = "possession" if whose.removesuffix("'s") in voice.people else "thing"
    return _reading(kind, text, name, match["rest"], plural)


def _topic(statement: str, voice: Voice) -> Reading | None:
    """`Pottery helps me relax`: a thing and what it does for the speaker."""
    match = _TOPIC.match(statement)
    if match is None:
        return None
    plural = match["rest"].startswith(("are ", "help ", "calm ", "keep ", "make ", "relax ", "mean ", "give "))
    return _reading("topic", match["topic"], voice.name, match["rest"], plural)


def _named(statement: str, voice: Voice) -> Reading | None:
    match = _NAMED.match(statement)
    if match is None:
        return None
    name, rest = match["name"], match["rest"]
    first = name.split()[0]
    if first not in voice.known or (" " in name and name.split()[1] not in voice.known):
        return None
    if parse(rest) is None or rest.split()[0].lower() in ("am", "are", "have", "do"):
        return None
    return _reading("named", name, name, rest)
