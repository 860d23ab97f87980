"""English verb forms: which verb a word is a form of, and its form after a singular subject."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["base", "third", "past", "participle", "ing"]

_REGULAR = """accept ache adopt adore agree aim apply arrange ask assemble attend avoid babysit bake bike board book brew
camp cancel celebrate challenge change check clean climb close coach code collect commute compete complete compose cook
crochet cycle dance decide deliver deploy design develop detest direct discover dislike divorce donate drop earn edit
enjoy enroll enrol enter exercise experiment explore fail fear file film finish fish foster freelance garden
graduate hate head help hike hire host intern inherit invest jog join juggle jump kayak knit land last launch learn lease
like live look love major manage marry master meditate mentor merge migrate miss move need open order organize organise
own pack paint participate pass pause perform photograph pick plan plant play practice practise prefer prepare present
program publish race raise react receive record recover recycle rehearse release relocate rent report research reside
restore retire return row sail sample save schedule score sculpt serve settle share ship shop sign skate sketch ski
skydive smoke snowboard specialize specialise sponsor start stay stop stream stretch struggle study subscribe suffer
support surf switch tend test tour track trade train transfer travel treat try turn tutor update upgrade use vacation
visit volunteer vote register propose invite collaborate wrap cherish treasure value call calm experience revise refurbish repair renovate
rescue sprain injure fracture tolerate employ rename replace slip minor lecture exhibit submit defend postpone delay carve
craft customize photograph tend bond dye dress knit mail text chat interview cater chill relax review document approve discuss notify rotate archive automate monitor log track bill invoice arrive postpone reschedule
schedule push shift bump cap double pair label mount shorten extend treat wait walk want watch work worship"""

#: base, past, participle
_IRREGULAR = """be was been|become became become|begin began begun|break broke broken|bring brought brought|build built built
buy bought bought|catch caught caught|choose chose chosen|come came come|do did done|draw drew drawn|drink drank drunk
drive drove driven|eat ate eaten|feed fed fed|find found found|fly flew flown|freeze froze frozen|get got gotten
give gave given|go went gone|grow grew grown|hang hung hung|have had had|hold held held|keep kept kept|know knew known
lead led led|leave left left|lose lost lost|make made made|meet met met|pay paid paid|ride rode ridden|ring rang rung
rise rose risen|run ran run|see saw seen|sell sold sold|send sent sent|sew sewed sewn|shoot shot shot|sing sang sung
sleep slept slept|speak spoke spoken|spend spent spent|stand stood stood|sweep swept swept|swim swam swum|take took taken
teach taught taught|tear tore torn|wake woke woken|wear wore worn|win won won|write wrote written
throw threw thrown|breed bred bred|understand understood understood|beat beat beaten|fall fell fallen
quit quit quit|read read read|put put put|cut cut cut|set set set|hit hit hit|hurt hurt hurt"""
_DOUBLED = frozenset(
    "babysit drop enrol jog knit pass plan program ship shop stop swim run get win slip submit wrap chat cut put set hit quit".split()
)
_NEVER_DOUBLED = frozenset({"pass"})
#: Past and present look the same; the sentence must tell.
SAME_PAST = frozenset("read put cut set hit hurt".split())


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
    if base in _DOUBLED - _NEVER_DOUBLED:
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

    irregular = [entry.split() for line in _IRREGULAR.splitlines() for entry in line.split("|")]
    regular = [[base, _stretched(base, "ed"), _stretched(base, "ed")] for base in _REGULAR.split()]
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
