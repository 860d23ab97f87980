"""How a new sentence stands to an older one: the same, more detailed, contradicting, or something else."""

from typing import Literal

from mnemic.models.offline.frames import Said, analysed
from mnemic.models.offline.lexicon import WEEKDAYS
from mnemic.models.offline.pieces import words
from mnemic.models.offline.text import content_stems, stem

Relation = Literal["contradicts", "repeats", "details", "differs"]

#: One of each excludes the others as a preference.
_ALTERNATIVES: tuple[frozenset[str], ...] = tuple(
    frozenset(group.split())
    for group in (
        "tea coffe",
        "morn afternoon even night",
        "email cal chat call phon text slack",
        "dark light",
        "window aisl",
        "tab spac",
        "hotel apartment hostel airbnb",
        "train bus car plan bik",
        "short long detail brief",
        "metric imperial",
        "cat dog",
        "warm cold hot",
        "remot offic hom",
        "monday tuesday wednesday thursday friday saturday sunday",
    )
)
_NUMBERS = frozenset(map(stem, words("NUMBER_WORD")))
#: How a version comes to be in use.
_RUNS = frozenset({"go", "run", "us", "mov", "upgrad", "updat", "switch", "migrat", "now"})
_WEEKLY = frozenset(f"{day}s".lower() for day in WEEKDAYS)
_MEAT = frozenset(
    map(
        stem,
        [
            "meat",
            "chicken",
            "pork",
            "beef",
            "lamb",
            "bacon",
            "ham",
            "sausage",
            "sausages",
            "steak",
            "burgers",
            "turkey",
            "duck",
        ],
    )
)
_FISH = frozenset(map(stem, ["fish", "seafood", "shellfish", "salmon", "tuna", "herring"]))
_OF_ANIMALS = frozenset(map(stem, ["eggs", "cheese", "dairy", "milk", "butter", "yoghurt", "yogurt", "cream"]))
#: What each diet leaves out, by the stem of its name.
_EXCLUDED = {
    "pescatarian": _MEAT,
    "vegetarian": _MEAT | _FISH,
    "vegan": _MEAT | _FISH | _OF_ANIMALS,
}
_ENDING_STEMS = frozenset(
    {"stop", "quit", "giv", "gav", "given", "longer", "anymor", "mor", "any", "again", "job", "left", "leav"}
)


def relation(new: str, old: str) -> Relation:
    """How the newer sentence stands to the older one; in doubt it differs."""
    if new == old:
        return "repeats"
    newer, older = analysed(new), analysed(old)
    if contradicts(newer, older):
        return "contradicts"
    if newer.subject != older.subject or newer.denies != older.denies or newer.ends != older.ends:
        return "differs"
    if _is_told_by(newer, older):
        return "repeats"
    return "details" if _is_told_by(older, newer) else "differs"


def says_of_others(new: str, old: str) -> bool:
    """Whether both do the same with other names, numbers or times: `flies to Oslo on Saturday`, `to Rome on Friday`."""
    newer, older = analysed(new), analysed(old)
    if newer.subject != older.subject or newer.denies != older.denies or newer.taste or older.taste:
        return False
    return bool(_undetailed(newer)) and _undetailed(newer) == _undetailed(older)


def _undetailed(said: Said) -> frozenset[str]:
    """Its words but for names, numbers and times."""
    return said.timeless - content_stems(" ".join(map(_uncounted, said.details)))


def _uncounted(detail: str) -> str:
    """A number without the noun that it counts; a name as it is."""
    number = detail.partition(" ")[0]
    return number if _is_number(stem(number)) else detail


def contradicts(newer: Said, older: Said) -> bool:
    """Whether both cannot be true at once, so that the newer one takes the place of the older.

    Two sentences that differ in more than one name, number or time tell of two things, but for the one value of an
    attribute, which may be of several: an address. What has one value at a time and what gives up a diet may also tell
    since when.
    """
    differing = min(len(newer.details - older.details), len(older.details - newer.details))
    gives_same = bool(newer.attribute) and newer.attribute == older.attribute
    is_of_same = newer.subject == older.subject
    # with two times they are two appointments rather
    if differing > 1 and not (gives_same and is_of_same and not (newer.times and older.times)):
        return False
    if gives_same and (is_of_same or " " in newer.attribute):
        if differing and _at_another_time(newer, older) and (newer.times | older.times) & _WEEKLY:
            return False
        return not (newer.value <= older.value or older.value <= newer.value)
    if _upgrades(newer, older):
        return True
    if not is_of_same:
        return False
    if _breaks_diet(newer, older) or _moves_in_time(newer, older):
        return True
    return not _at_another_time(newer, older) and (
        _counts_otherwise(newer, older)
        or _reverses(newer, older)
        or _turns_taste(newer, older)
        or _prefers_otherwise(newer, older)
    )


def _at_another_time(newer: Said, older: Said) -> bool:
    return bool(newer.times - older.times and older.times - newer.times)


def _is_told_by(short: Said, long: Said) -> bool:
    """Whether a sentence says all of another one: its words in the same order, its names, numbers and times."""
    held = long.details | long.times
    return _in_order(short.order, long.order) and all(
        any(detail in one for one in held) for detail in short.details | short.times
    )


def _in_order(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Whether all of the short one stands in the long one, in the same order."""
    rest = iter(long)
    return all(word in rest for word in short)


def _reverses(newer: Said, older: Said) -> bool:
    """It ends or denies what the older one said, or asserts what it denied."""
    if newer.taste or older.taste:
        return False
    core = newer.stems - _ENDING_STEMS if newer.ends else newer.stems
    if newer.ends and older.attribute == "employer":
        return older.value <= core
    if newer.ends and not older.ends and not older.denies:
        return len(core) > len(newer.subject) and core <= older.stems
    if newer.denies == older.denies or newer.past or older.past:
        return False
    return newer.stems == older.stems or (newer.denies and len(core) > len(newer.subject) + 1 and core < older.stems)


def _turns_taste(newer: Said, older: Said) -> bool:
    if newer.taste * older.taste != -1:
        return False
    tastes = {"lik", "dislik"}
    new, old = newer.stems - tastes, older.stems - tastes
    return len(new) > len(newer.subject) and (new == old or (newer.taste < 0 and new < old))


def _prefers_otherwise(newer: Said, older: Said) -> bool:
    """`prefers tea` after `prefers coffee`, `prefers X over Y` after `prefers Y over X`."""
    if "prefer" not in newer.stems or "prefer" not in older.stems or newer.denies != older.denies:
        return False
    if newer.stems == older.stems:
        return newer.order != older.order
    ours, theirs = newer.stems - older.stems, older.stems - newer.stems
    return len(ours) == len(theirs) == 1 and any((ours | theirs) <= group for group in _ALTERNATIVES)


def _moves_in_time(newer: Said, older: Said) -> bool:
    """The same plan or regular event at another time; two past events may both have been."""
    if newer.past or older.past or newer.denies or older.denies:
        return False
    if not newer.times or not older.times or newer.times & older.times == newer.times | older.times:
        return False
    return newer.timeless == older.timeless and len(newer.timeless) > len(newer.subject)


def _upgrades(newer: Said, older: Said) -> bool:
    """`goes to Postgres 17` after `the database is Postgres 16`, of one owner and in the same place."""
    if newer.denies or older.denies or not (newer.subject <= older.subject or older.subject <= newer.subject):
        return False
    if newer.versions == older.versions or [name for name, _ in newer.versions] != [name for name, _ in older.versions]:
        return False
    numbers = {number for said in (newer, older) for _, number in said.versions}
    ours, theirs = (said.timeless - said.subject - numbers - _RUNS for said in (newer, older))
    return ours <= theirs or theirs <= ours


def _counts_otherwise(newer: Said, older: Said) -> bool:
    """The same said with another number: what somebody has, or a regular thing; two past events may both have been."""
    if newer.past or older.past or newer.denies or older.denies:
        return False
    if newer.counted and older.counted and newer.counted[0] == older.counted[0]:
        ours = newer.timeless - {stem(newer.counted[1]), "keep"}
        theirs = older.timeless - {stem(older.counted[1]), "keep"}
        return len(newer.details ^ older.details) == 2 and (ours <= theirs or theirs <= ours)
    if len(newer.order) != len(older.order) or newer.times != older.times:
        return False
    pairs = [(new, old) for new, old in zip(newer.order, older.order, strict=True) if new != old]
    if len(pairs) != 1 or not all(_is_number(word) for word in pairs[0]):
        return False
    # what stands behind a noun, as in `cellar 20`, is a name
    return all(" " in detail or "%" in detail for detail in newer.details ^ older.details)


def _is_number(word: str) -> bool:
    return word in _NUMBERS or word.rstrip("%").replace(".", "").replace(",", "").isdigit()


def _breaks_diet(newer: Said, older: Said) -> bool:
    """Who eats what a diet excludes has given it up."""
    if newer.denies or older.attribute != "diet" or "eat" not in newer.stems or newer.stems & _EXCLUDED.keys():
        return False
    return any(newer.stems & foods for diet, foods in _EXCLUDED.items() if diet in older.value)
