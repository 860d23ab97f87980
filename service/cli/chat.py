"""The command `chat`: the supervisor in the terminal, with formation in the background."""

import asyncio
import io
import re
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
from mnemic.prompts.conversation import signature
from mnemic.service.cli.form import losses
from mnemic.service.cli.options import Agent, Groups, PersonOptions, User
from mnemic.service.cli.terminal import command_line, exit_if_wrong, plain, say
from mnemic.service.cli.waiting import waiting_shown
from mnemic.service.memory import Mnemic
from mnemic.state.errors import MnemicError
from mnemic.state.identity import Identity
from mnemic.state.model_settings import OFFLINE
from mnemic.state.query import Sign
from mnemic.state.supervisor import Question

Result = TypeVar("Result")
Conversation = Annotated[str | None, typer.Option("--session", help="Session to continue. Default: a new one.")]

#: Lines that end the conversation, and lines that explain it; none of them is a message.
_QUIT: Final = frozenset({"/quit", "/exit", "/q", "quit", "exit"})
_HELP: Final = frozenset({"/help", "/?"})
_COMMAND: Final = re.compile("/[a-z?]+")
_HELP_LINES: Final = (
    "every line is a message to the agent, except: /quit or exit ends the conversation, /help shows this",
    "Ctrl-C stops an answer; without one it ends the conversation",
    "memories are formed after each turn; `mnemic memories` lists them, `mnemic forget` removes one",
)
PROMPT: Final = "you> "
#: Limit that keeps a long line from filling the memory.
MAX_LINE_BYTES: Final = 1 << 20
#: Changes of memories, in words for the person.
_WORDS: Final[dict[Sign, str]] = {"+created": "+ remembered", "~soft-deleted": "~ forgotten"}


async def chat(agent: Agent, user: User, group: Groups = None, session: Conversation = None) -> None:
    """Talk with an agent that remembers. /help lists the commands; Ctrl-C stops an answer.

    Memories are formed after each turn, and their changes are shown. The exit code is 1 if no message got an answer.
    """
    session_id = session
    if session_id is None:
        session_id = f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:4]}"
    identity = PersonOptions(agent=agent, user=user, group=group, session=session_id).identity()
    async with Mnemic.open() as memory:
        model = (await memory.admin.agent_settings(identity)).model_for("agent")
        say(f"{memory.admin.describe()}; answers: {model if model != OFFLINE else OFFLINE_LABEL}")
        if session is None:
            again = command_line("chat", agent=agent, user=user, group=identity.group_ids, session=session_id)
            say(f"to continue this conversation later: {again}")
        chat_session = ChatSession(memory, identity)
        await chat_session.run()
    exit_if_wrong(chat_session.has_no_answer, "no message got an answer; the notes above name the reason")


class ChatSession:
    """A session of one person with one agent."""

    def __init__(self, memory: Mnemic, identity: Identity) -> None:
        self._memory = memory
        self._identity = identity
        #: Identity with the person's own view, for changes of memories.
        self._person = identity.model_copy(update={"role": OWNER})
        self._graph = memory.graphs.supervisor(memory.threads.checkpointer(identity))
        self._terminal = ChatTerminal()
        #: Handler of Ctrl-C.
        self._on_interrupt: Callable[[], object] = self._terminal.end_input
        self._revision: int | None = None
        #: Whether `/quit` was the answer to a question.
        self._is_over = False
        #: Number of turns, and of answers.
        self._turns = self._answers = 0
        self._is_formation_due = asyncio.Event()
        #: Last shown error of a formation.
        self._shown_error: str | None = None
        #: Lock of the running formation, which the end of the session waits for.
        self._forming = asyncio.Lock()
        #: Whether the offline rules form memories; they are fast enough to finish before the next prompt.
        self._forms_at_once = memory.settings.model_for("fast") == memory.settings.model_for("slow") == OFFLINE

    async def run(self) -> None:
        """Talk until the end of input, then form the rest of the conversation."""
        await self._show_updates()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
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

    @property
    def has_no_answer(self) -> bool:
        """Whether there were turns, and each of them ended with an error or was stopped."""
        return self._turns > 0 and not self._answers

    def _interrupt(self) -> None:
        """Call the present handler of Ctrl-C; it changes while an answer runs."""
        self._on_interrupt()

    async def _talk(self) -> None:
        """Answer each line, after an open question of an earlier process."""
        thread = await self._graph.aget_state(self._memory.threads.config(self._identity))
        if thread.interrupts:
            await self._turn(await self._ask_consent(thread.interrupts))
        while not self._is_over and (line := await self._terminal.ask()) is not None:
            text = clean_text(line)
            command = text.strip().lower()
            if command in _QUIT:
                return
            if _COMMAND.fullmatch(command):
                self._terminal.show_notes(_HELP_LINES if command in _HELP else [f"there is no {command}; see /help"])
            elif not is_blank(text):
                await self._turn({"messages": [HumanMessage(text)]})

    async def _turn(self, turn_input: Any) -> None:
        """Answer one turn with its questions, then form its messages."""
        self._turns += 1
        while interrupts := await self._interruptible(self._answer(turn_input)):
            turn_input = await self._ask_consent(interrupts)
        if interrupts is None:
            with self._shown_errors():  # the messages of a failed turn are stored too
                thread = await self._graph.aget_state(self._memory.threads.config(self._identity))
                await self._memory.observe(self._identity, dialogue(thread.values.get("messages", [])))
        if self._forms_at_once:
            await self._interruptible(self._form())
        else:
            await self._show_updates()
            self._is_formation_due.set()

    async def _answer(self, turn_input: Any) -> Sequence[Interrupt] | None:
        """Show the answer as it streams; return the questions of the turn, or None if it failed."""
        interrupts = list[Interrupt]()
        stream: AsyncIterator[Any] = self._graph.astream(
            turn_input,
            self._memory.threads.config(self._identity),
            context=self._identity,
            stream_mode=["messages", "custom", "updates"],
        )
        with self._shown_errors():
            async for mode, part in stream:
                if mode == "updates":
                    interrupts += part.get("__interrupt__", ())
                elif mode == "custom":
                    if tools := part.get("tools"):  # other steps need no note
                        self._terminal.show_notes([f"· {', '.join(dict.fromkeys(tools))}"])
                elif isinstance(part[0], AIMessage):
                    self._terminal.show_piece(part[0].text)
            self._answers += 1
            return interrupts  # after an error the block has no result

    async def _ask_consent(self, interrupts: Sequence[Interrupt]) -> Command[Any]:
        questions: list[Question] = []
        for interrupt in interrupts:
            questions.extend(interrupt.value["memories"])
        for question in questions:
            events = await self._memory.history.events(self._person, UUID(question["id"]))
            content = next((event.after for event in reversed(events) if event.after), "")
            notes = [f"{question['kind']}, importance {question['importance']}: {content}"]
            if "content" in question:
                notes.append(f"→ {question['content']}")
            self._terminal.show_notes(notes)
        if not self._terminal.is_watched:
            self._terminal.show_notes(["it is kept: a confirmation needs a terminal"])
            return Command(resume={"approved": False})
        line = await self._terminal.ask(f"{interrupts[0].value['action']} it? [y/N] ")
        answer = (line or "").strip().lower()
        self._is_over = answer in _QUIT
        return Command(resume={"approved": answer in ("y", "yes")})

    async def _form_in_background(self) -> None:
        while await self._is_formation_due.wait():
            self._is_formation_due.clear()
            await self._form()

    async def _form(self) -> None:
        async with self._forming:
            with self._shown_errors(unless=self._shown_error) as problems:
                runs = await self._memory.form(self._identity)
                self._terminal.show_notes(losses(runs))
            self._shown_error = next(iter(problems), None)
        await self._show_updates()

    async def _show_updates(self) -> None:
        """Show the changes of memories since the last call."""
        with self._shown_errors():
            updates = await self._memory.history.updates(self._person, self._revision)
            self._revision = updates.revision
            lines: list[str] = []
            for bullet in updates.bullets:
                change = _WORDS.get(bullet.sign) or f"{bullet.sign[0]} {bullet.sign[1:]}"
                if bullet.combined:
                    change += f" (notes: {bullet.combined})"
                lines.append(f"{change}: {bullet.summary}{signature(bullet.attribution)}")
            self._terminal.show_notes(lines)

    @contextmanager
    def _shown_errors(self, unless: str | None = None) -> Iterator[list[str]]:
        """Show an error that ends the block, and add it to the list; the conversation continues.

        Args:
            unless: message that is not shown again.
        """
        problems = list[str]()
        try:
            yield problems
        except MnemicError as error:
            problems.append(str(error))
            if problems[0] != unless:
                self._terminal.show_notes([f"mnemic: {error}"])

    async def _interruptible(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Return the result of the work, or None if Ctrl-C stopped it."""
        task = asyncio.create_task(work)
        self._on_interrupt = task.cancel
        await asyncio.wait([task])
        self._on_interrupt = self._terminal.end_input
        if not task.cancelled():
            return task.result()
        self._terminal.show_notes(["stopped"])
        return None


class ChatTerminal:
    """The terminal, or a pipe without prompts. Answers go to standard output, everything else to standard error."""

    def __init__(self) -> None:
        #: Whether standard input is a terminal.
        self.is_watched = sys.stdin is not None and sys.stdin.isatty()
        #: Whether the last line of the answer has no end yet.
        self._is_open = False
        self._prompt = ""
        self._loop = asyncio.get_running_loop()
        #: Typed lines; None for the end of input.
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        # asyncio cannot read a terminal or a file; a daemon thread does not keep the process alive
        threading.Thread(target=self._read_all, daemon=True).start()

    async def ask(self, prompt: str = PROMPT) -> str | None:
        """Return the next line, after a prompt at a terminal; None at the end of input."""
        self.end_line()
        if self.is_watched:
            self._prompt = prompt
        typer.echo(self._prompt, nl=False, err=True)
        line = await self._lines.get()
        self._prompt = ""
        if line is None:
            self.end_input()  # the next call returns None too
        return line

    def end_input(self) -> None:
        """End the input."""
        self._lines.put_nowait(None)

    def show_piece(self, text: str) -> None:
        """Print the next piece of the answer."""
        shown = visible(text)
        typer.echo(shown, nl=False)
        if shown:
            self._is_open = not shown.endswith("\n")

    def show_notes(self, lines: Sequence[str]) -> None:
        """Print notes between the lines of the conversation; an open prompt is repeated."""
        if not lines:
            return
        self.end_line()
        if self._prompt:
            sys.stderr.write("\n")
        for line in lines:
            say(Text("  ") + plain(line, "dim"))
        typer.echo(self._prompt, nl=False, err=True)

    def show_aside(self, line: str) -> None:
        """Print a note, unless it would interrupt an answer."""
        if not self._is_open:
            self.show_notes([line])

    def end_line(self) -> None:
        """End the open line of an answer."""
        if self._is_open:
            self.show_piece("\n")

    def _read_all(self) -> None:
        # without Python's buffer: a thread that waits in it would crash the end of the process
        source: Any = sys.stdin and getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        rest = b""
        with suppress(RuntimeError):  # the event loop is closed
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
    """Return the next piece of input; nothing at its end, or if it cannot be read any more."""
    with suppress(OSError):
        while (piece := source.read(65_536)) is None:  # another program set the terminal to non-blocking
            select.select([source], [], [])
        return piece
    return b""


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (chat,)
