# Shared by all rules: the planned runs by id, and the input functions of rules.
import json
import os
import shlex
import sys
from pathlib import Path

from bench.runs import config as suites
from bench.registry.backbones import TOY_VERSION
from bench.datasets.corpora import MADE
from bench.utils.errors import UserError
from bench.utils.files import blocking_path, slug
from bench.datasets.tasks import PROBING_TASKS, expand_tasks
from snakemake.exceptions import WorkflowError

try:
    # Snakemake's own reader accepts duplicate keys and keeps the last.
    for path in workflow.configfiles:
        suites.read(path)
    # Adds the configuration's method_paths to BENCH_METHODS, which every job inherits.
    with suites.naming(", ".join(map(str, workflow.configfiles))):
        suites.validate(config)
        PLANNED = {found.run.id: found for found in suites.planned(config)}
except UserError as error:
    raise WorkflowError(str(error)) from None

RUNS = {run_id: found.run for run_id, found in PLANNED.items()}
BACKBONES = {run.backbone.name: run.backbone for run in RUNS.values()}
# Every corpus that a run reads, by its name in file names.
CORPORA = {
    slug(name): name for run in RUNS.values() for name in (*run.corpora, run.corpus)
}
RESULTS = f"results/{config['suite']}"
FIGURES = f"figures/{config['suite']}"
TOGETHER = config.get("runs_together", 1)
PER_JOB = config.get("runs_per_job", 1)
# Where the results of each stage are.
FOLDERS = {
    "train": f"{RESULTS}/trained",
    "score": f"{RESULTS}/scores",
    "analyse": f"{RESULTS}/analyses",
}
for blocked in filter(None, map(blocking_path, (Path(RESULTS), Path(FIGURES)))):
    raise WorkflowError(f"{blocked} is no folder, where results go; move it away")

# Jobs are commands of the Python that runs this workflow, whatever the working directory. `exec`
# replaces the shell: a signal to the process group would otherwise end the shell, and with it the job,
# before the command has written its checkpoint.
shell.prefix(
    f"export PYTHONPATH={shlex.quote(str(Path(suites.__file__).parents[2]))} "
    f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; exec "
)


wildcard_constraints:
    run=r"[a-z0-9.+_-]+",
    backbone=r"[A-Za-z0-9._-]+",
    corpus=r"[A-Za-z0-9._-]+",


def world_if_named(name):
    return f"{RESULTS}/world/manifest.json" if name == "world" else []


def corpus_name(wildcards):
    return CORPORA[wildcards.corpus]


def corpus_world(wildcards):
    name = CORPORA[wildcards.corpus]
    return world_if_named(config["data"] if name in MADE else name)


def backbone_reference(wildcards):
    return BACKBONES[wildcards.backbone].reference


def runs_of(stage, ids):
    """Those of some runs that have a stage."""
    has = {
        "train": lambda run: RUNS[run].trained,
        "score": lambda run: True,
        "analyse": lambda run: PLANNED[run].analyses,
    }
    return list(filter(has[stage], ids))


def inputs_of(stage, ids):
    """The inputs of a job. Some analyses read the training corpus, even for encoders that are not trained here."""
    runs = [RUNS[run] for run in ids]
    corpora = {name for run in runs for name in run.corpora}
    if stage == "analyse":
        corpora |= {run.corpus for run in runs}
    names = {f"corpus-{slug(name)}" for name in corpora}
    names |= {
        f"backbone-{run.backbone.name}" for run in runs if run.backbone.source != "none"
    }
    inputs = [f"{RESULTS}/inputs/{name}.json" for name in ("data", *sorted(names))]
    trained = [] if stage == "train" else runs_of("train", ids)
    return inputs + [f"{FOLDERS['train']}/{run}.json" for run in trained]


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


def job_threads(stage, ids):
    most = max(RUNS[run].recipe.threads for run in ids) if stage == "train" else 1
    return min(TOGETHER, len(ids)) * most


def suite_config(wildcards):
    return json.dumps(config, sort_keys=True)


def probing_tasks(wildcards):
    """Tasks whose files are downloaded separately; other tasks do not change the data input."""
    return [task for task in expand_tasks(config["tasks"]) if task in PROBING_TASKS]


def plan_part(stage, ids):
    """The part of the plan for a job, with only the keys that affect it."""
    keys = ["id", "method", "setting", "reference", "seed", "recipe_changes"]
    keys += {"train": [], "score": ["tasks"], "analyse": ["analyses"]}[stage]
    entries = [PLANNED[run].describe() for run in ids]
    plan = {
        "corpus": config["corpus"],
        "data": config["data"],
        "mode": suites.mode_of(config),
        "runs": [{key: entry[key] for key in keys} for entry in entries],
    }
    return json.dumps(plan, ensure_ascii=False, sort_keys=True)


def suite_folder(wildcards):
    return RESULTS


def outputs_of(stage):
    return [f"{FOLDERS[stage]}/{run}.json" for run in runs_of(stage, RUNS)]


def compared(wildcards):
    """The outputs of the comparison, if the configuration names a baseline."""
    if "compare" not in config:
        return []
    return [f"{RESULTS}/tables/compare.csv", f"{FIGURES}/compare.png"]
