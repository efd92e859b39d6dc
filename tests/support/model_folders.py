"""Model folders that tests write or spoil."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor


def change(path: Path, **values: Any) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_weights(folder: Path, edit: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = folder / "model.safetensors"
    save_file(edit(load_file(path)), path, metadata={"format": "pt"})


def copy_with_pooler(source: Path, target: Path, spread: float = 1.0) -> Path:
    """A copy of the tiny BERT with a stored pooler of its own."""
    shutil.copytree(source, target)
    draw = torch.Generator().manual_seed(5)
    weight = torch.randn(32, 32, generator=draw) * spread
    pooler = {"weight": weight, "bias": torch.randn(32, generator=draw)}
    pooler = {f"pooler.dense.{name}": tensor for name, tensor in pooler.items()}
    change_weights(target, lambda weights: weights | pooler)
    return target


# Folders of sentence-transformers


def pooling(**config: Any) -> dict[str, Any]:
    """By the mean, unless `config` says otherwise."""
    if not any(key.startswith("pooling_mode") for key in config):
        config["pooling_mode_mean_tokens"] = True
    return {"kind": "Pooling", "config": {"word_embedding_dimension": 32} | config}


def dense(inner: int, outer: int, seed: int, bias: bool = True) -> Any:
    draw = torch.Generator().manual_seed(seed)
    tensors = {"linear.weight": torch.randn(outer, inner, generator=draw) / inner**0.5}
    if bias:
        tensors["linear.bias"] = torch.randn(outer, generator=draw)
    kind = "torch.nn.modules.activation.Tanh"
    config = {"in_features": inner, "out_features": outer, "bias": bias}
    return {
        "kind": "Dense", "config": config | {"activation_function": kind}, "tensors": tensors,
    }  # fmt: skip


def entry(index: int, path: str, kind: str) -> dict[str, Any]:
    kind = f"sentence_transformers.models.{kind}"
    return {"idx": index, "name": str(index), "path": path, "type": kind}


def write(folder: Path, *modules: dict[str, Any], longest: int = 64, **settings: Any) -> Path:
    """Add modules behind the transformer in `folder`."""
    listed = [entry(0, "", "Transformer")]
    for index, module in enumerate(modules, 1):
        place = f"{index}_{module['kind']}"
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "config.json").write_text(json.dumps(module.get("config", {})))
        if "tensors" in module:
            save_file(module["tensors"], folder / place / "model.safetensors")
        listed.append(entry(index, place, module["kind"]))
    (folder / "modules.json").write_text(json.dumps(listed))
    settings |= {"max_seq_length": longest}
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    return folder


def prompts(folder: Path, default: str | None = None, **texts: str) -> Path:
    described = {"prompts": texts, "default_prompt_name": default}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(described))
    return folder
