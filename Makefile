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
# The last that has tf.estimator, and a Python that it runs on.
TENSORFLOW_ESTIMATOR := tensorflow-cpu==2.15.*
ESTIMATOR_PYTHON ?= $(shell command -v python3.11 || command -v python3.10)
SCHEMAS := 'kubernetes-validate>=1.33' 'kubeflow-trainer-api>=2'
# Its generated code runs with protobuf 6.30 to 7.x; pyproject.toml says the same.
PROTOC := grpcio-tools==1.72.2

# Trainings and tasks that are killed, tasks that move or stand still, and steps that fail by the hundred while memory is watched: minutes of processes.
RECOVERY := $(addprefix tests/,soak examples/test_trainings.py training/test_recovery.py training/test_saver_crashes.py \
	training/test_sync_on_clusters.py training/estimator/test_estimator_clusters.py serve/test_failed_steps_grpc.py \
	serve/test_failed_steps_let_go.py serve/test_failed_steps_tcp.py serve/test_failed_steps_unix.py serve/test_liveness.py \
	serve/test_death.py serve/test_direct_deaths.py serve/test_moved.py serve/test_vanished.py)

# A Python that has TensorFlow; the default is installed on demand.
HEADRACE_ORACLE_PYTHON ?= $(CURDIR)/.oracle/bin/python
export HEADRACE_ORACLE_PYTHON

# A Python that has a TensorFlow with tf.estimator; the default is installed on demand.
HEADRACE_ESTIMATOR_ORACLE_PYTHON ?= $(CURDIR)/.oracle-2.15/bin/python
export HEADRACE_ESTIMATOR_ORACLE_PYTHON

# Most tests' time is that of processes that they start, which would each compile all that they import again.
unexport PYTHONDONTWRITEBYTECODE

# What depends on arithmetic, with another BLAS kernel that NumPy's own products survive, and without the vector instructions that NumPy need not have.
NUMERIC := tests/ops tests/plan tests/training tests/run/test_worker_pool.py tests/run/test_straight.py
KERNEL ?= $$($(BIN)/python -m tests.blas_kernels)
VECTORS := import numpy._core._multiarray_umath as m; print(*(f for f in m.__cpu_dispatch__ if m.__cpu_features__[f]))

.PHONY: demo test test-recovery test-kernels check browser bench bench-neighbours bench-watching bench-fusion bench-scaling fuzz mutate soak large k8s slurm ray xla protos oracle estimator estimator-smoke clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	@$(BIN)/headrace demo $(ARGS)

# Without TensorFlow, even where there is one: what needs it is in `make oracle`.
test: $(VENV)/installed-dev
	@env -u HEADRACE_ORACLE_PYTHON -u HEADRACE_ESTIMATOR_ORACLE_PYTHON $(BIN)/python -m pytest $(PARALLEL) tests \
		--ignore=tests/oracle --ignore=tests/interop --ignore=tests/estimator_oracle --ignore=tests/browser --ignore=tests/engines --ignore=tests/xla \
		$(addprefix --ignore=,$(RECOVERY)) $(ARGS)

test-recovery: $(VENV)/installed-dev
	@env -u HEADRACE_ORACLE_PYTHON $(BIN)/python -m pytest $(PARALLEL) $(RECOVERY) $(ARGS)

test-kernels: $(VENV)/installed-dev
	@env -u HEADRACE_ORACLE_PYTHON OPENBLAS_CORETYPE=$(KERNEL) NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(VECTORS)')" \
		$(BIN)/python -m pytest $(PARALLEL) $(NUMERIC) $(ARGS)

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_docs.py

# The page in a headless Chromium, which is installed where there is none and apt-get may.
browser: $(VENV)/installed-browser
	@for name in $$HEADRACE_CHROMIUM chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
		echo "installing Chromium" && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium >/dev/null
	@$(BIN)/python -m pytest tests/browser $(ARGS)

# Each worker has a TensorFlow of its own, whose threads take turns badly where there are more of them than processors.
oracle: $(VENV)/installed-dev $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -o timeout=600 $(wildcard tests/oracle tests/interop) $(ARGS)

# The same programs of tf.estimator under headrace and under the last TensorFlow that has it.
estimator: $(VENV)/installed-dev $(HEADRACE_ESTIMATOR_ORACLE_PYTHON)
	@$(BIN)/python -m pytest -o timeout=600 tests/estimator_oracle $(ARGS)

# Some of them; without a Python for that TensorFlow it says so, and succeeds.
estimator-smoke:
	@if [ -x "$(HEADRACE_ESTIMATOR_ORACLE_PYTHON)" ] || [ -n "$(ESTIMATOR_PYTHON)" ]; then \
		$(MAKE) --no-print-directory estimator ARGS='-q -k smoke $(ARGS)'; \
	else echo "left out: $(TENSORFLOW_ESTIMATOR) needs Python 3.11 or 3.10, and there is none"; fi

bench: $(VENV)/installed-dev $(HEADRACE_ORACLE_PYTHON) $(if $(ESTIMATOR_PYTHON),$(HEADRACE_ESTIMATOR_ORACLE_PYTHON))
	@$(BIN)/python -m benchmarks $(ARGS)

# Beside Redis, multiprocessing's managers and plain sockets; what is not installed is left out and named.
bench-neighbours: $(VENV)/installed-dev $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python $(PIP) redis
	@$(BIN)/python -m benchmarks.neighbours $(ARGS)

# Steps with and without XLA, beside TensorFlow's with and without its own.
bench-fusion: $(VENV)/installed-xla $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python -m benchmarks.fusion $(ARGS)

# What `headrace top` and the page cost a cluster that is busy, in processor time of its servers.
bench-watching: $(VENV)/installed-dev
	@$(BIN)/python -m benchmarks.watching $(ARGS)

bench-scaling: $(VENV)/installed-plots $(HEADRACE_ORACLE_PYTHON)
	@$(BIN)/python -m benchmarks.scaling $(ARGS)

# Kernels of ops drawn at random, changed in one place at a time; ARGS="--seed 3 --ops 200 --verbose".
mutate: $(VENV)/installed-dev
	@$(BIN)/python -m tests.mutation $(ARGS)

# Kubernetes' schemas, JobSet's classes that are made of its own, and a kubelet that is played.
k8s: $(VENV)/installed-k8s
	@$(BIN)/python -m pytest tests/engines/test_kubernetes.py $(ARGS)

# A step and a requeued job of a Slurm on the loopback; root, and Debian's packages, which it installs.
slurm: $(VENV)/installed-dev
	@command -v slurmctld munged >/dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends slurm-wlm munge; }
	@$(BIN)/python -m pytest tests/engines/test_slurm.py $(ARGS)

# Devices of XLA: GPUs where there are some, else stand-ins, and it says which.
xla: $(VENV)/installed-xla
	@$(BIN)/python -m pytest $(PARALLEL) tests/xla $(ARGS)

# A Ray of several nodes on this machine, one of which is killed.
ray: $(VENV)/installed-ray
	@RAY_USAGE_STATS_ENABLED=0 $(BIN)/python -m pytest -W default tests/engines/test_ray.py $(ARGS)

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
	rm -rf $(VENV) .oracle .oracle-2.15 .protoc .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
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

$(VENV)/installed-browser: $(VENV)/installed-dev
	@echo "installing playwright and axe-core into $(VENV)"
	@$(BIN)/python $(PIP) -e '.[browser]'
	@touch $@

$(VENV)/installed-plots: $(VENV)/installed-dev
	@echo "installing matplotlib into $(VENV)"
	@$(BIN)/python $(PIP) -e '.[plots]'
	@touch $@

$(VENV)/installed-k8s: $(VENV)/installed-dev
	@echo "installing Kubernetes' schemas into $(VENV)"
	@$(BIN)/python $(PIP) $(SCHEMAS)
	@touch $@

$(VENV)/installed-ray: $(VENV)/installed-dev
	@echo "installing Ray into $(VENV)"
	@$(BIN)/python $(PIP) -e '.[ray]'
	@touch $@

$(VENV)/installed-xla: $(VENV)/installed-dev
	@echo "installing JAX into $(VENV)"
	@$(BIN)/python $(PIP) -e '.[xla]'
	@touch $@

# pip last: the interpreter's time stamp says that TensorFlow is there.
$(CURDIR)/.oracle/bin/python:
	@echo "installing $(TENSORFLOW) into .oracle (1.6 GB, a few minutes)"
	@rm -rf .oracle .oracle.part
	@$(PYTHON) -m venv .oracle.part
	@.oracle.part/bin/python $(PIP) '$(TENSORFLOW)' '$(TF_SLIM)'
	@.oracle.part/bin/python $(PIP) --no-deps '$(TF_KERAS)'
	@mv .oracle.part .oracle

$(CURDIR)/.oracle-2.15/bin/python:
	@[ -n "$(ESTIMATOR_PYTHON)" ] || { echo "$(TENSORFLOW_ESTIMATOR) needs Python 3.11 or 3.10: make estimator ESTIMATOR_PYTHON=/path/to/one"; exit 1; }
	@echo "installing $(TENSORFLOW_ESTIMATOR) into .oracle-2.15 (1.3 GB, a few minutes)"
	@rm -rf .oracle-2.15 .oracle-2.15.part
	@$(ESTIMATOR_PYTHON) -m venv .oracle-2.15.part
	@.oracle-2.15.part/bin/python $(PIP) '$(TENSORFLOW_ESTIMATOR)' 'pandas'
	@mv .oracle-2.15.part .oracle-2.15

.protoc/installed:
	@$(PYTHON) -m venv .protoc
	@.protoc/bin/python $(PIP) '$(PROTOC)'
	@touch $@
