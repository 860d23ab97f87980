"""Intake of a formation: when pending messages are due, how many of them a run takes, and how much it may form."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import ceil
from typing import Final, NamedTuple
from uuid import UUID

from mnemic.memory.runtime.graph import formation_lease, release_lease_on_error
from mnemic.memory.runtime.identity import session_of
from mnemic.memory.runtime.resources import Resources
from mnemic.memory.runtime.transcript import speakers
from mnemic.memory.text.shape import count_tokens
from mnemic.memory.text.words import sentences
from mnemic.state.formation import Inbox
from mnemic.state.graphs import FormationInput, FormationRun, Lease
from mnemic.state.identity import Identity, scope_key, split_scope_key
from mnemic.state.kinds import FormationReason, Role
from mnemic.state.records import Message, ScopeSettings
from mnemic.state.settings import Settings
from mnemic.storage import inbox, leases, scopes
from mnemic.storage.transaction import ScopedTransaction

#: Weights of the tokens of each role: users state new things, agents repeat them.
ROLE_WEIGHTS: Final[Mapping[Role, float]] = {
    "user": 1.0,
    "tool": 0.5,
    "assistant": 0.2,
    "other": 0.5,
    "attachment": 0.2,
}
#: Facts of a few messages, one for each sentence or line.
_MAX_FACTS_BY_LINE: Final = 24
#: Characters for each fact in longer texts. The example conversations have 70 to 110 characters for each message of a
#: user, and their number of messages limits their facts.
_CHARS_PER_FACT: Final = 100


async def take_up(resources: Resources, identity: Identity, request: FormationInput, holder: UUID) -> FormationRun:
    """Take up the oldest messages of the session if a formation is due.

    A run that is due takes a lease on the session in the transaction that reads its messages.

    Args:
        resources: the open database and settings.
        identity: the owner of the session.
        request: whether the caller requests a formation, or a retry of quarantined messages.
        holder: id of the run, which holds the lease.
    """
    lease = formation_lease(identity, holder, retry=request.get("retry", False))
    is_forced = lease.work == "retry" or request.get("force", False)

    async def take_batch(tx: ScopedTransaction) -> FormationRun | None:
        """Return the run, or None if each turn is formed by itself."""
        run, settings = await _new_run(tx, resources, lease)
        if settings.formation_mode != "batch":
            return None
        return await _take_batch(tx, run, _Intake(settings, is_forced=is_forced, is_by_turn=False))

    async with release_lease_on_error(resources, identity, lease):
        run = await resources.database.write(identity, take_batch)
        if run is None:
            run = await _take_turn(resources, identity, lease, is_forced=is_forced)
    return run


async def _new_run(tx: ScopedTransaction, resources: Resources, lease: Lease) -> tuple[FormationRun, Settings]:
    """Return a run without messages, and the settings of the agent."""
    overrides, read_revision = await scopes.read_snapshot(tx)
    settings = resources.settings.overridden(overrides)
    extraction = settings.extraction
    run = FormationRun(lease=lease, read_revision=read_revision, overrides=overrides, extraction=extraction)
    return run, settings


async def _take_batch(tx: ScopedTransaction, run: FormationRun, intake: "_Intake") -> FormationRun:
    taken = await _take(tx, run, intake)
    if taken.reason is None:
        return taken
    taken = _with_guidance(taken, await scopes.scope_settings(tx), tx.identity)
    return replace(taken, max_facts=facts_of_batch(taken.batch, intake.settings))


async def _take_turn(resources: Resources, identity: Identity, lease: Lease, *, is_forced: bool) -> FormationRun:
    """Take up the oldest turn, or a batch if no write of a turn is left today."""
    async with resources.database.transaction(identity) as tx:
        run, settings = await _new_run(tx, resources, lease)
    left = await _writes_left(resources, identity, settings, is_retry=lease.work == "retry")
    intake = _Intake(settings, is_forced=is_forced, is_by_turn=left is not None)
    run = await resources.database.write(identity, lambda tx: _take_batch(tx, run, intake))
    if left is None:
        return run
    max_writes = min(left, settings.writes_per_turn)
    return replace(run, max_facts=facts_of_turn(run.batch, settings), max_writes=max_writes)


class _Intake(NamedTuple):
    """Conditions under which a run takes up messages."""

    settings: Settings
    #: The caller requests a formation, so that one message is enough.
    is_forced: bool
    #: Each turn is formed by itself.
    is_by_turn: bool


async def _take(tx: ScopedTransaction, run: FormationRun, intake: _Intake) -> FormationRun:
    """Return the run with its messages, or with the reason to wait."""
    is_retry, settings = run.lease.work == "retry", intake.settings
    box = await _read(tx, run, intake, failures=0)
    waiting = replace(run, pending=box.pending, quarantined=box.quarantined)
    reason = _reason(box, intake, is_retry=is_retry)
    if reason is None:
        return waiting
    failures = await leases.claim(tx, run.lease, settings, forced=intake.is_forced)
    if failures is None:
        return replace(waiting, waits=await leases.blocked_by(tx, run.lease))
    if failures >= settings.max_attempts and not is_retry:
        await _quarantine(tx, run, intake, failures)
        failures = 0
    # read again under the lease, since its last holder may have formed messages meanwhile
    box = await _read(tx, run, intake, failures=failures)
    if not box.messages:
        await leases.finish(tx, run.lease)
        return replace(run, pending=box.pending, quarantined=box.quarantined)
    taken = len(box.messages)
    quarantined = box.quarantined - taken if is_retry else box.quarantined
    return replace(run, reason=reason, batch=list(box.messages), pending=box.pending - taken, quarantined=quarantined)


async def _quarantine(tx: ScopedTransaction, run: FormationRun, intake: _Intake, failures: int) -> None:
    """Quarantine the message whose last try failed, and reset the attempts for the other messages."""
    box = await _read(tx, run, intake, failures=failures)
    await inbox.quarantine(tx, [message.id for message in box.messages])
    await leases.reset_attempts(tx, run.lease)


async def _read(tx: ScopedTransaction, run: FormationRun, intake: _Intake, *, failures: int) -> Inbox:
    """Read the oldest messages, or the oldest turn, as far as they fit a prompt.

    Each failure halves the number. The last try takes one message alone, so that no other is quarantined with it.
    Further retries take another message each.
    """
    settings, is_retry = intake.settings, run.lease.work == "retry"
    session_id = split_scope_key(run.lease.scope_key)[1]
    extra_tries = failures - (settings.max_attempts - 1)
    most = max(1, settings.formation_batch_messages >> failures)
    if extra_tries >= 0:
        most = 1
    skip = max(0, extra_tries) if is_retry else 0
    box = await inbox.read_inbox(tx, session_id, limit=most, quarantined=is_retry, skip=skip)
    messages = first_turn(box.messages) if intake.is_by_turn else box.messages
    return box._replace(messages=_fitting(messages, settings.formation_batch_tokens >> failures))


def _fitting(messages: Sequence[Message], max_tokens: int) -> tuple[Message, ...]:
    """Return the first messages that have at most so many tokens in all, and at least one message."""
    fitting: list[Message] = []
    tokens = 0
    for message in messages:
        tokens += count_tokens(message.content)
        if fitting and tokens > max_tokens:
            break
        fitting.append(message)
    return tuple(fitting)


def _with_guidance(run: FormationRun, by_key: Mapping[str, ScopeSettings], identity: Identity) -> FormationRun:
    """Return the run with the guidance and the names of its scopes.

    The guidance of a user's own scope counts only if no other user speaks.
    """
    is_alone = set(speakers(run.batch)) <= {identity.user_id}
    names: dict[str, str] = {}
    guidance: list[str] = []
    for key, scope in by_key.items():
        if scope.name:
            names[key] = scope.name
        if scope.extraction_guidance and (is_alone or not scope.scope_key.startswith("user:")):
            guidance.append(scope.extraction_guidance)
    return replace(run, names=names, guidance="\n".join(guidance))


async def _writes_left(resources: Resources, identity: Identity, settings: Settings, *, is_retry: bool) -> int | None:
    """Return how many memories turns may still write today; None if none is left until midnight."""
    messages: Sequence[Message] = ()
    if not identity.user_id:
        async with resources.database.transaction(identity) as tx:
            most = settings.formation_batch_messages
            messages = (await inbox.read_inbox(tx, session_of(identity), limit=most, quarantined=is_retry)).messages
    used, key = 0, quota_scope_key(messages, identity)
    if key:
        async with resources.database.transaction(identity, also=[key]) as tx:
            used = await scopes.turn_writes_today(tx, key)
    if used >= settings.writes_per_user_and_day:
        return None
    return settings.writes_per_user_and_day - used


def quota_scope_key(messages: Iterable[Message], identity: Identity) -> str | None:
    """Return the scope key of the user whose daily quota a turn uses: the run's user, else the turn's first speaker."""
    if identity.user_id:
        return scope_key("user", identity.user_id)
    for user_id in speakers(messages):
        return scope_key("user", user_id)
    return None


def _reason(box: Inbox, intake: _Intake, *, is_retry: bool) -> FormationReason | None:
    waiting = box.quarantined if is_retry else box.pending - box.quarantined
    if intake.is_by_turn:
        return turn_reason(box.messages, has_more=waiting > len(box.messages), is_forced=intake.is_forced)
    tokens = sum(weighted_tokens(message.role, message.content) for message in box.messages)
    return formation_reason(box, intake.settings, messages=waiting, tokens=tokens, is_forced=intake.is_forced)


def weighted_tokens(role: Role, text: str) -> float:
    """Return the estimated tokens of a message, weighted by the role of its author."""
    return ROLE_WEIGHTS[role] * count_tokens(text)


def formation_reason(
    box: Inbox, settings: Settings, *, messages: int, tokens: float, is_forced: bool
) -> FormationReason | None:
    """Return the reason for a formation, or None while the messages wait.

    A cold session of enough messages is formed to its end, however few of them are pending, since no later message is
    expected.

    Args:
        box: size of the session, and the time since its last message.
        settings: settings of the agent; a threshold fires when it is reached.
        messages: number of messages that this run may form.
        tokens: their weighted tokens.
        is_forced: whether the caller requests a formation, so that one message is enough.
    """
    if messages == 0:
        return None
    if is_forced:
        return "forced"
    if messages >= settings.formation_min_messages:
        if messages >= settings.formation_messages:
            return "messages"
        if tokens >= settings.formation_tokens:
            return "tokens"
    is_cold = box.idle >= timedelta(minutes=settings.session_cold_minutes)
    if is_cold and box.session_messages >= settings.formation_min_messages:
        return "cold"
    return None


def turn_reason(messages: Sequence[Message], *, has_more: bool, is_forced: bool) -> FormationReason | None:
    """Return the reason to form the oldest turn, or None while the turn waits for a user's words.

    Args:
        messages: the turn, as far as it was read.
        has_more: whether further messages are pending behind it, so that the turn is complete.
        is_forced: whether the caller requests a formation, so that one message is enough.
    """
    if is_forced and messages:
        return "forced"
    if has_more or any(message.role == "user" for message in messages):
        return "turn"
    return None


def first_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the oldest turn: the messages before a user's, the user's, and all until a user's next one."""
    before, turns = "", 0
    for place, message in enumerate(messages):
        if message.role == "user" and before != "user":
            turns += 1
            if turns == 2:
                return messages[:place]
        before = message.role
    return messages


def facts_of_batch(messages: Sequence[Message], settings: Settings) -> int:
    """Return how many facts a batch may bring, at most the limit of a run.

    The number is a share of the messages, rounded up. Messages of several sentences or lines bring more: a fact for
    each of these, and beyond a limit one for each hundred characters.
    """
    by_number = ceil(len(messages) * settings.facts_per_ten_messages / 10)
    chars = lines = 0
    for message in messages:
        chars += len(message.typed_text)
        lines += sum(len(sentences(line)) for line in message.typed_text.splitlines())
    if lines <= len(messages):
        return min(settings.facts_per_run, by_number)
    by_length = max(min(lines, _MAX_FACTS_BY_LINE), chars // _CHARS_PER_FACT)
    return min(settings.facts_per_run, max(by_number, by_length))


def facts_of_turn(messages: Sequence[Message], settings: Settings) -> int:
    """Return how many facts a turn may bring: one, or several if its user wrote much."""
    chars = sum(len(message.typed_text) for message in messages)
    if chars > settings.multi_fact_chars:
        return settings.multi_fact_candidates
    return 1
