"""The model card of an exported encoder: provenance, scores, and what these compare with."""

import json
from typing import Any

from bench.export.runs import ExportedRun
from bench.registry.backbones import backbone
from bench.results import suite_results
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError

RECIPE_FIELDS = ["batch_size", "learning_rate", "epochs", "sentences", "max_length", "pooler"]
RECIPE_FIELDS += ["dropout", "precision", "select_on"]
ABOUT = """\
A sentence encoder trained without labels by sentbench.

    from sentence_transformers import SentenceTransformer
    vectors = SentenceTransformer(FOLDER).encode(sentences)""".splitlines()
AGGREGATIONS = {"mean": ", mean of the parts", "wmean": ", weighted mean of the parts"}


def card(run: ExportedRun, width: int, longest: int) -> str:
    """The README.md of an exported folder, in Markdown with the hub's metadata.

    `width` is the dimension of the vectors, `longest` the maximum input length in tokens.
    """
    library, task = "sentence-transformers", "sentence-similarity"
    header: dict[str, Any] = {
        "library_name": library,
        "pipeline_tag": task,
        "tags": [library, task, "feature-extraction", "sentbench"],
    }
    base = _hub_id(run)
    if base:
        header["base_model"] = base
    rows = _rows(run) | {"Vectors": f"{width} dimensions; sentences are cut to {longest} tokens"}
    seed = "" if run.description["seed"] is None else f", seed {run.description['seed']}"
    metadata = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()]
    facts = [f"| {name} | {_cell(text)} |" for name, text in rows.items() if text]
    title = f"# {_cell(run.label)} on {_cell(run.description['backbone'])}{seed}"
    lines = ["---", *metadata, "---", "", title, "", *ABOUT, "", "| | |", "|---|---|", *facts]
    return "\n".join([*lines, "", "## Scores", "", *_scores(run)]) + "\n"


def _rows(run: ExportedRun) -> dict[str, str]:
    """Recipe and provenance of a run, as titled values; empty ones are unknown."""
    description, outcome, code = run.description, run.part("outcome"), run.part("code")
    recipe = description.get("recipe") or {}
    shown = [f"{key} {recipe[key]}" for key in RECIPE_FIELDS if recipe.get(key) is not None]
    trained_on = str(recipe.get("corpus") or description.get("corpus"))
    for corpus in run.provenance.get("corpora", [])[:1]:  # the training corpus is first
        trained_on += f" (SHA-256 {corpus['sha256']}, {corpus['rows']} lines)"
    step = ""
    if outcome.get("best_step") is not None:
        step = f"{outcome['best_step']} of {outcome['steps']}"
        step += f", by the dev set ({outcome['best_dev']:.2f})"
    dirty = " with uncommitted changes" if code.get("dirty") else ""
    versions = [f"{name} {version}" for name, version in run.part("versions").items()]
    return {
        "Method": f"{description['method']}@{description['setting']} ({run.label})",
        "Base model": _hub_id(run) or description["backbone"],
        "Trained on": trained_on,
        "Seed": str(description["seed"]),
        "Recipe": ", ".join(shown),
        "Selected step": step,
        "Run": run.id,
        "Code": f"sentbench {code.get('version')}, commit {code.get('commit') or 'unknown'}{dirty}",
        "Versions": ", ".join(versions),
        "Device": run.part("device").get("name", ""),
        "Date": run.provenance.get("date", ""),
    }


def _hub_id(run: ExportedRun) -> str | None:
    """The base model's name on the hub; None if it is not on the hub."""
    try:
        base = backbone(str(run.description.get("reference") or run.description["backbone"]))
    except UserError:
        return None
    return base.location if base.source == "hub" else None


def deviations(run: ExportedRun) -> list[str]:
    """Why the scores of a run cannot be compared with a paper's, as clauses; empty if they can."""
    clauses = [] if _hub_id(run) else [f"on the backbone {run.description['backbone']}"]
    clauses += suite_results.deviations([PlannedRun.model_validate(run.description)])
    data = run.part("data").get("name") or run.description.get("data")
    return clauses if data == "senteval" else [*clauses, f"scored on {data}"]


def _scores(run: ExportedRun) -> list[str]:
    if not run.records:
        return ["The run has no scores yet."]
    remark = "These are the scores of one seed, and a paper's are too: a single seed says little "
    remark += "about a method."
    reasons = deviations(run)
    if reasons:
        remark = f"Do not compare them with any paper: {', '.join(reasons)}."
    data = run.part("data")
    sums = f" (SHA-256 over its files: {data['sha256']})" if "sha256" in data else ""
    lines = [
        "In points (x 100), by sentbench's implementation of SentEval's protocol, on "
        f"{_cell(data['name'])}{sums}. {_cell(remark)}",
        "",
        "| Task | Split | Metric | Score |",
        "|---|---|---|---|",
    ]
    for record in run.records:
        metric = record["metric"] + AGGREGATIONS.get(record["aggregation"], "")
        cells = [_cell(record["task"]), record["split"], metric, f"{record['value']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cell(value: str) -> str:
    """Text for a table or line of Markdown: one line, with markup escaped."""
    text = " ".join(value.split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#" else sign for sign in text)
