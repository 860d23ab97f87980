"""Every error Mnemic raises. A class's docstring is its default message; a message says what to do next."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from mnemic.state.governance import AuditProblem, Rollback
from mnemic.state.kinds import Usage


class MnemicError(Exception):
    """Something in Mnemic went wrong."""

    #: Postgres' own code for it, where the error came from the database.
    sqlstate: str | None = None

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class RefusedCallError(MnemicError):
    """This call is refused; nothing was written. The message says why and what to do, and a model may read it."""


class InvalidInputError(RefusedCallError, ValueError):
    """The given value cannot be used; nothing was written."""


class RefusedIdentityError(InvalidInputError):
    """The run, or a message, names somebody whom it may not speak for; nothing was read or written."""


class MissingIdentityError(MnemicError, ValueError):
    """No identity was given. Pass context=Identity(agent_id=..., user_id=...) with the run."""


class ConfigurationError(MnemicError):
    """The settings do not fit together."""


class ForkedProcessError(MnemicError):
    """This Mnemic was opened before the process was forked: open one in each worker, after the fork."""


class DatabaseUnavailableError(MnemicError):
    """The database cannot be reached or does not answer; try again, and run `mnemic doctor` if it persists."""


class BusyError(MnemicError):
    """More recalls came at once than were answered in time; try again, or spread them over more processes and cores."""


class DatabaseSetupError(MnemicError):
    """The database is not set up for Mnemic: run `mnemic db migrate`."""


class RefusedError(MnemicError):
    """The database refuses this change: a guard or a missing right stands against it; nothing was written."""


class CategoryRefusedError(RefusedCallError):
    """This role may not ask for these categories; nothing was read."""


class BlockedLoopError(MnemicError):
    """Mnemic's event loop cannot answer this thread: await the agent (ainvoke), or invoke it in a thread of its own."""


class NotRememberedError(RefusedCallError):
    """This session has had as many memories kept today as it may; nothing was written."""


class NotForgottenError(RefusedCallError):
    """This memory may not be forgotten on request; nothing was written."""


class NotCorrectedError(RefusedCallError):
    """This memory may not be corrected on request; nothing was written."""


class NotUpdatedError(RefusedCallError):
    """This memory may not be changed on request; nothing was written."""


class RefinementRunningError(MnemicError):
    """Another refinement of this scope key is running; wait until it has ended."""


class MaintenanceRunningError(MnemicError):
    """Another maintenance run of this agent is under way; wait until it has ended."""


class RefinementOverError(RefusedCallError):
    """This refinement has ended, another run has taken it up, or what it read was erased; nothing was written."""


class RefinementRefusedError(RefusedCallError):
    """This may not be done in a refinement; nothing was written."""


class UnknownMemoryError(InvalidInputError):
    """The agent has no living memory of this id: `as_of` (`mnemic as-of`) lists them; nothing was written."""


class UnknownOperationError(InvalidInputError):
    """No such operation: look operations up with `operations` (`mnemic audit log`); nothing was written."""


class RollbackRefusedError(MnemicError):
    """Something stands against this rollback; nothing was written."""

    def __init__(self, message: str, rollback: Rollback) -> None:
        super().__init__(message)
        #: What it met: ids and states, no contents.
        self.rollback = rollback


class RollbackConflictError(RollbackRefusedError):
    """Memories were changed later, have a living twin, or are protected; nothing was written."""


class ContentErasedError(RollbackRefusedError):
    """What these memories said back then was erased; nothing was written."""


class RollbackStoppedError(MnemicError):
    """A rollback in steps came to a halt between two of them: the same call goes on with what is left."""

    def __init__(self, op_id: UUID, *, done: int, left: int) -> None:
        super().__init__(
            f"stopped after {done} changes, {left} are left: the same call goes on, and its dry run tells what stands "
            f"against it; to take back what was done, undo {op_id}"
        )
        #: The rollback, as the history names it.
        self.op_id = op_id
        #: Memories and relations that this call changed, and those that it did not come to.
        self.done = done
        self.left = left


class BrokenAuditError(MnemicError):
    """The history is not as it was written, so that no anchor was made: `mnemic audit verify` names what is wrong."""

    def __init__(self, problems: Sequence[AuditProblem]) -> None:
        super().__init__()
        #: Codes, seqs and ids, no contents.
        self.problems = tuple(problems)


class BudgetSpentError(MnemicError):
    """The tenant's daily token budget is used up; background work with models goes on the next day."""

    def __init__(self, available_at: datetime) -> None:
        super().__init__(
            "the tenant's daily token budget is used up; background work with models goes on at "
            f"{available_at:%Y-%m-%d %H:%M} UTC, or once tenant_daily_tokens is raised"
        )
        #: When the next day begins, in UTC.
        self.available_at = available_at


class EmbeddedPostgresError(MnemicError):
    """The embedded Postgres server could not be started."""


class ModelError(MnemicError):
    """The model could not be used for this step; the message says what is left of the work."""

    def __init__(self, message: str | None = None, *, spent: Usage | None = None) -> None:
        super().__init__(message)
        #: Tokens of the calls that were made all the same.
        self.spent = spent


class ModelOutputError(ModelError):
    """The provider refused this request, or the answer cannot be used; one that can be repaired was asked for again."""


class EmbeddingError(ModelError):
    """The embedding model did not return one usable vector for each text."""


class EmbeddingInputError(EmbeddingError):
    """The embedding model refused these texts, or returned no usable vector for one of them."""


class EmbedderUnavailableError(EmbeddingError):
    """The embedding model does not answer for now; texts are stored without vectors, which are filled later."""


class ConcurrentChangeError(MnemicError):
    """What this step had read was changed by another one meanwhile; nothing was written, run it again."""
