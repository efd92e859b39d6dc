"""A rehearsal of the paper suite on any processor, without network.

    python -m tests.rehearsal

A dry run plans the suite as it is. Then a copy of the project, changed as `CHANGES` says, runs one
seed of each kind of run on random models (`tests/support/random_models.py`), to every table and
figure. Scores are of random models: they say nothing about a method. The same command continues
an interrupted rehearsal; with other code it starts again.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.download import CORPORA, corpus_name
from bench.judge.stage import judge_plans
from bench.registry.backbones import BUILT_IN, NO_BACKBONE, Backbone
from bench.reported.figures import load_figures
from bench.results.suite_results import read_results
from bench.runs import config
from bench.runs.plan import Plan
from bench.runs.run import Run
from bench.runs.suite import BackboneOptions, MethodEntry, Suite
from bench.utils import interrupts
from bench.utils.errors import UserError, listed
from bench.utils.files import (
    atomic_folder,
    read_json,
    read_settings,
    sha256_file,
    sha256_listed,
    stem,
    write_json,
    write_text,
)
from tests.support.programs import ROOT, ended, environment, planned_jobs, snakemake
from tests.support.random_models import LAYERS, LINES, MODELS, write_data, write_models

OUT = ROOT / "results" / "rehearsal"
SUITE = "rehearsal"
PROJECT, MODEL_FOLDER, DATA, CONFIG = (
    OUT / name for name in ("project", "models", "data", "rehearsal.yaml")
)
RESULTS, FIGURES = OUT / "results" / SUITE, OUT / "figures" / SUITE
COPIED = (
    "Snakefile", "bench", "config", "methods", "profiles", "pyproject.toml", "rules",
    "sentbench.py", "tests",
)  # fmt: skip


def _entry(backbone: Backbone, width: int, depth: int) -> str:
    """The beginning of a backbone's entry."""
    size = f"vocabulary_size = {backbone.vocabulary_size}"
    return f'location = "{backbone.location}"\n{size}\nshape = {{width = {width}, depth = {depth}'


STEPS = 2
# A selection after each step: a curve with a single point is not drawn.
RECIPE = {"batch_size": LINES // STEPS, "epochs": 1, "sentences": LINES, "select_every": 1}
# What the copy of the project has instead of a text of the project's own.
CHANGES = {
    "bench/registry/backbones.toml": {
        _entry(backbone, backbone.shape.width, backbone.shape.depth): _entry(
            backbone, MODELS[backbone.location][2], LAYERS
        )
        for backbone in BUILT_IN.values()
        if backbone.location in MODELS
    },
    # On a processor `mixed` would be float32.
    "bench/runs/run.py": {'"float32"] = "mixed"': '"float32"] = "bfloat16"'},
    # Scores of another recipe are not compared with print, and most tables would be left out.
    "bench/runs/plan.py": {'{"threads", "precision"}': str({"threads", "precision", *RECIPE})},
    # The table of word vectors has the world's words alone.
    "bench/datasets/word_vectors.py": {"400_000": "1"},
    # An epoch of two steps.
    "methods/ct_bert.py": {"drawn: Count = 10_000": f"drawn: Count = {LINES}"},
}
# Of these runs as many seeds as a comparison needs.
COMPARED, SEEDS = ("simcse@official", "is-cse@official"), (42, 43, 44)
PER_JOB = 10  # to start a process takes longer than a run
# The environment of programs, which read the stand-ins alone; PYTHONPATH of those of the copy.
STAND_INS = {
    "BENCH_DATA": str(DATA),
    "BENCH_MODELS": str(MODEL_FOLDER),
    "SENTBENCH_CACHE": str(OUT / "cache"),
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
OF_COPY = STAND_INS | {"PYTHONPATH": str(PROJECT)}
CORES = os.cpu_count() or 1
QUIET = ("--quiet", "host", "reason", "progress", "rules")


def sources() -> str:
    """A checksum of all that a rehearsal is of."""
    sums = {}
    for name in COPIED:
        for path in (ROOT / name, *sorted((ROOT / name).rglob("*"))):
            if path.is_file() and "__pycache__" not in path.parts:
                sums[path.relative_to(ROOT).as_posix()] = sha256_file(path)
    return sha256_listed(sums)


def begin() -> None:
    """Remove what was made of other sources, and make what is missing of stand-ins and copy."""
    code = {"sha256": sources()}
    if read_settings(OUT / "code.json") != code:
        shutil.rmtree(OUT, ignore_errors=True)
    write_json(OUT / "code.json", code)
    for folder, write in (MODEL_FOLDER, write_models), (DATA, write_data), (PROJECT, copy_project):
        if not folder.is_dir():
            with atomic_folder(folder) as temporary:
                write(temporary)


def copy_project(folder: Path) -> None:
    """Copy the project, and change the copy."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder)
    for name, changes in CHANGES.items():
        text = (folder / name).read_text(encoding="utf-8")
        for old, new in changes.items():
            text = text.replace(old, new)
        write_text(folder / name, text)
    # The sums of random models and the length of the corpus in place of the published ones.
    path = folder / "bench" / "download" / "pins.json"
    pins = read_json(path)
    for name in MODELS.keys() & pins["repositories"].keys():
        weights = sha256_file(MODEL_FOLDER / name / "model.safetensors")
        pins["repositories"][name]["files"] = {"model.safetensors": {"sha256": weights}}
    pins["corpora"][corpus_name(Path(CORPORA["wiki1m"]))]["rows"] = [LINES]
    write_json(path, pins)


def kinds(runs: Sequence[Run]) -> list[Run]:
    """The first run of each method, setting, backbone, tasks and analyses, whatever the numbers in
    its text."""
    result: dict[tuple[object, ...], Run] = {}
    for run in runs:
        text = re.sub(r"\d[\d.e-]*", "0", run.text)
        result.setdefault((text, run.backbone, run.tasks, run.analyses), run)
    return [*result.values()]


def write_configuration(paper: Suite, plan: Plan) -> Plan:
    """Write the configuration of the rehearsal, and return its plan."""
    entries = []
    for run in kinds(plan.runs):
        entry = {"method": run.text, "tasks": [*run.tasks]}
        if run.analyses:
            entry["analyses"] = [*run.analyses]
        if run.backbone != NO_BACKBONE.name:
            entry["backbones"] = [run.reference]
        if run.text in COMPARED and run.backbone == next(iter(paper.backbones)):
            entry["seeds"] = [*SEEDS]
        entries.append(MethodEntry(**entry))
    backbones = {name: BackboneOptions() for name in paper.backbones}
    suite = paper.changed(
        suite=SUITE, seeds=[SEEDS[0]], backbones=backbones, methods=entries, recipe=RECIPE,
        runs_per_job=PER_JOB,
    )  # fmt: skip
    write_text(CONFIG, config.dump(suite))
    return config.plan(suite)


def run_workflow() -> None:
    """Run the workflow of the copy. A signal does not end this process before the workflow."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", PROJECT / "Snakefile", *QUIET]
    command += ["--cores", str(CORES), "--resources", f"gpu={CORES}", "--configfile", CONFIG]
    command.append("--nolock")  # a rehearsal that was killed leaves a lock
    process = subprocess.Popen(command, cwd=OUT, env=environment(**OF_COPY))
    try:
        status = process.wait()
    except BaseException as stop:
        if not isinstance(stop, KeyboardInterrupt):  # which it has had, too
            process.terminate()
        process.wait()
        raise
    if status:
        raise UserError(f"jobs failed (status {status}); the workflow says above which, and why")


def jobs_of(plan: Plan) -> dict[str, int]:
    """How many jobs of each rule a plan needs, with one run in a job."""
    runs = plan.runs
    jobs = Counter(stage for run in runs for stage in run.stages)
    corpora = {name for run in runs for name in run.corpora}
    if jobs["analyse"]:
        corpora.add(plan.corpus)
    backbones = {run.backbone for run in runs} - {NO_BACKBONE.name}
    inputs = {"data": 1, "corpus": len(corpora), "backbone": len(backbones)}
    return {**jobs, **inputs, "render": 1}


def check_dry_run(plan: Plan) -> None:
    """Plan the paper suite by a dry run of the project, and compare its jobs with the plan's."""
    done = snakemake("--dry-run", cwd=OUT, status=None, **STAND_INS)
    write_text(OUT / "dry-run.log", done.stdout + done.stderr)
    if done.returncode:
        raise UserError(f"the dry run of the paper suite failed; see {OUT}/dry-run.log")
    result, needed = planned_jobs(done.stdout), jobs_of(plan)
    if result != needed:
        raise UserError(f"the dry run of the paper suite has the jobs {result}, its plan {needed}")


def check_runs() -> None:
    """Every run is finished, with all its analyses."""
    faults = []
    for result in read_results(RESULTS).runs:
        made = {name for name, values in result.analyses.items() if "reason" not in values}
        if result.status != "finished" or made != set(result.run.analyses):
            faults.append(f"{result.run.id} ({result.fate})")
    if faults:
        raise UserError(f"not finished, or without an analysis: {listed(faults)}")


def check_files(plan: Plan) -> tuple[int, int]:
    """Every printed table and figure that the paper suite plans is there; how many of each."""
    planned = [row for row in judge_plans([plan]).numbers if row.planned]
    tables = {f"{row.source}_{stem(row.table)}" for row in planned} | {"sts", "transfer", "compare"}
    pictures = {figure.stem for figure in load_figures()} | {"leaderboard", "compare"}
    written = {path.stem for path in RESULTS.glob("tables/*.md")}
    drawn = {path.stem for path in FIGURES.glob("*.png")}
    missing = sorted(tables - written | pictures - drawn)
    if missing:
        raise UserError(f"these tables and figures were not made: {listed(missing)}")
    return len(written), len(drawn)


def check_reported() -> int:
    """The reported tests run, and pass or fail each; how many there are."""
    report, places = OUT / "reported.xml", OF_COPY | {"SENTBENCH_RESULTS": str(RESULTS)}
    command = [sys.executable, "-m", "pytest", "-m", "reported", "-q", "tests/reported"]
    done = ended(*command, f"--junitxml={report}", cwd=PROJECT, status=None, **places)
    write_text(OUT / "reported.log", done.stdout + done.stderr)
    (suite,) = ElementTree.parse(report).iter("testsuite")
    tests = int(suite.get("tests", 0))
    if done.returncode not in (0, 1) or suite.get("errors") != "0" or not tests:
        raise UserError(f"the reported tests could not be run; see {OUT}/reported.log")
    return tests


def main() -> None:
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    say("random models and data, and a copy of the project")
    begin()
    paper = config.load(config.PAPERS[0])
    plan = config.plan(paper)
    say(f"dry run of the {len(plan.runs)} runs of the paper suite")
    check_dry_run(plan)
    rehearsed = write_configuration(paper, plan)
    stages = sum(len(run.stages) for run in rehearsed.runs)
    say(f"{len(rehearsed.runs)} runs")
    run_workflow()
    say("tables, figures and reported tests")
    check_runs()
    tables, pictures = check_files(plan)
    tests = check_reported()
    say(
        f"rehearsal: {len(plan.runs)} runs planned, {len(rehearsed.runs)} made in {stages} stages, "
        f"{tables} tables, {pictures} figures, {tests} reported tests"
    )


if __name__ == "__main__":
    try:
        with interrupts.handle_signals():
            main()
    except KeyboardInterrupt:
        sys.exit("interrupted: repeat the command to continue")
    except (UserError, interrupts.Stopped) as error:
        sys.exit(f"error: {error}")
