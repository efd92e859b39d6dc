"""Trained encoders as sentence-transformers folders: weights, tokenizer, modules, model card.

Poolers and maps become the library's own modules: [CLS] and mean pooling a Pooling, a mean of two
layers a WeightedLayerPooling, the model's own pooler and affine maps a Dense, a whitening two Dense
and a Normalize. Anything else is refused. The library then reads each folder, and its vectors are
compared with the originals. The files are in the form that all its versions read.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jinja2 import Environment
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from bench.models.encoder import TransformerEncoder
from bench.models.packed_forward import FIRST_ONLY, LAYERS, POSITIONS, layer_weights
from bench.models.transformer import longest_input, without_pooler
from bench.report.formats import markdown_text
from bench.results.records import Trained, read_trained
from bench.runs import paths
from bench.runs.plan import read_plan
from bench.runs.run import PlannedRun
from bench.training.checkpoint import trained_encoder
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import atomic_folder, read_json, write_json, write_text

# Tolerance of vectors that are read back, relative to the largest value if that exceeds 1.
CLOSE = 1e-5
PROBE_SENTENCES = [
    "",
    "A man is playing a guitar.",
    "two birds",
    50 * "Old dogs see seven small boats. ",
]


class Module(NamedTuple):
    """A module of the library: its class name, its configuration, its tensors."""

    name: str
    config: Mapping[str, Any] = {}
    tensors: dict[str, Tensor] = {}


def export(suite_dir: Path, out: Path, only: Sequence[str] = ()) -> list[str]:
    """Write runs of a suite to the folder `out`, whole or not at all; an earlier export there is
    replaced.

    Args:
        only: ids of runs; empty takes all that can be exported.

    Returns one sentence on each run that was left out. `UserError`: a named run or no run can be
    exported, or `out` holds other files.
    """
    runs, remarks = read_runs(suite_dir, only), list[str]()
    with atomic_folder(out, keep_others=True) as folder:
        for run in runs:
            try:
                _write(suite_dir, run, folder)
            except Exception as error:  # of a library, too: the others are exported
                if only:
                    raise
                remark = f"{run.id}: {error!r}"
                if isinstance(error, UserError):
                    remark = str(error)
                remarks.append(remark)
                shutil.rmtree(folder / run.id, ignore_errors=True)
        if len(remarks) == len(runs):
            raise UserError(f"{suite_dir} has nothing to export; its first run: {remarks[0]}")
    return remarks


def read_runs(suite_dir: Path, only: Sequence[str] = ()) -> list[PlannedRun]:
    """The runs of a suite, with or without a plan; `only` names some by their ids."""
    plan = suite_dir / "plan.json"
    runs = {run.id: run for run in read_plan(plan).runs} if plan.is_file() else {}
    for path in sorted((suite_dir / "runs").glob("*/outcome.json")):
        described = read_trained(path).run.as_written()
        runs.setdefault(path.parent.name, PlannedRun.model_validate(described))
    if not runs:
        raise UserError(f"{suite_dir} has no runs; pass the folder of a suite, results/<suite>")
    for name in only:
        if name not in runs:
            raise UserError(f"{suite_dir} has no run '{name}'{did_you_mean(name, runs)}")
    return [runs[name] for name in dict.fromkeys(only or runs)]


def _write(suite_dir: Path, run: PlannedRun, folder: Path) -> None:
    """Write a trained run as a folder named by its id; `UserError` if it cannot be exported."""
    folder, trained = folder / run.id, paths.run_folder(suite_dir, run.id)
    source = trained / "encoder"
    if not source.is_dir():
        status = "missing" if run.trained else "not trained"
        if (trained / "outcome.json").is_file():
            status = read_trained(trained / "outcome.json").outcome.status
        raise UserError(f"{run.id} has no encoder in {suite_dir} ({status}); leave it out")
    encoder = trained_encoder(suite_dir, run.id)
    base, modules = _modules(encoder)
    longest = longest_input(base.model, base.tokenizer)
    base.tokenizer.model_max_length = longest
    base.save(folder)
    settings: dict[str, Any] = {"max_seq_length": longest, "do_lower_case": False}
    option = without_pooler(type(base.model))
    if base.pooler != "cls" and option:
        settings["model_args"] = option  # otherwise the library initialises a pooler at random
    write_json(folder / "sentence_bert_config.json", settings)
    if base.pooler in LAYERS:
        config = read_json(folder / "config.json")
        write_json(folder / "config.json", config | {"output_hidden_states": True})
    entries = []
    for index, module in enumerate([Module("Transformer"), *modules]):
        path = f"{index}_{module.name}" if index else ""
        entry = {"idx": index, "name": str(index), "path": path}
        # The name in all versions of the library.
        entries.append(entry | {"type": f"sentence_transformers.models.{module.name}"})
        if path:
            write_json(folder / path / "config.json", module.config)
        if module.tensors:
            save_file(module.tensors, folder / path / "model.safetensors")
    write_json(folder / "modules.json", entries)
    vectors = encoder.encode(PROBE_SENTENCES)
    # The library reads the folder back.
    model = SentenceTransformer(
        str(folder), device="cpu", local_files_only=True, trust_remote_code=False
    )
    error = np.abs(model.encode(PROBE_SENTENCES) - vectors).max() / max(1.0, np.abs(vectors).max())
    if not error <= CLOSE:  # NaN, too
        raise UserError(
            f"{run.id} cannot be exported: as float32 modules its vectors are off by {error:.1g}"
        )
    made = read_trained(trained / "outcome.json")
    write_text(folder / "README.md", card(run, made, vectors.shape[1], longest))


def _modules(encoder: Any) -> tuple[TransformerEncoder, list[Module]]:
    """Return an Encoder as a transformer and the library's modules that follow it."""
    kind = getattr(encoder, "pooler", encoder.kind)
    if isinstance(encoder, TransformerEncoder) and kind not in POSITIONS:
        return encoder, _pooling(encoder)
    is_fixed = kind != "whitened" or encoder.fixed
    if kind not in ("affine", "normalised", "whitened") or not is_fixed:
        fitted = "" if is_fixed else ", fitted on the sentences of each task"
        raise UserError(f"sentence-transformers has no module for '{kind}'{fitted}; leave it out")
    base, modules = _modules(encoder.base)
    if kind == "affine":
        modules.append(
            _dense(encoder.arrays["weight"], encoder.arrays["bias"], encoder.options["tanh"])
        )
    if kind == "whitened":
        # Two steps: computing x W - mu W in one loses digits if the mean is large.
        mean, matrix = encoder.arrays["mean"], encoder.arrays["matrix"]
        modules += [_dense(torch.eye(len(mean)), -mean), _dense(matrix.T, None)]
    if kind != "affine":
        modules.append(Module("Normalize"))
    return base, modules


def _pooling(encoder: TransformerEncoder) -> list[Module]:
    config = encoder.model.config
    width, depth = config.hidden_size, config.num_hidden_layers
    # All versions of the library read these flags; only the newest reads the current form.
    modes = {"last": "lasttoken", "weighted_mean": "weightedmean_tokens"}
    modes |= dict.fromkeys(FIRST_ONLY, "cls_token")
    chosen = modes.get(encoder.pooler, "mean_tokens")
    names = "cls_token", "mean_tokens", chosen
    flags = {f"pooling_mode_{name}": name == chosen for name in names}
    modules = [Module("Pooling", {"word_embedding_dimension": width, **flags})]
    if encoder.pooler == "cls":
        pooler = encoder.model.pooler
        dense = getattr(pooler, "dense", pooler)  # ALBERT's is the layer itself
        modules.append(_dense(dense.weight.detach(), dense.bias.detach(), tanh=True))
    if encoder.pooler in LAYERS:
        mixing = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": depth}
        tensors = {"layer_weights": layer_weights(encoder.pooler, depth)}
        modules.insert(0, Module("WeightedLayerPooling", mixing, tensors))
    return modules


def _dense(weight: Tensor, bias: Tensor | None, tanh: bool = False) -> Module:
    """A Dense module, y = W x + b or its tanh, with a weight (k, d) and a bias (k,)."""
    tensors = {"linear.weight": weight.float().cpu().contiguous()}
    if bias is not None:
        tensors["linear.bias"] = bias.float().cpu().contiguous()
    activation = "activation.Tanh" if tanh else "linear.Identity"
    config = {
        "in_features": weight.shape[1],
        "out_features": weight.shape[0],
        "bias": bias is not None,
        "activation_function": f"torch.nn.modules.{activation}",
    }
    return Module("Dense", config, tensors)


RECIPE_FIELDS = {
    "batch_size", "learning_rate", "epochs", "sentences", "max_length", "pooler", "dropout",
    "precision", "select_on",
}  # fmt: skip
CARD = """\
{% macro pairs(items) %}
{% for name, value in items.items() %}\
{{ name | text }} {{ value | text }}{{ ", " if not loop.last }}\
{% endfor %}
{% endmacro %}
{% set outcome, made, code = trained.outcome, trained.provenance, trained.provenance.code %}
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, sentence-similarity, feature-extraction, sentbench]
{% if hub_id %}
base_model: {{ hub_id | tojson }}
{% endif %}
---

# {{ run.label | text }} on {{ run.backbone | text }}, seed {{ run.seed }}

A sentence encoder trained without labels by sentbench.

    from sentence_transformers import SentenceTransformer
    vectors = SentenceTransformer(FOLDER).encode(sentences)

| | |
|---|---|
| Method | {{ run.text | text }} ({{ run.label | text }}) |
| Base model | {{ (hub_id or run.backbone) | text }} |
| Trained on | {{ run.corpus | text }} |
| SHA-256 of the corpora | {{ pairs(corpora) }} |
| Recipe | {{ pairs(recipe) }} |
| Selected step | {{ outcome.best_step }} of {{ outcome.steps }} |
| Dev score | {{ "%.2f" | format(outcome.best_dev) if outcome.best_dev is not none else "nan" }} |
| Seed | {{ run.seed }} |
| Vectors | {{ width }} dimensions; sentences are cut to {{ longest }} tokens |
| Run | {{ run.id | text }} |
| Code | sentbench {{ code.version | text }}, commit {{ (code.commit or "unknown") | text }}\
{{ " with uncommitted changes" if code.dirty }} |
| Versions | {{ pairs(made.versions) }} |
| Device | {{ made.device.name | text }} |
| Date | {{ made.date | text }} |
"""


def card(run: PlannedRun, trained: Trained, width: int, longest: int) -> str:
    """The README.md of the exported folder of a run, in Markdown with the hub's metadata.

    `trained` is how its training ended, `width` the dimension of the vectors, `longest` the maximum
    input length in tokens.
    """
    environment = Environment(trim_blocks=True, keep_trailing_newline=True)  # noqa: S701 (no HTML)
    environment.filters["text"] = markdown_text
    identified = run.identity.get("backbone", "")  # of the hub: by its name there
    return environment.from_string(CARD).render(
        run=run,
        trained=trained,
        hub_id=identified.partition("@")[0] if "/" in identified else "",
        corpora={corpus.name: corpus.sha256 for corpus in trained.provenance.corpora},
        recipe=run.recipe.model_dump(include=RECIPE_FIELDS, exclude_none=True),
        width=width,
        longest=longest,
    )
