"""What a replay tells beyond the lists of facts: closings, sharing, what decisions saw, and what prompts cost."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any
from xml.sax.saxutils import unescape

from benchmarks.corpus.forming import Formed
from benchmarks.corpus.matching import expectations, matches, says
from benchmarks.corpus.report import Report
from mnemic.models.loopback import Request
from mnemic.models.replay import Exchange
from mnemic.prompts.formation.decide import DECIDE
from mnemic.service.cli.talks import Talks
from mnemic.state.identity import split_scope_key
from mnemic.state.records import Memory

#: A request, and what was answered.
Exchanges = Sequence[tuple[Request, Exchange]]
Section = tuple[str, list[str]]


def sections(report: Report, exchanges: Exchanges) -> list[Section]:
    """Return the figures, each with the list to be read by hand."""
    memories = report.formed.memories
    return [
        ("Given to the group by the reader", _given_to_group(report.formed, exchanges)),
        ("What others can read", _shared(memories)),
        ("For the agent", _for_the_agent(memories)),
        ("Closed", _closings(memories)),
        ("The contradicted fact before the decision", _contradicted(report, exchanges)),
        ("Characters of prompt", _prompts(exchanges)),
        ("Sessions", _sessions(report)),
    ]


def drafts(answer: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Scope and draft of each fact, reflection and observation in an answer."""
    lists = answer.items() if isinstance(answer, dict) else ()
    for name, made in lists:
        for draft in made if isinstance(made, list) else ():
            if isinstance(draft, dict) and "content" in draft:
                yield str(draft.get("scope", name)), draft


def shared_privately(memories: Sequence[Memory]) -> list[Memory]:
    """Those that others can read although they say what is private."""
    private = [fact for fact in expectations()[0] if fact.private]
    return [item for item in memories if _is_shared(item) and any(matches(fact.must, item.content) for fact in private)]


def _is_shared(memory: Memory) -> bool:
    return split_scope_key(memory.scope_key)[0] in ("group", "agent")


def _given_to_group(formed: Formed, exchanges: Exchanges) -> list[str]:
    """Return which drafts came to the group: as a memory of it, or as a fact of it that a decision was asked for."""
    answers = [(one.session, scope, draft["content"]) for _, one in exchanges for scope, draft in drafts(one.answer)]
    given = [(session, content) for session, scope, content in answers if scope == "group"]
    of_group = [item for item in formed.memories if item.scope_key.startswith("group:")]
    there = {_plain(formed.drafts.get(item.id, item.content)) for item in of_group}
    decided = [line.partition(": ") for line in _decision_lines(exchanges)]
    there |= {_plain(unescape(text)) for shown, _, text in decided if "group " in shown}
    lost = [(session, content) for session, content in given if _plain(content) not in there]
    return [
        f"{len(given) - len(lost)} of {len(given)} at the group ({(len(given) - len(lost)) / len(given):.1%}), "
        f"{sum(item.said is not None for item in of_group)} of {len(of_group)} with their typed sentence",
        *(f"elsewhere [{session}] {content}" for session, content in lost),
    ]


def _shared(memories: Sequence[Memory]) -> list[str]:
    shared, private = [item for item in memories if _is_shared(item)], shared_privately(memories)
    return [
        f"{len(shared)} memories, {len(private)} of them private",
        *(f"PRIVATE {_line(item)}" for item in private),
        *(_line(item) for item in shared),
    ]


def _for_the_agent(memories: Sequence[Memory]) -> list[str]:
    talks = Talks()
    taught = {session for session in talks.messages if talks.identity("any", session).teaches_agent}
    found = [item for item in memories if item.scope_key.startswith("agent:")]
    elsewhere = [item for item in found if item.source_session_id not in taught]
    return [
        f"{len(found) - len(elsewhere)} where somebody teaches it, {len(elsewhere)} where nobody does",
        f"taught in: {', '.join(sorted(taught))}",
        *map(_line, found),
    ]


def _closings(memories: Sequence[Memory]) -> list[str]:
    by_id = {item.id: item for item in memories}
    pairs = [(old, by_id[old.superseded_by]) for old in memories if old.superseded_by in by_id]
    return [
        f"{len(pairs)} memories were closed",
        *(f"[{new.source_session_id}] {old.content}  ->  {new.content}" for old, new in pairs),
    ]


def _contradicted(report: Report, exchanges: Exchanges) -> list[str]:
    """Of changed facts that were formed in an earlier session, and whose successor was formed later."""
    by_id = {fact.id: fact for fact in report.facts}
    seen, unseen = 0, []
    for old in report.facts:
        new = by_id.get(old.replaced_by or "")
        if new is None or old.session == new.session or not report.found[new.id]:
            continue
        known = [m for m in report.formed.memories if (m.source_session_id or "") < new.session and says(old, m)]
        of_session = [(request, one) for request, one in exchanges if one.session == new.session]
        texts = {_plain(unescape(line.partition(": ")[2])) for line in _decision_lines(of_session)}
        if any(_plain(memory.content) in texts for memory in known):
            seen += 1
        elif known:
            unseen.append(f"not shown: {old.statement}  ->  {new.statement}")
    return [f"{seen} of {seen + len(unseen)} were shown", *unseen]


def _prompts(exchanges: Exchanges) -> list[str]:
    sizes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for request, one in exchanges:
        sizes[one.session][one.step] += len(_text(request))
    totals = [size.total() for size in sizes.values()]
    steps = sorted({step for size in sizes.values() for step in size})
    return [
        f"{mean(totals):,.0f} a conversation, at most {max(totals):,}",
        *(f"{step}: {mean(size[step] for size in sizes.values()):,.0f} a conversation" for step in steps),
        *(f"{session}: {size.total():,} {dict(size)}" for session, size in sizes.items()),
    ]


def _sessions(report: Report) -> list[str]:
    """Return the outcome of the messages and of the failures."""
    lines = []
    for one in report.formed.sessions:
        formed, left = sum(run.formed for run in one.runs), sum(run.uncovered_messages for run in one.runs)
        refused = sum((Counter(run.refused) for run in one.runs), Counter[str]())
        lines.append(
            f"{one.session}: {formed} of {one.accepted} formed, {left} of them accounted for by nothing, "
            f"drafts refused: {dict(refused)} {'; '.join(one.complaints())}"
        )
    return lines


def _decision_lines(exchanges: Exchanges) -> list[str]:
    """Return the lines of new and known facts; those of the context begin with a dash."""
    asked = [_text(request) for request, one in exchanges if one.step == DECIDE.prompt.name]
    return [line for text in asked for line in text.splitlines() if not line.startswith("-")]


def _text(request: Request) -> str:
    return "\n".join(str(message["content"]) for message in request["messages"])


def _plain(text: str) -> str:
    return text.casefold().rstrip(". ")


def _line(memory: Memory) -> str:
    return f"{memory.scope_key} [{memory.source_session_id}] ({memory.kind}, {memory.state}) {memory.content}"
