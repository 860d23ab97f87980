"""Arguments from outside: checked by a function's own annotations, refused by name, never quoted."""

from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AwareDatetime, Field, SkipValidation

from mnemic.state.checking import AnyId, Limit, check_arguments, to_uuid
from mnemic.state.errors import InvalidInputError, MissingIdentityError
from mnemic.state.identity import AnyIdentity, Identity

ANA = Identity(agent_id="harbor", user_id="ana")
ID = "7d2c2f3e-6a51-4a4c-9f3c-1f8a1d7f7a10"
SECRET = "Ana keeps bees"


class Service:
    @check_arguments
    async def search(
        self,
        identity: AnyIdentity,
        text: str,
        *ids: AnyId,
        limit: Limit = 10,
        since: AwareDatetime | None = None,
        force: bool = False,
        kinds: Sequence[Literal["fact", "core"]] = ("fact",),
        messages: SkipValidation[Sequence[str]] = (),
    ) -> dict[str, Any]:
        """Searches."""
        return {**locals(), "ids": [*map(to_uuid, ids)]}

    @check_arguments
    def open(self, size: Annotated[int, Field(le=3)] = 1) -> int:
        return int("no number") if size == 3 else size


SERVICE: Any = Service()


async def test_what_fits_reaches_the_function_as_it_is() -> None:
    given = await SERVICE.search(ANA, "bees", ID, UUID(ID), force=True, messages=[1])
    assert given["identity"] is ANA
    assert given["ids"] == [UUID(ID), UUID(ID)]
    assert (given["limit"], given["force"], given["messages"]) == (10, True, [1])
    assert SERVICE.open(size=2) == 2
    assert Service.search.__doc__ == "Searches."


async def test_any_object_with_the_fields_stands_for_an_identity() -> None:
    context = {"agent_id": "harbor", "user_id": "ana"}
    for stands_for_it in (context, SimpleNamespace(**context, of_the_host=1)):
        assert (await SERVICE.search(stands_for_it, "bees"))["identity"] == ANA
    with pytest.raises(MissingIdentityError):
        await SERVICE.search({}, "bees")


@pytest.mark.parametrize(
    ("key", "hint"),
    [("user", "user_id"), ("session", "session_id"), ("groups", "group_ids"), ("userId", "user_id"), ("host", "only")],
)
async def test_a_misspelt_field_of_an_identity_is_refused_with_the_nearest_one(key: str, hint: str) -> None:
    context: dict[str, Any] = {"agent_id": "harbor", key: "ana"}
    with pytest.raises(InvalidInputError, match=rf"^{key}: .*\b{hint}\b"):
        await SERVICE.search(context, "bees")
    with pytest.raises(InvalidInputError, match=rf"^{key}: .*\b{hint}\b"):
        Identity(**context)


@pytest.mark.parametrize(
    ("argument", "args", "named"),
    [
        ("text", [3], {}),
        ("ids", ["bees", SECRET], {}),
        ("ids", ["bees", 3], {}),
        ("limit", ["bees"], {"limit": 0}),
        ("limit", ["bees"], {"limit": True}),
        ("limit", ["bees"], {"limit": "3"}),
        ("since", ["bees"], {"since": datetime(2026, 3, 2)}),  # noqa: DTZ001 - without a zone on purpose
        ("force", ["bees"], {"force": 1}),
        ("kinds", ["bees"], {"kinds": "fact"}),
        ("kinds", ["bees"], {"kinds": [SECRET]}),
        ("text", [], {}),
        ("an unknown field", ["bees"], {SECRET: 1}),
    ],
)
async def test_what_does_not_fit_is_refused_by_its_name(argument: str, args: list[Any], named: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        await SERVICE.search(ANA, *args, **named)
    assert str(refused.value).startswith(f"{argument}: ")
    assert SECRET not in str(refused.value)


async def test_an_identity_names_its_own_field() -> None:
    with pytest.raises(InvalidInputError, match=r"^user_id: "):
        await SERVICE.search({"agent_id": "harbor", "user_id": " "}, "bees")


def test_an_error_of_the_function_itself_stays_what_it_is() -> None:
    with pytest.raises(InvalidInputError, match=r"^size: "):
        SERVICE.open(4)
    with pytest.raises(ValueError, match="no number"):
        SERVICE.open(3)
