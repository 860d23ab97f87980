"""What an application does with the memory on purpose: remembers, asks as a role may, corrects, forgets.

`.venv/bin/python -m mnemic.examples.explicit` needs no key.
"""

import asyncio

from mnemic import Identity, Mnemic


async def main() -> None:
    """Store, find, correct and forget a goal; a wish stays, for the roles that may read preferences."""
    async with Mnemic.open() as memory:
        ana = Identity(agent_id="example-explicit", user_id="ana", session_id="monday")
        await memory.remember(ana, "Ana wants short answers.", category="preferences")

        await memory.remember(ana, "Ana sails to Ryd in May.", category="goals")
        results = await memory.query(ana, "Ryd", categories=["goals"], filters={"importance_min": 3}, budget_tokens=200)
        await memory.correct(ana, results[0].id, "Ana sails to Ryd in June.")
        for goal in await memory.query(ana, "Ryd", categories=["goals"]):
            await memory.forget(ana, goal.id)

        print(f"found, and forgotten: {results[0].content}")
        for role in ("supervisor", "planner", "stylist"):
            rows = await memory.query(ana.model_copy(update={"role": role}), "Ana")
            print(f"{role}: {' '.join(row.content for row in rows) or 'nothing'}")


if __name__ == "__main__":
    asyncio.run(main())
