"""The supervisor asks its user before something important is forgotten."""

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from mnemic.nodes.supervisor.agent import FORGET
from mnemic.nodes.supervisor.progress import tell
from mnemic.state.identity import Identity
from mnemic.state.supervisor import Asking, Consent, SupervisorState


async def confirm(state: SupervisorState, runtime: Runtime[Identity]) -> SupervisorState:
    """Interrupts the turn. Nothing of the answer has been done, so that nothing is done twice; an answer that is no
    `Consent` leaves the question open.
    """
    questions = state["questions"]
    shown = {one["id"]: one for one in questions.values()}
    consent = interrupt(Asking(action=FORGET, memories=list(shown.values())), response_schema=Consent)
    tell(runtime, "confirm")
    return {"declined": [] if consent.approved else list(questions)}
