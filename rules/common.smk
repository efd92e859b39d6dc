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
from bench.stages.watch import LogFilter, watch
from bench.stages.workflow import Jobs
from bench.utils.errors import UserError, errors_of, warn
from bench.utils.files import sha256_text, slug
from bench.utils.validation import FILE_NAME
from bench.datasets.tasks import PROBING_TASKS, expand_tasks
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

LOG_FILTER = LogFilter()
logger.addFilter(LOG_FILTER)

try:
    # Snakemake's own reader accepts duplicate keys and keeps the last.
    for path in workflow.configfiles:
        suites.read(path)
    # Adds the configuration's method_paths to BENCH_METHODS, which every job inherits.
    with errors_of(f"configuration {', '.join(map(str, workflow.configfiles))}"):
        # The last file, whose keys replace the others'; as a module the workflow has none.
        SUITE = suites.validate(config, Path(*workflow.configfiles[-1:]).parent)
        PLAN = suites.plan(SUITE)
    runs_per_gpu()
    # The plan as it will be written: it continues the plan of an earlier start.
    GROWN = PLAN.after(Path("results", PLAN.suite, "plan.json"))
    # Only in the main process: beside a job, other jobs write results. A dry run writes nothing.
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
JOBS = Jobs(PLAN, SUITE.runs_per_job, Path(RESULTS), OLDER)
FIGURES = f"figures/{config['suite']}"
# Where the results of each stage are.
FOLDERS = {stage: f"{RESULTS}/{folder}" for stage, folder in STAGES.items()}

# With --sdm apptainer, jobs run in an image (docs/how-to/clusters.md#in-a-container). No other job names it,
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


def of_job(function, stage, ids):
    return lambda wildcards: function(stage, [wildcards.get("run", run) for run in ids])


def inputs_of(stage, ids):
    """The inputs of a job. The times of some do not count."""
    return [
        file if repeats else ancient(file)
        for file, repeats in JOBS.inputs(stage, ids).items()
    ]


def probing_tasks(wildcards):
    """Tasks whose files are downloaded separately; other tasks do not change the data input."""
    return [task for task in expand_tasks(config["tasks"]) if task in PROBING_TASKS]


def suite_folder(wildcards):
    return RESULTS


def check_start():
    """Refuse a second workflow of the suite, and a start for GPUs on a machine where torch finds none."""
    import torch

    needs_gpu = (
        "gpu" in workflow.global_resources
        and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    )
    is_here = workflow.local_exec and not CONTAINED
    if needs_gpu and is_here and not torch.cuda.device_count():
        raise WorkflowError(
            "--resources gpu=N asks for GPUs, and torch finds none on this machine: see what nvidia-smi and "
            "torch.version.cuda say, or set CUDA_VISIBLE_DEVICES to nothing to compute on the processor"
        )
    try:
        hold(Path(RESULTS), RUNS)
    except UserError as error:
        raise WorkflowError(str(error)) from None


def temporary_if_dropped(stage, files):
    """The outputs of a job. If encoders are dropped, trainings are temporary: Snakemake makes them again where needed."""
    return files if stage != "train" or SUITE.keep_encoders else temp(files)


def outputs_of(stage):
    return [f"{FOLDERS[stage]}/{run}.json" for run in JOBS.with_stage(stage, RUNS)]
