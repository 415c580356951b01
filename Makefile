# make setup      .venv with the development tools and the calibrator's torch; does nothing the second time
# make demo       a verdict and its figures for a 70B model on 4 H100s over a real trace
# make test       the tests; `make test EXTRAS=dev` leaves torch out, the calibrator's engine tests are then skipped
# make test-slow  the tests that take more than a few seconds
# make bench      speed, as name=value lines (docs/benchmarks.md)
# make golden     rewrites the golden data of the figures and prints what changed
# make lint       ruff and pyright
# make check-provenance  rebuilds the shipped calibrations from kernel tables (fetches their package) and compares bytes;
#                        COST_CURVES=… SPEEDUPS=… also derives the engines' host constants

VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev,calibrate
PYTEST_WORKERS ?= 2
DEMO_SCENARIO ?= scenarios/presets/llama70b_h100_azure.toml
DEMO_OUT ?= out/demo
INSTALL_INPUTS := pyproject.toml constraints.txt

# Files inside .venv, so that removing .venv is all it takes to start over.
BASE_STAMP := $(VENV)/.installed-base
comma := ,
DEV_STAMP := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

.DELETE_ON_ERROR:
.PHONY: setup demo test test-slow bench golden lint check-provenance clean

setup: $(DEV_STAMP)

$(BIN)/python:
	@sh .ci/make_venv.sh $(VENV)

$(BASE_STAMP): $(INSTALL_INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEV_STAMP): $(INSTALL_INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $(BASE_STAMP) $@

demo: $(BASE_STAMP)
	$(BIN)/specdec decide $(DEMO_SCENARIO) --out $(DEMO_OUT)
	@printf '\nFigures and tables: %s\n' '$(DEMO_OUT)'
	@ls $(DEMO_OUT)

test: $(DEV_STAMP)
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS)

test-slow: $(DEV_STAMP)
	$(BIN)/python -m pytest -m slow -n $(PYTEST_WORKERS)

bench: $(DEV_STAMP)
	@$(BIN)/python -m tests.benchmarks

golden: $(DEV_STAMP)
	$(BIN)/python -m tests.scenarios.figures.golden

lint: $(DEV_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

TABLES := $(VENV)/kernel-tables
TABLES_VERSION := 0.12.0
HOST_INPUTS := $(if $(COST_CURVES),--cost-curves $(COST_CURVES) --speedups $(SPEEDUPS))

$(TABLES): $(BASE_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[tables]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@.part aiconfigurator-core==$(TABLES_VERSION)
	@mv $@.part $@

check-provenance: $(TABLES)
	PYTHONPATH=. $(BIN)/python docs/derivations/check_provenance.py --package $(TABLES) --workers $(PYTEST_WORKERS) $(HOST_INPUTS)

clean:
	rm -rf $(VENV) out .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
