"""Random conversations: what a person types in several shapes and languages, and a reader who cites correctly."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mnemic.prompts.formation.extraction import ExtractFactsOutput
from tests.support.loopback import Request
from tests.support.scripted import fact, facts

#: A line of a user in the prompt: its number and its text. Another role has its name in brackets.
_LINE = re.compile(r"^(\d+) \[\d\d:\d\d\] [^:]*[^:)]: (.*(?:\n    \| .*)*)", re.MULTILINE)


class Language(NamedTuple):
    """How one language says some facts."""

    #: What is typed, and the fact that follows from it.
    sentences: Sequence[tuple[str, str]]
    places: Sequence[str]
    #: Says nothing that is worth remembering.
    filler: str
    thanks: str


LANGUAGES = {
    "English": Language(
        [
            ("I keep {n} hives in {place}.", "Ana keeps {n} hives in {place}."),
            ("My sister moved to {place} with {n} books.", "Ana's sister moved to {place} with {n} books."),
            ("I paid {n} euros for the boat from {place}.", "Ana paid {n} euros for the boat from {place}."),
            ("I ran {n} kilometres around {place}.", "Ana ran {n} kilometres around {place}."),
        ],
        ["Porto", "Ghent", "Bergen", "Cluj", "Aarhus", "Lyon"],
        "The river was high again and the wind came from the west. ",
        "You are welcome.",
    ),
    "German": Language(
        [
            ("Ich habe {n} Bienenstöcke in {place}.", "Ana hat {n} Bienenstöcke in {place}."),
            ("Meine Schwester zog mit {n} Büchern nach {place}.", "Anas Schwester zog mit {n} Büchern nach {place}."),
            ("Das Boot aus {place} hat {n} Euro gekostet.", "Anas Boot aus {place} hat {n} Euro gekostet."),
            ("Ich bin {n} Kilometer um {place} gelaufen.", "Ana ist {n} Kilometer um {place} gelaufen."),
        ],
        ["München", "Köln", "Gent", "Zürich", "Görlitz", "Wien"],
        "Der Fluss war wieder hoch und der Wind kam von Westen. ",
        "Gern geschehen.",
    ),
    "Portuguese": Language(
        [
            ("Tenho {n} colmeias em {place}.", "Ana tem {n} colmeias em {place}."),
            ("A minha irmã foi para {place} com {n} livros.", "A irmã de Ana foi para {place} com {n} livros."),
            ("O barco de {place} custou {n} euros.", "O barco de Ana, de {place}, custou {n} euros."),
            ("Corri {n} quilómetros à volta de {place}.", "Ana correu {n} quilómetros à volta de {place}."),
        ],
        ["Lisboa", "Évora", "Braga", "São Paulo", "Setúbal", "Faro"],
        "O rio estava alto outra vez e o vento vinha de oeste. ",
        "De nada.",
    ),
    "Chinese": Language(
        [
            ("我在{place}有{n}个蜂箱。", "安娜在{place}有{n}个蜂箱。"),
            ("我妹妹带着{n}本书搬到了{place}。", "安娜的妹妹带着{n}本书搬到了{place}。"),
            ("我花{n}欧元买了{place}的船。", "安娜花{n}欧元买了{place}的船。"),
            ("我绕着{place}跑了{n}公里。", "安娜绕着{place}跑了{n}公里。"),
        ],
        ["上海", "北京", "杭州", "成都", "广州", "西安"],
        "河水又涨了，风从西边吹来。",
        "不客气。",
    ),
    "Arabic": Language(
        [
            ("لدي {n} خلية نحل في {place}.", "لدى آنا {n} خلية نحل في {place}."),
            ("انتقلت أختي إلى {place} مع {n} كتاب.", "انتقلت أخت آنا إلى {place} مع {n} كتاب."),
            ("دفعت {n} يورو ثمن القارب من {place}.", "دفعت آنا {n} يورو ثمن القارب من {place}."),
            ("ركضت {n} كيلومتر حول {place}.", "ركضت آنا {n} كيلومتر حول {place}."),
        ],
        ["القاهرة", "دمشق", "بيروت", "تونس", "الرباط", "عمان"],
        "كان النهر مرتفعا مرة أخرى وجاءت الرياح من الغرب. ",
        "على الرحب والسعة.",
    ),
}


def one_line(said: list[str], _: Language) -> str:
    return " ".join(said)


def ten_lines(said: list[str], language: Language) -> str:
    return "\n".join([*said, *[language.filler] * (10 - len(said))])


def a_list(said: list[str], _: Language) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(said, start=1))


def beside_code(said: list[str], _: Language) -> str:
    return "\n".join([*said, "```python", *["rows = read(table)"] * 40, "```"])


def beside_quotes(said: list[str], language: Language) -> str:
    return "\n".join([*[f"> {language.filler}"] * 20, "", *said])


def five_thousand_characters(said: list[str], language: Language) -> str:
    before = language.filler * (4000 // len(language.filler))
    behind = language.filler * (1000 // len(language.filler) + 1)
    return f"{before}{' '.join(said)} {behind}"


SHAPES = (one_line, ten_lines, a_list, beside_code, beside_quotes, five_thousand_characters)


class Conversation(NamedTuple):
    """What a person types, turn after turn, and the facts that follow from it."""

    name: str
    typed: Sequence[str]
    #: The answer to each message.
    thanks: str
    #: A sentence of a message, and its fact.
    known: Mapping[str, str]
    #: Whether each turn is formed by itself.
    by_turn: bool


def conversations(number: int, seed: int) -> list[Conversation]:
    """Return so many random conversations, of every shape in every language from 30 on."""
    chance = random.Random(seed)
    return [_conversation(chance, place) for place in range(number)]


def _conversation(chance: random.Random, place: int) -> Conversation:
    name, language = [*LANGUAGES.items()][place % len(LANGUAGES)]
    # neighbours differ in both, and 30 have all combinations
    shape = SHAPES[(place % len(LANGUAGES) + place // len(LANGUAGES)) % len(SHAPES)]
    typed: list[str] = []
    known: dict[str, str] = {}
    numbers = iter(chance.sample(range(13, 9_999), 40))
    for _ in range(chance.randint(1, 3)):
        said = []
        for sentence, statement in chance.sample(language.sentences, chance.randint(1, 4)):
            values = {"n": next(numbers), "place": chance.choice(language.places)}
            said.append(sentence.format(**values))
            known[said[-1]] = statement.format(**values)
        typed.append(shape(said, language))
    return Conversation(f"{place} {name} {shape.__name__}", typed, language.thanks, known, chance.random() < 0.3)


def careful_reader(known: Mapping[str, str]) -> Callable[[Request], ExtractFactsOutput]:
    """Return a model that writes down the fact of each sentence in a user's line, and cites that line."""

    def answer(request: Request) -> ExtractFactsOutput:
        lines = _LINE.findall(request["messages"][1]["content"])
        drafts = []
        for number, text in lines:
            for sentence, statement in known.items():
                if sentence in text:
                    drafts.append(fact(statement, int(number), category="profile"))
        return facts(*drafts)

    return answer
