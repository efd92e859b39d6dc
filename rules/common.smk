# Shared by all rules: the planned runs by id, and the input functions of rules.
import json
import os
import shlex
import sys
from pathlib import Path
from threading import Thread

import sentbench  # refuses other modules that are named bench or methods
from bench.runs import STAGES
from bench.runs import config as suites
from bench.registry.backbones import TOY_VERSION
from bench.datasets.corpora import WORLDS
from bench.datasets.manifest import manifest
from bench.runs.paths import data_folder, data_sums
from bench.results.provenance import runs_per_gpu
from bench.runs.run import corpus_fingerprint
from bench.stages.activity import hold
from bench.stages.inputs import compare
from bench.stages.status import status
from bench.stages.watch import watch
from bench.utils.errors import UserError, errors_of, warn
from bench.utils.files import sha256_text, slug
from bench.utils.validation import FILE_NAME
from bench.datasets.tasks import PROBING_TASKS, expand_tasks
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# `watch` says what is at work.
logger.addFilter(
    lambda record: not record.getMessage().startswith(("Select jobs", "Execute "))
)

try:
    # Snakemake's own reader accepts duplicate keys and keeps the last.
    for path in workflow.configfiles:
        suites.read(path)
    # Adds the configuration's method_paths to BENCH_METHODS, which every job inherits.
    with errors_of(f"configuration {', '.join(map(str, workflow.configfiles))}"):
        SUITE = suites.validate(config)
        PLAN = suites.plan(SUITE)
    runs_per_gpu()
    # As it will be written, after that of the earlier start.
    GROWN = PLAN.after(Path("results", PLAN.suite, "plan.json"))
    # Not in a job, beside which others write results. A dry run writes nothing.
    CHANGED, OLDER = [], {}
    if workflow.is_main_process:
        CHANGED, OLDER = compare(
            PLAN.runs,
            Path("results", PLAN.suite),
            write=not workflow.output_settings.dryrun,
        )
except UserError as error:
    raise WorkflowError(str(error)) from None

RUNS = {run.id: run for run in PLAN.runs}
BY_SEED = [run.id for run in PLAN.chosen()]
if CHANGED:
    warn(
        f"{CHANGED[0]} has changed since results/{PLAN.suite} was scored; its runs are scored again"
    )
# The name or path of each backbone, by its name in file names.
BACKBONES = {slug(run.backbone): run.reference for run in RUNS.values()}
# Every corpus that a run reads, by its name in file names.
CORPORA = {
    slug(name): name
    for run in RUNS.values()
    for name in (*run.corpora, run.corpus or SUITE.corpus)
}
RESULTS = f"results/{config['suite']}"
SUMMARY = Path(RESULTS, "report", "summary.txt")
FIGURES = f"figures/{config['suite']}"
PER_JOB = SUITE.runs_per_job
# Where the results of each stage are.
FOLDERS = {stage: f"{RESULTS}/{folder}" for stage, folder in STAGES.items()}

# With --sdm apptainer, jobs run in an image (docs/cluster.md#in-a-container). No other job names it,
# because Snakemake repeats jobs whose image changes.
DEPLOYMENT = workflow.deployment_settings.deployment_method
CONTAINED = "APPTAINER" in {method.name for method in DEPLOYMENT}
IMAGE = os.environ.get("SENTBENCH_IMAGE", "sentbench.sif")
# Jobs are commands of the Python that runs this workflow, or of the image's, whatever the working
# directory and the folders `bench` and `methods` in it (PYTHONSAFEPATH). `exec`
# replaces the shell: a signal to the process group would otherwise end the shell, and with it the job,
# before the command has written its checkpoint.
PROGRAMS = (
    "" if CONTAINED else f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
)
PREFIX = (
    f"export PYTHONSAFEPATH=1 PYTHONPATH={shlex.quote(str(Path(suites.__file__).parents[2]))}"
    f"${{PYTHONPATH:+:$PYTHONPATH}} {PROGRAMS}; exec "
)
# Snakemake fills in what stands in braces.
shell.prefix(PREFIX.replace("{", "{{").replace("}", "}}"))


wildcard_constraints:
    run=FILE_NAME,
    backbone=r"[A-Za-z0-9._-]+",
    corpus=r"[A-Za-z0-9._-]+",


# Not as input files, because times would count: a copy of other data may be older than the scores,
# and a touched file would score the whole suite again.
def own_data_sums(wildcards):
    """Sums of data without a pin; when its files change, all runs are scored again."""
    if config["data"] == "senteval":
        return ""
    folder = data_folder(config["data"])
    return json.dumps(
        [manifest(folder).model_dump(exclude_unset=True), data_sums(folder)],
        sort_keys=True,
    )


def own_corpus_sum(wildcards):
    name = CORPORA[wildcards.corpus]
    return TOY_VERSION if name in WORLDS else corpus_fingerprint(name)


# A function, since Snakemake would fill in braces of a text.
def data_name(wildcards):
    return config["data"]


def corpus_name(wildcards):
    return CORPORA[wildcards.corpus]


def backbone_reference(wildcards):
    return BACKBONES[wildcards.backbone]


def runs_of(stage, ids):
    """Those of some runs that have a stage."""
    return [run for run in ids if stage in RUNS[run].stages]


def inputs_of(stage, ids):
    """The inputs of a job. Some analyses read the training corpus, even for encoders that are not trained here."""
    runs = [RUNS[run] for run in ids]
    corpora = {name for run in runs for name in run.corpora}
    if stage == "analyse":
        corpora |= {run.corpus or SUITE.corpus for run in runs}
    names = {f"corpus-{slug(name)}" for name in corpora}
    names |= {
        f"backbone-{slug(run.backbone)}" for run in runs if run.backbone != "none"
    }
    inputs = [f"{RESULTS}/inputs/{name}.json" for name in ("data", *sorted(names))]
    needed = [need.id for run in runs for need in run.needs.values()]
    before = needed if stage == "train" else runs_of("train", ids)
    # A job trains its own runs in the order of the plan, each after those that it needs.
    trained = [run for run in before if stage != "train" or run not in ids]
    inputs += [f"{FOLDERS['train']}/{run}.json" for run in trained]
    if stage == "analyse":
        # Two processes never work on one run. Other scores change no analysis.
        inputs += [ancient(f"{FOLDERS['score']}/{run}.json") for run in ids]
    # Times of a copy are others. What changes a training changes the id of its run.
    older = [OLDER.get(f"{FOLDERS[stage]}/{run}.json") for run in ids]
    if stage == "train" or (True in older and False not in older):
        return [ancient(file) for file in inputs]
    return inputs


def jobs_of(stage):
    """The runs of each job by the name of its rule; with one run per job, one rule for all of them."""
    if PER_JOB == 1:
        return {stage: ["{run}"]}
    jobs = (
        list(RUNS)[first : first + PER_JOB] for first in range(0, len(RUNS), PER_JOB)
    )
    return {
        f"{stage}_{number}": ids
        for number, job in enumerate(jobs)
        if (ids := runs_of(stage, job))
    }


def of_job(function, stage, ids):
    return lambda wildcards: function(stage, [wildcards.get("run", run) for run in ids])


def job_priority(stage, ids):
    if PER_JOB == 1:
        # By seed, and a run is scored before the next one is trained: each row can be read early, with its first seeds.
        return 2 * (len(RUNS) - BY_SEED.index(ids[0])) + (stage != "train")
    # Jobs of several runs are long: trainings first, in the order of the configuration, so that none is left to the end
    # while other cores are idle.
    return (2 if stage == "train" else 1) * len(RUNS) - list(RUNS).index(ids[0])


def job_threads(stage, ids):
    return max(RUNS[run].recipe.threads for run in ids) if stage == "train" else 1


def probing_tasks(wildcards):
    """Tasks whose files are downloaded separately; other tasks do not change the data input."""
    return [task for task in expand_tasks(config["tasks"]) if task in PROBING_TASKS]


def what_to_do(stage, ids):
    """What a job does besides what the ids of its runs say. If it changes, it is done again."""
    todo = {"train": "", "score": "tasks", "analyse": "analyses"}[stage]
    done = {run: getattr(RUNS[run], todo) for run in ids if todo}
    # As text: Snakemake compares no nested parameters.
    return json.dumps([SUITE.mode if stage == "score" else "", done])


def suite_folder(wildcards):
    return RESULTS


def check_start():
    """Refuse a second workflow of the suite, and to compute on the processor what was to be computed on GPUs."""
    import torch

    asked = (
        "gpu" in workflow.global_resources
        and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    )
    is_here = workflow.local_exec and not CONTAINED
    if asked and is_here and not torch.cuda.device_count():
        raise WorkflowError(
            "--resources gpu=N asks for GPUs, and torch finds none on this machine: see what nvidia-smi and "
            "torch.version.cuda say, or set CUDA_VISIBLE_DEVICES to nothing to compute on the processor"
        )
    try:
        hold(Path(RESULTS), RUNS)
    except UserError as error:
        raise WorkflowError(str(error)) from None


def made(stage, files):
    """The outputs of a job. Where encoders are dropped a training is one that Snakemake makes again if it is needed."""
    return files if stage != "train" or SUITE.keep_encoders else temp(files)


def outputs_of(stage):
    return [f"{FOLDERS[stage]}/{run}.json" for run in runs_of(stage, RUNS)]
