"""Files by which sentence-transformers opens the folder of a saved encoder.

They stand beside the files of the encoder: `modules.json`, what the library asks of a transformer,
and a folder for each module behind it. The form is one that its versions from 3.0 on read.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bench.models.pooling import BY_NAME, LAST
from bench.models.transformer import longest_input, without_pooler
from bench.registry.backbones import MODULES
from bench.utils.files import read_json, write_json

# The library's names of poolers. The mean of two layers is a further module before the mean over
# tokens. The pooler "cls" has a dense layer behind the first token.
POOLING_KEYS = {
    "avg": "mean_tokens",
    "avg_top2": "mean_tokens",
    "avg_first_last": "mean_tokens",
    "avg_embedding_last": "mean_tokens",
    "cls": "cls_token",
    "cls_before_pooler": "cls_token",
    "last": "lasttoken",
    "weighted_mean": "weightedmean_tokens",
}
# The class of a module in the library, its configuration, its tensors.
Module = tuple[str, dict[str, Any], dict[str, Tensor]]


def write_modules(encoder: Any, folder: Path) -> None:
    """Add to the folder of an encoder the files that the library reads. Its base is in `base/`.
    Nothing is written if the library's modules cannot give the vectors."""
    entries: list[dict[str, Any]] = []
    inner = folder / "base" / MODULES
    # An affine map, as of a projection, is one more module behind those of its base.
    if encoder.kind == "affine" and inner.is_file():
        entries = [entry | {"path": f"base/{entry['path']}"} for entry in read_json(inner)]
        modules = [_dense(**encoder.arrays, **encoder.options)]
    elif encoder.kind == "transformer" and _is_expressible(encoder):
        modules = _transformer(encoder, folder / "sentence_bert_config.json")
    else:
        return
    for number, (name, config, tensors) in enumerate(modules, len(entries)):
        kind, path = f"sentence_transformers.models.{name}", ""
        if config:
            path = f"{number}_{name}"
            write_json(folder / path / "config.json", config)
        if tensors:
            save_file(tensors, folder / path / "model.safetensors")
        entries.append({"idx": number, "name": str(number), "path": path, "type": kind})
    write_json(folder / MODULES, entries)


def _is_expressible(encoder: Any) -> bool:
    """Whether the library would pool the same states of the same token ids. Unlike our code, it
    pads on the side that the tokenizer names, leaves a blank sentence without a token, and passes
    token types."""
    blank = encoder.tokenizer("")
    return (
        encoder.pooler in POOLING_KEYS
        and encoder.tokenizer.padding_side == "right"
        and blank["input_ids"] != []
        and not any(blank.get("token_type_ids", []))
    )


def _transformer(encoder: Any, file: Path) -> list[Module]:
    """The modules of a transformer with a pooler, whose settings are written to a file."""
    model, pooler, mode = encoder.model, encoder.pooler, POOLING_KEYS[encoder.pooler]
    settings: dict[str, Any] = {"max_seq_length": longest_input(model, encoder.tokenizer)}
    width = {"word_embedding_dimension": model.config.hidden_size}
    # The mean is the library's default.
    pooling = width | {"pooling_mode_mean_tokens": False, f"pooling_mode_{mode}": True}
    modules: list[Module] = [("Transformer", {}, {}), ("Pooling", pooling, {})]
    if pooler == "cls":
        dense = getattr(model.pooler, "dense", model.pooler)  # ALBERT's is the layer itself
        modules.append(_dense(dense.weight.detach(), dense.bias.detach(), tanh=True))
    else:
        # Otherwise the library would draw the weights of a dense layer behind [CLS].
        settings["model_args"] = without_pooler(type(model))
    layers = BY_NAME[pooler].layers
    if layers != LAST:
        settings["config_args"] = {"output_hidden_states": True}
        depth = model.config.num_hidden_layers
        mixing = width | {"layer_start": 0, "num_hidden_layers": depth}
        weights = torch.zeros(depth + 1)
        weights[list(layers)] = 1
        tensors = {"layer_weights": weights}
        modules.insert(1, ("WeightedLayerPooling", mixing, tensors))
    write_json(file, settings)
    return modules


def _dense(weight: Tensor, bias: Tensor, tanh: bool) -> Module:
    """y = W x + b or its tanh, of a weight (k, d) and a bias (k,), in float32."""
    config = {
        "in_features": weight.shape[1],
        "out_features": weight.shape[0],
        "activation_function": f"torch.nn.{'Tanh' if tanh else 'Identity'}",
    }
    parts = {"linear.weight": weight, "linear.bias": bias}
    return "Dense", config, {name: part.float().cpu().contiguous() for name, part in parts.items()}
