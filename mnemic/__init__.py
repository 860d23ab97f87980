"""Long-term memory for LangGraph agents, on Postgres.

Open a memory, and name the user of each run by an `Identity`:

    from mnemic import Identity, Mnemic

    async with Mnemic.open() as memory:
        ana = Identity(agent_id="guide", user_id="ana", session_id="thread-1")
        await memory.remember(ana, "Ana lives in Porto.", category="profile")
        print(await memory.query(ana, "Where does Ana live?"))

`help(Mnemic)` lists the methods, and `dir(mnemic)` the public names.
"""

import ast
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"

_here = Path(__file__).resolve().parent
# in a checkout, load the folders of the repository and not the links to them: breakpoints have those paths
if (_here / "graphs").is_symlink():
    __path__.insert(0, str(_here.parent))


def _read_homes() -> dict[str, str]:
    """Return the module of each public name, from the imports that type checkers read."""
    homes: dict[str, str] = {}
    for statement in ast.parse((_here / "__init__.pyi").read_bytes()).body:
        if isinstance(statement, ast.ImportFrom):
            homes.update({imported.name: str(statement.module) for imported in statement.names})
    return homes


_HOMES = _read_homes()


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that one folder can be imported without the others."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mnemic' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*_HOMES, *(name for name in globals() if name.startswith("__"))])
