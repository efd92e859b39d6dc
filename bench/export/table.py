"""A suite as tidy tables, CSV and Parquet: a row per record, run, and number of an analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.export.runs import ExportedRun
from bench.results.readers import read_analyses
from bench.results.records import COLUMNS
from bench.runs import paths
from bench.utils.files import disk_errors

LIBRARIES = ["python", "torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy"]
LIBRARIES += ["scikit-learn"]
WHOLE = ("seed", "threads", "steps", "best_step")  # integer columns that may be empty


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path, requested: bool) -> list[str]:
    """Write records, runs and analyses, each as CSV and, where pyarrow is installed, as Parquet."""
    import pandas as pd

    origins = {run.id: _origin(run) for run in runs}
    tables = {
        "records": [
            {column: record.get(column) for column in COLUMNS} | origins[run.id]
            for run in runs
            for record in run.records
        ],
        "runs": [_run(run) | origins[run.id] for run in runs],
        "analyses": [row | origins[run.id] for run in runs for row in _analyses(suite_dir, run)],
    }
    parquet = find_spec("pyarrow") is not None
    for name, rows in tables.items():
        if not rows and name == "analyses":
            continue
        empty = [*COLUMNS, *next(iter(origins.values()), {})]
        table = pd.DataFrame(rows, columns=None if rows else empty)
        table = table.astype({column: "Int64" for column in WHOLE if column in table.columns})
        with disk_errors(folder / name):
            table.to_csv(folder / f"{name}.csv", index=False)
            if parquet:
                table.to_parquet(folder / f"{name}.parquet", index=False, engine="pyarrow")
    remark = "no Parquet was written because pyarrow is not installed; pip install pyarrow"
    return [] if parquet else [remark]


def _run(run: ExportedRun) -> dict[str, Any]:
    description, outcome = run.description, run.outcome
    changes = description.get("recipe_changes") or {}
    columns = ("label", "method", "setting", "backbone", "corpus", "seed", "trained")
    row = {"variant" if key == "setting" else key: description.get(key) for key in columns}
    row["recipe_changes"] = " ".join(f"{key}={value}" for key, value in changes.items())
    row |= {key: outcome.get(key) for key in ("reason", "steps", "best_step", "best_dev")}
    seconds = {"training_seconds": outcome.get("seconds")}
    return row | seconds | {"scoring_seconds": run.provenance.get("seconds")}


def _origin(run: ExportedRun) -> dict[str, Any]:
    """The provenance of a run, as columns that all tables share."""
    provenance = run.provenance
    code, device, data = (provenance.get(name) or {} for name in ("code", "device", "data"))
    corpora = provenance.get("corpora") or list(filter(None, [provenance.get("corpus")]))
    sums = [f"{corpus.get('name')}={corpus.get('sha256')}" for corpus in corpora]
    versions = provenance.get("versions") or {}
    return {
        "run": run.id,
        "status": run.status,
        "data": data.get("name"),
        "data_sha256": data.get("sha256"),
        "corpora_sha256": " ".join(sums),
        "encoder": provenance.get("encoder"),
        "mode": provenance.get("mode"),
        "sentbench": code.get("version"),
        "commit": code.get("commit"),
        "uncommitted_changes": code.get("dirty"),
        **{library: versions.get(library) for library in LIBRARIES},
        "device": device.get("kind"),
        "device_name": device.get("name"),
        "threads": device.get("threads"),
        "date": provenance.get("date"),
    }


def _analyses(suite_dir: Path, run: ExportedRun) -> Iterator[dict[str, Any]]:
    """Each number of a run's analyses with its path in the file; other values are left out."""
    analyses, _ = read_analyses(paths.analyses_file(suite_dir, run.id))
    for name, result in analyses.items():
        for path, value in _numbers(result):
            yield {"analysis": name, "path": path, "value": value}


def _numbers(content: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in nested dicts and lists, with its path."""
    if isinstance(content, Mapping | list):
        items = content.items() if isinstance(content, Mapping) else enumerate(content)
        for key, value in items:
            yield from _numbers(value, f"{path}/{key}" if path else str(key))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield path, float(content)
