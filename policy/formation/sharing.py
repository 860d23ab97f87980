"""Which memories may leave a person's own scope for a group or the whole agent: in doubt, none."""

import re
import unicodedata
from collections.abc import Sequence, Set
from typing import NamedTuple

from mnemic.policy.text.details import DATE_WORDS, details, find_dates, find_numbers
from mnemic.policy.text.words import FUNCTION_WORDS, folded_words, pattern, word_set
from mnemic.state.identity import Scope
from mnemic.state.kinds import Provenance
from mnemic.state.records import Message

#: One more word may stand between; bounded, so that no text takes long.
_WORD = r"(?:[\w'’]{1,30}\s)"
_KEPT = r"(?:facts?|memor(?:y|ies)|reflections?|records?|entries|consolidations?)"
_MANY = r"(?:users?|colleagues?|members?|people|persons?|agents?|others?|teams?|groups?|conversations?)"
_AUDIENCE = (
    r"(?:everyone|everybody|the\swhole\s(?:team|group|company|crew)"
    rf"|(?:all|every|each)\s(?:the\s|other\s|our\s)?{_MANY}\b)"
)
_SCOPE = rf"(?:agent|group|team|user|global|{_AUDIENCE})"
_ENGLISH = (
    # the memory as such, what it keeps and under which keys; `memory leaks` and `64 GB of memory` are not meant
    r"\bmemories\b",
    rf"\b(?:your|this|its|every|any|all|agent|assistant|\w{{1,30}}['’]s)\s{_WORD}?memory\b(?!\s(?:leak|use|usage|limit))",
    r"\b(?:the|to)\smemory:",
    rf"\b(?:delet|eras|wip|stor|forget|protect|rememb)\w*\s{_WORD}?(?:all|any|each|every)\s{_WORD}?{_KEPT}\b",
    rf"\b(?:known|new)\s{_KEPT}?\s?\d|\bjust\sstored\b|\bas\sprotected\b",
    # whose it is to be, how important, and who is to see it
    rf"\bscopes?\s?[=:]|\bscopes?\s(?:key\b|(?:to|is|as)\s{_SCOPE}\b|of\s{_WORD}?(?:all|any|each|every|this|these)\s{_WORD}?{_KEPT}\b)",
    r"\b(?:agent|group|team|user|session|global|shared|wide\w*)[- ](?:level\s)?scopes?\b",
    r"\b(?:agent|group|team)[- ]?wide\b|\b(?:at|on|to)\s(?:the\s)?(?:agent|group)[- ]level\b",
    rf"\bmark\w*\s{_WORD}{{0,3}}as\s(?:shared|public|global)\b",
    r"\bimportance\W{0,3}(?:(?:is|to|level|score|rating)\W{1,3})?(?:[1-5]|one|two|three|four|five)\b",
    r"\bimportance\sof\s(?:[345]|four|five)\b",
    rf"\b(?:shar(?:e|ing)|publish(?:ing)?|(?:be|is|are)\s(?:shared|published))\s{_WORD}{{0,6}}{_AUDIENCE}",
    rf"\b(?:visible|available|readable|accessible)\s(?:to|for)\s{_AUDIENCE}",
    rf"\b(?:stor|sav|record|rememb|memori[sz])\w*\s{_WORD}{{0,5}}(?:for|as|at|in|with|under)\s(?:the\sagent|{_AUDIENCE})",
    # forgetting somebody, rules, permissions
    rf"\bforget\s{_WORD}?(?:everything|all|anything|about|what|me|him|her|them)\b",
    rf"\b(?:ignor|disregard|overrid|suspend)\w*\s{_WORD}{{0,3}}(?:above|previous|earlier|instructions?|rules?|prompts?)\b",
    r"\b(?:rules?|instructions?|prompts?)\s(?:above|are\ssuspended)\b|\babove\s(?:rules?|instructions?)\b",
    rf"\ballow(?:s|ed)?\s{_WORD}{{0,3}}(?:share|read|see|tell|show|know|reveal|disclose|access)\b",
    r"\bnew task:|\bobey\b",
)
#: Beginnings of words for forgetting, deleting, ignoring and memory in other languages; `borrow`, `cancellation` and
#: `memorial` are English.
_OTHER_LANGUAGES = (
    r"\b(?:vergiss|vergesst|l[öo]sch|ignorier|erinnerungen|gedächtnis)",
    r"\b(?:oubli|supprim|souvenir|mémoire|ignorez)",
    r"\b(?:olvid|borr[aeo](?!w)|recuerdos|memoria(?!l)|esque[cç]|apag[au]|memória|ignora\b)",
    r"\b(?:dimentic|cancell[aio](?!tion|ng)|ricordi\b)",
    r"\b(?:забуд|удали|сотри|воспоминан|памят)",
    r"忘|删|刪|削除|记忆|記憶",
    r"انس|احذف|امسح|ذكري|ذاكر",
)
#: Names of keys, tags, marks of roles, JSON, slots, and the beginnings of the lines in which prompts and contexts show
#: what was said.
_PROMPT_MARKS = (
    r"\b(?:user|agent|group|session)[_ ]id\b",
    r"[<＜][ \u200c\u200d]?[/／!?|a-z]|&(?:lt|amp|#\d+);",
    r"\[/?inst\]|```|\{\{|\{\s?\"",
    r"\[\d{4}-\d\d-\d\d\]|\[\d{1,2} \w{3,9} \d{4}\]",
    r"(?:^|[.!?\n] ?)(?:system|assistant|user|developer|tool):|\((?:system|assistant|user|tool)\):",
)
_ORDERS = pattern("|".join([*_ENGLISH, *_OTHER_LANGUAGES]), re.IGNORECASE)
_IMITATIONS = pattern("|".join(_PROMPT_MARKS), re.IGNORECASE)


def gives_orders(text: str) -> bool:
    """Whether a text tells the memory what to keep, forget, allow or share, and for whom.

    A rule of words: it rather finds too many than too few, since what it holds back stays with its own user. Markup is
    no order: tools answer in JSON, and half of what developers say stands in fences.
    """
    return bool(_ORDERS().search(" ".join(unicodedata.normalize("NFKC", text).split())))


def steers(text: str) -> bool:
    """Whether a text gives orders or looks like a part of a prompt: nothing of the kind is shown to others."""
    return gives_orders(text) or bool(_IMITATIONS().search(text))


#: What is said in these categories is about a person, whatever the words.
PERSONAL_CATEGORIES = frozenset({"profile", "preferences", "relationships", "relationship_dynamic", "tone", "style"})
#: On the scale of 1 to 5 the default is 2: only what was held more important than usual is worth everyone's context.
MIN_SHARED_IMPORTANCE = 3

_EMAIL = re.compile(r"[\w+%-]@[\w-]{1,63}\.\w{2}")
#: Telephone, card and account numbers have 7 to 19 digits; separators are few, so that lists of figures are none.
_DIGIT_RUN = re.compile(r"(?<![\w.,])\+?\(?\d(?:[ ()./-]{0,2}\d){6,18}(?![\w,]|\.\d)")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}")
_ADDRESS = (
    r"\b\d{1,5}[a-z]?\s(?:[\w'’-]{1,30}\s){0,3}"
    r"(?:street|avenue|ave|boulevard|blvd|lane|terrace|crescent|(?-i:St|Road|Rd|Drive|Dr|Court|Square|Quay|Way|Place))\b"
    r"|\b(?:street|avenue|boulevard|rue(?:\s[\w'’-]{1,30}){1,4}),?\s\d{1,5}"
    r"|(?:straße|strasse|straat|laan|gata|gaten|gatan|gade|vej|vei|veien|vägen)\s\d{1,5}"
    r"|\b(?:home|street|postal|private|billing)\saddress|\bp\.?o\.?\sbox\b|\bliv(?:es|ed|ing)\s(?:in|at|on|near|with|alone)\b"
)
_CONTACT = r"phone\snumber|mobile\snumber|passwords?|passphrase|passcode|pin\scode|passport|social\ssecurity"
_HEALTH = (
    r"allerg\w*|asthma\w*|diabet\w*|depress(?:ed|ion|ive)|anxi(?:ety|ous)|therap(?:y|ist|ies)|doctors?|physicians?"
    r"|physio\w*|hospital\w*|surger(?:y|ies)|surgical|surgeons?|diagnos\w+|diseases?|illness\w*|(?:ill|sick)|sick\sleave"
    r"|cancer|tumou?rs?|pregnan\w+|miscarr\w+|medicat\w+|medicines?|prescri\w+|symptoms?|pains?|painful|injur\w+"
    r"|meniscus|fractures?|migraines?|insomnia|adhd|autis\w+|dyslexi\w+|bipolar|hiv|c(?:o)?eliac|intoleran(?:t|ce)"
    r"|disabilit\w+|disabled\sperson|wheelchairs?|rehab\w*|addict\w*|alcoholi\w+|sober|clinics?|burn-?out|psych\w+"
    r"|mental\shealth|blood\spressure|vaccin\w+|covid\w*|dentists?|fever|menopaus\w*|(?:knee|hip|back|heart)\s"
    r"(?:pain|problems?|surgery|operation|condition|attack)|bad\s(?:back|knee|hip)|operated\son"
)
_MONEY = (
    r"salar(?:y|ies)|wages?|incomes?|mortgages?|(?<!technical\s)(?<!tech\s)debts?|loans?|bank\saccounts?|savings|pensions?"
    r"|net\sworth|tax\sreturns?|bankrupt\w*|inherit(?:s|ed|ance)|(?:pays?|paid)\srent|overdraft|credit\s(?:card|score)s?"
    r"|iban|earns?|earned|alimony"
)
_BELIEFS = (
    r"religio\w+|church\w*|mosques?|synagogues?|pray(?:s|ed|ing|ers?)?|christian\w*|catholic\w*|protestant\w*|muslims?"
    r"|islam\w*|jew(?:s|ish)?|judaism|hindu\w*|buddhis\w+|atheis\w+|agnostic|vot(?:es?|ed|ing)\sfor|political\w*|politics"
    r"|left-wing|right-wing|trade\sunion|gay|lesbian|bisexual|transgender|sexual\w*|ethnic\w*"
)
_FAMILY = (
    r"husbands?|wi(?:fe|ves)|spouses?|(?:his|her|their|['’]s)\s(?:partner|ex|lover)|boyfriends?|girlfriends?|fianc\w+"
    r"|married|marriage|divorc\w+|weddings?|engaged\sto|dating|mothers?|mums?|moms?|mummy|fathers?|dads?|daddy|parents"
    r"|sons?|daughters?|child(?:ren)?|kids?|bab(?:y|ies)|toddlers?|brothers?|sisters?|siblings?|aunts?|uncles?|cousins?"
    r"|nieces?|nephews?|grand(?:mother|father|ma|pa|parent|son|daughter|child)\w*|[\w]{1,20}-in-law|famil(?:y|ies)"
    r"|widow\w*|broke\sup|birthdays?|was\sborn|years\sold"
)
_PERSONAL = pattern(rf"\b(?:{_CONTACT}|{_HEALTH}|{_MONEY}|{_BELIEFS}|{_FAMILY})\b|{_ADDRESS}", re.IGNORECASE)

#: Said of others by whoever writes a memory, whatever they talked about.
_TELLERS = word_set(
    "agree agreed agrees assistant decide decided decides discuss discussed discusses group groups plan planned plans"
    " prefer preferred prefers team teams use used user users uses want wanted wants"
)
#: Function words that decide what a sentence says.
_DECIDING = word_set("above all any anyone below every everyone hardly less more never only over under until")
_TELLS_NOTHING = (FUNCTION_WORDS | DATE_WORDS | _TELLERS) - _DECIDING
_UNSPACED = pattern(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\U00020000-\U0003ffff]")

#: Below this many characters a message is taken for the user's own words, unless it says that it is forwarded.
MIN_PASTED_CHARS = 600
#: Hardly anybody types so much at once.
SURELY_PASTED_CHARS = 4000
#: So many lines of text make a long message a document; a typed one has a few paragraphs.
_MANY_LINES = 6

_FORWARDED = re.compile(r"^[>\s]{0,8}-{2,20}\s?(?:forwarded|original) message", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^\s{0,3}(?:```|~~~)", re.MULTILINE)
_HEADING = re.compile(
    r"^(?:#{1,6}\s|\d{1,2}(?:\.\d{1,2}){0,3}[.)]?[ \t]{1,4}[A-Z]|[A-Z][A-Z \d,&:.'()-]{7,80}$)", re.MULTILINE
)
_QUOTED_LINE = re.compile(r"^\s{0,3}>", re.MULTILINE)
_MAIL_HEADER = re.compile(r"^(?:from|to|cc|date|sent|subject):\s", re.IGNORECASE | re.MULTILINE)
_MARKUP = re.compile(r"</?(?:html|body|div|p|span|table|tr|td|ul|li|h[1-6])\b", re.IGNORECASE)


def is_personal(text: str, category: str) -> bool:
    """Whether a memory concerns somebody's person: contact, health, money, beliefs, family and relationships.

    A rule of words: it rather holds too much personal than too little.
    """
    if category in PERSONAL_CATEGORIES or _PERSONAL().search(text) or _EMAIL.search(text):
        return True
    return bool(_ACCOUNT.search(text) or _DIGIT_RUN.search(find_dates(text)[1]))


class Draft(NamedTuple):
    """What is known of a text when its place is decided."""

    scope: Scope
    text: str
    category: str
    importance: int
    private: bool
    provenance: Provenance = "asserted"


def may_share(draft: Draft, sources: Sequence[Message]) -> bool:
    """Whether a memory may have group or agent scope; else it belongs to its user, whatever a model says.

    It must be asserted, important and not private or personal, and rest on what users typed alone: no tool's or
    assistant's words, no pasted document, no orders.
    """
    if draft.private or draft.provenance != "asserted" or draft.importance < MIN_SHARED_IMPORTANCE:
        return False
    contents = [message.content for message in sources if message.role == "user" and not is_pasted(message.content)]
    if not sources or len(contents) < len(sources) or any(map(steers, [draft.text, *contents])):
        return False
    return not is_personal(draft.text, draft.category)


def is_grounded(text: str, sources: Sequence[str]) -> bool:
    """Whether at least half of a text's longer words stand in its sources.

    Which messages a text rests on is the model's own word: what nobody said there is not shared on its strength.
    Words count from four letters on and by their first five, so that `deploys` rests on `deploying`; dates do not
    count, since texts are dated by whoever writes them.
    """
    known = {word[:5] for source in sources for word in folded_words(source)}
    longer = {word[:5] for word in folded_words(text) if len(word) >= 4 and word.isalpha() and word not in DATE_WORDS}
    return 2 * len(longer & known) >= len(longer)


def content_tokens(text: str) -> frozenset[str]:
    """What a text tells: its words by their beginnings, its numbers, and whether it denies something.

    Function words, dates and the words with which one tells of others do not count. Where words are not set apart, as
    in Chinese, every two neighbouring signs do.
    """
    found = {re.sub(r"[^\d.:]", "", number) for number in find_numbers(find_dates(text)[1])}
    for word in folded_words(text):
        if _UNSPACED().search(word):
            found.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif len(word) >= 3 and word not in _TELLS_NOTHING:
            found.add(word.removesuffix("s")[:5])
    return frozenset(found | ({"not"} if details(text).negated else set()))


def has_foreign_claims(claimed: Set[str], own: Set[str], foreign: Set[str]) -> bool:
    """Whether a text tells what stands in others' texts and not in its speakers' own; all three as `content_tokens`.

    A tool's claim, set behind words that a user did say, would else be everyone's as if that user had made it.
    """
    return not foreign.isdisjoint(claimed - own)


def is_pasted(text: str) -> bool:
    """Whether a message looks like pasted or forwarded text, whose claims and orders are nobody's word here.

    Long (over 600 characters) with the shape of a document: a code fence, markup, two headings, quoted lines or mail
    headers, or at least six lines; or so long (over 4,000) that nobody types it; or marked as forwarded.
    """
    if _FORWARDED.search(text):
        return True
    if len(text) <= MIN_PASTED_CHARS:
        return False
    if len(text) > SURELY_PASTED_CHARS or _FENCE.search(text) or _MARKUP.search(text):
        return True
    if any(len(line.findall(text)) > 1 for line in (_HEADING, _QUOTED_LINE, _MAIL_HEADER)):
        return True
    return sum(bool(line.strip()) for line in text.splitlines()) >= _MANY_LINES
