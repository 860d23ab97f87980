"""Which texts order a memory about, or imitate what surrounds it: nobody's words may steer what others are shown."""

import re

#: One more word may stand between; bounded, so that no text takes long.
_WORD = r"(?:\w{1,30}\s)"
_KEPT = r"(?:facts?|memor(?:y|ies)|reflections?|records?|entries|consolidations?)"
_ENGLISH = (
    # the memory as such, what it keeps and under which keys; `memory leaks` and `64 GB of memory` are not meant
    r"\bmemories\b",
    rf"\b(?:your|this|its|every|any|all|agent|assistant|\w{{1,30}}['’]s)\s{_WORD}?memory\b(?!\s(?:leak|use|usage|limit))",
    r"\b(?:the|to)\smemory:",
    r"\b(?:user|agent|group|session)[_ ]id\b|\bscopes?\s(?:of|to|is|=|key)\b",
    rf"\b(?:delet|eras|wip|stor|forget|protect|rememb)\w*\s{_WORD}?(?:all|any|each|every)\s{_WORD}?{_KEPT}\b",
    rf"\b(?:known|new)\s{_KEPT}?\s?\d|\bjust\sstored\b|\bas\sprotected\b",
    # forgetting somebody, rules, permissions
    rf"\bforget\s{_WORD}?(?:everything|all|anything|about|what|me|him|her|them)\b",
    rf"\b(?:ignor|disregard|overrid|suspend)\w*\s{_WORD}{{0,3}}(?:above|previous|earlier|instructions?|rules?|prompts?)\b",
    r"\b(?:rules?|instructions?|prompts?)\s(?:above|are\ssuspended)\b|\babove\s(?:rules?|instructions?)\b",
    rf"\ballow(?:s|ed)?\s{_WORD}{{0,3}}(?:share|read|see|tell|show|know|reveal|disclose|access)\b",
    r"\bnew task:|\bobey\b",
)
#: Beginnings of words for forgetting, deleting, ignoring and memory in other languages.
_OTHER_LANGUAGES = (
    r"\b(?:vergiss|vergesst|l[öo]sch|ignorier|erinnerungen|gedächtnis)",
    r"\b(?:oubli|supprim|souvenir|mémoire|ignorez)",
    r"\b(?:olvid|borr[aeo]|recuerdos|memoria|esque[cç]|apag[au]|memória|ignora\b)",
    r"\b(?:dimentic|cancell[aio]|ricordi\b)",
    r"\b(?:забуд|удали|сотри|воспоминан|памят)",
    r"忘|删|刪|削除|记忆|記憶",
    r"انس|احذف|امسح|ذكري|ذاكر",
)
#: Tags, marks of roles, JSON, slots, and the beginnings of the lines in which prompts and contexts show what was said.
_MARKUP = (
    r"[<＜][ \u200c\u200d]?[/／!?|a-z]|&(?:lt|amp|#\d+);",
    r"\[/?inst\]|```|\{\{|\{\s?\"",
    r"\[\d{4}-\d\d-\d\d\]|\[\d{1,2} \w{3,9} \d{4}\]",
    r"(?:^|[.!?\n] ?)(?:system|assistant|user|developer|tool):|\((?:system|assistant|user|tool)\):",
)
_SIGNS = re.compile("|".join([*_ENGLISH, *_OTHER_LANGUAGES, *_MARKUP]), re.IGNORECASE)


def gives_orders(text: str) -> bool:
    """Whether a text tells the memory what to keep, forget, allow or share, or looks like a part of a prompt.

    A rule of words: it rather finds too many than too few, since what it holds back stays with its own user.
    """
    return bool(_SIGNS.search(text))
