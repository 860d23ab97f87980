"""`mnemic chat` and `mnemic threads`: the supervisor in the terminal turn by turn, with formation beside it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID, uuid4

import typer
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command, Interrupt
from rich.console import RenderableType

from mnemic.models.chat import OFFLINE_LABEL
from mnemic.operations.messages.transcript import spoken
from mnemic.policy.categories import OWNER
from mnemic.policy.text.shape import clean_text, says_nothing
from mnemic.service.cli.chat_terminal import ChatTerminal
from mnemic.service.cli.form import Counts
from mnemic.service.cli.options import Agent, AsJson, Groups, User, identity
from mnemic.service.cli.terminal import command_line, plain, report, say, table
from mnemic.service.memory import Mnemic
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.settings import OFFLINE, Tier
from mnemic.state.supervisor import Question, ThreadStatus

Result = TypeVar("Result")
Conversation = Annotated[
    str | None, typer.Option("--session", help="Go on with this conversation; default: a new one.")
]

QUIT: Final = "/quit"
_FORGET: Final = "forget it? [y/N] "
_YES: Final = frozenset({"y", "yes"})
_FORMING: Final[tuple[Tier, ...]] = ("fast", "slow")
_THREADS: Final = ("last moved (UTC)", "conversation", "began", "steps", "next")


async def chat(agent: Agent, user: User, group: Groups = None, session: Conversation = None) -> None:
    """Talk with an agent that remembers. /quit, or the end of input, ends it; Ctrl-C stops an answer.

    What you say is formed after each turn, and what becomes of the memory is shown as it happens.
    """
    new = f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
    who = identity(agent, user, group, new if session is None else session)
    async with Mnemic.open() as memory:
        model = (await memory.agent_settings(who)).model_for("agent")
        say(f"{memory.describe()}; answers: {OFFLINE_LABEL if model == OFFLINE else model}")
        if session is None:
            go_on = command_line("chat", agent=agent, user=user, group=who.group_ids, session=new)
            say(f"to go on with this conversation later: {go_on}")
        await ChatSession(memory, who).run()


async def threads(agent: Agent, user: User, as_json: AsJson = False) -> None:
    """List the conversations of a person with an agent, the one that moved last first; nothing of what was said."""
    who = identity(agent, user)
    async with Mnemic.open() as memory:
        found = await memory.threads(who)
    report(found, table(map(_row, found), *_THREADS), as_json=as_json, nothing="no conversations")
    if found and not as_json:
        go_on = command_line("chat", agent=agent, user=user, session=found[0].thread_id)
        say(f"to go on with the latest: {go_on}")


def _row(thread: ThreadStatus) -> tuple[RenderableType, ...]:
    times = (thread.updated_at, thread.created_at)
    moved, began = (time.astimezone(UTC).strftime("%Y-%m-%d %H:%M") for time in times)
    steps = "?" if thread.step is None else str(thread.step + 1)  # the first one is -1
    return moved, plain(thread.thread_id), began, steps, plain(", ".join(thread.next))


class ChatSession:
    """A session of one person with one agent."""

    def __init__(self, memory: Mnemic, who: Identity) -> None:
        self._memory = memory
        self._who = who
        #: What becomes of the memory is the person's own view.
        self._person = who.model_copy(update={"role": OWNER})
        self._graph = memory.graphs.supervisor(memory.checkpointer(who))
        self._terminal = ChatTerminal()
        #: What Ctrl-C does now.
        self._on_interrupt: Callable[[], object] = self._terminal.end_input
        self._revision: int | None = None
        self._is_formation_due = asyncio.Event()
        #: Leaving waits for what is being formed.
        self._forming = asyncio.Lock()
        #: Rules take no time: what they form is shown before the next line is asked for.
        self._forms_at_once = all(memory.settings.model_for(tier) == OFFLINE for tier in _FORMING)

    async def run(self) -> None:
        """Line by line until the end; then what is left of the conversation is formed."""
        await self._show_updates()
        loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, lambda: self._on_interrupt())
        background = asyncio.create_task(self._form_in_background())
        try:
            await self._talk()
            await self._interruptible(self._form())
        finally:
            background.cancel()
            with suppress(asyncio.CancelledError):
                await background
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)

    async def _talk(self) -> None:
        """Turn by turn. A question that an earlier process left open comes first."""
        thread = await self._graph.aget_state(self._memory.thread(self._who))
        if thread.interrupts:
            await self._turn(await self._ask_consent(thread.interrupts))
        while (line := await self._terminal.ask()) is not None and (text := clean_text(line)) != QUIT:
            if not says_nothing(text):
                await self._turn({"messages": [HumanMessage(text)]})

    async def _turn(self, turn_input: Any) -> None:
        """One turn, with all that it asks; then what was said is formed."""
        while interrupts := await self._interruptible(self._answer(turn_input)):
            turn_input = await self._ask_consent(interrupts)
        if interrupts is None:
            await self._observe_failed_turn()
        if self._forms_at_once:
            await self._interruptible(self._form())
        else:
            await self._show_updates()
            self._is_formation_due.set()

    async def _answer(self, turn_input: Any) -> Sequence[Interrupt] | None:
        """Shows the answer as it comes; what the turn asks before it goes on. None: it failed."""
        interrupts: list[Interrupt] = []
        stream: AsyncIterator[Any] = self._graph.astream(
            turn_input, self._memory.thread(self._who), context=self._who, stream_mode=["messages", "custom", "updates"]
        )
        with self._shown_errors():
            async for mode, part in stream:
                if mode == "updates":
                    interrupts += part.get("__interrupt__", ())
                elif mode == "custom":
                    if tools := part.get("tools"):  # the other steps show by themselves
                        self._terminal.show_notes([f"· {', '.join(tools)}"])
                elif isinstance(part[0], AIMessage):
                    self._terminal.show_piece(part[0].text)
            return interrupts
        return None

    async def _observe_failed_turn(self) -> None:
        """Stores what was said in a turn that did not come to its end, where that is done."""
        with self._shown_errors():
            thread = await self._graph.aget_state(self._memory.thread(self._who))
            await self._memory.observe(self._who, spoken(thread.values.get("messages", [])))

    async def _ask_consent(self, interrupts: Sequence[Interrupt]) -> Command[Any]:
        questions: list[Question] = [question for item in interrupts for question in item.value["memories"]]
        self._terminal.show_notes([await self._description(question) for question in questions])
        if not self._terminal.is_watched:
            self._terminal.show_notes(["it is kept: only at a terminal somebody can be asked"])
            return Command(resume={"approved": False})
        line = await self._terminal.ask(_FORGET)
        return Command(resume={"approved": (line or "").strip().lower() in _YES})

    async def _description(self, question: Question) -> str:
        events = await self._memory.history(self._person, UUID(question["id"]))
        content = next((event.after for event in reversed(events) if event.after), "")
        return f"{question['kind']}, importance {question['importance']}: {content}"

    async def _form_in_background(self) -> None:
        while await self._is_formation_due.wait():
            self._is_formation_due.clear()
            await self._form()

    async def _form(self) -> None:
        async with self._forming:
            with self._shown_errors():
                runs = await self._memory.form(self._who)
                self._terminal.show_notes(Counts().add(runs).losses())
        await self._show_updates()

    async def _show_updates(self) -> None:
        """Shows what became of memories since the last look."""
        with self._shown_errors():
            updates = await self._memory.updates(self._person, self._revision)
            self._revision = updates.revision
            self._terminal.show_updates(updates.bullets)

    @contextmanager
    def _shown_errors(self) -> Iterator[None]:
        """An error ends the block and is shown; the conversation goes on."""
        try:
            yield
        except MnemicError as error:
            self._terminal.show_notes([f"mnemic: {error}"])

    async def _interruptible(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """The work's result; None where Ctrl-C ended it."""
        task = asyncio.create_task(work)
        self._on_interrupt = task.cancel
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current and current.cancelling():
                task.cancel()
                raise
            self._terminal.show_notes(["stopped"])
            return None
        finally:
            self._on_interrupt = self._terminal.end_input
