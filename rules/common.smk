# What the rules of every stage share: the runs by id, and functions named for what they return.
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
    # Snakemake's own reader keeps the last of two equal keys.
    for path in workflow.configfiles:
        suites.read(path)
    # Methods of its own join BENCH_METHODS here, which every job inherits.
    suites.validate(config)
    PLANNED = {found.run.id: found for found in suites.planned(config)}
except UserError as error:
    raise WorkflowError(str(error)) from None

RUNS = {run_id: found.run for run_id, found in PLANNED.items()}
BACKBONES = {run.backbone.name: run.backbone for run in RUNS.values()}
# Every corpus that a run reads, by the name that files are given for it.
CORPORA = {
    slug(name): name for run in RUNS.values() for name in (*run.corpora, run.corpus)
}
RESULTS = f"results/{config['suite']}"
FIGURES = f"figures/{config['suite']}"
for blocked in filter(None, map(blocking_path, (Path(RESULTS), Path(FIGURES)))):
    raise WorkflowError(f"{blocked} is no folder, where results go; move it away")

# Every job is a command of the Python that runs this workflow, wherever the working directory is. It takes the place of
# its shell, which a signal to all of a job's processes would end before the command has written its checkpoint.
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
    """Some analyses read the training corpus, of encoders too that were not trained here."""
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
    """The tasks whose files are fetched by themselves; other changes of tasks leave the data as they are."""
    return [task for task in expand_tasks(config["tasks"]) if task in PROBING_TASKS]


def told(run_ids, *more):
    """The part of the plan that a job of several runs does, of each run no more than decides the job."""
    keys = ("id", "method", "setting", "reference", "seed", "recipe_changes", *more)
    entries = [PLANNED[run].describe() for run in run_ids]
    plan = {
        "corpus": config["corpus"],
        "data": config["data"],
        "mode": suites.mode_of(config),
        "runs": [{key: entry[key] for key in keys} for entry in entries],
    }
    text = json.dumps(plan, ensure_ascii=False, sort_keys=True)
    return lambda wildcards: text  # a text by itself would be searched for wildcards


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
    """Of a configuration that names a baseline, the comparison with it."""
    if "compare" not in config:
        return []
    return [f"{RESULTS}/tables/compare.csv", f"{FIGURES}/compare.png"]
