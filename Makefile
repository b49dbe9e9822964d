# Each target sets up what it needs; python3 (3.11 or newer), its venv module and make are enough to begin.
#   make PYTHON=python3.12 test      with another Python
#   make test ARGS="-k queue -x"     with arguments for what the target runs

PYTHON ?= python3
ARGS ?=
# Tests also wait, for processes that they start mostly; three at a time keep two cores busy.
PARALLEL ?= -n 3 --dist loadfile
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip --quiet --disable-pip-version-check install
TENSORFLOW := tensorflow-cpu==2.21.*
TF_SLIM := tf-slim==1.1.*
# tf-slim's layers are made of it; it asks for the package named tensorflow, which tensorflow-cpu stands for.
TF_KERAS := tf-keras==2.21.*
# Its generated code runs with protobuf 6.30 to 7.x; pyproject.toml says the same.
PROTOC := grpcio-tools==1.72.2

# A Python that has TensorFlow; the default is installed on demand.
HEADRACE_ORACLE_PYTHON ?= $(CURDIR)/.oracle/bin/python
export HEADRACE_ORACLE_PYTHON

# Most tests' time is that of processes that they start, which would each compile all that they import again.
unexport PYTHONDONTWRITEBYTECODE

# What depends on arithmetic, with another BLAS kernel and without the vector instructions that NumPy need not have.
NUMERIC := tests/ops tests/plan tests/training tests/run/test_worker_pool.py tests/run/test_straight.py
KERNEL ?= Haswell
VECTORS := import numpy._core._multiarray_umath as m; print(*(f for f in m.__cpu_dispatch__ if m.__cpu_features__[f]))

.PHONY: demo test test-kernels check bench bench-neighbours bench-scaling fuzz mutate soak large protos oracle clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	@$(BIN)/headrace demo $(ARGS)

# Without TensorFlow, even where there is one: what needs it is in `make oracle`.
test: $(VENV)/installed-dev
	@env -u HEADRACE_ORACLE_PYTHON $(BIN)/python -m pytest $(PARALLEL) tests --ignore=tests/oracle --ignore=tests/interop $(ARGS)

test-kernels: $(VENV)/installed-dev
	@env -u HEADRACE_ORACLE_PYTHON OPENBLAS_CORETYPE=$(KERNEL) NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(VECTORS)')" \
		$(BIN)/python -m pytest $(PARALLEL) $(NUMERIC) $(ARGS)

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_docs.py

oracle: $(VENV)/installed-dev $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python -m pytest $(wildcard tests/oracle tests/interop) $(ARGS)

bench: $(VENV)/installed-dev $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python -m benchmarks $(ARGS)

# Beside Redis, multiprocessing's managers and plain sockets; what is not installed is left out and named.
bench-neighbours: $(VENV)/installed-dev $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python $(PIP) redis
	@$(BIN)/python -m benchmarks.neighbours $(ARGS)

bench-scaling: $(VENV)/installed-plots $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python -m benchmarks.scaling $(ARGS)

# Kernels of ops drawn at random, changed in one place at a time; ARGS="--seed 3 --ops 200 --verbose".
mutate: $(VENV)/installed-dev
	@$(BIN)/python -m tests.mutation $(ARGS)

# Until stopped, or until something fails; ARGS="--help" tells how to choose.
fuzz: $(VENV)/installed-dev
	@$(BIN)/python -m tests.fuzz $(ARGS)

# Ten minutes of chaos, a thousand starts and stops, the contract over bad connections; ARGS="--help" tells how to choose.
soak: $(VENV)/installed-dev
	@$(BIN)/python -m tests.soak $(ARGS)

# Checkpoints of more than 2 GB, each way with TensorFlow: ten minutes, 7 GB of memory, 10 GB of disk.
large: $(VENV)/installed-dev $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python -m tests.large $(ARGS)

protos: $(VENV)/installed-dev .protoc/installed
	.protoc/bin/python scripts/protos.py

clean:
	rm -rf $(VENV) .oracle .protoc .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	rm -rf src/headrace.egg-info report.html trace.json
	find src tests examples scripts benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headrace needs Python 3.11 or newer; this one is " + sys.version.split()[0] + ". Say: make PYTHON=/path/to/a/newer/python")'
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "installing headrace into $(VENV)"
	@$(BIN)/python $(PIP) -e '.[terminal]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo "installing the tools for tests and checks into $(VENV)"
	@$(BIN)/python $(PIP) -e '.[dev]'
	@touch $@

$(VENV)/installed-plots: $(VENV)/installed-dev
	@echo "installing matplotlib into $(VENV)"
	@$(BIN)/python $(PIP) -e '.[plots]'
	@touch $@

# pip last: the interpreter's time stamp says that TensorFlow is there.
$(CURDIR)/.oracle/bin/python:
	@echo "installing $(TENSORFLOW) into .oracle (1.6 GB, a few minutes)"
	@rm -rf .oracle .oracle.part
	@$(PYTHON) -m venv .oracle.part
	@.oracle.part/bin/python $(PIP) '$(TENSORFLOW)' '$(TF_SLIM)'
	@.oracle.part/bin/python $(PIP) --no-deps '$(TF_KERAS)'
	@mv .oracle.part .oracle

.protoc/installed:
	@$(PYTHON) -m venv .protoc
	@.protoc/bin/python $(PIP) '$(PROTOC)'
	@touch $@
