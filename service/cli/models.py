"""`mnemic init`, and what `mnemic doctor --models` prints: whether the models that are set can be used."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from dotenv import set_key
from pydantic import SecretStr
from rich.console import RenderableType
from rich.text import Text

from mnemic.models.trial import Tried, try_models
from mnemic.service.cli.terminal import exit_if_wrong, plain, say, show, table
from mnemic.state.errors import InvalidInputError
from mnemic.state.files import open_private
from mnemic.state.settings import Settings

MARKS: Final = {True: Text("ok", "green"), False: Text("BROKEN", "red")}
#: Read by every command, if it stands where the command is run; the environment beats it.
ENV_FILE: Final = Path(".env")
_CHOICE: Final = "set MNEMIC_STRUCTURED_OUTPUT="

Named = Annotated[str | None, typer.Option("--model", help="For all tiers, such as openai:gpt-5-mini, or `offline`.")]
Url = Annotated[str | None, typer.Option("--base-url", help="Of an OpenAI-compatible server; default: the provider's.")]
ApiKey = Annotated[str | None, typer.Option("--api-key", help="For OpenAI or such a server; asked for if not given.")]
Vectors = Annotated[str | None, typer.Option("--embedder", help="minilm, or openai:MODEL; default: minilm.")]
Dsn = Annotated[str | None, typer.Option("--database-url", help="Of a server of yours; default: the embedded one.")]
File = Annotated[Path, typer.Option("--file", help="Where the settings go.")]
Force = Annotated[bool, typer.Option("--force", help="Also into a file that is there; its other lines stay.")]


async def init(
    model: Named = None,
    base_url: Url = None,
    api_key: ApiKey = None,
    embedder: Vectors = None,
    database_url: Dsn = None,
    file: File = ENV_FILE,
    force: Force = False,
) -> None:
    """Write a `.env` for a model of your own, and try it; at a terminal, what is not given is asked for."""
    if file.exists() and not force:
        raise InvalidInputError(f"{file} is there: --force writes into it, --file names another")
    if sys.stdin.isatty() and model is None:
        say("Nothing is sent anywhere before the check at the end. Return takes what stands in brackets.")
        model = _asked("model, provider:name or offline", "openai:gpt-5-mini")
        base_url = base_url or (_asked("base URL, for a server of your own", "") if _is_openai(model) else None)
        if api_key is None and _is_openai(model):
            api_key = typer.prompt("API key", default="", show_default=False, hide_input=True, err=True)
        embedder = embedder or _asked("embedder, minilm or openai:name", "minilm")
    if model is None:
        raise InvalidInputError("--model names the model, such as openai:gpt-5-mini, or `offline`")
    found = {
        **{f"{tier}_model": model for tier in ("fast", "slow", "agent")},
        "base_url": base_url or None,
        "api_key": api_key or None,
        "embedder": embedder or "minilm",
        "database_url": database_url,
    }
    given: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    settings = Settings(**given)  # what cannot be is refused before anything is written
    tried = [one async for one in try_models(settings)]
    if method := next((one.note.removeprefix(_CHOICE) for one in tried if one.note.startswith(_CHOICE)), None):
        given["structured_output"] = method
        settings = Settings(**given)
        tried = [one async for one in try_models(settings)]
    _write(file, given)
    show(*trial_lines(tried), plain(f"{file} is written; every command that is run beside it reads it"))
    exit_if_wrong(not all(one.ok for one in tried), "what is BROKEN above has to be mended: correct the file")
    say("to talk with an agent that remembers: mnemic chat --agent guide --user you")


def trial_lines(tried: Sequence[Tried]) -> Sequence[RenderableType]:
    """A line for each call: whether it worked, how long it took, what it cost, what to set."""
    rows = []
    for one in tried:
        tokens = f"{one.input_tokens} + {one.output_tokens} tokens" if one.input_tokens else ""
        cost = "" if one.cost is None else f"{one.cost:.5f} USD"
        rows.append((MARKS[one.ok], one.name, f"{one.seconds:.1f} s", tokens, cost, one.note))
    return table(rows)


def _is_openai(model: str) -> bool:
    return model.startswith("openai:")


def _asked(question: str, default: str) -> str:
    answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True)
    return answer.strip()


def _write(file: Path, given: dict[str, Any]) -> None:
    try:
        os.close(open_private(file))  # set_key keeps the mode
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be written: {error.strerror}") from None
    for name, value in given.items():
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        set_key(file, f"MNEMIC_{name.upper()}", text)
