"""Formation of what a session has pending, run after run, now or while the application goes on; consolidation."""

import logging
from uuid import uuid4

from mnemic.operations.run.graph import AnyGraph, run_leased
from mnemic.operations.run.identity import session_of
from mnemic.operations.run.leases import formation_lease
from mnemic.operations.run.resources import Resources
from mnemic.state.errors import ConcurrentChangeError, MnemicError
from mnemic.state.graphs import ConsolidationResult, FormationOutput, Lease
from mnemic.state.identity import Identity

_LOG = logging.getLogger("mnemic")
#: Times in a row that other runs may be faster before a caller hears of it.
OVERTAKEN = 3


async def form_pending(
    resources: Resources, graph: AnyGraph, identity: Identity, *, force: bool, retry: bool
) -> list[FormationOutput]:
    """The runs until nothing is due, as `Mnemic.form` returns them."""
    runs: list[FormationOutput] = []
    overtaken = 0
    while True:
        lease = formation_lease(identity, uuid4(), retry=retry)
        try:
            run = await run_leased(resources, graph, {"force": force, "retry": retry}, identity, lease)
        except ConcurrentChangeError:
            overtaken += 1
            if overtaken == OVERTAKEN:
                raise
            continue
        if run["reason"] is not None or run["waits"] or run["set_aside"]:
            runs.append(run)
        if run["reason"] is None:
            return runs


def formation_name(identity: Identity) -> tuple[str, str, str]:
    """What the background knows a session's formation by.

    Raises:
        InvalidInputError: the identity has no session.
    """
    return ("formation", identity.agent_id, session_of(identity))


def form_later(resources: Resources, graph: AnyGraph, identity: Identity) -> None:
    """Begins to form what is due, and does not wait for it; what goes wrong is logged, and the messages stay pending.

    Raises:
        InvalidInputError: the identity has no session.
    """

    async def form_due() -> None:
        try:
            await form_pending(resources, graph, identity, force=False, retry=False)
        except MnemicError as error:
            _LOG.warning("what is pending was not formed, and stays pending: %s", error)

    resources.background.begin(formation_name(identity), form_due)


async def consolidate(
    resources: Resources, graph: AnyGraph, identity: Identity, scope_key: str, *, force: bool
) -> ConsolidationResult:
    """One run of the consolidation graph; its lease is given back where the run fails."""
    lease, given = Lease("consolidation", scope_key, uuid4()), {"scope_key": scope_key, "force": force}
    result: ConsolidationResult = await run_leased(resources, graph, given, identity, lease)
    return result
