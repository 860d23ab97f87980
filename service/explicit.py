"""What an application has remembered and forgotten on purpose, as methods of `Mnemic`."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from mnemic.operations.explicit.forget import forget
from mnemic.operations.explicit.remember import remember
from mnemic.operations.explicit.remember_procedure import remember_procedure
from mnemic.operations.run.identity import to_identity
from mnemic.operations.run.resources import Resources
from mnemic.service.asked import MEMORY_ID, PROCEDURE, REMEMBER
from mnemic.state.checking import checked
from mnemic.state.explicit import ExplicitScope, Remembered
from mnemic.state.identity import Identity


class ExplicitWrites:
    """The tools `remember`, `remember_procedure` and `forget` as methods; the text is the caller's own word."""

    _resources: Resources

    async def remember(
        self,
        identity: Identity,
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
        who = to_identity(identity)
        asked = {
            "content": content,
            "category": category,
            "kind": kind,
            "importance": importance,
            "scope": scope,
            "private": private,
        }
        return await remember(self._resources, who, checked(REMEMBER, asked, strict=None))

    async def remember_procedure(
        self, identity: Identity, title: str, steps: Sequence[str], *, scope: ExplicitScope = "user"
    ) -> Remembered:
        """Stores how something is done: a title and numbered steps, found where the category `procedural` is asked for.

        Raises:
            CategoryRefusedError: the role has no allowlist.
            InvalidInputError: a title or steps that say nothing, more than 20 steps, or a value that cannot be used.
            EmbeddingError: it could not be embedded; nothing was written.
        """
        who = to_identity(identity)
        asked = {"title": title, "steps": steps, "scope": scope}
        return await remember_procedure(self._resources, who, checked(PROCEDURE, asked, strict=None))

    async def forget(self, identity: Identity, memory_id: UUID | str) -> bool:
        """Soft-deletes a memory of the identity's user or session, which can be undone; False where it lived no more.

        Raises:
            InvalidInputError: no such memory for this identity's role, or no id.
            NotForgottenError: it is protected, shared, or a consolidation, or the session has forgotten enough today.
            CategoryRefusedError: the role has no allowlist.
        """
        who = to_identity(identity)
        return await forget(self._resources, who, checked(MEMORY_ID, memory_id, strict=None))
