"""A folder of sentence-transformers, run as its files say, one sentence at a time."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoModel, AutoTokenizer


def literal(folder: Path, sentences: Sequence[str], prompt: str = "") -> np.ndarray:
    """Vectors in float64 behind the transformer, normalised last where the folder says so."""
    modules = json.loads((folder / "modules.json").read_text())
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    assert kinds[0] == "Transformer"
    first = folder / modules[0]["path"]
    settings = json.loads((first / "sentence_bert_config.json").read_text())
    options = settings.get("config_args", {})
    model = AutoModel.from_pretrained(first, use_safetensors=True, **options).eval()
    tokenizer = AutoTokenizer.from_pretrained(first)

    def vector(text: str) -> np.ndarray:
        text = text.lower() if settings.get("do_lower_case") else text
        length = settings["max_seq_length"]
        ids = tokenizer([text], truncation=True, max_length=length, return_tensors="pt")
        with torch.no_grad():
            output = model(**ids)
        # All of them only where the configuration says so.
        layers = output.hidden_states or [output.last_hidden_state]
        states = [layer[0].double().numpy() for layer in layers]
        return _through(folder, modules[1:], kinds[1:], states)

    return np.stack([vector(prompt + text) for text in sentences])


def _through(
    folder: Path, modules: Sequence[dict[str, Any]], kinds: Sequence[str], states: list[np.ndarray]
) -> np.ndarray:
    """The vector that modules behind the transformer make of its states."""
    tokens, vector = states[-1], np.zeros(0)
    for module, kind in zip(modules, kinds, strict=True):
        place = folder / module["path"]
        config = json.loads((place / "config.json").read_text()) if module["path"] else {}
        stored = place / "model.safetensors"
        weights = load_file(stored) if stored.is_file() else {}
        if kind == "WeightedLayerPooling":
            assert config["layer_start"] == 0
            shares = weights["layer_weights"]
            weighted = sum(share * layer for share, layer in zip(shares, states, strict=True))
            tokens = weighted / shares.sum()
        elif kind == "Pooling":
            mean = config.get("pooling_mode_mean_tokens") or config.get("pooling_mode") == "mean"
            vector = tokens.mean(0) if mean else tokens[0]
            if config.get("pooling_mode_lasttoken"):
                vector = tokens[-1]
            if config.get("pooling_mode_weightedmean_tokens"):
                vector = np.average(tokens, axis=0, weights=range(1, len(tokens) + 1))
        elif kind == "Dense":
            vector = weights["linear.weight"].astype(float) @ vector
            vector = vector + weights.get("linear.bias", np.zeros(len(vector)))
            vector = np.tanh(vector) if config["activation_function"].endswith(".Tanh") else vector
        elif kind == "Normalize":
            vector = vector / max(np.linalg.norm(vector), 1e-12)
        else:
            raise AssertionError(kind)
    return vector
