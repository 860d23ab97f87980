"""Asks a step for drafts, counts what became of them, and tells which messages they account for."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar
from uuid import UUID

from mnemic.models.answers import Flaw
from mnemic.models.steps import In, Step
from mnemic.models.structured import run_step
from mnemic.operations.run.graph import metered
from mnemic.operations.run.resources import Resources
from mnemic.policy.text.words import folded_words
from mnemic.policy.text.writing import Verdict
from mnemic.prompts import repair
from mnemic.prompts.extract_facts import ExtractFactsOutput
from mnemic.prompts.extract_observations import ExtractObservationsOutput
from mnemic.prompts.extract_reflections import ExtractReflectionsOutput
from mnemic.prompts.loader import Prompt
from mnemic.state.formation import Account
from mnemic.state.graphs import FormationState
from mnemic.state.identity import Identity
from mnemic.state.records import Message, NewMemory

#: As many words of the instructions in a row nobody writes by chance.
_COPIED_WORDS = 5

Answer = TypeVar("Answer", ExtractFactsOutput, ExtractReflectionsOutput, ExtractObservationsOutput)
Made = TypeVar("Made")


@dataclass
class Drafts:
    """The drafts of one answer."""

    #: What the model was told.
    prompt: Prompt
    #: Messages that it was shown.
    shown: int
    checks: Counter[str] = field(default_factory=lambda: Counter(first_pass=0, trimmed=0, refused=0))
    #: Drafts that were refused, by what was wrong with them.
    refused: Counter[str] = field(default_factory=Counter)
    _cited: set[UUID] = field(default_factory=set)
    _open: set[UUID] = field(default_factory=set)

    def take(self, verdict: Verdict, sources: Sequence[Message], unfounded: str | None = None) -> str | None:
        """Counts a draft; its text, or None where it is refused.

        Args:
            verdict: of the text.
            sources: the messages it cites.
            unfounded: why it may not rest on them.
        """
        ids = {message.id for message in sources}
        problem = unfounded or verdict.problem or self._copied(verdict.text or "")
        if problem or verdict.text is None:
            self.checks["refused"] += 1
            self.refused[problem or "empty"] += 1
            self._open |= ids
            return None
        self.checks["trimmed" if verdict.trimmed else "first_pass"] += 1
        self._cited |= ids
        return verdict.text

    def flaw(self, nothing_else: bool) -> Flaw | None:
        """What makes the answer useless: a draft without a source, most of them refused, nothing and no word of it."""
        drafts = self.checks.total()
        if not drafts and not nothing_else:
            return Flaw(kind="nothing, and no word that there is nothing", advice=repair.NOTHING)
        if not self.refused["no_source"] and 2 * self.refused.total() <= drafts:
            return None
        kind = f"{self.refused.total()} of {drafts} drafts cannot be used ({refusal_summary(self.refused)})"
        return Flaw(kind=kind, advice=repair.unusable_drafts(self.refused, drafts, self.shown))

    def figures(self) -> FormationState:
        """What is counted; no refusals are left out, for an empty count begins anew."""
        checks: FormationState = {"checks": dict(self.checks)}
        return {**checks, "refused": dict(self.refused)} if self.refused else checks

    def account(self, before: Account, *, nothing_else: bool) -> Account:
        """What this answer accounts for, with those before it.

        A message that a refused draft rests on holds something, whatever the model says of the rest.
        """
        return Account(
            cited=before.cited | self._cited,
            open=before.open | self._open,
            nothing_else=nothing_else and before.nothing_else is not False,
        )

    def _copied(self, text: str) -> str | None:
        words = folded_words(text)
        if len(words) < _COPIED_WORDS:
            return None
        instructions = " ".join(folded_words(self.prompt.system))
        return "copied" if f" {' '.join(words)} " in f" {instructions} " else None


async def run_drafting_step(
    resources: Resources,
    identity: Identity,
    step: Step[In, Answer],
    step_input: In,
    build: Callable[[Answer, Drafts], Made],
    shown: int,
) -> tuple[Answer, Drafts, Made]:
    """The step's answer, what became of its drafts, and what was made of them; a useless answer is repaired once.

    Args:
        build: makes something of an answer, and counts its drafts.
        shown: messages that the model is shown.

    Raises:
        ModelError: as `run_step`.
    """

    def drafted(answer: Answer) -> tuple[Drafts, Made]:
        drafts = Drafts(step.prompt, shown)
        return drafts, build(answer, drafts)

    def check(answer: Answer) -> Flaw | None:
        return drafted(answer)[0].flaw(answer.nothing_else)

    answer = (await metered(resources, identity, run_step(step, step_input, resources.models, check))).output
    drafts, made = drafted(answer)
    return answer, drafts, made


def unfounded(sources: Sequence[Message], *, is_own_word: bool, has_owner: bool) -> str | None:
    """Why a draft may not rest on the messages it cites.

    Args:
        is_own_word: whether those who said it may tell such a thing.
        has_owner: whether there is somebody whose memory it could be.
    """
    if not sources:
        return "no_source"
    if not is_own_word:
        return "not_own_words"
    return None if has_owner else "no_owner"


def refusal_summary(refused: Counter[str]) -> str:
    """`2 first_person, 1 too_long`."""
    return ", ".join(f"{count} {problem}" for problem, count in sorted(refused.items()))


def crowded_out(account: Account, drafted: Iterable[NewMemory], kept: Iterable[NewMemory]) -> Account:
    """The account once some of the drafts had to give way: what only they rested on is open again."""
    lost = _sources(drafted) - _sources(kept)
    return replace(account, cited=account.cited - lost, open=account.open | lost)


def accounted(batch: Iterable[Message], account: Account) -> set[UUID]:
    """The messages that something stored or known rests on, or of which every step said that they hold nothing."""
    return {
        message.id
        for message in batch
        if message.id in account.cited or (account.nothing_else and message.id not in account.open)
    }


def _sources(memories: Iterable[NewMemory]) -> set[UUID]:
    """What they cite; an episode cites nothing."""
    return {source for memory in memories if memory.kind != "episode" for source in memory.source_message_ids}
