"""Scores as mteb result files, as in its cache: results/<model>/<revision>/<task>.json, with the
settings of the run in run_settings.jsonl beside them.

Tasks are named SentBench-STS12 and so on, because mteb's tasks of the same names use other files,
splits and classifiers, so that scores must not be mixed. mteb stores scores as fractions (0.76),
not as points.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.datasets.tasks import CHINESE_TASKS, KNOWN_TASKS, STS_TASKS, is_described
from bench.export.card import deviations
from bench.export.runs import ExportedRun, without_scores
from bench.results.records import Record
from bench.utils.errors import UserError
from bench.utils.files import slug, write_json, write_text

METRICS = {"spearman": "cosine_spearman"}  # our name -> mteb's, if they differ
MAIN = ("spearman", "accuracy")  # metrics that are a task's main_score

STS_PROTOCOL = (
    "Spearman correlation of cosines with the gold scores, all pairs of a set as one list"
)
CLASSIFIER = "accuracy of SentEval's classifiers on frozen vectors"

# What mteb's metadata of a model has, and a run does not know.
UNKNOWN = "loader release_date n_parameters memory_usage_mb max_tokens embed_dim license"
UNKNOWN += " open_weights public_training_code public_training_data training_datasets"


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path, requested: bool) -> list[str]:
    """Write the scores of each run.

    Raises:
        UserError: a requested run has no scores, or no run has.
    """
    remarks = [without_scores(run) for run in runs if not run.records]
    if remarks and (requested or len(remarks) == len(runs)):
        raise UserError(remarks[0])
    for run in runs:
        if run.records:
            _write_run(run, folder / "results")
    return remarks


def _write_run(run: ExportedRun, folder: Path) -> None:
    description = run.description
    name = "-".join(slug(str(description[part])) for part in ("method", "setting", "backbone"))
    folder = folder / f"sentbench__{name}" / run.id
    parts: dict[tuple[str, str], list[Record]] = {}
    for record in run.records:
        if record["task"] != "Avg":  # mteb computes averages itself
            parts.setdefault((record["task"], record["split"]), []).append(record)
    model = {
        "name": f"sentbench/{name}",
        "revision": run.id,
        "languages": sorted({_language(task) for task, _ in parts}),
        "framework": ["PyTorch"],
        "similarity_fn_name": "cosine",
        "use_instructions": False,
        **dict.fromkeys(UNKNOWN.split()),
    }
    write_json(folder / "model_meta.json", model)
    settings = ""
    for (task, split), records in parts.items():
        # A dev set is a task of its own, because mteb averages the splits of a task.
        title = f"SentBench-{slug(task)}" + ("" if split == "test" else f"-{split}")
        write_json(folder / f"{title}.json", _result(run, title, task, split, records))
        settings += json.dumps(_settings(run, title, split), ensure_ascii=False) + "\n"
    write_text(folder / "run_settings.jsonl", settings)


def _settings(run: ExportedRun, title: str, split: str) -> dict[str, Any]:
    """How a task was scored, as mteb (2.26) records it: versions and arguments of the encoder. The
    rest is ours, since mteb keeps further keys."""
    recipe = run.description.get("recipe") or {}
    ours = {key: run.description.get(key) for key in ("method", "setting", "backbone", "seed")}
    ours |= {"commit": run.part("code").get("commit"), "mode": run.provenance.get("mode")}
    ours |= {"device": run.part("device").get("name"), "date": run.provenance.get("date")}
    return {
        "task": title,
        "splits": [split],
        "version": {"sentbench": run.part("code").get("version"), **run.part("versions")},
        "encode_kwargs": {key: recipe[key] for key in ("max_length", "pooler") if key in recipe},
        "subsets": ["default"],
        "sentbench": ours,
    }


def _language(task: str) -> str:
    """ISO 639-3 code and script; undetermined for a user's own data set."""
    if task in CHINESE_TASKS:
        return "cmn-Hans"
    return "eng-Latn" if task in KNOWN_TASKS else "und-Zyyy"


def _result(
    run: ExportedRun, title: str, task: str, split: str, records: Sequence[Record]
) -> dict[str, Any]:
    scores: dict[str, Any] = {"hf_subset": "default", "languages": [_language(task)]}
    for record in records:
        metric = str(record["metric"])
        name = METRICS.get(metric, metric)
        if record["aggregation"] != "all":
            name += f"_{record['aggregation']}"
        elif metric in MAIN:
            scores["main_score"] = record["value"] / 100
        scores[name] = record["value"] / 100
    # The checksum of a task's split, else of the data folder.
    sums = run.part("tasks").get(task) or {}
    revision = sums.get(split) or sums.get("all") or run.part("data").get("sha256") or "unknown"
    return {
        "task_name": title,
        "dataset_revision": revision,
        "mteb_version": None,  # not computed by mteb
        "evaluation_time": None,  # only the total over all tasks is known
        "scores": {split: [scores | {"protocol": _protocol(run, task)}]},
    }


def _protocol(run: ExportedRun, task: str) -> str:
    """How the scores were computed, and what they can be compared with."""
    code = run.part("code")
    is_sts = task in STS_TASKS or is_described(task)
    parts = [
        STS_PROTOCOL if is_sts else f"{CLASSIFIER}, trained in mode {run.provenance.get('mode')}",
        f"sentbench {code.get('version')}, commit {code.get('commit') or 'unknown'}",
        "not mteb's task of this name",
    ]
    reasons = deviations(run)
    if reasons:
        parts.append(f"{', '.join(reasons)}: not comparable with any paper")
    return "; ".join(parts)
