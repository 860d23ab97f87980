"""From a sentence to the plain statements in it; questions, hypotheticals, jokes and hearsay are left out."""

import re

#: The sentence takes itself, or the one before it, back.
_JOKE = re.compile(
    r"\b(?:j/?k|lol|lmao|rofl|just kidding|kidding|(?:just )?joking|not really|yeah,? right|in my dreams|as if|psych"
    r"|sarcasm|for the sake of argument|hypothetically|role-?play|pretend|in a parallel|april fools?)\b|/s\b|[😂🤣😜😉🙃]",
    re.IGNORECASE,
)
#: Anywhere in a clause: what follows is not asserted.
_UNASSERTED = re.compile(
    r"\b(?:if|unless|whether|would|wouldn't|could|couldn't|should|shouldn't|might|wish|wishes|imagine|maybe|perhaps"
    r"|suppose|supposedly|supposed|probably|possibly|presumably|apparently|allegedly|guess|hopefully|hope|hoping|seems?"
    r"|seemed|almost|nearly|thinking (?:of|about)|considering|tempted|wondering|wonder|not sure|unsure|guessing|bet"
    r"|let's|lets|let us|assuming|in theory|sort of|kind of|kinda|sorta|doubt|what about|how about|don't know|dunno"
    r"|used to think|dreamt|dreamed|unlikely|likely|feels? like|looks? like|sounds? like|as though|otherwise|or something"
    r"|or whatever|believe|example|e\.g\.?|instance|fictional|character|novel's|story's)\b"
    r"|\b(?:I|we|he|she|they|you|it)'d\b|(?-i:\bmay\b)",
    re.IGNORECASE,
)
#: Somebody else's word.
_HEARSAY = re.compile(
    r"\b(?:says|said|saying|told|tells|claims?|claimed|reckons?|thinks|thought|heard|rumou?rs?|reportedly|according to|quote|quoted"
    r"|mentioned|insists?|insisted|argues?|wrote that|announced that|they say|asked (?:me|us|him|her))\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\?|^(?:do|does|did|are|is|am|was|were|can|could|will|would|should|have|has|had|who|whose|what|what's|where|why|how"
    r"|how's|which|isn't|aren't|don't|doesn't|didn't|won't|wouldn't|any|tell me|remind me|guess)\b",
    re.IGNORECASE,
)
_QUOTED_SPEECH = re.compile(r'"[^"]*\b(?:I|we|my|our|you|your)\b[^"]*"', re.IGNORECASE)
#: One of these, then a comma, a space or the like, opens a sentence without saying anything.
_OPENERS = re.compile(
    r"^(?:[^\w\"'$€£(]+|(?:so|well|anyway|anyways|btw|by the way|oh|ooh|ah|aw|aww|and|but|yeah|yea|yes|yep|yup|no|nope|nah|ok|okay|hey|hi"
    r"|hello|hiya|thanks|thank you|thx|wow|whoa|haha|hahaha|hah|honestly|actually|also|plus|to be honest|tbh|fyi|you know|as you know|i mean"
    r"|sure|absolutely|definitely|of course|right|great|good|nice|cool|awesome|sorry|anyhow|look|listen|see|basically|for the record|just so you know"
    r"|one more thing|another thing|in fact|guess what|good news|bad news|big news|update|quick update|funny enough|luckily|unfortunately|fortunately|sadly|happily"
    r"|finally|besides|then|first|firstly|second|secondly|lastly|as for me|for me|personally|same here|me too|true|exactly|totally|indeed|really|hmm|um|uh|er|gosh|man|dude"
    r"|good morning|good evening|morning|evening|hooray|yay|woohoo|no worries|no problem|alright|all right|speaking of which|just|cause|because|since then"
    r"|to answer your question|as i said|like i said|as mentioned|remember|note that|please note|please remember|please note that|heads up|correction|on a different note|long story short)"
    r"(?:[,.!:;]+\s*|\s+(?:that\s+)?|$))",
    re.IGNORECASE,
)
#: Where one statement ends and another, with a subject of its own, begins.
_JOINT = re.compile(
    r"\s*[;]\s*|\s+[-–—]+\s*|\s*[–—]+\s*|\s*--+\s*|\s*,?\s+(?:but|yet|though|although|whereas)\s+|\s*,?\s+(?:and so|so)\s+(?=(?:I|we|my|our|I'm|I've|he|she|they|it|the|that)\b)|\s*,?\s+(?:and|then|plus|while)\s+(?=(?:I|we|I'm|I've|I'll|we're|we've|we'll)\b|(?:my|our) (?:[\w'-]+ ){1,3}?(?:is|are|was|were|has|have|loves|lives|works|just|will)\b)"
    r"|,\s+(?=(?:I|we|I'm|I've|I'll|we're|we've|we'll)\b|(?:my|our) (?:[\w'-]+ ){1,3}?(?:is|are|was|were|has|have|loves|lives|works|just|will)\b)|\s*\([^()]*\)|:\s+(?=(?:I|we|my|our|I'm|I've)\b)"
)
_PAIR = re.compile(r"(?:(?<=, )|^)((?:my (?:[\w-]+ )?[\w-]+|[A-Z][a-z]+)(?: [A-Z]\w+)?) and I ", re.IGNORECASE)
#: The subject of a sentence is the speaker where a typed one has none: `Started a new job`.
_ELIDED = (
    (
        re.compile(
            r"(?P<verb>(?:recently |finally |already )?(?:started|got|went|bought|joined|finished|moved|took|signed|won|decided|adopted|spent|"
            r"visited|quit|sold|graduated|passed|enrolled|ran|met|booked|switched|made|became|learned|wrote|landed|applied|registered|turned)"
            r"(?= (?!by\b|out\b|up (?!for)|from\b|me\b|off\b|into (?:a|the)\b)))",
            re.IGNORECASE,
        ),
        "I ",
    ),
    (re.compile(r"(?P<verb>been (?=\w+ing\b))", re.IGNORECASE), "I have "),
    (re.compile(r"(?P<verb>(?:gonna|going to|moving to|flying to|working (?:as|at|on)|training for|learning|studying|planning) )", re.IGNORECASE), "I am "),
    (re.compile(r"(?P<verb>(?:love|hate|prefer|can't stand|don't (?:like|eat|drink)) (?!(?:you|it|that|the|this|how|your|to)\b))", re.IGNORECASE), "I "),
)
_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), text)
    for pattern, text in (
        (r"\bI'm\b", "I am"),
        (r"\bI ?'?ma\b(?= )", "I am going to"),
        (r"\bim\b(?= \w+ing\b)", "I am"),
        (r"\b(I|we|they)'ve\b", r"\1 have"),
        (r"\b(I|we|they|he|she)'ll\b", r"\1 will"),
        (r"\b(we|they)'re\b", r"\1 are"),
        (r"(?<=\w)'s (?=(?:an?|allergic|\w+ing|from|called|named|vegan|vegetarian|pregnant|married|on (?:the )?\w+day|\d+|now|not)\b)", " is "),
        (r"\bgonna\b", "going to"),
        (r"\bwanna\b", "want to"),
        (r"\bgotta\b", "have to"),
        (r"\b'?cause\b|\bcuz\b|\bbcs\b", "because"),
        (r"\bfave\b", "favorite"),
        (r"\bcannot\b|\bcan not\b", "can't"),
        (r"\b(is|are|was|were|do|does|did|have|has) not\b", r"\1n't"),
        (r"\bweek-?end\b", "weekend"),
        (r"\bMon\.?(?=[\s,]|$)(?<!mon)", "Monday"),
        (r"\bTues?\.?(?=[\s,]|$)", "Tuesday"),
        (r"\bThurs?\.?(?=[\s,]|$)", "Thursday"),
        (r"\bFri\.?(?=[\s,]|$)", "Friday"),
        (r"\s{2,}", " "),
    )
)
#: A colleague's remark or a note on a picture, not on a life: `(laughs)`.
_LOWER_I = re.compile(r"(?<![\w.'])i(?=(?:'m|'ve|'ll|'d)?\b(?![.]))")


def is_joke(sentence: str) -> bool:
    """Whether the sentence marks itself, or what was said before it, as not meant."""
    return bool(_JOKE.search(sentence))


def is_question(sentence: str) -> bool:
    """Whether it asks."""
    return bool(_QUESTION.search(sentence))


def is_asserted(text: str) -> bool:
    """Whether its author claims it: no hedge, no condition, not somebody else's word."""
    return not (_UNASSERTED.search(text) or _HEARSAY.search(text) or _QUOTED_SPEECH.search(text))


def opened(sentence: str, names: frozenset[str] = frozenset()) -> str:
    """The sentence without the discourse words and the names it is addressed to at its start."""
    text = sentence
    for _ in range(6):  # `Oh well, anyway, thanks Ana, ...` has five
        head = re.match(r"^(\w+)[,!.]+\s+", text)
        if head and head[1] in names:
            text = text[head.end() :]
            continue
        match = _OPENERS.match(text)
        if not match or match.end() == 0:
            break
        text = text[match.end() :]
    return text


def expanded(text: str) -> str:
    """The text with contractions of speaker and verb written out, and `i` as `I`."""
    text = _LOWER_I.sub("I", text)
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    return text.strip()


def statements(sentence: str, names: frozenset[str] = frozenset()) -> list[str]:
    """The statements of one sentence, in order, each ready to be read as subject and predicate."""
    text = sentence.strip()
    if is_question(opened(text, names)) or _QUOTED_SPEECH.search(text):
        return []
    text = _PAIR.sub(r"\1 & I ", text)  # `Ana and I` is one subject, no joint
    parts = [opened(part.replace(" & I ", " and I ").strip(" ,"), names) for part in _JOINT.split(text)]
    if any(_governs_all(part) for part in parts):
        return []
    parts[0] = _with_subject(parts[0])
    return [expanded(part.rstrip(" .!,:")) for part in parts if part and is_asserted(part)]


def _with_subject(part: str) -> str:
    for pattern, subject in _ELIDED:
        match = pattern.match(part)
        if match:
            return subject + part[0].lower() + part[1:]
    return part


def _governs_all(part: str) -> bool:
    """A condition or a report reaches over the whole sentence."""
    return bool(
        re.search(r"\b(?:if|unless|whether|wish|imagine|suppose|according to|hypothetically)\b", part, re.IGNORECASE)
    ) or bool(_HEARSAY.search(part))
