# Start with `make demo` and `make test`; `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BENCH := .venv-bench
BIN := $(VENV)/bin
export COFILL_CACHE ?= $(CURDIR)/.cache
PIP := -m pip install --quiet --disable-pip-version-check
# Every process would compile all modules anew where they may not be kept compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-full lint types imports format bench results lines docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

demo: $(VENV)/.run ## complete the tables of three hospitals and say where the result is
	@$(BIN)/cofill demo --out demo

test: $(VENV)/.test ## the gate: format, lint, types, import rules, tests
	@# Types are checked beside the rest, which leaves a core idle now and then.
	@nice $(BIN)/basedpyright --level error >$(VENV)/types.txt 2>&1 & types=$$!; \
	$(MAKE) --no-print-directory lint imports || { kill $$types; exit 1; }; \
	$(BIN)/pytest -n 2 -m "not full" $(PYTEST_ARGS); tests=$$?; \
	wait $$types || { cat $(VENV)/types.txt; exit 1; }; exit $$tests

test-full: $(VENV)/.test $(VENV)/.docs lint types imports ## the gate and the long checks
	@$(BIN)/pytest -n 2

lint: $(VENV)/.test ## formatting and lint
	@$(BIN)/ruff format --check --quiet . || { echo "run 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet .

types: $(VENV)/.test ## static types
	@$(BIN)/basedpyright --level error

imports: $(VENV)/.test ## the layers of the design
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

format: $(VENV)/.test ## rewrite the code in the project's format
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

bench: $(BENCH)/.bench ## compare with other libraries; records go to results/
	@$(BENCH)/bin/python -m bench

results: $(VENV)/.test ## put the figures of results/ and tables from the code into README.md and docs/
	@$(BIN)/python -m bench.results

lines: ## lines of Python per package of the core, most first
	@for part in src/cofill/*; do case $$part in *__pycache__|*py.typed) continue;; esac; \
	  printf '%6d %s\n' $$(find $$part -name '*.py' -exec cat {} + | wc -l) $${part#src/cofill/}; \
	done | sort -rn
	@printf '%6d in all\n' $$(find src/cofill -name '*.py' -exec cat {} + | wc -l)

docs: $(VENV)/.docs ## the documentation, in docs/_build/html; warnings are errors
	@$(BIN)/python docs/_ext/pictures.py
	@$(BIN)/sphinx-build -W --keep-going --quiet -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean: ## remove environments, caches and the demo's output
	rm -rf $(VENV) $(BENCH) .cache demo docs/_build .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "cofill needs Python 3.11 or newer, and '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>&1 || echo missing); name another one: make PYTHON=python3.12 ..."; exit 2; }
	@echo "making the environment in $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) --upgrade 'pip>=25.1'

$(VENV)/.run: pyproject.toml papers/pyproject.toml | $(VENV)/bin/python
	@echo "installing cofill (once)"
	@$(BIN)/python $(PIP) --editable '.[sql]' --editable papers
	@touch $@

$(VENV)/.test: pyproject.toml papers/pyproject.toml | $(VENV)/bin/python
	@echo "installing cofill and the test tools (once)"
	@# Modules are compiled when first used: tests use fewer than half of them.
	@$(BIN)/python $(PIP) --no-compile --editable '.[sql,network,psi]' --editable papers --group test
	@touch $@ $(VENV)/.run

$(VENV)/.docs: pyproject.toml papers/pyproject.toml | $(VENV)/bin/python
	@echo "installing cofill and what builds its documentation (once)"
	@$(BIN)/python $(PIP) --editable '.[sql,network,psi]' --editable papers --group docs
	@touch $@ $(VENV)/.run

$(BENCH)/.bench: pyproject.toml papers/pyproject.toml bench/requirements.txt
	@echo "making the bench's environment in $(BENCH) (once)"
	@test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python $(PIP) --upgrade 'pip>=25.1'
	@$(BENCH)/bin/python $(PIP) --requirement bench/requirements.txt
	@$(BENCH)/bin/python $(PIP) --editable '.[sql]' --editable papers
	@touch $@
