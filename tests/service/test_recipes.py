"""The programs of examples/recipes, which users copy, each in a process of its own on the embedded server."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemic.examples.recipes import script
from tests.support.server import Clone, fast_directory
from tests.support.wheel import ROOT

RECIPES = ROOT / "examples" / "recipes"
MAX_LINES = 60


def test_a_script_remembers(
    clean_db: Clone, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNEMIC_DATABASE_URL", clean_db.service_dsn)
    monkeypatch.setenv("MNEMIC_EMBEDDER", "hash")
    script.main()
    out = capsys.readouterr().out
    assert "Lea is allergic to nuts." in out
    assert "Ghent" in out


def test_each_program_can_be_read_at_once() -> None:
    assert [path.name for path in RECIPES.glob("*.py") if len(path.read_text().splitlines()) > MAX_LINES] == []


@pytest.fixture(scope="module")
def environment_of_recipes() -> Iterator[dict[str, str]]:
    """A newcomer's environment: no key, no database, and an empty home for the embedded server."""
    directory = fast_directory() / f"mnemic-recipes-{os.getpid()}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MNEMIC_", "OPENAI_"))}
    yield {
        **kept,
        "MNEMIC_DATA_DIR": str(directory),
        "CELERY_FOLDER": str(directory / "celery"),
        "JUPYTER_RUNTIME_DIR": str(directory / "jupyter"),
        "IPYTHONDIR": str(directory / "ipython"),
        "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
    }
    shutil.rmtree(directory, ignore_errors=True)


def run(environment: dict[str, str], code: str) -> str:
    """Run a program that uses a recipe from the checkout, and return its output."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    Path(environment["MNEMIC_DATA_DIR"]).mkdir(exist_ok=True)
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_a_script_runs_on_the_embedded_server(environment_of_recipes: dict[str, str]) -> None:
    assert "nuts" in run(environment_of_recipes, "from mnemic.examples.recipes.script import main; main()")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["notebook", "notebook_async"])
def test_a_notebook_runs_from_its_first_cell_to_its_last(environment_of_recipes: dict[str, str], name: str) -> None:
    code = f"""
        import nbclient, nbformat
        notebook = nbformat.read("examples/recipes/{name}.ipynb", as_version=4)
        nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
        print([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    """
    out = run(environment_of_recipes, code)
    assert "Ghent" in out
    assert "'output_type': 'error'" not in out


@pytest.mark.thorough
def test_a_flask_application_answers_in_many_threads(environment_of_recipes: dict[str, str]) -> None:
    code = """
        from concurrent.futures import ThreadPoolExecutor
        from mnemic import Identity
        from mnemic.examples.recipes import flask_app

        def post(number):
            client, user = flask_app.app.test_client(), {"X-User": f"user-{number}"}
            said = client.post(f"/sessions/{number}/messages", json={"text": "I live in Ghent."}, headers=user)
            flask_app.memory().form(Identity(agent_id="guide", user_id=f"user-{number}", session_id=str(number)))
            return said.status_code, client.get("/memories", headers=user).get_json()

        with ThreadPoolExecutor(8) as threads:
            print(list(threads.map(post, range(8))))
    """
    out = run(environment_of_recipes, code)
    assert out.count("(200, [") == 8
    assert out.count("Ghent") == 8


@pytest.mark.thorough
def test_a_fastapi_application_answers(environment_of_recipes: dict[str, str]) -> None:
    code = """
        from fastapi.testclient import TestClient
        from mnemic import Identity
        from mnemic.examples.recipes.fastapi_app import app

        with TestClient(app, headers={"X-User": "fay"}) as client:
            for number in range(2):
                said = client.post("/sessions/1/messages", json={"text": "I live in Ghent."})
                assert said.status_code == 200, said.text
            fay = Identity(agent_id="guide", user_id="fay", session_id="1")
            client.portal.call(app.state.memory.form, fay)
            print(client.get("/memories").json())
    """
    assert "Ghent" in run(environment_of_recipes, code)


@pytest.mark.thorough
def test_a_streamlit_application_keeps_one_memory_over_its_reruns(environment_of_recipes: dict[str, str]) -> None:
    code = """
        from streamlit.testing.v1 import AppTest

        page = AppTest.from_file("examples/recipes/streamlit_app.py", default_timeout=120).run()
        page.sidebar.text_input[0].set_value("stella").run()
        page.chat_input[0].set_value("I live in Ghent.").run()
        page.sidebar.button[0].click().run()
        assert not page.exception, page.exception
        print([message.avatar for message in page.chat_message])
        print("memories:", [item.value for item in page.sidebar.markdown])
    """
    out = run(environment_of_recipes, code)
    assert "['user', 'assistant']" in out
    assert "Ghent" in out.partition("memories:")[2]


@pytest.mark.thorough
def test_a_celery_worker_opens_its_own_after_the_fork(environment_of_recipes: dict[str, str]) -> None:
    code = """
        from mnemic import Identity, Mnemic
        from mnemic.examples.recipes.celery_tasks import form

        with Mnemic.open_sync(background=False) as memory:
            celia = Identity(agent_id="guide", user_id="celia", session_id="1", role="owner")
            memory.observe(celia, [{"role": "user", "content": "I live in Ghent."}])
            print("formed:", form.delay("celia", "1").get(timeout=200))
            print([item.content for item in memory.memories(celia)])
    """
    app = "mnemic.examples.recipes.celery_tasks"
    Path(environment_of_recipes["MNEMIC_DATA_DIR"]).mkdir(exist_ok=True)
    command = [sys.executable, "-m", "celery", "-A", app, "worker", "--concurrency", "2", "--without-gossip"]
    with subprocess.Popen(command, env=environment_of_recipes, cwd=ROOT, stderr=subprocess.PIPE) as worker:
        try:
            out = run(environment_of_recipes, code)
        finally:
            worker.terminate()
            _, errors = worker.communicate(timeout=60)
    assert "formed: 1" in out, errors
    assert "Ghent" in out


@pytest.mark.thorough
def test_a_program_that_closes_the_memory_at_its_exit_ends(environment_of_recipes: dict[str, str]) -> None:
    code = """
        import atexit
        from contextlib import ExitStack
        from mnemic import Mnemic
        stack = ExitStack()
        memory = stack.enter_context(Mnemic.open_sync())
        atexit.register(lambda: print("closed"))
        atexit.register(stack.close)
    """
    assert "closed" in run(environment_of_recipes, code)
