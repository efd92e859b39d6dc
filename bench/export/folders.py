"""Trained encoders as sentence-transformers folders: weights, tokenizer, modules, model card.

Poolers and maps become the library's own modules: [CLS] and mean pooling a Pooling, a mean of two
layers a WeightedLayerPooling, the model's own pooler and affine maps a Dense, a whitening two Dense
and a Normalize. Anything else is refused. The library then reads each folder, and its vectors are
compared with the originals. The files are in the form that all its versions read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from bench.export.card import card
from bench.export.runs import ExportedRun
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder
from bench.models.poolers import FIRST_ONLY, LAYERS, POSITIONS, layer_weights
from bench.models.transformer import longest_input, without_pooler
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json, write_text

# Tolerance of vectors that are read back, relative to the largest value if that exceeds 1.
CLOSE = 1e-5
LONG = " ".join(50 * ["The old dog sees seven small boats."])
PROBES = ["", "A man is playing a guitar.", "two birds", LONG]


class Module(NamedTuple):
    """A module of the library: its class name, its configuration, its tensors."""

    kind: str
    config: Mapping[str, Any] = {}
    tensors: dict[str, Tensor] = {}


def write(suite_dir: Path, run: ExportedRun, folder: Path) -> None:
    """Write a trained run as a folder named by its id; `UserError` if it cannot be exported."""
    folder = folder / run.id
    status = run.status if run.description["trained"] else "not trained"
    if status != "finished":
        raise UserError(f"{run.id} is {status}, so it has no encoder to export; leave it out")
    source = paths.run_folder(suite_dir, run.id) / "encoder"
    if not source.is_dir():
        raise UserError(
            f"{run.id} has no encoder in this suite: {source} does not exist; "
            "pass the suite that has it"
        )
    encoder = load_encoder(source)
    if run.provenance.get("encoder") not in (None, encoder.identity):
        raise UserError(
            f"{source} is not the encoder that was scored; score {run.id} again, or retrain it"
        )
    base, modules = _modules(encoder, run.id)
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
        path = f"{index}_{module.kind}" if index else ""
        if index:
            write_json(folder / path / "config.json", module.config)
        if module.tensors:
            save_file(module.tensors, folder / path / "model.safetensors")
        kind = f"sentence_transformers.models.{module.kind}"  # this path is in all its versions
        entries.append({"idx": index, "name": str(index), "path": path, "type": kind})
    write_json(folder / "modules.json", entries)
    prompts: dict[str, Any] = {
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "config_sentence_transformers.json", prompts)
    vectors = encoder.encode(PROBES)
    _compare(run.id, folder, vectors)
    write_text(folder / "README.md", card(run, vectors.shape[1], longest))


def _compare(run_id: str, folder: Path, vectors: np.ndarray) -> None:
    """Raise `UserError` if the library's vectors of `PROBES` differ from ours."""
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(
        str(folder), device="cpu", local_files_only=True, trust_remote_code=False
    ).encode(PROBES)
    error = np.abs(theirs - vectors).max() / max(1.0, np.abs(vectors).max())
    if not error <= CLOSE:
        raise UserError(
            f"{run_id} cannot be exported: as float32 modules its vectors are off by {error:.1g}"
        )


def _modules(encoder: Any, run_id: str) -> tuple[TransformerEncoder, list[Module]]:
    """An Encoder as a transformer and the library's modules that follow it.

    Raises:
        UserError: the library has no module for a part of the encoder.
    """
    maps: list[Any] = []
    while not isinstance(encoder, TransformerEncoder):
        maps.insert(0, encoder)
        if not hasattr(encoder, "base"):
            raise _inexpressible(run_id, encoder)
        encoder = encoder.base
    if encoder.pooler in POSITIONS:
        raise _inexpressible(run_id, encoder)
    modules = _pooling(encoder)
    for mapped in maps:
        if mapped.kind == "affine":
            modules.append(_dense(mapped.arrays["weight"], mapped.arrays["bias"], mapped.tanh))
        elif mapped.kind == "normalised":
            modules.append(Module("Normalize"))
        elif mapped.kind == "whitened" and mapped.fixed:
            # Two steps: computing x W - mu W in one loses digits if the mean is large.
            mean, matrix = mapped.arrays["mean"], mapped.arrays["matrix"]
            modules += [_dense(torch.eye(len(mean)), -mean), _dense(matrix.T, None)]
            modules.append(Module("Normalize"))
        else:
            raise _inexpressible(run_id, mapped)
    return encoder, modules


def _inexpressible(run_id: str, encoder: Any) -> UserError:
    reason = f"sentence-transformers has no module for '{encoder.kind}'"
    if encoder.kind == "whitened":
        reason = "its whitening is fitted on the sentences of each task"
    if encoder.kind == TransformerEncoder.kind:
        reason = f"sentence-transformers has no module for the mean of pooler '{encoder.pooler}'"
    return UserError(f"{run_id} cannot be exported: {reason}")


def _pooling(encoder: TransformerEncoder) -> list[Module]:
    config = encoder.model.config
    width, depth = config.hidden_size, config.num_hidden_layers
    first = encoder.pooler in FIRST_ONLY
    # All versions of the library read these flags; only the newest reads the current form.
    flags = {"pooling_mode_cls_token": first, "pooling_mode_mean_tokens": not first}
    pooling = Module("Pooling", {"word_embedding_dimension": width, **flags})
    if encoder.pooler == "cls":
        pooler = encoder.model.pooler
        dense = getattr(pooler, "dense", pooler)  # ALBERT's is the layer itself
        return [pooling, _dense(dense.weight.detach(), dense.bias.detach(), tanh=True)]
    if encoder.pooler in LAYERS:
        mixing = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": depth}
        tensors = {"layer_weights": layer_weights(encoder.pooler, depth)}
        return [Module("WeightedLayerPooling", mixing, tensors), pooling]
    return [pooling]


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
