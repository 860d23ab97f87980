"""The identity of a run. The host application sets it; a model never does."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Protocol, Self, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    ValidationError,
)

from mnemic.state.checking import field_name, first_problem, suggestion, validate
from mnemic.state.errors import InvalidInputError, MissingIdentityError
from mnemic.state.own_names import OwnNames
from mnemic.state.times import ZoneName

Scope = Literal["session", "user", "group", "agent"]

#: A tuple of the covering index, 2,704 bytes, holds agent, scope key and a vector of 2 KiB.
MAX_ID_BYTES = 128
#: Each group adds a consolidation of up to 500 words to every prompt: 64 groups add 32,000 words.
MAX_GROUPS = 64
#: More people than speak in one session.
MAX_MEMBERS = 1000


def _clean_id(value: str) -> str:
    if not value.strip() or value != value.strip() or not value.isprintable() or len(value.encode()) > MAX_ID_BYTES:
        raise ValueError(f"must be printable text of at most {MAX_ID_BYTES} bytes without white space at its ends")
    return value


#: Not normalised, since two ids could become one.
HostId = Annotated[StrictStr, AfterValidator(_clean_id)]


_PLAIN_ID = re.compile(r"[^\W\d_]+(?:[._-][^\W\d_]+)*")
#: A uuid, or a run of hexadecimal digits as databases and hashes make them.
_OPAQUE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]*\d)[0-9a-f]{16,}", re.IGNORECASE)
#: An id of at least this many characters, half of them digits, is made for machines; `ana2` is not.
_OPAQUE_CHARS = 8
_SHOWN_CHARS = 8


def display_name(author: str) -> str:
    """Return `Mara` for `mara`, `Mara Lopes` for `mara.lopes`, `User 3f2a9c1e` for an opaque id, else the id."""
    if author.islower() and _PLAIN_ID.fullmatch(author):
        return " ".join(part[0].upper() + part[1:] for part in re.split(r"[._-]", author))
    digits = sum(map(str.isdigit, author))
    is_mostly_digits = len(author) >= _OPAQUE_CHARS and 2 * digits >= len(author) and " " not in author
    if is_mostly_digits or _OPAQUE.fullmatch(author):
        return f"User {author[:_SHOWN_CHARS]}"
    return author


def scope_key(scope: Scope, owner_id: str) -> str:
    """Return a scope and its owner as text, such as `user:ana`."""
    return f"{scope}:{owner_id}"


def split_scope_key(key: str) -> tuple[Scope, str]:
    """Return scope and owner of a scope key.

    Raises:
        InvalidInputError: if the text is no scope key.
    """
    scope, _, owner = key.partition(":")
    if scope in get_args(Scope) and owner:
        return cast("Scope", scope), owner
    raise InvalidInputError("scope_key: write it as user:ana, group:harbor, session:ID or agent:NAME")


#: Default role: the agent that talks with people.
SUPERVISOR: Final = "supervisor"


class Identity(BaseModel, metaclass=OwnNames):
    """Agent, user, groups, session, role and actor of one run, as plain JSON from the host.

    It is the `context_schema` of every graph, and the only authority on the memories that a run may see.

    Args:
        agent_id: the agent; each agent has a memory of its own.
        user_id: the user that the run is for; None for work that belongs to no user.
        group_ids: groups of the user, whose shared memories the run sees.
        session_id: the conversation, such as the id of its thread; a run that stores messages needs one.
        role: role of the agent, which limits the categories that the run may read.
        actor_id: person or program that the history names; None for the user.
        members: other users of this session who belong to its groups; memories may be shared with the group by their
            sentences.
        teaches_agent: whether sentences of this user may be shared with all users: for operators, and the assistant of
            one person.
        timezone: IANA name of the user's time zone, for times without an offset and for the current day; None for the
            setting.

    Raises:
        InvalidInputError: if an id cannot be used, or a field is unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    agent_id: HostId
    user_id: HostId | None = None
    group_ids: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)] = ()
    session_id: HostId | None = None
    role: HostId = SUPERVISOR
    actor_id: HostId | None = None
    members: Annotated[tuple[HostId, ...], Field(max_length=MAX_MEMBERS)] = ()
    teaches_agent: StrictBool = False
    timezone: ZoneName | None = None

    if not TYPE_CHECKING:  # type checkers keep the signature of the fields

        def __init__(self, **fields: Any) -> None:
            # LangGraph builds the context of a run from a dict this way too
            require_known_fields(fields)
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise InvalidInputError(first_problem(error)) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the identity with other values, after the checks of a new one."""
        return type(self)(**{**self.model_dump(), **(update or {})})

    def may_speak_for(self, scope: Scope) -> frozenset[str | None]:
        """Return the users whose sentences may be shared with a group, or with all users."""
        users: set[str | None] = set()
        if scope == "group":
            users.update(self.members)
        if self.user_id:
            users.add(self.user_id)
        return frozenset(users)

    @property
    def actor(self) -> str:
        """The named actor, else the user, else the agent itself."""
        return self.actor_id or self.user_id or self.agent_id

    @property
    def scope_keys(self) -> tuple[str, ...]:
        """Every scope key that this identity may read and write, the widest scope first."""
        keys = [scope_key("agent", self.agent_id)]
        keys += [scope_key("group", group) for group in self.group_ids]
        if self.user_id:
            keys.append(scope_key("user", self.user_id))
        if self.session_id:
            keys.append(scope_key("session", self.session_id))
        return tuple(keys)


def require_known_fields(names: Iterable[object]) -> None:
    """Refuse a field that an identity does not have: a misspelt one would select other memories.

    Raises:
        InvalidInputError: if a field is unknown; the message names the nearest one.
    """
    for name in names:
        if name not in Identity.model_fields:
            unknown = field_name(name if isinstance(name, str) else "")
            note = "; a context that has more is an object, such as a dataclass"
            hint = suggestion(unknown, Identity.model_fields, note=note)
            raise InvalidInputError(f"{unknown}: an identity has no field of this name{hint}")


def to_identity(context: object) -> Identity:
    """Return the identity of a context.

    A mapping may have the fields of an identity only. Any other object may have further attributes, since a graph that
    is a node of another graph gets the context object of its host.

    Raises:
        MissingIdentityError: if there is no context, or no agent in it.
        InvalidInputError: if an id cannot be used, or a mapping has an unknown key.
    """
    if isinstance(context, Identity):
        return context
    if isinstance(context, Mapping):
        fields = validate(dict[Any, Any], context, strict=False)
    else:
        fields = {name: getattr(context, name, None) for name in Identity.model_fields}
    if fields.get("agent_id") is None:
        raise MissingIdentityError
    require_known_fields(fields)
    return Identity(**{name: value for name, value in fields.items() if value is not None})


#: An identity as callers pass it; a validated argument is an `Identity`.
AnyIdentity = Annotated[Identity, BeforeValidator(to_identity)]


class TypedText(Protocol):
    """Text of a memory with the sentence that it rests on."""

    @property
    def content(self) -> str:
        """Text of the memory."""

    @property
    def said(self) -> str | None:
        """Whole sentence that a member typed and that the memory rests on; None if unknown."""


class Attributable(TypedText, Protocol):
    """Text of a memory with its origin."""

    @property
    def scope_key(self) -> str:
        """Scope key that the memory belongs to."""

    @property
    def author(self) -> str | None:
        """User id of the author; None for a memory that several people contributed to."""


class Attribution(NamedTuple):
    """Author of a shared memory as its reader sees it."""

    author: str
    #: Typed sentence; None if the reader wrote it, if the text repeats it, or if it is unknown.
    said: str | None = None


def attribution_for(reader: str | None, memory: Attributable) -> Attribution | None:
    """Return the attribution that this user sees, or None for a memory that is not shared or has no single author."""
    if memory.author is None or not is_shared(memory.scope_key):
        return None
    if memory.author == reader:
        return Attribution(memory.author)
    return Attribution(memory.author, distinct_sentence(memory))


def distinct_sentence(memory: TypedText) -> str | None:
    """Return the typed sentence of a memory, or None if it is unknown or if the text repeats it."""
    if memory.said is None or memory.said.split() == memory.content.split():
        return None
    return memory.said


def is_shared(scope_key: str) -> bool:
    """Whether several people read the memories of the scope key."""
    return split_scope_key(scope_key)[0] in ("group", "agent")
