"""English verb forms: which verb a word is a form of, and its form after a singular subject."""

from dataclasses import dataclass
from typing import Literal

from mnemic.models.offline.pieces import entries, words

Form = Literal["base", "third", "past", "participle", "ing"]


_DOUBLED = words("DOUBLED_VERB")
#: Past and present look the same; the sentence must tell.
SAME_PAST = words("SAME_PAST_VERB")


@dataclass(frozen=True)
class VerbForm:
    """One reading of a word as a form of a verb."""

    lemma: str
    form: Form


def third_person(base: str) -> str:
    """`go` becomes `goes`."""
    irregular = {"be": "is", "have": "has", "do": "does"}
    if base in irregular:
        return irregular[base]
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2:-1] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def _stretched(base: str, ending: str) -> str:
    if base in _DOUBLED:
        return base + base[-1] + ending
    if base.endswith("ie") and ending == "ing":
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "ye")) and base != "be":
        return base[:-1] + ending
    if base.endswith("e") and ending == "ed":
        return base + "d"
    if base.endswith("y") and ending == "ed" and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ending


def _forms() -> dict[str, tuple[VerbForm, ...]]:
    table: dict[str, list[VerbForm]] = {}

    def add(word: str, lemma: str, form: Form) -> None:
        table.setdefault(word, []).append(VerbForm(lemma, form))

    irregular = [line.split() for (line,) in entries("irregular_verbs.txt")]
    regular = [[base, _stretched(base, "ed"), _stretched(base, "ed")] for base in sorted(words("REGULAR_VERB"))]
    for base, past, participle in irregular + regular:
        add(base, base, "base")
        add(third_person(base), base, "third")
        add(_stretched(base, "ing"), base, "ing")
        add(past, base, "past")
        add(participle, base, "participle")
    add("got", "get", "participle")
    return {word: tuple(readings) for word, readings in table.items()}


FORMS = _forms()


def reading(word: str, *forms: Form) -> VerbForm | None:
    """The word as one of these forms of a known verb, the first form that fits."""
    readings = FORMS.get(word.lower(), ())
    return next((known for form in forms for known in readings if known.form == form), None)
