"""What an application has remembered and forgotten on purpose, as methods of `Mnemic`."""

from collections.abc import Sequence
from typing import Literal

from mnemic.operations.explicit.forget import forget
from mnemic.operations.explicit.remember import remember
from mnemic.operations.explicit.remember_procedure import remember_procedure
from mnemic.operations.run.resources import Resources
from mnemic.state.checking import AnyId, check_arguments, to_uuid, validate
from mnemic.state.explicit import ExplicitScope, ProcedureRequest, Remembered, RememberRequest
from mnemic.state.identity import AnyIdentity


class ExplicitWrites:
    """The tools `remember`, `remember_procedure` and `forget` as methods; the text is the caller's own word."""

    _resources: Resources

    @check_arguments
    async def remember(
        self,
        identity: AnyIdentity,
        content: str,
        *,
        category: str,
        kind: Literal["fact", "core"] = "fact",
        importance: int = 3,
        scope: ExplicitScope = "user",
        private: bool = False,
    ) -> Remembered:
        """Stores one fact, or one commitment that is always in context, or names the memory that says the same.

        Args:
            identity: whose memory it is; its role's allowlist holds.
            content: one complete sentence in the third person; a fact has at most 30 words.
            category: one that the role reads and formation may choose from.
            kind: `fact` is searched, `core` stands in every prompt.
            importance: 1 trivial to 5 vital.
            scope: wider than the user only where nothing personal and no order stands in it, from importance 3 on; else
                it is the user's own. The answer says whose it became.
            private: said in confidence: it is never shared.

        Raises:
            CategoryRefusedError: the role may not write into this category.
            InvalidInputError: the content is not written as a memory has to be, or a value cannot be used.
            EmbeddingError: it could not be embedded; nothing was written.
        """
        request = {
            "content": content,
            "category": category,
            "kind": kind,
            "importance": importance,
            "scope": scope,
            "private": private,
        }
        return await remember(self._resources, identity, validate(RememberRequest, request, strict=None))

    @check_arguments
    async def remember_procedure(
        self, identity: AnyIdentity, title: str, steps: Sequence[str], *, scope: ExplicitScope = "user"
    ) -> Remembered:
        """Stores how something is done: a title and numbered steps, found where the category `procedural` is asked for.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: a title or steps that say nothing, more than 20 steps, or a value that cannot be used.
            EmbeddingError: it could not be embedded; nothing was written.
        """
        request = validate(ProcedureRequest, {"title": title, "steps": steps, "scope": scope}, strict=None)
        return await remember_procedure(self._resources, identity, request)

    @check_arguments
    async def forget(self, identity: AnyIdentity, memory_id: AnyId) -> bool:
        """Soft-deletes a memory of the identity's user or session, which can be undone; False where it lived no more.

        Raises:
            InvalidInputError: no such memory for this identity's role, or no id.
            NotForgottenError: it is protected, shared, or a consolidation, or the session has forgotten enough today.
            CategoryRefusedError: the role has no allowlist.
        """
        return await forget(self._resources, identity, to_uuid(memory_id))
