# The two commands to start with: `make demo` and `make test`. Both set up what they need, in .venv and in a cache folder.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
INTEROP := .venv/.ready-interop
COMPILED := .venv/.ready-tests
PYTEST := $(BIN)/python -m pytest
# Most tests wait for servers most of the time: six at once keep two cores busy.
# Who runs what, beside what and for how long, is in tests/harness; a process that dies is replaced.
AT_ONCE ?= 6
SIDE_BY_SIDE := -n $(AT_ONCE) --dist loadgroup --max-worker-restart=100
# `make test BACKEND=valkey`: what there is of stream queues on one server (redis86, redis7, valkey, cluster).
BACKEND ?=
ON_BACKENDS := tests/conformance tests/testing tests/integration tests/acceptance
# `make coverage COVERED=tests/unit`: what these tests cover; the floor is that of all of them.
COVERED ?=
# `make chaos-lake SECONDS=60`: how long.
SECONDS ?= 300
# pyright's program comes with its wheel; without this it asks the network whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without the bytecode kept, each test process would rewrite all tests anew, for half of the time it takes to find them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo up test test-all coverage check types lint format release reference test-unit test-conformance test-interop test-scale test-spark-versions chaos chaos-lake bench bench-growth bench-work bench-spark servers install clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## a queue's life in a minute and a half, in this terminal
	$(BIN)/relevo demo

up: $(READY) ## the whole platform in the foreground; Ctrl-C stops it
	$(BIN)/relevo up

ifeq ($(BACKEND),)
test: lint servers $(INTEROP) $(COMPILED) ## format, lint, types, and all tests, each on some of its servers (11 minutes on two quiet cores)
	@echo "types are checked beside the tests; what pyright finds is said at the end"
	@$(BIN)/pyright >.venv/pyright.log 2>&1 & pyright=$$!; \
	$(PYTEST) $(SIDE_BY_SIDE) --sample; tests=$$?; \
	wait $$pyright || { cat .venv/pyright.log; exit 1; }; tail -n 1 .venv/pyright.log; exit $$tests
else
test: servers
	$(PYTEST) $(SIDE_BY_SIDE) --backend=$(BACKEND) $(ON_BACKENDS)
endif

test-all: check servers $(INTEROP) ## as `make test`, each test on all of its servers and databases
	$(PYTEST) $(SIDE_BY_SIDE) --run-limit=7200

coverage: servers $(INTEROP) ## the share of lines and branches that `make test` runs; fails below the floor in pyproject.toml
	$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(SIDE_BY_SIDE) --sample $(COVERED); tests=$$?; \
	$(BIN)/coverage combine --quiet; $(BIN)/coverage html --quiet --fail-under=0; \
	$(BIN)/coverage report && exit $$tests

check: lint types ## format, lint and types

types: $(READY) ## types
	$(BIN)/pyright

lint: $(READY) ## format and lint, in seconds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(READY) ## put the code in its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reference: $(READY) ## write docs/reference.md, docs/options.md and docs/views.md from the code
	$(BIN)/python -m tests.acceptance.reference
	$(BIN)/python -m tests.acceptance.options_page
	$(BIN)/python -m tests.acceptance.views_page

test-unit: $(READY) ## the fast tests, in a minute
	$(PYTEST) $(SIDE_BY_SIDE) tests/unit

test-conformance: servers ## one suite on every kind of server
	$(PYTEST) $(SIDE_BY_SIDE) tests/conformance

test-interop: servers $(INTEROP) ## with PyPI's chasquimq, both directions
	$(PYTEST) $(SIDE_BY_SIDE) -m interop

test-scale: servers ## many jobs, queues and workers
	$(PYTEST) -m scale --timeout=1800

test-spark-versions: servers ## each version of Spark from 4.0 on, in an environment of its own (downloads them the first time)
	$(PYTEST) -m scale --timeout=1800 tests/spark/connector/test_spark_versions.py

chaos: servers ## kills, pauses and restarts under load
	$(PYTEST) -m chaos --timeout=1800 chaos tests

chaos-lake: servers ## ingest, build, compaction and vacuum at once on one lake, with kills (five minutes; SECONDS=60 for one)
	$(BIN)/python -m chaos.busy_lake --seconds=$(SECONDS)

bench: servers ## measures, rivals side by side (20 minutes on a quiet machine), and writes benchmarks/report.md
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks report

bench-growth: servers ## what a job costs as things grow (10 minutes on a quiet machine)
	$(BIN)/python -m benchmarks growth
	$(BIN)/python -m benchmarks report

bench-work: servers ## work queues over HTTP beside procrastinate, pgqueuer and oban (long: millions of messages), and writes benchmarks/work_report.md
	$(BIN)/python -m benchmarks.work_queues --report

bench-spark: servers ## the data pipeline on Spark beside plain processes (15 minutes on a quiet machine)
	$(BIN)/python -m benchmarks.spark_ingest

release: check ## build the archives, check them, tag the commit; run `make test-all` before it. Pushes nothing
	@$(BIN)/python -m tools.release

servers: $(READY) ## get the servers the tests run on
	@$(BIN)/python -m tests.servers.install

install: $(READY) ## only the virtual environment

clean: ## remove the virtual environment and what runs leave behind
	rm -rf .venv .pytest_cache .hypothesis .ruff_cache .coverage .coverage.* htmlcov build dist data
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp tells that .venv holds what these two files ask for.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) tests/harness/environment.py packages
	@touch $@

# Apart, because chasquimq declares redis<7 and relevo needs redis 8; see requirements-interop.txt.
$(INTEROP): $(READY) requirements-interop.txt
	@$(PYTHON) tests/harness/environment.py interop
	@touch $@

$(COMPILED): $(INTEROP)
	@$(PYTHON) tests/harness/environment.py tests
	@touch $@
