# The two commands a stranger needs: make smoke, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := $(VENV)/.extras
LOWEST := .venv-lowest
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)
# The workflow itself says what is at work, and why a job failed.
QUIET := --quiet host reason progress rules
# The only tested version of torch, so both the lowest and the newest.
TORCH := torch==2.13.0
# pip installs torch, because it selects the build that the machine is configured for, and uv. uv installs the rest in a
# fifth of pip's time.
# Twice quiet: errors are still printed.
PIP := -m pip install --quiet --quiet --disable-pip-version-check
# Into the environment $(1). The lines of uv in the lock have its version and its hashes.
PIP_FIRST = awk '/^[^ ]/ {keep = /^uv=/} keep' requirements.lock \
    | $(1)/bin/python $(PIP) --no-deps --requirement /dev/stdin \
    && $(1)/bin/python $(PIP) --no-compile --no-deps $(TORCH)
UV_INSTALL := uv pip install --quiet --python
# Without uv, pip installs everything. Both compare each file with the hashes of the lock. torch has none, because its
# builds are those of several indexes; it brings the CUDA packages that its build needs. pip demands a hash of whatever it
# installs with the lock, and so installs torch after it.
INSTALL = $(BIN)/$(UV_INSTALL) $(BIN)/python --requirement $(1) $(TORCH) \
    || { $(BIN)/python $(PIP) --no-deps --requirement $(1) && $(BIN)/python $(PIP) $(TORCH); }
# What pip reads of uv.lock: a line per package, and an indented one per hash.
EXPORT := $(BIN)/uv export --quiet --locked --no-annotate --no-header --no-emit-project
NO_TORCH := awk '/^[^ ]/ {keep = !/^(cuda|nvidia|torch=|triton)/} keep'
# One worker per core with one thread each: threads that share a core wait for each other.
WORKERS := -n $(CORES) --dist worksteal --benchmark-disable -q
FAST_TESTS := -m "not slow and not nightly and not reported" $(WORKERS)
test test-lowest test-slow test-nightly: export OMP_NUM_THREADS := 1
# What is compared with numbers of the CPU computes on it, also where there is a GPU.
smoke all-methods world-numbers portable portable-quick kill-test test test-lowest test-slow test-nightly: export CUDA_VISIBLE_DEVICES :=
# Python caches the bytecode of imported modules in __pycache__. Without it each of many short processes takes twice as long to start.
export PYTHONDONTWRITEBYTECODE :=
# Those of docs/explanation/portability.csv under which the numbers of the toy data are measured.
ARITHMETICS := plain oldest torch-avx2 mkl-compatible two-threads

.PHONY: help smoke all-methods test test-lowest test-pythons test-slow test-nightly reported check bench world-inputs world-numbers portable portable-quick rehearsal test-gpu kill-test slurm wiki-mini extras lock image world-data toy-backbones documents site clean

help:
	@echo "make smoke        the whole workflow on the toy data, in three minutes, without network or GPU"
	@echo "make all-methods  every system and variant on the toy data"
	@echo "make test         fast tests, with the versions of requirements.lock"
	@echo "make test-lowest  the same with the lowest versions that pyproject.toml allows"
	@echo "make test-pythons the same with each installed Python of PYTHONS ($(PYTHONS)), each in its own environment"
	@echo "make test-slow    tests with real data (BENCH_DATA, BENCH_MODELS), many processes"
	@echo "make test-nightly  mutations of the sources that tests must notice, fuzzing and long simulations"
	@echo "make reported     one test per printed cell, against results/paper (or SENTBENCH_RESULTS)"
	@echo "make check        ruff, snakefmt, mypy, who may import what, and the size of each package"
	@echo "make bench        benchmarks"
	@echo "make world-numbers  measure the numbers of the toy data that are missing or changed (ALL=1: all)"
	@echo "make portable     the fast tests and all methods under several arithmetics and Pythons"
	@echo "make portable-quick  a part of both, under the oldest arithmetic"
	@echo "make rehearsal    the paper suite on random models, to every table and figure; no network, no GPU"
	@echo "make wiki-mini    a real backbone on real text (needs BENCH_DATA, BENCH_MODELS)"
	@echo "make test-gpu     the tests that need a GPU; they print times"
	@echo "make kill-test    a hundred kills of real trainings, which must resume to the same bits"
	@echo "make slurm        the workflow through a real SLURM on this machine (root; Debian's slurm-wlm and munge)"
	@echo "make world-data   generate the files of the toy data again (tools/world)"
	@echo "make toy-backbones  pre-train the toy backbones again (an hour); their numbers change with the processor"
	@echo "make documents    write the generated tables of documents again"
	@echo "make site         the documents as a site, build/site/index.html"
	@echo "make extras       install all extras and groups of pyproject.toml (requirements-extras.lock)"
	@echo "make lock         update the locks to the newest versions"
	@echo "make image        sentbench.sif, in which snakemake --sdm apptainer runs jobs (BUILDER=$(BUILDER), apptainer)"

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sentbench needs Python 3.11 or newer; name one with make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	-$(call PIP_FIRST,$(VENV))
	$(call INSTALL,requirements.lock)
	@# The command sentbench. setuptools is in the lock, so nothing is downloaded.
	$(BIN)/python $(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

# All extras and groups of pyproject.toml: for tests of mteb and SLURM, and for the benchmarks of trainings.
extras: $(EXTRAS)

$(EXTRAS): requirements-extras.lock $(READY)
	$(call INSTALL,requirements-extras.lock)
	@touch $@

# It fails where a score is lower or higher than on the reference machine.
smoke all-methods: $(READY)
	@$(SNAKEMAKE) --configfile config/$@.yaml $(QUIET)
	@SENTBENCH_RESULTS=results/$@ $(BIN)/python -m pytest -m reported -q tests/reported > results/$@/reported.txt \
	    || { cat results/$@/reported.txt; exit 1; }

test: $(READY)
	$(BIN)/python -m pytest $(FAST_TESTS)

# torch is installed without dependencies: its own would be above the lower bounds (jinja2).
$(LOWEST)/.ready: pyproject.toml
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(call PIP_FIRST,$(LOWEST))
	$(LOWEST)/bin/$(UV_INSTALL) $(LOWEST)/bin/python --resolution lowest-direct --requirement pyproject.toml --group dev
	@touch $@

test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest $(FAST_TESTS)

# Where the index has no CPU-only build of torch for a Python, torch brings several GB.
PYTHONS ?= python3.11 python3.12 python3.13
test-pythons:
	@for python in $(PYTHONS); do \
	    if $$python --version 2> /dev/null; then $(MAKE) test PYTHON=$$python VENV=.venv-$$python || exit 1; \
	    else echo "$$python is not here"; fi; done

test-slow: $(READY)
	$(BIN)/python -m pytest -m "slow and not nightly" $(WORKERS)

test-nightly: $(READY)
	$(BIN)/python -m pytest -m "nightly or hypothesis" --hypothesis-profile nightly $(WORKERS)

reported: $(READY)
	$(BIN)/python -m pytest -m reported -rs -q

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules workflow
	$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/size.py

bench: $(EXTRAS)
	$(BIN)/python -m pytest tests/benchmarks -q -s

# The inputs of all methods, for runs that are started without a workflow.
world-inputs: $(READY)
	@$(SNAKEMAKE) --configfile config/all-methods.yaml $(QUIET) --until data corpus backbone

# The world's numbers that are missing or changed, over 8 seeds and under each arithmetic; ALL=1 for all.
world-numbers: world-inputs
	$(if $(ALL),rm -rf bench/reported/world*.csv results/reference-runs)
	$(BIN)/python -m tests.portable --numbers --only $(ARITHMETICS)

# docs/explanation/toy-data.md#reference-scores; finished parts are not repeated.
portable: world-inputs test-pythons
	$(BIN)/python -m tests.portable

portable-quick: world-inputs
	@$(BIN)/python -m tests.portable --quick

# Repeat it to continue.
rehearsal: $(READY)
	@$(BIN)/python -m tests.rehearsal

wiki-mini: $(READY)
	$(SNAKEMAKE) --configfile config/wiki-mini.yaml

test-gpu: $(READY)
	$(BIN)/python -m pytest tests/gpu -m gpu -rs -q -s

# make test-slow has ten kills.
kill-test: $(READY)
	SENTBENCH_KILLS=100 $(BIN)/python -m pytest tests/integration/test_resume.py -k killed_anywhere -q -s

# Needs slurmctld and slurmd on this machine.
slurm: $(EXTRAS)
	SENTBENCH_SLURM=1 $(BIN)/python -m pytest -m slow tests/integration/test_slurm.py -q

# The files of the toy data, of the sizes in its manifest: only after a change of its language, and before toy-backbones.
world-data: $(READY)
	find bench/world/data -type f -not -name manifest.json -delete
	$(BIN)/python -m tools.world data bench/world/data

# bench/world/backbones is created once and shipped, because pre-training on another processor gives other weights.
# Afterwards raise TOY_VERSION and run make world-numbers.
TOYS := bench/world/backbones
# Pre-training does not train [CLS]. Of bert's seeds 0 to 2, SimCSE keeps its transfer accuracy only with seed 2.
TOY_SEEDS := bert=2 roberta=0 chinese=0
toy-backbones: $(READY)
	rm -rf results/toys
	printf '%s\n' $(TOY_SEEDS) | tr = ' ' | xargs -P $(CORES) -L 1 sh -c '$(BIN)/python -m tools.world backbone $$0 $$1 results/toys/toy-$$0'
	$(BIN)/python -m tools.world vectors results/toys/toy-glove/vectors.txt
	cd results/toys && sha256sum */* > SHA256SUMS
	rm -rf $(TOYS)
	mv results/toys $(TOYS)

# Tables between `<!-- generated: NAME -->` and `<!-- end -->`; make test fails where one is not current.
documents: $(READY)
	$(BIN)/python -m tools.documents

# With the page of the shipped suite beside the documents.
site: $(EXTRAS)
	$(BIN)/python -m sphinx -W --keep-going -q -c tools/site docs build/site
	$(BIN)/sentbench render wiki-mini --out build/site/wiki-mini > /dev/null
	@echo build/site/index.html

lock: $(READY)
	$(BIN)/uv lock --upgrade
	$(EXPORT) | $(NO_TORCH) > requirements.lock
	$(EXPORT) --all-extras --all-groups | $(NO_TORCH) > requirements-extras.lock

# podman or docker.
BUILDER ?= podman
image:
	$(BUILDER) build --build-arg PIP_EXTRA_INDEX_URL --file Containerfile --tag sentbench .
	$(BUILDER) save --output sentbench.tar sentbench
	apptainer build --force sentbench.sif docker-archive:sentbench.tar
	rm sentbench.tar

clean:
	rm -rf results/smoke results/all-methods figures/smoke figures/all-methods
