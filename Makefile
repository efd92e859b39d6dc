# The two commands a stranger needs: make smoke, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOWEST := .venv-lowest
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)
# The only torch that was tested, so both the lowest and the newest.
TORCH := torch==2.13.0
# As many workers as cores, one thread each: threads that share a core wait for each other.
WORKERS := -n $(CORES) --dist loadfile --benchmark-disable -q
FAST_TESTS := -m "not slow and not reported" $(WORKERS)
test test-lowest test-slow: export OMP_NUM_THREADS := 1
SMOKE_REFERENCE := results/reference/smoke.json

.PHONY: help smoke test test-lowest test-slow reported check bench reference gpu-smoke gpu-bench kill-test slurm wiki-mini lock clean

help:
	@echo "make smoke        the whole DAG on the embedded world, in minutes, without network or GPU"
	@echo "make test         fast tests, with the newest versions tested (requirements.lock)"
	@echo "make test-lowest  the same with the lowest versions that pyproject.toml allows"
	@echo "make test-slow    tests with real data (BENCH_DATA, BENCH_MODELS), many processes"
	@echo "make reported     one test per printed cell, against results/paper (or SENTBENCH_RESULTS)"
	@echo "make check        ruff, snakefmt, mypy"
	@echo "make bench        benchmarks"
	@echo "make reference    20 seeds of the smoke suite: the distribution that make smoke is checked against"
	@echo "make wiki-mini    a real backbone on real text (needs BENCH_DATA, BENCH_MODELS)"
	@echo "make gpu-smoke    the smoke suite's runs on a real device, with the core's imports only"
	@echo "make gpu-bench    seconds for a million sentences on the published shapes (random weights)"
	@echo "make kill-test    a hundred kills of real trainings, each to the same bits"
	@echo "make slurm        the DAG through a real SLURM on this machine (root; Debian's slurm-wlm and munge)"
	@echo "make lock         write requirements.lock anew, with the newest versions there are"

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sentbench needs Python 3.11 or newer; name one with make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@touch $@

smoke: $(READY)
	@$(SNAKEMAKE) --configfile config/smoke.yaml --quiet rules
	@$(BIN)/python -m bench reference --check --suite results/smoke --reference $(SMOKE_REFERENCE)
	@echo
	@echo "tables:  results/smoke/tables/   (sts.md is the suite's own)"
	@echo "figures: figures/smoke/"
	@echo "page:    results/smoke/report/index.html"

test: $(READY)
	$(BIN)/python -m pytest $(FAST_TESTS)

# pip brings torch, as it finds the build that a machine is set up for; what torch needs has lower bounds of ours (jinja2).
$(LOWEST)/.ready: pyproject.toml
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps uv==0.13.9 $(TORCH)
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
	    --requirement pyproject.toml --extra dev
	@touch $@

test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest $(FAST_TESTS)

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow $(WORKERS)

reported: $(READY)
	$(BIN)/python -m pytest -m reported -rs -q

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules workflow
	$(BIN)/mypy

# Brings what trainings are compared with (pyproject's extra `bench`), beside what is locked.
bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock 'sentence-transformers[train]==6.2.0'
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only -q -s

# The smoke suite's own world and backbones, 20 seeds, in two processes.
reference: $(READY)
	$(SNAKEMAKE) --configfile config/smoke.yaml --quiet rules --until data corpus backbone
	mkdir -p results/reference-runs
	for part in world backbones inputs; do ln -sfn ../smoke/$$part results/reference-runs/$$part; done
	$(BIN)/python -m bench plan --config config/smoke.yaml --seeds 20 --out results/reference-runs/plan.json
	OMP_NUM_THREADS=1 $(BIN)/python -m bench runs --suite results/reference-runs --share 1/2 & \
	    OMP_NUM_THREADS=1 $(BIN)/python -m bench runs --suite results/reference-runs --share 2/2; status=$$?; wait $$! && exit $$status
	$(BIN)/python -m bench reference --suite results/reference-runs --reference $(SMOKE_REFERENCE)

wiki-mini: $(READY)
	$(SNAKEMAKE) --configfile config/wiki-mini.yaml

# A million sentences on the published shapes, by 500 steps of each; docs/performance.md has the goals.
gpu-bench: $(READY)
	$(BIN)/python -m bench timing bert-base roberta-base bert-large

# A hundred SIGKILLs at real trainings, in every phase; make test-slow has ten.
kill-test: $(READY)
	SENTBENCH_KILLS=100 $(BIN)/python -m pytest tests/test_resume.py -k killed_anywhere -q -s

# Snakemake's jobs through slurmctld and slurmd on this machine; SENTBENCH_SLURM=smoke adds the whole smoke suite.
slurm: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check snakemake-executor-plugin-slurm==2.8.0
	SENTBENCH_SLURM=$${SENTBENCH_SLURM:-1} $(BIN)/python -m pytest -m slow tests/slurm -q

gpu-smoke: $(READY)
	$(BIN)/python -m bench gpu_smoke --suite results/smoke --out results/gpu-smoke

lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv-lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock.part
	mv requirements.lock.part requirements.lock
	rm -rf .venv-lock sentbench.egg-info

clean:
	rm -rf results/smoke figures/smoke
