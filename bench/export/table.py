"""A suite as tidy CSV tables: a row per record, run, and number of an analysis."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.export.runs import ExportedRun
from bench.results.records import COLUMNS, read_analyses
from bench.runs import paths

LIBRARIES = (
    "python", "torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy",
    "scikit-learn",
)  # fmt: skip
RUN_COLUMNS = ("label", "method", "backbone", "corpus", "seed", "trained")
OUTCOME_COLUMNS = ("reason", "steps", "best_step", "best_dev")
WHOLE = ("seed", "threads", "steps", "best_step")  # integer columns that may be empty


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path) -> None:
    """Write `records.csv`, `runs.csv` and, if there are analyses, `analyses.csv`."""
    records, summaries, analyses = [], [], []
    for exported in runs:
        run, outcome, origin = exported.run, exported.part("outcome"), _origin(exported)
        changes = " ".join(f"{name}={value}" for name, value in run.recipe_changes.items())
        summary = {name: getattr(run, name) for name in RUN_COLUMNS}
        summary |= {"variant": run.setting, "recipe_changes": changes}
        summary |= {name: outcome.get(name) for name in OUTCOME_COLUMNS}
        summary["training_seconds"] = outcome.get("seconds")
        summary["scoring_seconds"] = exported.provenance.get("seconds")
        summaries.append(summary | origin)
        records += [record | origin for record in exported.records]
        results, _ = read_analyses(paths.result_file(suite_dir, run.id, "analyse"))
        for name, result in results.items():
            for path, value in _numbers(result):
                analyses.append({"analysis": name, "path": path, "value": value} | origin)
    columns = [*COLUMNS, *origin]
    tables = {"records": pd.DataFrame(records, columns=columns), "runs": pd.DataFrame(summaries)}
    if analyses:
        tables["analyses"] = pd.DataFrame(analyses)
    for name, table in tables.items():
        table = table.astype({column: "Int64" for column in WHOLE if column in table})
        table.to_csv(folder / f"{name}.csv", index=False)


def _origin(exported: ExportedRun) -> dict[str, Any]:
    """The provenance of a run, as columns that all tables share."""
    provenance, part = exported.provenance, exported.part
    sums = [f"{corpus['name']}={corpus['sha256']}" for corpus in provenance.get("corpora", ())]
    return {
        "run": exported.run.id,
        "status": exported.status,
        "data": part("data").get("name"),
        "data_sha256": part("data").get("sha256"),
        "corpora_sha256": " ".join(sums),
        "encoder": provenance.get("encoder"),
        "mode": provenance.get("mode"),
        "sentbench": part("code").get("version"),
        "commit": part("code").get("commit"),
        "uncommitted_changes": part("code").get("dirty"),
        **{library: part("versions").get(library) for library in LIBRARIES},
        "device": part("device").get("kind"),
        "device_name": part("device").get("name"),
        "threads": part("device").get("threads"),
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
