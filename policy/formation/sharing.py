"""Which memories may leave a person's own scope for a group or the whole agent: in doubt, none."""

import re
from collections.abc import Sequence, Set

from mnemic.policy.formation.orders import steers
from mnemic.policy.text.common_words import FUNCTION_WORDS, word_set
from mnemic.policy.text.dates_and_numbers import DATE_WORDS, find_dates, find_numbers
from mnemic.policy.text.details import details
from mnemic.policy.text.words import folded_words, pattern
from mnemic.state.kinds import Provenance

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
_DENIAL = "not"

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
    return bool(_ACCOUNT.search(text) or _DIGIT_RUN.search(find_dates(text).rest))


def may_share(
    *,
    text: str,
    category: str,
    private: bool,
    importance: int,
    provenance: Provenance,
    from_user_words: bool,
    from_pasted_text: bool,
) -> bool:
    """Whether a memory may have group or agent scope; else it belongs to its user, whatever a model says.

    Args:
        text: The memory's content.
        category: Its category.
        private: It was marked private.
        importance: 1 to 5.
        provenance: Only what somebody asserted may be shared.
        from_user_words: Every message it comes from was said by a user, not by a tool or the assistant.
        from_pasted_text: One of these messages is a pasted document.
    """
    if private or provenance != "asserted" or importance < MIN_SHARED_IMPORTANCE:
        return False
    if not from_user_words or from_pasted_text:
        return False
    return not (is_personal(text, category) or steers(text))


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
    found = {re.sub(r"[^\d.:]", "", number) for number in find_numbers(find_dates(text).rest)}
    for word in folded_words(text):
        if _UNSPACED().search(word):
            found.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif len(word) >= 3 and word not in _TELLS_NOTHING:
            found.add(word.removesuffix("s")[:5])
    return frozenset(found | ({_DENIAL} if details(text).negated else set()))


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
    if any(_twice(pattern, text) for pattern in (_HEADING, _QUOTED_LINE, _MAIL_HEADER)):
        return True
    return sum(bool(line.strip()) for line in text.splitlines()) >= _MANY_LINES


def _twice(pattern: re.Pattern[str], text: str) -> bool:
    first = pattern.search(text)
    return first is not None and pattern.search(text, first.end()) is not None
