"""The model card of an exported encoder: where it comes from, its scores, and what they can be compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.export.runs import Exported
from bench.registry.backbones import backbone
from bench.results.records import Record
from bench.results.suite_results import NEUTRAL_CHANGES
from bench.utils.errors import UserError

SHOWN = (
    "batch_size",
    "learning_rate",
    "epochs",
    "sentences",
    "max_length",
    "pooler",
    "dropout",
    "precision",
    "select_on",
)


def card(run: Exported, width: int, longest: int) -> str:
    """README.md of a folder, in Markdown with the hub's header.

    Args:
        width: of a vector.
        longest: word pieces that are read of a sentence.
    """
    told, provenance = run.told, run.provenance
    base = _hub_id(told)
    header: dict[str, Any] = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "feature-extraction", "sentbench"],
    }
    if base:
        header["base_model"] = base
    code = provenance.get("code") or {}
    rows = {
        "Method": f"{told['method']}@{told['setting']} ({told.get('label') or told['method']})",
        "Base model": base or told["backbone"],
        "Trained on": _corpora(told, provenance),
        "Seed": told["seed"],
        "Recipe": ", ".join(f"{key} {value}" for key, value in _recipe(told)),
        "Step that was kept": _step(run.outcome),
        "Run": run.id,
        "Code": f"sentbench {code.get('version')}, commit {code.get('commit') or 'unknown'}"
        + (" with changes that are in no commit" if code.get("dirty") else ""),
        "Versions": ", ".join(f"{name} {version}" for name, version in (provenance.get("versions") or {}).items()),
        "Device": (provenance.get("device") or {}).get("name"),
        "Date": provenance.get("date"),
        "Vectors": f"{width} values; sentences are cut to {longest} word pieces",
    }
    lines = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()),
        "---",
        "",
        f"# {_cell(run.title)}",
        "",
        "A sentence encoder that was trained without labels by sentbench.",
        "",
        "    from sentence_transformers import SentenceTransformer",
        "    vectors = SentenceTransformer(FOLDER).encode(sentences)",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in rows.items() if value not in (None, "")),
        "",
        "## Scores",
        "",
        *_scores(run),
    ]
    return "\n".join(lines) + "\n"


def _recipe(told: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [item for item in (told.get("recipe") or {}).items() if item[0] in SHOWN and item[1] is not None]


def _hub_id(told: Mapping[str, Any]) -> str | None:
    """The base model's name on the hub, where it has one."""
    try:
        known = backbone(str(told.get("reference") or told["backbone"]))
    except UserError:
        return None
    return known.location if known.source == "hub" else None


def _corpora(told: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    found, *_ = provenance.get("corpora") or [provenance.get("corpus") or {}]  # the training corpus first
    name = str(told.get("corpus"))
    own = (told.get("recipe") or {}).get("corpus")
    sha = f" (SHA-256 {found['sha256']}, {found['rows']} lines)" if {"sha256", "rows"} <= found.keys() else ""
    return f"{own or name}{sha}"


def _step(outcome: Mapping[str, Any]) -> str:
    if outcome.get("best_step") is None:
        return ""
    return f"{outcome['best_step']} of {outcome['steps']}, by the dev set ({outcome['best_dev']:.2f})"


def foreign(run: Exported) -> list[str]:
    """Why scores of a run cannot be compared with a paper's; empty where nothing speaks against it."""
    told, reasons = run.told, []
    if _hub_id(told) is None:
        reasons.append(f"on the backbone {told['backbone']}")
    if not told.get("own_corpus") and told.get("corpus") not in (None, "wiki1m"):
        reasons.append(f"trained on {told['corpus']}")
    if changed := sorted(set(told.get("recipe_changes") or {}) - NEUTRAL_CHANGES):
        reasons.append(f"with a changed recipe ({', '.join(changed)})")
    data = (run.provenance.get("data") or {}).get("name") or told.get("data")
    if data != "senteval":
        reasons.append(f"scored on {data}")
    return reasons


def _scores(run: Exported) -> list[str]:
    if not run.records:
        return ["Nothing was scored yet."]
    data = run.provenance.get("data") or {}
    sums = f" (SHA-256 over its files: {data['sha256']})" if "sha256" in data else ""
    reasons = foreign(run)
    told = (
        f"They are measured {', '.join(reasons)}: comparable with each other, with no paper."
        if reasons
        else "A paper's number is one draw, and so are these: one seed says little of a method."
    )
    rows = [
        f"| {_cell(record['task'])} | {record['split']} | {_metric(record)} | {record['value']:.2f} |"
        for record in run.records
    ]
    name = _cell(data.get("name"))
    return [
        f"In points (x 100), by SentEval's protocol as sentbench has it, on {name}{sums}. {_cell(told)}",
        "",
        "| Task | Split | Metric | Score |",
        "|---|---|---|---|",
        *rows,
    ]


def _metric(record: Record) -> str:
    aggregations = {"mean": ", mean of the parts", "wmean": ", weighted mean of the parts"}
    return f"{record['metric']}{aggregations.get(record['aggregation'], '')}"


def _cell(value: Any) -> str:
    """Text within a table or a line of Markdown: one line, without markup of its own."""
    text = " ".join(str(value).split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#" else sign for sign in text)
