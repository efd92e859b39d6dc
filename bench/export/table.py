"""A suite as tidy CSV tables: a row per record, run, and number of an analysis."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.export.runs import ExportedRun
from bench.results.readers import read_analyses
from bench.results.records import COLUMNS
from bench.runs import paths

LIBRARIES = ["python", "torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy"]
LIBRARIES += ["scikit-learn"]
WHOLE = ("seed", "threads", "steps", "best_step")  # integer columns that may be empty


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path) -> None:
    """Write `records.csv`, `runs.csv` and, if there are analyses, `analyses.csv`."""
    records, summaries, analyses = [], [], []
    for run in runs:
        origin = _origin(run)
        summaries.append(_summary(run) | origin)
        records += [{name: record[name] for name in COLUMNS} | origin for record in run.records]
        results, _ = read_analyses(paths.analyses_file(suite_dir, run.id))
        for name, result in results.items():
            for path, value in _numbers(result):
                analyses.append({"analysis": name, "path": path, "value": value} | origin)
    tables = {"records": records, "runs": summaries, "analyses": analyses}
    for name, rows in tables.items():
        if rows or name == "records":
            table = pd.DataFrame(rows, columns=None if rows else [*COLUMNS, *origin])
            table = table.astype({column: "Int64" for column in WHOLE if column in table})
            table.to_csv(folder / f"{name}.csv", index=False)


def _summary(run: ExportedRun) -> dict[str, Any]:
    description, outcome = run.description, run.part("outcome")
    changes = (description.get("recipe_changes") or {}).items()
    return {
        **{name: description.get(name) for name in ("label", "method")},
        "variant": description.get("setting"),
        **{name: description.get(name) for name in ("backbone", "corpus", "seed", "trained")},
        "recipe_changes": " ".join(f"{name}={value}" for name, value in changes),
        **{name: outcome.get(name) for name in ("reason", "steps", "best_step", "best_dev")},
        "training_seconds": outcome.get("seconds"),
        "scoring_seconds": run.provenance.get("seconds"),
    }


def _origin(run: ExportedRun) -> dict[str, Any]:
    """The provenance of a run, as columns that all tables share."""
    provenance, code, device = run.provenance, run.part("code"), run.part("device")
    sums = [f"{corpus['name']}={corpus['sha256']}" for corpus in provenance.get("corpora", ())]
    return {
        "run": run.id,
        "status": run.status,
        "data": run.part("data").get("name"),
        "data_sha256": run.part("data").get("sha256"),
        "corpora_sha256": " ".join(sums),
        "encoder": provenance.get("encoder"),
        "mode": provenance.get("mode"),
        "sentbench": code.get("version"),
        "commit": code.get("commit"),
        "uncommitted_changes": code.get("dirty"),
        **{library: run.part("versions").get(library) for library in LIBRARIES},
        "device": device.get("kind"),
        "device_name": device.get("name"),
        "threads": device.get("threads"),
        "date": provenance.get("date"),
    }


def _numbers(content: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in nested dicts and lists, with its path; other values are left out."""
    if isinstance(content, list):
        content = {str(index): value for index, value in enumerate(content)}
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _numbers(value, f"{path}/{key}" if path else key)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield path, float(content)
