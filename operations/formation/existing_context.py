"""What the steps that write for the context see of it, so that they repeat nothing."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mnemic.operations.formation.repeats import Known
from mnemic.operations.messages.speakers import only_speaks
from mnemic.operations.run.resources import Resources
from mnemic.policy.text.names import display_name
from mnemic.prompts.extract_reflections import StandingText
from mnemic.state.identity import Identity, split_scope_key
from mnemic.state.records import Message, Standing
from mnemic.storage import memories


class InMind(NamedTuple):
    """The texts that are in context for the run's identity."""

    #: All of them, to compare with: what is not shown is not stored twice either.
    known: tuple[Known, ...]
    #: Those that the step may see.
    shown: tuple[StandingText, ...]


async def read_in_mind(
    resources: Resources, identity: Identity, batch: Sequence[Message], names: Mapping[str, str]
) -> InMind:
    """Reads what is in context.

    Args:
        names: display names of scope keys, where the host gave one.
    """
    async with resources.database.scoped(identity) as scoped:
        standing = (await memories.standing(scoped)).scopes
    return InMind(
        known=tuple(Known.of(memory) for part in standing for memory in [*part.texts, *part.facts]),
        shown=tuple(_standing_text(part, names) for part in _showable(standing, batch, identity)),
    )


def _showable(standing: Sequence[Standing], batch: Sequence[Message], identity: Identity) -> list[Standing]:
    """Where others speak than the run's own user, nobody's own memory may colour what is written for them."""
    is_own = only_speaks(batch, identity.user_id)
    return [part for part in standing if is_own or part.scope != "user"]


def _standing_text(part: Standing, names: Mapping[str, str]) -> StandingText:
    scope, owner = split_scope_key(part.scope_key)
    return StandingText(scope=scope, name=names.get(part.scope_key) or display_name(owner), text=part.text)
