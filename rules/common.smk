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
from bench.utils.files import blocking_path
from bench.utils.files import slug
from bench.datasets.tasks import PROBING_TASKS, expand_tasks
from snakemake.exceptions import WorkflowError

try:
    # Snakemake's own reader accepts duplicate keys and keeps the last.
    for path in workflow.configfiles:
        suites.read(path)
    # Adds the configuration's method_paths to BENCH_METHODS, which every job inherits.
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


def run_inputs(wildcards):
    return inputs_of(wildcards.run)


def inputs_of(run_id):
    run = RUNS[run_id]
    inputs = [f"{RESULTS}/inputs/data.json"]
    if run.backbone.source != "none":
        inputs.append(f"{RESULTS}/inputs/backbone-{run.backbone.name}.json")
    inputs += [f"{RESULTS}/inputs/corpus-{slug(name)}.json" for name in run.corpora]
    return inputs


def analysis_inputs(wildcards):
    return analysis_inputs_of(wildcards.run)


def analysis_inputs_of(run_id):
    """Some analyses read the training corpus, even for encoders that are not trained here."""
    corpus = slug(RUNS[run_id].corpus)
    return [*inputs_of(run_id), f"{RESULTS}/inputs/corpus-{corpus}.json"]


def trained_encoder(wildcards):
    return (
        f"{RESULTS}/trained/{wildcards.run}.json" if RUNS[wildcards.run].trained else []
    )


def run_arguments(wildcards):
    return RUNS[wildcards.run].arguments


def run_threads(wildcards):
    return RUNS[wildcards.run].recipe.threads


def suite_config(wildcards):
    return json.dumps(config, sort_keys=True)


def run_tasks(wildcards):
    return PLANNED[wildcards.run].tasks


def run_analyses(wildcards):
    return PLANNED[wildcards.run].analyses


def probing_tasks(wildcards):
    """Tasks whose files are downloaded separately; other tasks do not change the data input."""
    return [task for task in expand_tasks(config["tasks"]) if task in PROBING_TASKS]


def plan_part(run_ids, *more):
    """The part of the plan for a job of several runs, with only the keys that affect the job."""
    keys = ("id", "method", "setting", "reference", "seed", "recipe_changes", *more)
    entries = [PLANNED[run].describe() for run in run_ids]
    plan = {
        "corpus": config["corpus"],
        "data": config["data"],
        "mode": suites.mode_of(config),
        "runs": [{key: entry[key] for key in keys} for entry in entries],
    }
    text = json.dumps(plan, ensure_ascii=False, sort_keys=True)
    return lambda wildcards: text  # Snakemake expands wildcards in plain strings


def suite_folder(wildcards):
    return RESULTS


def all_scores(wildcards):
    return [f"{RESULTS}/scores/{run}.json" for run in RUNS]


def all_analyses(wildcards):
    return [
        f"{RESULTS}/analyses/{run}.json"
        for run, found in PLANNED.items()
        if found.analyses
    ]


def compared(wildcards):
    """The outputs of the comparison, if the configuration names a baseline."""
    if "compare" not in config:
        return []
    return [f"{RESULTS}/tables/compare.csv", f"{FIGURES}/compare.png"]
