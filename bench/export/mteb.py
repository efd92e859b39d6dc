"""Scores as mteb's result files, in the folders of its results cache: results/<model>/<revision>/<task>.json.

The tasks are called SentBench-STS12 and so on: mteb's tasks of these names have files, splits and classifiers of their
own, so the numbers must not stand in one column with theirs. mteb reads scores as shares (0.76), not as points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.datasets.tasks import CHINESE_TASKS, KNOWN_TASKS, STS_TASKS, is_described
from bench.export.card import foreign
from bench.export.runs import Exported
from bench.results.records import Record
from bench.utils.errors import UserError
from bench.utils.files import slug, write_json

PREFIX = "SentBench-"
METRICS = {"spearman": "cosine_spearman"}  # mteb's name, where it is not ours
MAIN = ("spearman", "accuracy")  # the metric that mteb shows

STS_PROTOCOL = "Spearman correlation of cosines with the gold scores, all pairs of a set as one list"
CLASSIFIER = "accuracy of SentEval's classifiers on frozen vectors"


def write(suite: Path, runs: Sequence[Exported], folder: Path, asked: bool) -> list[str]:
    """Write the scores of each run.

    Raises:
        UserError: a run that was asked for has no scores, or none has.
    """
    remarks: list[str] = []
    for run in runs:
        if run.records:
            _write_run(run, folder)
        elif asked:
            raise UserError(f"{run.id} has no scores in {suite} ({run.status}); score it first, or leave it out")
        else:
            remarks.append(f"{run.id} has no scores ({run.status})")
    if len(remarks) == len(runs):
        raise UserError(f"{suite} has no scores to export; score its runs first")
    return remarks


def _write_run(run: Exported, folder: Path) -> None:
    told = run.told
    name = "-".join(slug(str(told[part])) for part in ("method", "setting", "backbone"))
    place = folder / "results" / f"sentbench__{name}" / run.id
    parts: dict[tuple[str, str], list[Record]] = {}
    for record in run.records:
        if record["task"] != "Avg":  # mteb takes averages itself
            parts.setdefault((record["task"], record["split"]), []).append(record)
    write_json(place / "model_meta.json", _model(run, f"sentbench/{name}", [task for task, _ in parts]))
    for (task, split), records in parts.items():
        result = _result(run, task, split, records)
        write_json(place / f"{result['task_name']}.json", result)


def _model(run: Exported, name: str, tasks: Sequence[str]) -> dict[str, Any]:
    """What mteb wants to know of a model; what nobody wrote down is null."""
    unknown = (
        "loader",
        "release_date",
        "n_parameters",
        "memory_usage_mb",
        "max_tokens",
        "embed_dim",
        "license",
        "open_weights",
        "public_training_code",
        "public_training_data",
        "training_datasets",
    )
    return {
        "name": name,
        "revision": run.id,
        "languages": sorted({_language(task) for task in tasks}),
        "framework": ["PyTorch"],
        "similarity_fn_name": "cosine",
        "use_instructions": False,
        **dict.fromkeys(unknown),
    }


def _language(task: str) -> str:
    """ISO 639-3 and the script; of a user's own set nothing is known."""
    if task in CHINESE_TASKS:
        return "cmn-Hans"
    return "eng-Latn" if task in KNOWN_TASKS else "und-Zyyy"


def _result(run: Exported, task: str, split: str, records: Sequence[Record]) -> dict[str, Any]:
    """One file. A dev set is a task of its own, since mteb takes a task's score as the mean over its splits."""
    scores: dict[str, Any] = {"hf_subset": "default", "languages": [_language(task)]}
    for record in records:
        metric, share = str(record["metric"]), record["value"] / 100
        name = METRICS.get(metric, metric)
        whole = record["aggregation"] == "all"
        scores[name if whole else f"{name}_{record['aggregation']}"] = share
        if whole and metric in MAIN:
            scores["main_score"] = share
    return {
        "task_name": PREFIX + slug(task) + ("" if split == "test" else f"-{split}"),
        "dataset_revision": _revision(run.provenance, task, split),
        "mteb_version": None,  # mteb computed none of it
        "evaluation_time": None,  # known of all tasks together alone
        "scores": {split: [scores | {"protocol": _protocol(run, task)}]},
    }


def _protocol(run: Exported, task: str) -> str:
    """How the scores came about, and what they can be compared with."""
    code, mode = run.provenance.get("code") or {}, run.provenance.get("mode", "test")
    is_sts = task in STS_TASKS or is_described(task)
    parts = [
        STS_PROTOCOL if is_sts else f"{CLASSIFIER}, trained in mode {mode}",
        f"sentbench {code.get('version')}, commit {code.get('commit') or 'unknown'}",
        "not mteb's task of this name",
    ]
    if reasons := foreign(run):
        parts.append(f"{', '.join(reasons)}: comparable with no paper")
    return "; ".join(parts)


def _revision(provenance: Mapping[str, Any], task: str, split: str) -> str:
    """The sum of what was read of a task's split, else of the data folder."""
    sums = (provenance.get("tasks") or {}).get(task) or {}
    return str(sums.get(split) or sums.get("all") or (provenance.get("data") or {}).get("sha256") or "unknown")
