"""What is not needed is not imported: a second of start-up and 200 MB."""

import subprocess
import sys

import pytest

from tests.support.matrix import few_first

HEAVY = ("langchain_openai", "openai", "onnxruntime", "numpy", "tokenizers", "tiktoken")
#: What reading the categories, the command line and the offline model need.
LATER = ("yaml", "typer", "mnemic.models.offline", "mnemic.service", "mnemic.storage.embedded")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "module",
    ["mnemic.models.steps", "mnemic.models.chat", "mnemic.models.run_step", "mnemic.models.embedders"],
)
def test_importing_the_models_room_imports_no_model_package(module: str) -> None:
    assert loaded_by(module, HEAVY) == ""


@pytest.mark.parametrize("module", few_first(["mnemic.graphs.recall", "mnemic.graphs.formation"], 1))
def test_importing_a_graph_imports_nothing_that_only_opening_or_a_model_needs(module: str) -> None:
    assert loaded_by(module, (*HEAVY, *LATER)) == ""


def test_the_check_sees_what_is_imported() -> None:
    assert loaded_by("mnemic.policy.plain_yaml", LATER) == "yaml"


def loaded_by(module: str, names: tuple[str, ...]) -> str:
    code = f"import sys, {module}; print(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
