# Everything from a clean clone: `make demo` installs into .venv and runs the quickstart, `make help` lists the rest.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# Extra words for pytest, for example: make test PYTEST_ARGS="-n 2 tests/unit"
PYTEST_ARGS ?= -n 2 --dist worksteal
SCENARIO ?= scenarios/quickstart_cpu.yaml

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

PIP_INSTALL := $(BIN)/python -m pip install -qq
# The lock is checked hash by hash; the project itself goes in afterwards, with nothing fetched for it.
INSTALL_LOCKED  := $(PIP_INSTALL) --require-hashes
INSTALL_PROJECT := PYTHONWARNINGS=ignore $(PIP_INSTALL) --no-deps --no-index --no-build-isolation -e .
# Compiling every module of every package would double the planner's install; this compiles what a prediction imports.
COMPILE_PLANNER := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c \
    'import pint, pydantic, rich.table, scipy.optimize, scipy.stats, simpy, typer, yaml'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup planner tpu-compiler demo device-validate test lint types imports pytest format lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	    printf '  make %-9s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.installed-all ## install everything: planner, runtime (JAX), Dask, development tools
planner: $(VENV)/.installed-planner ## install the planner alone: the quickest start, no JAX

tpu-compiler: $(VENV)/.installed-tpu ## install the TPU compiler too (libtpu, Google's terms): `sps compile`, and its tests

demo: setup ## install, then predict and really run a tiny model on this machine's CPU
	$(BIN)/sps run $(SCENARIO)

# The accelerator's own JAX must be installed already: only it knows the device. Records go to docs/validation/DEVICE.
PYTHON_DEVICE ?= $(PYTHON)
device-validate: ## probe, fit and validate on whatever JAX finds; needs the runtime's dependencies alone
	$(PYTHON_DEVICE) benchmarks/device_validate.py --keep docs/validation

test: setup lint types imports pytest ## install, then ruff, mypy, import contracts and the test suite

lint: setup ## ruff: style and likely bugs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy, strict
	$(BIN)/mypy

imports: setup ## who may import whom
	$(BIN)/lint-imports

pytest: setup ## the test suite alone
	$(BIN)/python -m pytest $(PYTEST_ARGS)

format: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "This project needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo 'not installed')." >&2; \
	    echo "Name another one: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON)' cannot make virtual environments; install the venv module (Debian: apt-get install python3-venv)." >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-planner: requirements/planner.lock pyproject.toml | $(BIN)/python
	@echo "Installing the planner into $(VENV)"
	@$(INSTALL_LOCKED) --no-compile -r requirements/planner.lock
	@$(INSTALL_PROJECT)
	@$(COMPILE_PLANNER)
	@touch $@

$(VENV)/.installed-all: requirements/all.lock pyproject.toml | $(BIN)/python
	@echo "Installing planner, runtime, Dask and development tools into $(VENV) (about a minute)"
	@$(INSTALL_LOCKED) -r requirements/all.lock
	@$(INSTALL_PROJECT)
	@touch $(VENV)/.installed-planner $@

$(VENV)/.installed-tpu: requirements/tpu.lock $(VENV)/.installed-all
	@echo "Installing the TPU compiler into $(VENV) (another half gigabyte)"
	@$(INSTALL_LOCKED) -r requirements/tpu.lock
	@touch $@

# The locks name no index, no address and no folder: a machine's own pip settings decide where files come from, the
# hashes decide which files are right. So pip's settings are left out while locking (PIP_INDEX_URL still counts), and
# the oldest Python that we support resolves, since its answers hold for the newer ones too.
# For newer versions: make lock LOCK_ARGS=--upgrade
LOCK_ARGS ?=
PIP_COMPILE = env -u PIP_CONSTRAINT -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
    CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet --no-config --generate-hashes --allow-unsafe \
    --strip-extras --no-emit-options --annotation-style line --newline lf $(LOCK_ARGS)

lock: ## resolve the versions anew (needs Python 3.11; LOCK_ARGS=--upgrade for the newest)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	    echo "Lock with the oldest supported Python: make clean, then make setup PYTHON=python3.11" >&2; exit 1; }
	$(PIP_COMPILE) -c requirements/held.in --extra runtime --extra dask --extra dev \
	    -o requirements/all.lock pyproject.toml requirements/build.in
	$(PIP_COMPILE) -c requirements/all.lock -o requirements/planner.lock pyproject.toml requirements/build.in
	$(PIP_COMPILE) -c requirements/all.lock -c requirements/held.in --extra runtime --extra tpu \
	    -o requirements/tpu.lock pyproject.toml requirements/build.in
	$(PIP_COMPILE) -c requirements/all.lock --extra dask \
	    -o requirements/dask.lock pyproject.toml requirements/build.in

clean: ## remove what was built and installed
	rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
