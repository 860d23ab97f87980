"""One or two sentences on what a conversation was about, in its own words."""

import re
from collections.abc import Iterable, Sequence

from mnemic.models.offline import form
from mnemic.models.offline.capitals import known_names
from mnemic.models.offline.clauses import statements
from mnemic.models.offline.conversation import Said, user_sentences
from mnemic.models.offline.statement import rewritten
from mnemic.models.offline.subjects import Voice
from mnemic.models.offline.topics import topics_of
from mnemic.prompts.conversation import Line

#: Fewer topics would not be worth an episode.
_LEAST_TOPICS = 2
_DECIDES = re.compile(r"(?:I|we)(?: have)?(?: finally| all)? (?:decided|agreed|chose)\b", re.IGNORECASE)


def episode(lines: Sequence[Line], group: str | None) -> str:
    """What users discussed and decided, in at most 280 characters; empty where there is little to say."""
    said = [sentence for sentence in user_sentences(lines) if not sentence.private]
    topics = topics_of(said, {line.speaker.lower() for line in lines})
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


def _decisions(said: Iterable[Said], names: frozenset[str], group: str | None) -> Iterable[str]:
    for sentence in said:
        voice = Voice(name=sentence.line.speaker, group=group, known=names)
        for text in statements(sentence.text, names):
            if _DECIDES.match(text):
                fact = rewritten(text, voice, sentence.line.said_at.date())
                if fact is not None:
                    yield fact.content
