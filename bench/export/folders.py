"""Trained encoders as sentence-transformers folders: weights, tokenizer, modules, model card.

Poolers and maps become the library's own modules: [CLS] and mean pooling a Pooling, a mean of two
layers a WeightedLayerPooling, the model's own pooler and affine maps a Dense, a whitening two Dense
and a Normalize. Anything else is refused. Each folder is loaded again by `bench.models.load`, and
its vectors are compared with the originals.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from bench.export.card import card
from bench.export.runs import ExportedRun
from bench.models.encoder import TransformerEncoder
from bench.models.load import load_encoder
from bench.models.poolers import FIRST_ONLY, LAYERS, POSITIONS, layer_weights
from bench.models.sentence_transformers import LIST, PROMPTS, SETTINGS, Normalised
from bench.models.transformer import longest_input, without_pooler
from bench.runs import paths
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json, write_text

# Tolerance of vectors that are read back, relative to the largest value if that exceeds 1.
CLOSE = 1e-5
LONG = " ".join(50 * ["The old dog sees seven small boats."])
PROBES = ("", "A man is playing a guitar.", "two birds", LONG)

TYPES = "sentence_transformers.models"  # the path of the modules in all versions of the library


@dataclass(frozen=True)
class Part:
    """A module of the library: its class name, its configuration, its tensors."""

    kind: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


def write(suite_dir: Path, runs: Sequence[ExportedRun], folder: Path, requested: bool) -> list[str]:
    """Write each trained run as a folder named by its id.

    Raises:
        UserError: a requested run cannot be exported, or no run can.
    """
    remarks: list[str] = []
    # Trained runs first: the first remark is shown if no run can be exported.
    for run in sorted(runs, key=lambda run: not run.description["trained"]):
        try:
            _write_run(suite_dir, run, folder / run.id)
        except UserError as error:
            if requested:
                raise
            shutil.rmtree(folder / run.id, ignore_errors=True)
            remarks.append(str(error))
    if len(remarks) == len(runs):
        raise UserError(f"{suite_dir} has no encoder to export: {remarks[0]}")
    return remarks


def _write_run(suite_dir: Path, run: ExportedRun, folder: Path) -> None:
    status = "not trained" if not run.description["trained"] else run.status
    if status != "finished":
        raise UserError(f"{run.id} is {status}, so it has no encoder to export; leave it out")
    source = paths.run_folder(suite_dir, run.id) / "encoder"
    if not source.is_dir():
        what = f"{run.id} has no encoder in this suite: {source} does not exist"
        raise UserError(f"{what}; pass the suite that has it")
    encoder = load_encoder(source)
    if (scored := run.provenance.get("encoder")) and encoder.identity != scored:
        what = f"{source} is not the encoder that was scored"
        raise UserError(f"{what}; score {run.id} again, or retrain it")
    base, modules = _parts(encoder, run.id)
    folder.mkdir()
    _write_transformer(base, folder)
    listed = [{"idx": 0, "name": "0", "path": "", "type": f"{TYPES}.Transformer"}]
    for index, module in enumerate(modules, start=1):
        path = f"{index}_{module.kind}"
        (folder / path).mkdir()
        write_json(folder / path / "config.json", module.config)
        if module.tensors:
            save_file(module.tensors, folder / path / "model.safetensors")
        entry = {"idx": index, "name": str(index), "path": path}
        listed.append(entry | {"type": f"{TYPES}.{module.kind}"})
    write_json(folder / LIST, listed)
    settings: dict[str, Any] = {
        "prompts": {},
        "default_prompt_name": None,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / PROMPTS, settings)
    vectors = encoder.encode(PROBES)
    loaded = load_encoder(folder)
    if modules[-1].kind == "Normalize":  # load_encoder skips a final Normalize
        loaded = Normalised(loaded)
    error = float(np.abs(loaded.encode(PROBES) - vectors).max())
    error /= max(1.0, float(np.abs(vectors).max()))
    if not error <= CLOSE:
        raise UserError(
            f"{run.id} cannot be exported: as float32 modules its vectors are off by {error:.1g}"
        )
    longest = read_json(folder / SETTINGS[0])["max_seq_length"]
    write_text(folder / "README.md", card(run, vectors.shape[1], longest))


def _write_transformer(encoder: TransformerEncoder, folder: Path) -> None:
    """Write a transformer and its tokenizer, with the maximum length that we use."""
    longest = longest_input(encoder.model, encoder.tokenizer)
    encoder.tokenizer.model_max_length = longest
    encoder.save(folder)
    settings: dict[str, Any] = {"max_seq_length": longest, "do_lower_case": False}
    if encoder.pooler != "cls" and (option := without_pooler(type(encoder.model))):
        settings["model_args"] = option  # otherwise the library initialises a pooler at random
    write_json(folder / SETTINGS[0], settings)
    if encoder.pooler in LAYERS:
        config = read_json(folder / "config.json")
        write_json(folder / "config.json", config | {"output_hidden_states": True})


def _parts(encoder: Any, name: str) -> tuple[TransformerEncoder, list[Part]]:
    """An Encoder as a transformer and the library's modules that follow it.

    Raises:
        UserError: the library has no module for a part of the encoder.
    """
    maps = []
    while not isinstance(encoder, TransformerEncoder):
        maps.append(encoder)
        encoder = getattr(encoder, "base", None)
        if encoder is None:
            raise _inexpressible(name, maps[-1])
    if encoder.pooler in POSITIONS:
        raise _inexpressible(name, encoder)
    modules = _pooling(encoder)
    for each in reversed(maps):
        if each.kind == "affine":
            modules.append(_dense(each.arrays["weight"], each.arrays["bias"], each.tanh))
        elif each.kind == "normalised":
            modules.append(Part("Normalize"))
        elif each.kind == "whitened" and each.fixed:
            # Two steps: computing x W - mu W in one loses digits if the mean is large.
            mean, matrix = each.arrays["mean"], each.arrays["matrix"]
            modules += [_dense(torch.eye(len(mean)), -mean), _dense(matrix.T, None)]
            modules.append(Part("Normalize"))
        else:
            raise _inexpressible(name, each)
    return encoder, modules


def _inexpressible(name: str, encoder: Any) -> UserError:
    reason = f"sentence-transformers has no module for '{encoder.kind}'"
    if encoder.kind == "whitened":
        reason = "its whitening is fitted on the sentences of each task"
    if encoder.kind == TransformerEncoder.kind:
        reason = f"sentence-transformers has no module for the mean of pooler '{encoder.pooler}'"
    return UserError(f"{name} cannot be exported: {reason}")


def _pooling(encoder: TransformerEncoder) -> list[Part]:
    config = encoder.model.config
    width, depth = config.hidden_size, config.num_hidden_layers
    first = encoder.pooler in FIRST_ONLY
    # All versions of the library read these flags; only the newest reads the current form.
    flags = {"pooling_mode_cls_token": first, "pooling_mode_mean_tokens": not first}
    pooling = Part("Pooling", {"word_embedding_dimension": width, **flags})
    if encoder.pooler == "cls":
        own = encoder.model.pooler
        dense = getattr(own, "dense", own)  # ALBERT's is the layer itself
        return [pooling, _dense(dense.weight.detach(), dense.bias.detach(), tanh=True)]
    if encoder.pooler in LAYERS:
        mixing = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": depth}
        tensors = {"layer_weights": layer_weights(encoder.pooler, depth)}
        return [Part("WeightedLayerPooling", mixing, tensors), pooling]
    return [pooling]


def _dense(weight: Tensor, bias: Tensor | None, tanh: bool = False) -> Part:
    """A Dense module, y = W x + b or its tanh, with a weight (k, d) and a bias (k,)."""
    tensors = {"linear.weight": weight.float().cpu().contiguous()}
    if bias is not None:
        tensors["linear.bias"] = bias.float().cpu().contiguous()
    kind = "activation.Tanh" if tanh else "linear.Identity"
    config = {
        "in_features": weight.shape[1],
        "out_features": weight.shape[0],
        "bias": bias is not None,
        "activation_function": f"torch.nn.modules.{kind}",
    }
    return Part("Dense", config, tensors)
