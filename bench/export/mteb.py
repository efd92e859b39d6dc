"""Scores as mteb's results, in the files of its cache: results/<model>/<revision>/<task>.json.

Tasks are named SentBench-STS12 and so on, because mteb's tasks of the same names use other files,
splits and classifiers, so that scores must not be mixed. mteb stores fractions (0.76), not points.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import PAIRS, task_of
from bench.export.runs import ExportedRun
from bench.results.records import Score
from bench.utils.errors import UserError
from bench.utils.files import slug, write_json

# What mteb's metadata of a model has, and a run does not know.
UNKNOWN = (
    "loader", "release_date", "n_parameters", "memory_usage_mb", "max_tokens", "embed_dim",
    "license", "open_weights", "public_training_code", "public_training_data", "training_datasets",
)  # fmt: skip


def write(suite_dir: Path, exported: ExportedRun, folder: Path) -> None:
    """Write the scores of a run; `UserError` if it has none."""
    run = exported.run
    if not exported.records:
        raise UserError(
            f"{run.id} has no scores in {suite_dir} ({exported.status}); "
            "score it first, or leave it out"
        )
    name = slug("-".join(map(slug, (run.method, run.setting, run.backbone))))
    folder = folder / "results" / f"sentbench__{name}" / run.id
    parts: dict[tuple[str, str], list[Score]] = {}
    for record in exported.records:
        if record.task != "Avg":  # mteb computes averages itself
            parts.setdefault((record.task, record.split), []).append(record)
    model = {
        "name": f"sentbench/{name}",
        "revision": run.id,
        "languages": sorted({task_of(task).language for task, _ in parts}),
        "framework": ["PyTorch"],
        "similarity_fn_name": "cosine",
        "use_instructions": False,
        **dict.fromkeys(UNKNOWN),
    }
    files = {"model_meta": model}  # made before any is written, so that a failure leaves none
    for (task, split), records in parts.items():
        # A dev set is a task of its own, because mteb averages the splits of a task.
        title = f"SentBench-{slug(task)}" + ("" if split == "test" else f"-{split}")
        # The checksum of a task's split, else of the data folder.
        sums = exported.provenance.tasks.get(task, {})
        files[title] = {
            "task_name": title,
            "dataset_revision": sums.get(split, sums.get("all"))
            or exported.provenance.data.sha256
            or "unknown",
            "mteb_version": None,  # not computed by mteb
            "evaluation_time": None,  # only the total over all tasks is known
            "scores": {split: [_scores(exported, task, records)]},
        }
    for title, content in files.items():
        write_json(folder / f"{title}.json", content)


def _scores(exported: ExportedRun, task: str, records: Sequence[Score]) -> dict[str, Any]:
    entry = task_of(task)
    scores: dict[str, Any] = {"hf_subset": "default", "languages": [entry.language]}
    for record in records:
        metric = METRICS[record.metric]
        name = metric.mteb or record.metric
        if record.aggregation != "all":
            name += f"_{record.aggregation}"
        elif metric.is_main:
            scores["main_score"] = record.value / 100
        scores[name] = record.value / 100
    code = exported.provenance.code
    clauses = [
        "Spearman correlation of cosines with the gold scores, all pairs of a set as one list"
        if entry.protocol == PAIRS
        else "accuracy of SentEval's classifiers on frozen vectors, trained in mode "
        f"{exported.provenance.mode}",
        f"sentbench {code.version}, commit {code.commit or 'unknown'}",
        "not mteb's task of this name",
    ]
    if exported.deviations:
        clauses.append(f"{', '.join(exported.deviations)}: not comparable with any paper")
    return scores | {"protocol": "; ".join(clauses)}
