"""Who a run belongs to. The host application gives it; a model never does."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, cast, get_args

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

from mnemic.state.checking import field_name, first_problem, validate
from mnemic.state.errors import InvalidInputError, MissingIdentityError
from mnemic.state.times import ZoneName

Scope = Literal["session", "user", "group", "agent"]

#: Agent and scope key stand in every tuple of the covering index, beside a vector of 2 KiB; together 2,704 bytes.
MAX_ID_BYTES = 128
#: Each group brings a standing text of up to 500 words into every prompt: 64 of them are 32,000 words.
MAX_GROUPS = 64
#: Nobody talks with more people at once; a whole company need not be listed for those who speak.
MAX_MEMBERS = 1000


def _clean_id(value: str) -> str:
    if not value.strip() or value != value.strip() or not value.isprintable() or len(value.encode()) > MAX_ID_BYTES:
        raise ValueError(f"an id is printable text of at most {MAX_ID_BYTES} bytes without white space at its ends")
    return value


#: Kept as it is: who normalised ids would make one person of two.
HostId = Annotated[StrictStr, AfterValidator(_clean_id)]


_PLAIN_ID = re.compile(r"[^\W\d_]+(?:[._-][^\W\d_]+)*")
#: A uuid, or a run of hexadecimal digits as databases and hashes make them.
_OPAQUE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]*\d)[0-9a-f]{16,}", re.IGNORECASE)
#: From so many characters on, half of them digits, an id is made for machines; `ana2` and `marit1987` are not.
_OPAQUE_CHARS = 8
_SHOWN_CHARS = 8


def display_name(author: str) -> str:
    """`Mara` for `mara`, `Mara Lopes` for `mara.lopes`, `User 3f2a9c1e` for an opaque id; all else as it is."""
    if author.islower() and _PLAIN_ID.fullmatch(author):
        return " ".join(part[0].upper() + part[1:] for part in re.split(r"[._-]", author))
    digits = sum(char.isdigit() for char in author)
    is_made = len(author) >= _OPAQUE_CHARS and 2 * digits >= len(author) and " " not in author
    return f"User {author[:_SHOWN_CHARS]}" if is_made or _OPAQUE.fullmatch(author) else author


def scope_key(scope: Scope, owner_id: str) -> str:
    """The text form of a scope and its owner, such as `user:ana`."""
    return f"{scope}:{owner_id}"


def split_scope_key(key: str) -> tuple[Scope, str]:
    """Scope and owner of a scope key.

    Raises:
        InvalidInputError: the text is not a scope key.
    """
    scope, _, owner = key.partition(":")
    if scope in get_args(Scope) and owner:
        return cast("Scope", scope), owner
    raise InvalidInputError("a scope key is written as 'user:ana' or 'group:harbor'; this is none")


#: The role that talks with people, which is that of an identity that names none.
SUPERVISOR: Final = "supervisor"


class Identity(BaseModel):
    """Agent, user, groups, session, asking role and actor of one run: plain JSON, given by the host.

    It is the `context_schema` of every graph, and the only authority on which memories a run may see.

    Raises:
        InvalidInputError: an id cannot be used, or a field is unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    agent_id: HostId
    user_id: HostId | None = None
    group_ids: Annotated[tuple[HostId, ...], Field(max_length=MAX_GROUPS)] = ()
    session_id: HostId | None = None
    role: HostId = SUPERVISOR
    actor_id: HostId | None = None
    #: Who else in this session belongs to its groups: what they type may become the group's, as what the user types.
    members: Annotated[tuple[HostId, ...], Field(max_length=MAX_MEMBERS)] = ()
    #: Whether what this user types may become everybody's: for operators, and an assistant of one person.
    teaches_agent: StrictBool = False
    #: Time zone of the user, for times without an offset and for the current day. None: the setting.
    timezone: ZoneName | None = None

    if not TYPE_CHECKING:  # type checkers keep the fields' own signature

        def __init__(self, **fields: Any) -> None:
            # LangGraph makes a run's context of a dict this way too
            require_known_fields(fields)
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise InvalidInputError(first_problem(error)) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The identity with other values, which are checked as those of a new one are."""
        return type(self)(**{**self.model_dump(), **(update or {})})

    def may_speak_for(self, scope: Scope) -> frozenset[str | None]:
        """Whose typed words may become the group's or everybody's."""
        members = self.members if scope == "group" else ()
        return frozenset([self.user_id, *members] if self.user_id else members)

    @property
    def actor(self) -> str:
        """Who acts: the named actor, else the user, else the agent itself."""
        return self.actor_id or self.user_id or self.agent_id

    @property
    def scope_keys(self) -> tuple[str, ...]:
        """Every scope key this identity may read and write, the widest scope first."""
        keys = [scope_key("agent", self.agent_id)]
        keys += [scope_key("group", group) for group in self.group_ids]
        if self.user_id:
            keys.append(scope_key("user", self.user_id))
        if self.session_id:
            keys.append(scope_key("session", self.session_id))
        return tuple(keys)


def require_known_fields(names: Iterable[object]) -> None:
    """Refuse a field that an identity does not have; a misspelt one would change whose memory a run uses.

    Raises:
        InvalidInputError: names the field and the nearest right one.
    """
    for name in names:
        if name not in Identity.model_fields:
            shown = field_name(name) if isinstance(name, str) else "an unknown field"
            raise InvalidInputError(f"{shown}: an identity has no such field{_hint(shown)}")


def _hint(unknown: str) -> str:
    nearest = get_close_matches(unknown, Identity.model_fields, n=1)
    if nearest:
        return f"; did you mean {nearest[0]}?"
    return f", only {', '.join(Identity.model_fields)}; a context that has more is an object, such as a dataclass"


def to_identity(context: object) -> Identity:
    """Return the identity that a context stands for.

    A mapping is an identity and nothing else. A graph used as a node of another one gets that host's context object as
    it is, so any object that has the identity's fields among others will do.

    Raises:
        MissingIdentityError: no context, or one without an agent.
        InvalidInputError: an id in it cannot be used, or a mapping has an unknown key.
    """
    if isinstance(context, Identity):
        return context
    if isinstance(context, Mapping):
        given = validate(dict[Any, Any], context, strict=False)
    else:
        given = {name: getattr(context, name, None) for name in Identity.model_fields}
    if given.get("agent_id") is None:
        raise MissingIdentityError
    require_known_fields(given)
    return Identity(**{name: value for name, value in given.items() if value is not None})


#: The identity as a caller of `Mnemic` gives it, for functions under `check_arguments`; they get an `Identity`.
AnyIdentity = Annotated[Identity, BeforeValidator(to_identity)]
