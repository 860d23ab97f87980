"""What is not needed is not imported: a second of start-up and 200 MB."""

import subprocess
import sys

HEAVY = ("langchain_openai", "openai", "onnxruntime", "numpy", "tokenizers", "tiktoken")
#: What only the categories, the command line, the offline model, a configured model or its tools need.
LATER = (
    *("yaml", "typer", "mnemic.models.offline", "mnemic.service", "mnemic.storage.embedded"),
    *("langchain_core.language_models.chat_models", "langchain_core.tools.base"),
)


def test_importing_the_models_room_imports_no_model_package() -> None:
    assert loaded_by("mnemic.models.structured, mnemic.models.tool_calls, mnemic.models.embedders", HEAVY) == ""


def test_importing_the_graphs_imports_nothing_that_only_opening_or_a_model_needs() -> None:
    assert loaded_by("mnemic.graphs.recall, mnemic.graphs.formation", (*HEAVY, *LATER)) == ""


def test_the_check_sees_what_is_imported() -> None:
    assert loaded_by("mnemic.policy.plain_yaml", LATER) == "yaml"


def loaded_by(modules: str, names: tuple[str, ...]) -> str:
    code = f"import sys, {modules}; print(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
