"""Scores as mteb result files, as in its cache: results/<model>/<revision>/<task>.json, with the
settings of the run in run_settings.jsonl beside them.

Tasks are named SentBench-STS12 and so on, because mteb's tasks of the same names use other files,
splits and classifiers, so that scores must not be mixed. mteb stores scores as fractions (0.76),
not as points.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.datasets.tasks import CHINESE_TASKS, KNOWN_TASKS, STS_TASKS, is_described
from bench.export.card import deviations
from bench.export.runs import ExportedRun
from bench.results.records import Record
from bench.utils.errors import UserError
from bench.utils.files import slug, write_json, write_text

PREFIX = "SentBench-"
METRICS = {"spearman": "cosine_spearman"}  # our name -> mteb's, if they differ
MAIN = ("spearman", "accuracy")  # metrics that are a task's main_score

STS_PROTOCOL = (
    "Spearman correlation of cosines with the gold scores, all pairs of a set as one list"
)
CLASSIFIER = "accuracy of SentEval's classifiers on frozen vectors"


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path, requested: bool) -> list[str]:
    """Write the scores of each run.

    Raises:
        UserError: a requested run has no scores, or no run has.
    """
    remarks: list[str] = []
    for run in runs:
        if run.records:
            _write_run(run, folder)
        elif requested:
            what = f"{run.id} has no scores in {suite_dir} ({run.status})"
            raise UserError(f"{what}; score it first, or leave it out")
        else:
            remarks.append(f"{run.id} has no scores ({run.status})")
    if len(remarks) == len(runs):
        raise UserError(f"{suite_dir} has no scores to export; score its runs first")
    return remarks


def _write_run(run: ExportedRun, folder: Path) -> None:
    description = run.description
    name = "-".join(slug(str(description[part])) for part in ("method", "setting", "backbone"))
    place = folder / "results" / f"sentbench__{name}" / run.id
    parts: dict[tuple[str, str], list[Record]] = {}
    for record in run.records:
        if record["task"] != "Avg":  # mteb computes averages itself
            parts.setdefault((record["task"], record["split"]), []).append(record)
    meta = _model(run, f"sentbench/{name}", [task for task, _ in parts])
    write_json(place / "model_meta.json", meta)
    settings = []
    for (task, split), records in parts.items():
        result = _result(run, task, split, records)
        write_json(place / f"{result['task_name']}.json", result)
        settings.append(json.dumps(_settings(run, result["task_name"], split), ensure_ascii=False))
    write_text(place / "run_settings.jsonl", "".join(f"{line}\n" for line in settings))


def _settings(run: ExportedRun, task: str, split: str) -> dict[str, Any]:
    """How a task was scored, as mteb (2.26) records it: versions and arguments of the encoder. The
    rest is ours, since mteb keeps further keys."""
    provenance, description = run.provenance, run.description
    code, recipe = provenance.get("code") or {}, description.get("recipe") or {}
    asked = {"max_length": recipe.get("max_length"), "pooler": recipe.get("pooler")}
    own = {name: description.get(name) for name in ("method", "setting", "backbone", "seed")}
    own |= {"commit": code.get("commit"), "mode": provenance.get("mode")}
    own |= {"device": (provenance.get("device") or {}).get("name"), "date": provenance.get("date")}
    return {
        "task": task,
        "splits": [split],
        "version": {"sentbench": code.get("version"), **(provenance.get("versions") or {})},
        "encode_kwargs": {key: value for key, value in asked.items() if value is not None},
        "subsets": ["default"],
        "sentbench": own,
    }


def _model(run: ExportedRun, name: str, tasks: Sequence[str]) -> dict[str, Any]:
    """mteb's metadata of a model; unknown fields are null."""
    unknown = "loader release_date n_parameters memory_usage_mb max_tokens embed_dim license "
    unknown += "open_weights public_training_code public_training_data training_datasets"
    return {
        "name": name,
        "revision": run.id,
        "languages": sorted({_language(task) for task in tasks}),
        "framework": ["PyTorch"],
        "similarity_fn_name": "cosine",
        "use_instructions": False,
        **dict.fromkeys(unknown.split()),
    }


def _language(task: str) -> str:
    """ISO 639-3 code and script; undetermined for a user's own data set."""
    if task in CHINESE_TASKS:
        return "cmn-Hans"
    return "eng-Latn" if task in KNOWN_TASKS else "und-Zyyy"


def _result(run: ExportedRun, task: str, split: str, records: Sequence[Record]) -> dict[str, Any]:
    """One result file. A dev set is a separate task, because mteb averages the splits of a task."""
    scores: dict[str, Any] = {"hf_subset": "default", "languages": [_language(task)]}
    for record in records:
        metric, fraction = str(record["metric"]), record["value"] / 100
        name = METRICS.get(metric, metric)
        whole = record["aggregation"] == "all"
        scores[name if whole else f"{name}_{record['aggregation']}"] = fraction
        if whole and metric in MAIN:
            scores["main_score"] = fraction
    return {
        "task_name": PREFIX + slug(task) + ("" if split == "test" else f"-{split}"),
        "dataset_revision": _revision(run.provenance, task, split),
        "mteb_version": None,  # not computed by mteb
        "evaluation_time": None,  # only the total over all tasks is known
        "scores": {split: [scores | {"protocol": _protocol(run, task)}]},
    }


def _protocol(run: ExportedRun, task: str) -> str:
    """How the scores were computed, and what they can be compared with."""
    code, mode = run.provenance.get("code") or {}, run.provenance.get("mode", "test")
    is_sts = task in STS_TASKS or is_described(task)
    parts = [
        STS_PROTOCOL if is_sts else f"{CLASSIFIER}, trained in mode {mode}",
        f"sentbench {code.get('version')}, commit {code.get('commit') or 'unknown'}",
        "not mteb's task of this name",
    ]
    if reasons := deviations(run):
        parts.append(f"{', '.join(reasons)}: not comparable with any paper")
    return "; ".join(parts)


def _revision(provenance: Mapping[str, Any], task: str, split: str) -> str:
    """The checksum of a task's split, else of the data folder."""
    sums = (provenance.get("tasks") or {}).get(task) or {}
    whole = (provenance.get("data") or {}).get("sha256")
    return str(sums.get(split) or sums.get("all") or whole or "unknown")
