"""Scores as evaluation results of the Hugging Face hub: `.eval_results/*.yaml` of a model.

Format: https://huggingface.co/docs/hub/eval-results. The hub shows them for models, and on the
leaderboard of a benchmark: a data set with an `eval.yaml` that names its tasks, which is written,
too. No such benchmark exists for SentEval's files, so the user names one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.export.card import deviations
from bench.export.runs import ExportedRun
from bench.results.records import Record
from bench.utils.errors import UserError
from bench.utils.files import slug, write_text

MAIN = ("spearman", "accuracy")  # a task has one value on the hub


def write(
    suite_dir: Path,
    runs: Sequence[ExportedRun],
    folder: Path,
    requested: bool,
    benchmark: str | None = None,
) -> list[str]:
    """Write `<run>/.eval_results/sentbench.yaml`, and `eval.yaml` for the benchmark's data set.

    Raises:
        UserError: no benchmark is named, or a requested run has no scores, or no run has.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", benchmark or ""):
        raise UserError(
            "results on the hub belong to a benchmark, a data set with an eval.yaml; "
            "name it with --benchmark OWNER/NAME"
        )
    remarks: list[str] = []
    tasks: dict[str, str] = {}
    for run in runs:
        records = [record for record in run.records if _is_shown(record)]
        if records:
            tasks |= {_task_id(record): record["task"] for record in records}
            entries = [_entry(run, record, str(benchmark)) for record in records]
            write_text(folder / run.id / ".eval_results" / "sentbench.yaml", _yaml(entries))
        elif requested:
            raise UserError(f"{run.id} has no scores in {suite_dir} ({run.status}); leave it out")
        else:
            remarks.append(f"{run.id} has no scores ({run.status})")
    if not tasks:
        raise UserError(f"{suite_dir} has no scores to export; score its runs first")
    listed = [{"id": name, "config": "default", "split": "test"} for name in tasks]
    about = {"name": "sentbench", "description": "Scores of sentence embeddings, x 100."}
    write_text(
        folder / "eval.yaml", _yaml(about | {"evaluation_framework": "sentbench", "tasks": listed})
    )
    return remarks


def _is_shown(record: Record) -> bool:
    return record["split"] == "test" and record["aggregation"] == "all" and record["metric"] in MAIN


def _task_id(record: Record) -> str:
    name = slug(record["task"]).lower()
    return f"{name}-{record['metric']}" if record["task"] == "Avg" else name


def _entry(run: ExportedRun, record: Record, benchmark: str) -> dict[str, Any]:
    """A score as an entry; its note says how it was made and what it can be compared with."""
    code, seed = run.provenance.get("code") or {}, run.description["seed"]
    parts = [f"{record['metric']} x 100 by SentEval's protocol, sentbench {code.get('version')}"]
    parts += [f"seed {seed}"] if seed is not None else []
    if reasons := deviations(run):
        parts.append(f"{', '.join(reasons)}: not comparable with any paper")
    entry = {
        "dataset": {"id": benchmark, "task_id": _task_id(record)},
        "value": record["value"],
        "notes": "; ".join(parts),
    }
    date = run.provenance.get("date")
    return entry | ({"date": date} if date else {})


def _yaml(content: Any) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000))
