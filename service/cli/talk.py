"""One conversation with the supervisor at a terminal, turn by turn, and formation beside it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, Self, TypeVar
from uuid import UUID

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command, Interrupt

from mnemic.operations.messages.transcript import spoken
from mnemic.policy.categories import OWNER
from mnemic.policy.text.hygiene import clean_text, says_nothing
from mnemic.service.cli.chat_view import ChatView
from mnemic.service.cli.lines import Lines
from mnemic.service.cli.outcome import Formed, losses
from mnemic.service.memory import Mnemic
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.settings import OFFLINE, Tier
from mnemic.state.supervisor import Question

Result = TypeVar("Result")

QUIT: Final = "/quit"
_FORGET: Final = "forget it? [y/N] "
_YES: Final = frozenset({"y", "yes"})
_FORMING: Final[tuple[Tier, ...]] = ("fast", "slow")


class Talk:
    """A session of one person with one agent."""

    def __init__(self, memory: Mnemic, who: Identity) -> None:
        self._memory = memory
        self._who = who
        #: What becomes of the memory is the person's own view.
        self._person = who.model_copy(update={"role": OWNER})
        self._graph = memory.supervisor(memory.checkpointer(who))
        self._view = ChatView()
        self._lines = Lines()
        #: What Ctrl-C does now.
        self._stop: Callable[[], object] = self._lines.end
        self._revision: int | None = None
        self._is_said = asyncio.Event()
        #: Leaving waits for what is being formed.
        self._forming = asyncio.Lock()
        #: Rules take no time: what they form is shown before the next line is asked for.
        self._at_once = all(memory.settings.model_for(tier) == OFFLINE for tier in _FORMING)

    @classmethod
    @asynccontextmanager
    async def begin(cls, memory: Mnemic, who: Identity) -> AsyncIterator[Self]:
        """The conversation; leaving the block forms what is left of it."""
        talk = cls(memory, who)
        await talk._look()
        with _interrupts(lambda: talk._stop()):
            beside = asyncio.create_task(talk._form_beside())
            try:
                yield talk
                await talk._stoppable(talk._form())
            finally:
                beside.cancel()
                with suppress(asyncio.CancelledError):
                    await beside

    async def hold(self) -> None:
        """Line by line until the end. A question that an earlier process left open comes first."""
        standing = await self._graph.aget_state(self._memory.thread(self._who))
        if standing.interrupts:
            await self._turn(await self._consent(standing.interrupts))
        while (line := await self._line()) is not None and line != QUIT:
            if not says_nothing(line):
                await self._turn({"messages": [HumanMessage(line)]})

    async def _line(self) -> str | None:
        self._view.ask()
        line = await self._lines.next()
        self._view.heard()
        return None if line is None else clean_text(line)

    async def _turn(self, given: Any) -> None:
        """One turn, with all that it asks; then what was said is formed."""
        while asked := await self._stoppable(self._answered(given)):
            given = await self._consent(asked)
        if asked is None:
            await self._keep_said()
        if self._at_once:
            await self._stoppable(self._form())
        else:
            await self._look()
            self._is_said.set()

    async def _answered(self, given: Any) -> Sequence[Interrupt] | None:
        """Shows the answer as it comes; what the turn asks before it goes on. None: it failed."""
        asked: list[Interrupt] = []
        stream: AsyncIterator[Any] = self._graph.astream(
            given, self._memory.thread(self._who), context=self._who, stream_mode=["messages", "custom", "updates"]
        )
        try:
            async for mode, part in stream:
                if mode == "updates":
                    asked += part.get("__interrupt__", ())
                elif mode == "custom":
                    self._view.progress(part)
                elif isinstance(part[0], AIMessage):
                    self._view.piece(part[0].text)
        except MnemicError as error:
            self._view.tell(f"mnemic: {error}")
            return None
        finally:
            self._view.close()
        return asked

    async def _keep_said(self) -> None:
        """Stores what was said in a turn that did not come to its end, where that is done."""
        try:
            thread = await self._graph.aget_state(self._memory.thread(self._who))
            await self._memory.observe(self._who, spoken(thread.values.get("messages", [])))
        except MnemicError as error:
            self._view.tell(f"mnemic: {error}")

    async def _consent(self, asked: Sequence[Interrupt]) -> Command[Any]:
        questions: list[Question] = [question for one in asked for question in one.value["memories"]]
        told = [f"{one['kind']}, importance {one['importance']}: {await self._words(one['id'])}" for one in questions]
        self._view.tell(*told)
        if not self._view.watched:
            self._view.tell("it is kept: only at a terminal somebody can be asked")
            return Command(resume={"approved": False})
        self._view.ask(_FORGET)
        line = await self._lines.next()
        self._view.heard()
        return Command(resume={"approved": (line or "").strip().lower() in _YES})

    async def _words(self, memory_id: str) -> str:
        events = await self._memory.history(self._person, UUID(memory_id))
        return next((event.after for event in reversed(events) if event.after), "")

    async def _form_beside(self) -> None:
        while await self._is_said.wait():
            self._is_said.clear()
            await self._form()

    async def _form(self) -> None:
        async with self._forming:
            try:
                formed = Formed(await self._memory.form(self._who))
            except MnemicError as error:
                self._view.tell(f"mnemic: {error}")
            else:
                self._view.notes(losses(formed.refused, formed.unaccounted))
        await self._look()

    async def _look(self) -> None:
        """Shows what became of memories since the last look."""
        try:
            news = await self._memory.updates(self._person, self._revision)
        except MnemicError as error:
            self._view.tell(f"mnemic: {error}")
            return
        self._revision = news.revision
        self._view.updates(news.bullets)

    async def _stoppable(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """The work's result; None where Ctrl-C ended it."""
        task = asyncio.create_task(work)
        self._stop = task.cancel
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current and current.cancelling():
                task.cancel()
                raise
            self._view.tell("stopped")
            return None
        finally:
            self._stop = self._lines.end


@contextmanager
def _interrupts(act: Callable[[], object]) -> Iterator[None]:
    """Meanwhile Ctrl-C does this."""
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
