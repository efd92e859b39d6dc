"""Scores as mteb result files, as in its cache: results/<model>/<revision>/<task>.json.

Tasks are named SentBench-STS12 and so on, because mteb's tasks of the same names use other files,
splits and classifiers, so that scores must not be mixed. mteb stores scores as fractions (0.76),
not as points.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import PAIRS, task_of
from bench.export.runs import ExportedRun
from bench.results.records import Record
from bench.utils.errors import UserError
from bench.utils.files import slug, write_json

STS_PROTOCOL = (
    "Spearman correlation of cosines with the gold scores, all pairs of a set as one list"
)
# What mteb's metadata of a model has, and a run does not know.
UNKNOWN = "loader release_date n_parameters memory_usage_mb max_tokens embed_dim license"
UNKNOWN += " open_weights public_training_code public_training_data training_datasets"


def write(suite_dir: Path, exported: ExportedRun, folder: Path) -> None:
    """Write the scores of a run; `UserError` if it has none."""
    run = exported.run
    if not exported.records:
        raise UserError(
            f"{run.id} has no scores in {suite_dir} ({exported.status}); "
            "score it first, or leave it out"
        )
    name = "-".join(map(slug, (run.method, run.setting, run.backbone)))
    folder = folder / "results" / f"sentbench__{name}" / run.id
    parts: dict[tuple[str, str], list[Record]] = {}
    for record in exported.records:
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
        # The checksum of a task's split, else of the data folder.
        sums = exported.part("tasks").get(task) or {}
        data_sum = exported.part("data").get("sha256") or "unknown"
        result = {
            "task_name": title,
            "dataset_revision": sums.get(split) or sums.get("all") or data_sum,
            "mteb_version": None,  # not computed by mteb
            "evaluation_time": None,  # only the total over all tasks is known
            "scores": {split: [_scores(exported, task, records)]},
        }
        write_json(folder / f"{title}.json", result)


def _scores(exported: ExportedRun, task: str, records: Sequence[Record]) -> dict[str, Any]:
    entry = task_of(task)
    scores: dict[str, Any] = {"hf_subset": "default", "languages": [entry.language]}
    for record in records:
        metric = METRICS[record["metric"]]
        name = metric.mteb or record["metric"]
        if record["aggregation"] != "all":
            name += f"_{record['aggregation']}"
        elif metric.is_main:
            scores["main_score"] = record["value"] / 100
        scores[name] = record["value"] / 100
    code = exported.part("code")
    protocol = STS_PROTOCOL
    if entry.protocol != PAIRS:
        mode = exported.provenance.get("mode")
        protocol = f"accuracy of SentEval's classifiers on frozen vectors, trained in mode {mode}"
    protocol += f"; sentbench {code.get('version')}, commit {code.get('commit') or 'unknown'}"
    protocol += "; not mteb's task of this name"
    if exported.deviations:
        protocol += f"; {', '.join(exported.deviations)}: not comparable with any paper"
    return scores | {"protocol": protocol}
