# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything runs in .venv, which make builds from $(PYTHON) and pip's configured index. A second run is instant.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
T ?= tests
# Processes that run tests.
WORKERS ?= 2
# The fastest build of the reference that is here.
BEST := $(firstword $(wildcard .reference/native .reference/haswell))

.DEFAULT_GOAL := help
.PHONY: help serve test quick check bench performance reference gate docs clean

help: ## Print the targets.
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo '  PYTHON=python3.12 chooses the interpreter; ARGS="--ctx 2048" goes to serve and bench model, ARGS=--resume to gate, ARGS=--page to performance; T=tests/text to test.'

serve: $(VENV)/.run ## Fetch the default model once, check it, and answer over HTTP.
	$(BIN)/bankml pull
	$(BIN)/bankml serve $(ARGS)

test: $(VENV)/.test ## Run the tests; the real model is fetched once.
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(T)

quick: $(VENV)/.test ## Run the tests that need no model: under a minute once the kernels are compiled.
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m "not model and not every_kernel and not long" $(T)

check: $(VENV)/.check ## Lint, types, shell syntax, licence headers, docs in step, imports one way.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	for script in .ci/run testing/*.sh; do sh -n $$script || exit 1; done
	$(BIN)/python scripts/check_headers.py
	$(BIN)/python scripts/check_imports.py
	$(BIN)/python scripts/check_places.py
	$(BIN)/python scripts/check_words.py
	$(BIN)/python scripts/check_english.py
	$(BIN)/python scripts/command_help.py --check
	$(BIN)/python scripts/key_table.py --check
	$(BIN)/python -m testing.performance --check

bench: $(VENV)/.run ## Measure speed; against the reference where `make reference` was run.
	$(BIN)/bankml bench model $(addprefix --reference ,$(BEST)) $(ARGS)
	$(BIN)/bankml bench start $(addprefix --reference ,$(BEST))

performance: $(VENV)/.test ## Measure all that docs/performance.md states, in one run on one commit, and write its tables.
	$(BIN)/python -m testing.performance $(ARGS)

reference: $(VENV)/.run ## Build llama.cpp b11192, which oracles and benchmarks ask, into .reference/.
	VENV_PYTHON=$(BIN)/python testing/build_reference.sh

gate: $(VENV)/.test $(VENV)/.check ## The release gate: checks, tests, fresh oracles, benchmarks, a report.
	VENV=$(VENV) testing/release_gate.sh $(ARGS)

docs: $(VENV)/.check ## Write docs/commands.md and docs/keys.md from the code.
	$(BIN)/python scripts/command_help.py
	$(BIN)/python scripts/key_table.py

clean: ## Remove .venv and every cache; models and the reference stay.
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.reference/*' -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: bankml needs Python 3.11 or newer; PYTHON=python3.12 names another than '$(PYTHON)'" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "make: '$(PYTHON) -m venv' failed; on Debian and Ubuntu it needs the package python3-venv" >&2; exit 1; }
	@touch $@

# The version is read from bankml/__init__.py, so a new one is installed again.
$(VENV)/.run: $(VENV)/.made pyproject.toml bankml/__init__.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/.check: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[check]'
	@touch $@
