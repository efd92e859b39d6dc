"""The model card of an exported encoder: provenance, scores, and what these compare with."""

import re

from bench.export.runs import ExportedRun

RECIPE_FIELDS = (
    "batch_size", "learning_rate", "epochs", "sentences", "max_length", "pooler", "dropout",
    "precision", "select_on",
)  # fmt: skip
HEAD = """\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, sentence-similarity, feature-extraction, sentbench]
{base_model}---

# {title}

A sentence encoder trained without labels by sentbench.

    from sentence_transformers import SentenceTransformer
    vectors = SentenceTransformer(FOLDER).encode(sentences)

| | |
|---|---|
"""
SCORES = """
## Scores

In points (x 100), by sentbench's implementation of SentEval's protocol, on {data}. {remark}

| Task | Split | Metric | Score |
|---|---|---|---|
"""
SINGLE_SEED = (
    "These are the scores of one seed, and a paper's are too: a single seed says little about a "
    "method."
)
AGGREGATIONS = {"mean": ", mean of the parts", "wmean": ", weighted mean of the parts"}


def card(exported: ExportedRun, width: int, longest: int) -> str:
    """The README.md of an exported folder, in Markdown with the hub's metadata.

    `width` is the dimension of the vectors, `longest` the maximum input length in tokens.
    """
    run, code, data = exported.run, exported.part("code"), exported.part("data")
    base_model = f'base_model: "{exported.hub_id}"\n' if exported.hub_id else ""
    title = _escaped(f"{run.label} on {run.backbone}, seed {run.seed}")
    recipe = {name: getattr(run.recipe, name) for name in RECIPE_FIELDS}
    corpora = exported.provenance.get("corpora", [])
    outcome = exported.part("outcome")
    versions = exported.part("versions").items()
    commit = code.get("commit") or "unknown"
    facts = {
        "Method": f"{run.text} ({run.label})",
        "Base model": exported.hub_id or run.backbone,
        "Trained on": run.corpus,
        "SHA-256 of the corpora": ", ".join(
            f"{corpus['name']} {corpus['sha256']}" for corpus in corpora
        ),
        "Recipe": ", ".join(f"{key} {value}" for key, value in recipe.items() if value is not None),
        "Selected step": f"{outcome.get('best_step')} of {outcome.get('steps')}",
        "Dev score": f"{outcome.get('best_dev', float('nan')):.2f}",
        "Seed": str(run.seed),
        "Vectors": f"{width} dimensions; sentences are cut to {longest} tokens",
        "Run": run.id,
        "Code": f"sentbench {code.get('version')}, commit {commit}"
        + (" with uncommitted changes" if code.get("dirty") else ""),
        "Versions": ", ".join(f"{name} {version}" for name, version in versions),
        "Device": exported.part("device").get("name", ""),
        "Date": exported.provenance.get("date", ""),
    }
    text = HEAD.format(base_model=base_model, title=title)
    text += "".join(f"| {name} | {_escaped(fact)} |\n" for name, fact in facts.items())
    if not exported.records:
        return f"{text}\n## Scores\n\nThe run has no scores yet.\n"
    remark = SINGLE_SEED
    if exported.deviations:
        remark = f"Do not compare them with any paper: {', '.join(exported.deviations)}."
    sums = f" (SHA-256 over its files: {data['sha256']})" if "sha256" in data else ""
    text += SCORES.format(data=_escaped(data["name"]) + sums, remark=_escaped(remark))
    for record in exported.records:
        metric = record["metric"] + AGGREGATIONS.get(record["aggregation"], "")
        text += f"| {_escaped(record['task'])} | {record['split']} | {metric} "
        text += f"| {record['value']:.2f} |\n"
    return text


def _escaped(text: str) -> str:
    """Text for a table or line of Markdown: one line, with markup escaped."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
