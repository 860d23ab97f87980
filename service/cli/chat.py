"""`mnemic chat`: the supervisor in the terminal turn by turn, with formation beside it."""

import asyncio
import io
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID, uuid4

import typer
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command, Interrupt
from rich.text import Text

from mnemic.memory.runtime.categories import OWNER
from mnemic.memory.runtime.transcript import dialogue
from mnemic.memory.text.shape import clean_text, is_blank, visible
from mnemic.models.chat import OFFLINE_LABEL
from mnemic.prompts.attribution import signature
from mnemic.service.cli.form import losses
from mnemic.service.cli.options import Agent, Groups, User, identity
from mnemic.service.cli.terminal import command_line, plain, say
from mnemic.service.cli.waiting import waiting_shown
from mnemic.service.memory import Mnemic
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.model_settings import OFFLINE
from mnemic.state.query import Sign
from mnemic.state.supervisor import Question

Result = TypeVar("Result")
Conversation = Annotated[
    str | None, typer.Option("--session", help="Go on with this conversation; default: a new one.")
]

QUIT: Final = "/quit"
PROMPT: Final = "you> "
#: Nobody types so much, and no line fills the memory.
MAX_LINE_BYTES: Final = 1 << 20
#: What became of a memory, in the person's words.
_WORDS: Final[dict[Sign, str]] = {"+created": "+ remembered", "~soft-deleted": "~ forgotten"}


async def chat(agent: Agent, user: User, group: Groups = None, session: Conversation = None) -> None:
    """Talk with an agent that remembers. /quit, or the end of input, ends it; Ctrl-C stops an answer.

    What you say is formed after each turn, and what becomes of the memory is shown as it happens.
    """
    new = f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
    who = identity(agent, user, group, new if session is None else session)
    async with Mnemic.open() as memory:
        model = (await memory.admin.agent_settings(who)).model_for("agent")
        say(f"{memory.admin.describe()}; answers: {OFFLINE_LABEL if model == OFFLINE else model}")
        if session is None:
            go_on = command_line("chat", agent=agent, user=user, group=who.group_ids, session=new)
            say(f"to go on with this conversation later: {go_on}")
        await ChatSession(memory, who).run()


class ChatSession:
    """A session of one person with one agent."""

    def __init__(self, memory: Mnemic, who: Identity) -> None:
        self._memory = memory
        self._who = who
        #: What becomes of the memory is the person's own view.
        self._person = who.model_copy(update={"role": OWNER})
        self._graph = memory.graphs.supervisor(memory.threads.checkpointer(who))
        self._terminal = ChatTerminal()
        #: What Ctrl-C does now.
        self._on_interrupt: Callable[[], object] = self._terminal.end_input
        self._revision: int | None = None
        self._is_formation_due = asyncio.Event()
        #: Why nothing could be formed, as it was last told.
        self._told: str | None = None
        #: Leaving waits for what is being formed.
        self._forming = asyncio.Lock()
        #: Rules take no time: what they form is shown before the next line is asked for.
        self._forms_at_once = memory.settings.model_for("fast") == memory.settings.model_for("slow") == OFFLINE

    async def run(self) -> None:
        """Line by line until the end; then what is left of the conversation is formed."""
        await self._show_updates()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        background = asyncio.create_task(self._form_in_background())
        try:
            async with waiting_shown(self._memory, self._terminal.show_aside):
                await self._talk()
                await self._interruptible(self._form())
        finally:
            background.cancel()
            with suppress(asyncio.CancelledError):
                await background
            loop.remove_signal_handler(signal.SIGINT)

    async def _talk(self) -> None:
        """Turn by turn. A question that an earlier process left open comes first."""
        thread = await self._graph.aget_state(self._memory.threads.config(self._who))
        if thread.interrupts:
            await self._turn(await self._ask_consent(thread.interrupts))
        while (line := await self._terminal.ask()) is not None and (text := clean_text(line)) != QUIT:
            if not is_blank(text):
                await self._turn({"messages": [HumanMessage(text)]})

    async def _turn(self, turn_input: Any) -> None:
        """One turn, with all that it asks; then what was said is formed."""
        while interrupts := await self._interruptible(self._answer(turn_input)):
            turn_input = await self._ask_consent(interrupts)
        if interrupts is None:
            with self._shown_errors():  # what was said in a turn that failed is stored all the same
                thread = await self._graph.aget_state(self._memory.threads.config(self._who))
                await self._memory.observe(self._who, dialogue(thread.values.get("messages", [])))
        if self._forms_at_once:
            await self._interruptible(self._form())
        else:
            await self._show_updates()
            self._is_formation_due.set()

    async def _answer(self, turn_input: Any) -> Sequence[Interrupt] | None:
        """Shows the answer as it comes; what the turn asks before it goes on. None: it failed."""
        interrupts, done = list[Interrupt](), False
        stream: AsyncIterator[Any] = self._graph.astream(
            turn_input,
            self._memory.threads.config(self._who),
            context=self._who,
            stream_mode=["messages", "custom", "updates"],
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
            done = True
        return interrupts if done else None

    async def _ask_consent(self, interrupts: Sequence[Interrupt]) -> Command[Any]:
        questions: list[Question] = [question for item in interrupts for question in item.value["memories"]]
        for question in questions:
            events = await self._memory.history.events(self._person, UUID(question["id"]))
            content = next((event.after for event in reversed(events) if event.after), "")
            notes = [f"{question['kind']}, importance {question['importance']}: {content}"]
            self._terminal.show_notes([*notes, *([f"→ {question['content']}"] if "content" in question else [])])
        if not self._terminal.is_watched:
            self._terminal.show_notes(["it is kept: only at a terminal somebody can be asked"])
            return Command(resume={"approved": False})
        line = await self._terminal.ask(f"{interrupts[0].value['action']} it? [y/N] ")
        return Command(resume={"approved": (line or "").strip().lower() in ("y", "yes")})

    async def _form_in_background(self) -> None:
        while await self._is_formation_due.wait():
            self._is_formation_due.clear()
            await self._form()

    async def _form(self) -> None:
        async with self._forming:
            with self._shown_errors(unless=self._told) as problems:
                runs = await self._memory.form(self._who)
                self._terminal.show_notes(losses(runs))
            self._told = problems[0] if problems else None
        await self._show_updates()

    async def _show_updates(self) -> None:
        """Shows what became of memories since the last look."""
        with self._shown_errors():
            updates = await self._memory.history.updates(self._person, self._revision)
            self._revision = updates.revision
            lines = []
            for bullet in updates.bullets:
                notes = f" (notes: {bullet.combined})" if bullet.combined else ""
                what = _WORDS.get(bullet.sign) or f"{bullet.sign[0]} {bullet.sign[1:]}"
                lines.append(f"{what}{notes}: {bullet.summary}{signature(bullet.attribution)}")
            self._terminal.show_notes(lines)

    @contextmanager
    def _shown_errors(self, unless: str | None = None) -> Iterator[list[str]]:
        """An error ends the block, is shown unless it reads like this, and stands in the list; the talk goes on."""
        problems = list[str]()
        try:
            yield problems
        except MnemicError as error:
            problems.append(str(error))
            if problems[0] != unless:
                self._terminal.show_notes([f"mnemic: {error}"])

    async def _interruptible(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """The work's result; None where Ctrl-C ended it."""
        task = asyncio.create_task(work)
        self._on_interrupt = task.cancel
        await asyncio.wait([task])
        self._on_interrupt = self._terminal.end_input
        if not task.cancelled():
            return task.result()
        self._terminal.show_notes(["stopped"])
        return None


class ChatTerminal:
    """The terminal, or a pipe, where nothing asks for input. All but the answer goes to standard error."""

    def __init__(self) -> None:
        #: Whether somebody types.
        self.is_watched = sys.stdin is not None and sys.stdin.isatty()
        #: Whether the answer's last line is still open.
        self._is_open = False
        self._prompt = ""
        self._loop = asyncio.get_running_loop()
        #: What was typed; None: nothing more comes.
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        # neither a terminal nor a file may be read otherwise, and a thread that waits must not keep the process
        threading.Thread(target=self._read_all, daemon=True).start()

    async def ask(self, prompt: str = PROMPT) -> str | None:
        """The next line, asked for at a terminal; None: there are no more."""
        self.end_line()
        self._prompt = prompt if self.is_watched else ""
        typer.echo(self._prompt, nl=False, err=True)
        line = await self._lines.get()
        self._prompt = ""
        if line is None:
            self.end_input()  # and so it stays
        return line

    def end_input(self) -> None:
        """Nothing more is wanted."""
        self._lines.put_nowait(None)

    def show_piece(self, text: str) -> None:
        """The next piece of the answer."""
        shown = visible(text)
        typer.echo(shown, nl=False)
        self._is_open = not shown.endswith("\n") if shown else self._is_open

    def show_notes(self, lines: Sequence[str]) -> None:
        """Lines beside the conversation, if there are any; where somebody is being asked, the prompt comes again."""
        if not lines:
            return
        self.end_line()
        if self._prompt:
            sys.stderr.write("\n")
        for line in lines:
            say(Text("  ") + plain(line, "dim"))
        typer.echo(self._prompt, nl=False, err=True)

    def show_aside(self, line: str) -> None:
        """A line that does not interrupt an answer."""
        if not self._is_open:
            self.show_notes([line])

    def end_line(self) -> None:
        """What follows begins on a line of its own."""
        if self._is_open:
            self.show_piece("\n")

    def _read_all(self) -> None:
        # without Python's buffer: whoever waits in it when the process ends makes that end a crash
        source: Any = sys.stdin and getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        rest = b""
        with suppress(RuntimeError):  # the chat is over
            while piece := source and _read(source):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._put(line[:MAX_LINE_BYTES].decode(errors="replace"))
                rest = rest[:MAX_LINE_BYTES]
            if rest:
                self._put(rest.decode(errors="replace"))
            self._put(None)

    def _put(self, line: str | None) -> None:
        self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _read(source: io.RawIOBase) -> bytes:
    """The next piece; what cannot be read, such as a terminal that is gone, is at its end."""
    with suppress(OSError):
        while (piece := source.read(65_536)) is None:  # whoever shares the terminal has set it not to block
            select.select([source], [], [])
        return piece
    return b""
