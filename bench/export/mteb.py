"""Scores as mteb result files, as in its cache: results/<model>/<revision>/<task>.json.

Tasks are named SentBench-STS12 and so on, because mteb's tasks of the same names use other files,
splits and classifiers, so that scores must not be mixed. mteb stores scores as fractions (0.76),
not as points.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.datasets.tasks import PAIRS, task_of
from bench.export.card import deviations
from bench.export.runs import ExportedRun
from bench.results.records import Record
from bench.utils.errors import UserError
from bench.utils.files import slug, write_json

METRICS = {"spearman": "cosine_spearman"}  # our name -> mteb's, if they differ
MAIN = ("spearman", "accuracy")  # metrics that are a task's main_score

STS_PROTOCOL = (
    "Spearman correlation of cosines with the gold scores, all pairs of a set as one list"
)
CLASSIFIER = "accuracy of SentEval's classifiers on frozen vectors"

# What mteb's metadata of a model has, and a run does not know.
UNKNOWN = "loader release_date n_parameters memory_usage_mb max_tokens embed_dim license"
UNKNOWN += " open_weights public_training_code public_training_data training_datasets"


def write(suite_dir: Path, run: ExportedRun, folder: Path) -> None:
    """Write the scores of a run; `UserError` if it has none."""
    if not run.records:
        raise UserError(
            f"{run.id} has no scores in {suite_dir} ({run.status}); score it first, or leave it out"
        )
    description = run.description
    name = "-".join(slug(str(description[part])) for part in ("method", "setting", "backbone"))
    folder = folder / "results" / f"sentbench__{name}" / run.id
    parts: dict[tuple[str, str], list[Record]] = {}
    for record in run.records:
        if record["task"] != "Avg":  # mteb computes averages itself
            parts.setdefault((record["task"], record["split"]), []).append(record)
    model = {
        "name": f"sentbench/{name}",
        "revision": run.id,
        "languages": sorted({task_of(task).language for task, _ in parts}),
        "framework": ["PyTorch"],
        "similarity_fn_name": "cosine",
        "use_instructions": False,
        **dict.fromkeys(UNKNOWN.split()),
    }
    write_json(folder / "model_meta.json", model)
    for (task, split), records in parts.items():
        # A dev set is a task of its own, because mteb averages the splits of a task.
        title = f"SentBench-{slug(task)}" + ("" if split == "test" else f"-{split}")
        write_json(folder / f"{title}.json", _result(run, title, task, split, records))


def _result(
    run: ExportedRun, title: str, task: str, split: str, records: Sequence[Record]
) -> dict[str, Any]:
    entry = task_of(task)
    scores: dict[str, Any] = {"hf_subset": "default", "languages": [entry.language]}
    for record in records:
        metric, is_whole = str(record["metric"]), record["aggregation"] == "all"
        name = METRICS.get(metric, metric) + ("" if is_whole else f"_{record['aggregation']}")
        scores[name] = record["value"] / 100
        if is_whole and metric in MAIN:
            scores["main_score"] = scores[name]
    code, reasons = run.part("code"), deviations(run)
    classifier = f"{CLASSIFIER}, trained in mode {run.provenance.get('mode')}"
    protocol = [
        STS_PROTOCOL if entry.protocol == PAIRS else classifier,
        f"sentbench {code.get('version')}, commit {code.get('commit') or 'unknown'}",
        "not mteb's task of this name",
    ]
    if reasons:
        protocol.append(f"{', '.join(reasons)}: not comparable with any paper")
    # The checksum of a task's split, else of the data folder.
    sums = run.part("tasks").get(task) or {}
    revision = sums.get(split) or sums.get("all") or run.part("data").get("sha256") or "unknown"
    return {
        "task_name": title,
        "dataset_revision": revision,
        "mteb_version": None,  # not computed by mteb
        "evaluation_time": None,  # only the total over all tasks is known
        "scores": {split: [scores | {"protocol": "; ".join(protocol)}]},
    }
