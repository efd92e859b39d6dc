"""The predictions of runs for every sentence pair, encoded again: gold score and cosine.

The sentences are left out, since evaluation data has licences of its own: a pair is named by its
subset and its place in it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from bench.datasets import sts
from bench.datasets.tasks import kind_of
from bench.evaluation.scoring import encoded, read_tasks
from bench.export.runs import ExportedRun
from bench.models.encoder import adaptation
from bench.results.provenance import task_sums
from bench.runs import paths
from bench.runs.resolve import run_of
from bench.stages.device import lease
from bench.stages.jobs import run_encoder
from bench.utils.errors import UserError
from bench.utils.files import disk_errors, slug


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path, requested: bool) -> list[str]:
    """Write `<run>/<task>.csv`, and `<task>-dev.csv` for dev sets, for each scored STS task.

    Raises:
        UserError: a requested run has no encoder or other data than it was scored on, or no run
            can be exported.
    """
    remarks: list[str] = []
    with lease() as device:
        for run in runs:
            try:
                _write_run(suite_dir, run, folder / run.id, device)
            except UserError as error:
                if requested:
                    raise
                remarks.append(str(error))
    if len(remarks) == len(runs):
        raise UserError(f"{suite_dir} has no predictions to export: {remarks[0]}")
    return remarks


def _write_run(suite_dir: Path, run: ExportedRun, folder: Path, device: str) -> None:
    names = list(dict.fromkeys(record["task"] for record in run.records))
    names = [name for name in names if name != "Avg" and kind_of(name) == "sts"]
    if not names:
        raise UserError(f"{run.id} has no scores of STS tasks ({run.status}); leave it out")
    corpus = run.description.get("corpus") or "wiki1m"  # without a training, none is read
    planned = run_of(run.description, corpus=corpus)
    tasks = read_tasks(names, paths.data_folder(planned.data, suite_dir))
    stored = run.provenance.get("tasks") or {}
    for name, sums in task_sums(tasks).items():
        if stored.get(name, sums) != sums:
            raise UserError(
                f"{run.id} was scored on another {name}; name the data it was scored on"
            )
    encoder = run_encoder(planned, suite_dir, device)
    if (scored := run.provenance.get("encoder")) and encoder.identity != scored:
        raise UserError(f"the encoder of {run.id} is not the one that was scored; score it again")
    vectors, adapt = encoded(encoder, tasks), adaptation(encoder)
    folder.mkdir()
    for task in tasks:
        assert isinstance(task, sts.StsTask)
        own = adapt(list(task.target()), vectors) if adapt else vectors
        part = "" if task.split == "test" else f"-{task.split}"
        path = folder / f"{slug(task.name)}{part}.csv"
        with disk_errors(path), open(path, "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["subset", "pair", "gold", "cosine"])
            for subset, cosines in zip(task.subsets, sts.similarities(task, own), strict=True):
                pairs = zip(subset.gold.tolist(), cosines.tolist(), strict=True)
                rows.writerows((subset.name, place, *pair) for place, pair in enumerate(pairs))
