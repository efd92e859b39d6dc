"""Everything of a suite as tidy tables: a row a record, a row a run, a row an analysed number; CSV and Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.export.runs import Exported
from bench.results.records import COLUMNS
from bench.results.suite_results import read_analyses
from bench.runs import paths
from bench.utils.files import disk_errors

LIBRARIES = ("python", "torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "scikit-learn")
WHOLE = ("seed", "threads", "steps", "best_step")  # columns of whole numbers, which may be empty


def write(suite: Path, runs: Sequence[Exported], folder: Path, asked: bool) -> list[str]:
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
        "analyses": [row | origins[run.id] for run in runs for row in _analyses(suite, run)],
    }
    parquet = find_spec("pyarrow") is not None
    for name, rows in tables.items():
        if not rows and name == "analyses":
            continue
        table = pd.DataFrame(rows, columns=None if rows else [*COLUMNS, *next(iter(origins.values()), {})])
        table = table.astype({column: "Int64" for column in WHOLE if column in table.columns})
        with disk_errors(folder / name):
            table.to_csv(folder / f"{name}.csv", index=False)
            if parquet:
                table.to_parquet(folder / f"{name}.parquet", index=False, engine="pyarrow")
    return [] if parquet else ["no Parquet was written, since pyarrow is not installed; pip install pyarrow"]


def _run(run: Exported) -> dict[str, Any]:
    told, outcome = run.told, run.outcome
    return {
        "label": told.get("label"),
        "method": told["method"],
        "variant": told.get("setting"),
        "backbone": told["backbone"],
        "corpus": told.get("corpus"),
        "seed": told["seed"],
        "trained": told["trained"],
        "recipe_changes": " ".join(f"{key}={value}" for key, value in (told.get("recipe_changes") or {}).items()),
        "reason": outcome.get("reason"),
        "steps": outcome.get("steps"),
        "best_step": outcome.get("best_step"),
        "best_dev": outcome.get("best_dev"),
        "training_seconds": outcome.get("seconds"),
        "scoring_seconds": run.provenance.get("seconds"),
    }


def _origin(run: Exported) -> dict[str, Any]:
    """Where a run's numbers come from, under columns that all tables share."""
    told = run.provenance
    code, device, data = told.get("code") or {}, told.get("device") or {}, told.get("data") or {}
    corpora = told.get("corpora") or ([told["corpus"]] if told.get("corpus") else [])
    versions = told.get("versions") or {}
    return {
        "run": run.id,
        "status": run.status,
        "data": data.get("name"),
        "data_sha256": data.get("sha256"),
        "corpora_sha256": " ".join(f"{corpus.get('name')}={corpus.get('sha256')}" for corpus in corpora),
        "encoder": told.get("encoder"),
        "mode": told.get("mode"),
        "sentbench": code.get("version"),
        "commit": code.get("commit"),
        "uncommitted_changes": code.get("dirty"),
        **{library: versions.get(library) for library in LIBRARIES},
        "device": device.get("kind"),
        "device_name": device.get("name"),
        "threads": device.get("threads"),
        "date": told.get("date"),
    }


def _analyses(suite: Path, run: Exported) -> Iterator[dict[str, Any]]:
    """Each number of a run's analyses, with the path to it; what is no number stays in the file of the analyses."""
    for name, found in read_analyses(paths.analyses_file(suite, run.id)).items():
        for path, value in _numbers(found):
            yield {"analysis": name, "path": path, "value": value}


def _numbers(found: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(found, bool):
        return
    if isinstance(found, int | float):
        yield path, float(found)
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from _numbers(value, f"{path}/{key}" if path else str(key))
    elif isinstance(found, list):
        for place, value in enumerate(found):
            yield from _numbers(value, f"{path}/{place}" if path else str(place))
