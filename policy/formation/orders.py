"""Which texts order a memory about, or imitate what surrounds it: nobody's words may steer what others are shown."""

import re
import unicodedata

from mnemic.policy.text.words import pattern

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
_MARKUP = (
    r"\b(?:user|agent|group|session)[_ ]id\b",
    r"[<＜][ \u200c\u200d]?[/／!?|a-z]|&(?:lt|amp|#\d+);",
    r"\[/?inst\]|```|\{\{|\{\s?\"",
    r"\[\d{4}-\d\d-\d\d\]|\[\d{1,2} \w{3,9} \d{4}\]",
    r"(?:^|[.!?\n] ?)(?:system|assistant|user|developer|tool):|\((?:system|assistant|user|tool)\):",
)
_ORDERS = pattern("|".join([*_ENGLISH, *_OTHER_LANGUAGES]), re.IGNORECASE)
_IMITATIONS = pattern("|".join(_MARKUP), re.IGNORECASE)


def gives_orders(text: str) -> bool:
    """Whether a text tells the memory what to keep, forget, allow or share, and for whom.

    A rule of words: it rather finds too many than too few, since what it holds back stays with its own user. Markup is
    no order: tools answer in JSON, and half of what developers say stands in fences.
    """
    return bool(_ORDERS().search(" ".join(unicodedata.normalize("NFKC", text).split())))


def steers(text: str) -> bool:
    """Whether a text gives orders or looks like a part of a prompt: nothing of the kind is shown to others."""
    return gives_orders(text) or bool(_IMITATIONS().search(text))
