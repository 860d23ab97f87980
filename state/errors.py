"""Errors of Mnemic. The docstring of a class is its default message; a message names the remedy."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from mnemic.state.kinds import Usage

if TYPE_CHECKING:  # records of governance take 30 ms to import
    from mnemic.state.governance import AuditProblem, Rollback


class MnemicError(Exception):
    """Mnemic failed."""

    #: Error code of Postgres, if the error came from the database.
    sqlstate: str | None = None

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class RefusedCallError(MnemicError):
    """This call is refused; nothing was written. The message gives the reason and the remedy; a model may read it."""


class InvalidInputError(RefusedCallError, ValueError):
    """This value cannot be used; nothing was written."""


class RefusedIdentityError(InvalidInputError):
    """The run or a message names a user or agent that its caller may not act for; nothing was read or written."""


class MissingIdentityError(MnemicError, ValueError):
    """The identity is missing. Pass context=Identity(agent_id=..., user_id=...) with the run."""


class ConfigurationError(MnemicError):
    """The settings do not fit together."""


class ForkedProcessError(MnemicError):
    """This Mnemic was opened before the process was forked. Open one in each worker, after the fork."""


class ClosedError(MnemicError):
    """This Mnemic is closed: its block, or its event loop, has ended. Work inside the block, or open another one."""


class DatabaseUnavailableError(MnemicError):
    """The database cannot be reached or does not respond. Try again; run `mnemic doctor` if it persists."""


class BusyError(MnemicError):
    """Too many recalls at once. Try again, or spread them over more processes and cores."""


class DatabaseSetupError(MnemicError):
    """The database is not set up for Mnemic. Run `mnemic db migrate`."""


class RefusedError(MnemicError):
    """The database refuses this change, by a guard or for lack of a right; nothing was written."""


class CategoryRefusedError(RefusedCallError):
    """This role may not read these categories; nothing was read."""


class BlockedLoopError(MnemicError):
    """Mnemic's event loop is blocked by this call. Await it (`ainvoke`), or open Mnemic with `Mnemic.open_sync`."""


class OtherLoopError(MnemicError):
    """Another event loop opened this Mnemic. Await the call there, or open Mnemic with `Mnemic.open_sync`."""


class NotRememberedError(RefusedCallError):
    """This session has reached its daily limit of remembered memories; nothing was written."""


class NotForgottenError(RefusedCallError):
    """This memory may not be forgotten on request; nothing was written."""


class NotCorrectedError(RefusedCallError):
    """This memory may not be corrected on request; nothing was written."""


class NotUpdatedError(RefusedCallError):
    """This memory may not be changed on request; nothing was written."""


class RefinementRunningError(MnemicError):
    """Another refinement of this scope key is running; wait until it has ended."""


class MaintenanceRunningError(MnemicError):
    """Another maintenance of this agent is running; wait until it has ended."""


class RefinementOverError(RefusedCallError):
    """This refinement has ended, another run continues it, or a memory that it read was erased; nothing was written."""


class RefinementRefusedError(RefusedCallError):
    """A refinement may not do this; nothing was written."""


class UnknownMemoryError(InvalidInputError):
    """The agent has no active memory with this id; nothing was written. `mnemic as-of` lists the memories."""


class UnknownOperationError(InvalidInputError):
    """There is no operation with this id; nothing was written. `mnemic audit log` lists the operations."""


class RollbackRefusedError(MnemicError):
    """This rollback has conflicts; nothing was written."""

    def __init__(self, message: str, rollback: "Rollback") -> None:
        super().__init__(message)
        #: Conflicts of the rollback, by ids and states, without contents.
        self.rollback = rollback


class RollbackConflictError(RollbackRefusedError):
    """Memories were changed later, have an active duplicate, or are protected; nothing was written."""


class ContentErasedError(RollbackRefusedError):
    """The earlier contents of these memories were erased; nothing was written."""


class RollbackStoppedError(MnemicError):
    """A rollback in steps stopped between two steps. The same call continues it."""

    def __init__(self, op_id: UUID, *, done: int, left: int) -> None:
        super().__init__(
            f"stopped after {done} changes, {left} are left. The same call continues, and its dry run lists the "
            f"conflicts. To take the changes back, undo {op_id}"
        )
        #: Operation id of the rollback.
        self.op_id = op_id
        #: Number of memories and relations that this call changed, and that are left.
        self.done = done
        self.left = left


class BrokenAuditError(MnemicError):
    """The history was altered, so no anchor was made. `mnemic audit verify` lists the problems."""

    def __init__(self, problems: "Sequence[AuditProblem]") -> None:
        super().__init__()
        #: Problems by codes, revisions and ids, without contents.
        self.problems = tuple(problems)


class BudgetSpentError(MnemicError):
    """The tenant's daily token budget is used up; background work with models continues the next day."""

    def __init__(self, available_at: datetime) -> None:
        super().__init__(
            "the tenant's daily token budget is used up; background work with models continues at "
            f"{available_at:%Y-%m-%d %H:%M} UTC, or after tenant_daily_tokens is raised"
        )
        #: Begin of the next day, in UTC.
        self.available_at = available_at


class EmbeddedPostgresError(MnemicError):
    """The embedded Postgres server could not be started."""


class ModelError(MnemicError):
    """The model could not be used for this step; the message gives the state of the work."""

    def __init__(self, message: str | None = None, *, spent: Usage | None = None) -> None:
        super().__init__(message)
        #: Tokens of the calls that were made.
        self.spent = spent


class ModelOutputError(ModelError):
    """The provider refused this request, or the answer cannot be used, even after one repair."""


class EmbeddingError(ModelError):
    """The embedding model did not return one usable vector for each text."""


class EmbeddingInputError(EmbeddingError):
    """The embedding model refused these texts, or returned no usable vector for one of them."""


class EmbedderUnavailableError(EmbeddingError):
    """The embedding model does not respond; texts are stored without vectors, which are added later."""


class ConcurrentChangeError(MnemicError):
    """Another run changed the data that this step had read; nothing was written. Run it again."""
