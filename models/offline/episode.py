"""One or two sentences on what a conversation was about, in its own words."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from mnemic.models.offline import form
from mnemic.models.offline.clauses import statements
from mnemic.models.offline.conversation import Said, known_names, user_sentences
from mnemic.models.offline.lexicon import DANGLING, MONTHS, PERSONAL, STOP_WORDS, WEEKDAYS
from mnemic.models.offline.pieces import words
from mnemic.models.offline.statement import rewritten
from mnemic.models.offline.subjects import Voice
from mnemic.models.offline.text import WORD, stem
from mnemic.models.offline.verbs import reading
from mnemic.prompts.conversation import Line

#: Fewer topics would not be worth an episode, more would say nothing.
_LEAST_TOPICS, _MOST_TOPICS = 2, 3
#: A word that is said once characterises nothing.
_LEAST_OFTEN = 2
_NO_TOPICS = frozenset(name.lower() for name in (*MONTHS, *WEEKDAYS))


def episode(lines: Sequence[Line], group: str | None) -> str:
    """What users discussed and decided, in at most 280 characters; empty where there is little to say."""
    said = [sentence for sentence in user_sentences(lines) if not sentence.private]
    topics = _topics(said, {line.speaker.lower() for line in lines})
    decisions = list(_decisions(said, known_names(lines), group))
    if len(topics) < _LEAST_TOPICS and not decisions:
        return ""
    parts = []
    if len(topics) >= _LEAST_TOPICS:
        parts.append(form.sentence(f"{_words(_speakers(said, lines))} discussed {_words(topics)}"))
    parts += decisions[:1]
    text = " ".join(parts)
    return text if len(text) <= form.MAX_CHARS else parts[0] if len(parts[0]) <= form.MAX_CHARS else ""


def _speakers(said: Iterable[Said], lines: Iterable[Line]) -> list[str]:
    names = list(dict.fromkeys(sentence.line.speaker for sentence in said))
    return names + ["the assistant"] * any(line.role == "assistant" for line in lines)


def _words(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def _topics(said: Iterable[Said], speakers: set[str]) -> list[str]:
    """The pairs of words, then the single words, that came back most; each as it was first written."""
    singles: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    written: dict[str, str] = {}
    for sentence in said:
        previous, end = "", -1
        for match in WORD.finditer(sentence.text):
            key = stem(match[0].lower()) if _is_topical(match[0], speakers) else ""
            if key:
                singles[key] += 1
                written.setdefault(key, match[0])
            if key and previous and sentence.text[end : match.start()] == " ":
                pairs[f"{previous} {key}"] += 1
                written.setdefault(f"{previous} {key}", f"{sentence.text[: match.end()].split()[-2]} {match[0]}")
            previous, end = key, match.end()
    return _best(pairs, singles, written)


def _best(pairs: Counter[str], singles: Counter[str], written: dict[str, str]) -> list[str]:
    chosen: list[str] = []
    for key, count in [*pairs.most_common(), *singles.most_common()]:
        taken = {word for topic in chosen for word in topic.split()}
        if count >= _LEAST_OFTEN and not taken & set(key.split()) and len(chosen) < _MOST_TOPICS:
            chosen.append(key)
    return [re.sub(r"^[^\w]+|[^\w+#%]+$", "", written[key]) for key in chosen]


def _is_topical(word: str, speakers: set[str]) -> bool:
    """A noun as far as a list of verbs and everyday words can tell."""
    lower = word.lower().removesuffix("'s")
    if len(lower) < 4 or "'" in lower or lower in STOP_WORDS | DANGLING | PERSONAL | _NO_TOPICS or lower in speakers:
        return False
    return (
        not _is_verb(lower)
        and stem(lower) not in words("NO_TOPIC")
        and lower not in words("NO_TOPIC")
        and not lower[0].isdigit()
    )


def _is_verb(word: str) -> bool:
    """Whether a word is rather a verb than a noun: `went` and `making` are, `release` and `painting` may be nouns."""
    known = reading(word, "base", "third", "ing", "past")
    return known is not None and (known.form == "past" or known.lemma not in words("REGULAR_VERB"))


def _decisions(said: Iterable[Said], names: frozenset[str], group: str | None) -> Iterable[str]:
    for sentence in said:
        voice = Voice(name=sentence.line.speaker, group=group, known=names)
        for text in statements(sentence.text, names):
            if re.match(r"(?:I|we)(?: have)?(?: finally| all)? (?:decided|agreed|chose)\b", text, re.IGNORECASE):
                fact = rewritten(text, voice, sentence.line.said_at.date())
                if fact is not None:
                    yield fact.content
