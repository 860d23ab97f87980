"""The command `init`, and the lines of `mnemic doctor --models`."""

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

from mnemic.models.chat import require_provider
from mnemic.models.trial import Tried, try_models
from mnemic.service.cli.terminal import exit_if_wrong, plain, say, show, table
from mnemic.state.errors import ConfigurationError, InvalidInputError
from mnemic.state.files import open_private
from mnemic.state.settings import Settings

MARKS: Final = {True: Text("ok", "green"), False: Text("BROKEN", "red")}
#: File in the current directory that every command reads; the environment precedes it.
ENV_FILE: Final = Path(".env")
_CHOICE: Final = "set MNEMIC_STRUCTURED_OUTPUT="

Named = Annotated[str | None, typer.Option("--model", help="Model of all tiers: openai:gpt-5-mini, or `offline`.")]
Url = Annotated[str | None, typer.Option("--base-url", help="OpenAI-compatible server. Default: the provider's.")]
ApiKey = Annotated[str | None, typer.Option("--api-key", help="Key for OpenAI or such a server; prompted if missing.")]
Vectors = Annotated[str | None, typer.Option("--embedder", help="minilm, or openai:MODEL. Default: minilm.")]
Dsn = Annotated[str | None, typer.Option("--database-url", help="Database server. Default: the embedded one.")]
File = Annotated[Path, typer.Option("--file", help="File for the settings.")]
Force = Annotated[bool, typer.Option("--force", help="Update an existing file; its other lines stay.")]


async def init(
    model: Named = None,
    base_url: Url = None,
    api_key: ApiKey = None,
    embedder: Vectors = None,
    database_url: Dsn = None,
    file: File = ENV_FILE,
    force: Force = False,
) -> None:
    """Write a `.env` for a model, and try it; a terminal prompts for missing values."""
    if file.exists() and not force:
        raise InvalidInputError(f"{file} exists: --force updates it, --file selects another")
    if sys.stdin.isatty() and model is None:
        say("Nothing is sent before the check at the end. Return selects the value in brackets.")
        model = _prompted_model()
        if _is_openai(model):
            base_url = base_url or _prompted("base URL, for your own server", "")
        if api_key is None and _is_openai(model):
            api_key = typer.prompt("API key", default="", show_default=False, hide_input=True, err=True)
        embedder = embedder or _prompted("embedder, minilm or openai:name", "minilm")
    if model is None:
        raise InvalidInputError("--model is missing: set it to a model such as openai:gpt-5-mini, or to `offline`")
    require_provider("--model", model)
    values = {
        **{f"{tier}_model": model for tier in ("fast", "slow", "agent")},
        "base_url": base_url or None,
        "api_key": api_key or None,
        "embedder": embedder or "minilm",
        "database_url": database_url,
    }
    chosen: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    trials = [trial async for trial in try_models(Settings(**chosen))]  # wrong settings are refused before the file
    if method := _working_method(trials):
        chosen["structured_output"] = method
        trials = [trial async for trial in try_models(Settings(**chosen))]
    answered = [trial.ok for trial in trials if trial.name.startswith(model)]  # none for the offline rules
    if answered and not any(answered):
        show(*trial_lines(trials))
        exit_if_wrong(True, f"{file} is not written, since no request to {model} succeeded: correct the values")
    _write(file, chosen)
    show(*trial_lines(trials), plain(f"{file} is written; commands in this directory read it"))
    exit_if_wrong(not all(trial.ok for trial in trials), "a check is BROKEN: correct the file")
    say("to talk with an agent that remembers: mnemic chat --agent guide --user you")


def _working_method(trials: Sequence[Tried]) -> str | None:
    """Return the method of structured output that worked in place of the configured one."""
    for trial in trials:
        if trial.note.startswith(_CHOICE):
            return trial.note.removeprefix(_CHOICE)
    return None


def trial_lines(trials: Sequence[Tried]) -> Sequence[RenderableType]:
    """Return a line for each call: result, duration, tokens, cost and remedy."""
    rows: list[Sequence[object]] = []
    for trial in trials:
        tokens = cost = ""
        if trial.input_tokens:
            tokens = f"{trial.input_tokens} + {trial.output_tokens} tokens"
        if trial.cost is not None:
            cost = f"{trial.cost:.5f} USD"
        rows.append((MARKS[trial.ok], trial.name, f"{trial.seconds:.1f} s", tokens, cost, trial.note))
    return table(rows)


def _is_openai(model: str) -> bool:
    return model.startswith("openai:")


def _prompted_model() -> str:
    """Return the name of a model whose provider is known and installed; prompt again otherwise."""
    while True:
        model = _prompted("model, provider:name or offline", "openai:gpt-5-mini")
        try:
            require_provider("the model", model)
        except ConfigurationError as error:
            say(str(error))
            continue
        return model


def _prompted(question: str, default: str) -> str:
    answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True)
    return answer.strip()


def _write(file: Path, values: dict[str, Any]) -> None:
    try:
        os.close(open_private(file))  # set_key keeps the mode
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be written: {error.strerror}") from None
    for name, value in values.items():
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        set_key(file, f"MNEMIC_{name.upper()}", text)


#: Commands of this module, in the order of `mnemic --help`.
COMMANDS = (init,)
