"""The model card of an exported encoder: provenance, scores, and what these compare with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.export.runs import ExportedRun
from bench.registry.backbones import backbone
from bench.results.records import Record
from bench.results.suite_results import NEUTRAL_CHANGES
from bench.utils.errors import UserError

RECIPE_FIELDS = ["batch_size", "learning_rate", "epochs", "sentences", "max_length", "pooler"]
RECIPE_FIELDS += ["dropout", "precision", "select_on"]


def card(run: ExportedRun, width: int, longest: int) -> str:
    """The README.md of an exported folder, in Markdown with the hub's metadata.

    `width` is the dimension of the vectors, `longest` the maximum input length in tokens.
    """
    base = _hub_id(run.description)
    library, task = "sentence-transformers", "sentence-similarity"
    header: dict[str, Any] = {
        "library_name": library,
        "pipeline_tag": task,
        "tags": [library, task, "feature-extraction", "sentbench"],
    }
    if base:
        header["base_model"] = base
    vectors = f"{width} dimensions; sentences are truncated to {longest} tokens"
    rows = _rows(run, base) | {"Vectors": vectors}
    lines = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()),
        "---",
        "",
        f"# {_cell(run.title)}",
        "",
        "A sentence encoder trained without labels by sentbench.",
        "",
        "    from sentence_transformers import SentenceTransformer",
        "    vectors = SentenceTransformer(FOLDER).encode(sentences)",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(text)} |" for name, text in rows.items() if text not in (None, "")),
        "",
        "## Scores",
        "",
        *_scores(run),
    ]
    return "\n".join(lines) + "\n"


def _rows(run: ExportedRun, base: str | None) -> dict[str, Any]:
    """Recipe and provenance of a run, as titled values; `base` is the model's name on the hub."""
    description, provenance = run.description, run.provenance
    code = provenance.get("code") or {}
    label = description.get("label") or description["method"]
    recipe, outcome = description.get("recipe") or {}, run.outcome
    recipe = {key: recipe[key] for key in recipe if key in RECIPE_FIELDS}
    step = ""
    if outcome.get("best_step") is not None:
        best = f"by the dev set ({outcome['best_dev']:.2f})"
        step = f"{outcome['best_step']} of {outcome['steps']}, {best}"
    versions = provenance.get("versions") or {}
    changed = " with uncommitted changes" if code.get("dirty") else ""
    commit = code.get("commit") or "unknown"
    return {
        "Method": f"{description['method']}@{description['setting']} ({label})",
        "Base model": base or description["backbone"],
        "Trained on": _corpora(description, provenance),
        "Seed": description["seed"],
        "Recipe": ", ".join(f"{key} {value}" for key, value in recipe.items() if value is not None),
        "Selected step": step,
        "Run": run.id,
        "Code": f"sentbench {code.get('version')}, commit {commit}{changed}",
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "Device": (provenance.get("device") or {}).get("name"),
        "Date": provenance.get("date"),
    }


def _hub_id(description: Mapping[str, Any]) -> str | None:
    """The base model's name on the hub; None if it is not on the hub."""
    try:
        base = backbone(str(description.get("reference") or description["backbone"]))
    except UserError:
        return None
    return base.location if base.source == "hub" else None


def _corpora(description: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    corpora = provenance.get("corpora") or [provenance.get("corpus") or {}]
    sha = ""
    if {"sha256", "rows"} <= corpora[0].keys():  # the training corpus is first
        sha = f" (SHA-256 {corpora[0]['sha256']}, {corpora[0]['rows']} lines)"
    own = (description.get("recipe") or {}).get("corpus")
    return f"{own or description.get('corpus')}{sha}"


def deviations(run: ExportedRun) -> list[str]:
    """Why the scores of a run cannot be compared with a paper's, as clauses; empty if they can."""
    description, reasons = run.description, []
    if _hub_id(description) is None:
        reasons.append(f"on the backbone {description['backbone']}")
    if not description.get("own_corpus") and description.get("corpus") not in (None, "wiki1m"):
        reasons.append(f"trained on {description['corpus']}")
    if changed := sorted(set(description.get("recipe_changes") or {}) - NEUTRAL_CHANGES):
        reasons.append(f"with a changed recipe ({', '.join(changed)})")
    data = (run.provenance.get("data") or {}).get("name") or description.get("data")
    if data != "senteval":
        reasons.append(f"scored on {data}")
    return reasons


def _scores(run: ExportedRun) -> list[str]:
    if not run.records:
        return ["The run has no scores yet."]
    data = run.provenance.get("data") or {}
    sums = f" (SHA-256 over its files: {data['sha256']})" if "sha256" in data else ""
    reasons = deviations(run)
    remark = (
        "These are the scores of one seed, and a paper's are too: a single seed says little about "
        "a method."
    )
    if reasons:
        what = ", ".join(reasons)
        remark = f"They are measured {what}. Do not compare them with any paper."
    name = _cell(data.get("name"))
    return [
        f"In points (x 100), by sentbench's implementation of SentEval's protocol, on "
        f"{name}{sums}. "
        f"{_cell(remark)}",
        "",
        "| Task | Split | Metric | Score |",
        "|---|---|---|---|",
        *map(_row, run.records),
    ]


def _row(record: Record) -> str:
    aggregations = {"mean": ", mean of the parts", "wmean": ", weighted mean of the parts"}
    metric = f"{record['metric']}{aggregations.get(record['aggregation'], '')}"
    return f"| {_cell(record['task'])} | {record['split']} | {metric} | {record['value']:.2f} |"


def _cell(value: Any) -> str:
    """Text for a table or line of Markdown: one line, with markup escaped."""
    text = " ".join(str(value).split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#" else sign for sign in text)
