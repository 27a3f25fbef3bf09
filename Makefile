# Everything runs from a fresh checkout with Python 3.11, make and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= auto
JOINT ?= .venv-joint
JOINT_READY := $(JOINT)/.ready
# Secure computation pins older libraries: its tests run in the environment `make joint` makes.
export SHERD_JOINT_PYTHON ?= $(if $(wildcard $(JOINT_READY)),$(abspath $(JOINT)/bin/python))

# Only the parts whose coverage has a floor are traced: tracing all doubles the tests' time.
COVER := --cov=sherd.guarantees --cov=sherd.budget --cov=sherd.methods

.DEFAULT_GOAL := help
CHAOS ?= 3600
CHAOS_SEED ?= 1
.PHONY: chaos fuzz image-check help setup wheel joint demo demo-joint test test-all reproduce lint bench docs lock clean

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /: /'

$(READY): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sherd needs Python 3.11 or newer; set PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m sherd.methods.compile_ahead
	@touch $@

setup: $(READY) ## the virtual environment with everything in it

$(JOINT_READY): requirements/joint.lock
	$(PYTHON) -m venv $(JOINT)
	$(JOINT)/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/joint.lock
	@touch $@

wheel: $(READY) ## the package in dist/, its kernels compiled ahead
	$(BIN)/python -m sherd.methods.compile_ahead
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist .

joint: $(JOINT_READY) ## the environment for secure computation (Python 3.11 only)

demo: $(READY) ## set up everything and run the main job
	$(BIN)/sherd demo

demo-joint: $(READY) $(JOINT_READY) ## parties without an aggregator (Python 3.11 only)
	SHERD_JOINT_PYTHON=$(abspath $(JOINT)/bin/python) $(BIN)/sherd demo --joint -o out/demo-joint

test: $(READY) lint ## set up everything and pass the tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" $(COVER) --cov-report= --cov-report=json
	$(BIN)/python tests/coverage_floor.py
	$(MAKE) reproduce

# The budget of time is 10 minutes on 2 cores; it needs about 250 s of processor time.
reproduce: $(READY) ## the papers' experiments in short; fails when a verdict changes unrecorded
	timeout 600 $(BIN)/sherd reproduce --quick -o out/reproduce

test-all: $(READY) lint ## the slow and the exhaustive tests too
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

chaos: $(READY) ## an hour of faults in joint rounds (CHAOS=seconds, CHAOS_SEED=number)
	SHERD_CHAOS_SECONDS=$(CHAOS) SHERD_CHAOS_SEED=$(CHAOS_SEED) \
	  $(BIN)/python -m pytest -q -s tests/federation/test_chaos.py

FUZZ ?= 1000000
FUZZ_VENV := .venv-fuzz
FUZZ_READY := $(FUZZ_VENV)/.ready
$(FUZZ_READY): requirements/fuzz.txt $(READY)
	$(PYTHON) -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/dev.lock
	$(FUZZ_VENV)/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/fuzz.txt
	@touch $@

fuzz: $(FUZZ_READY) ## a million inputs for every parser of foreign bytes (FUZZ=number)
	mkdir -p out && rm -rf out/fuzz && cp -r tests/fuzz_corpus out/fuzz
	PYTHONPATH=src $(FUZZ_VENV)/bin/python tests/support/fuzzing.py out/fuzz $(FUZZ) out/fuzz.json

image-check: $(READY) ## the image of deploy/, built and run (as root; buildah, podman, debootstrap)
	$(BIN)/python -m pytest -q tests/federation/test_image.py

lint: $(READY) ## types, style and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY) ## speed and memory beside peers, in one run; writes benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

docs: $(READY) ## the documentation as HTML in docs/_build
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build
	@echo docs/_build/index.html

lock: $(READY) ## lock the development dependencies again
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" \
	  --extra all --group dev -o requirements/dev.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" \
	  --extra joint -o requirements/joint.lock pyproject.toml
	cp requirements/dev.lock requirements/image.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" \
	  --extra federation --extra sql --group image -o requirements/image.lock pyproject.toml
	for peer in anjana anonymeter dpmm opendp pycanon sdmetrics; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" \
	  benchmarks/peers/$$peer.in -o benchmarks/peers/$$peer.txt || exit; done

clean: ## remove what was built
	rm -rf $(VENV) $(JOINT) .venv-* out docs/_build dist build .mypy_cache .ruff_cache .pytest_cache
