"""What is not needed is not imported: a second of start-up and 200 MB."""

import subprocess
import sys

import pytest

HEAVY = ("langchain_openai", "openai", "onnxruntime", "numpy", "tokenizers", "tiktoken")


@pytest.mark.parametrize(
    "module",
    ["mnemic.models.steps", "mnemic.models.chat", "mnemic.models.run_step", "mnemic.models.embedders"],
)
def test_importing_the_models_room_imports_no_model_package(module: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
