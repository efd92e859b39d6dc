"""Folders of sentence-transformers, which that library reads.

Where the first module is a transformer and its vectors are pooled by one of our poolers, our own
forward pass runs it, and the library what follows. Otherwise the library encodes. Normalize as the
last module is left out: it changes no cosine, and SentEval's classifiers get unnormalised vectors.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from bench.models.encoder import TransformerEncoder
from bench.models.transformer import load_backbone, refuse_pickled
from bench.registry.backbones import refuse_own_code
from bench.registry.encoders import MODULES, files_sum
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json
from methods.base import Mapped

PROMPTS = "config_sentence_transformers.json"
POOLERS = {"mean": "avg", "cls": "cls_before_pooler"}  # the library's modes, and ours
READ = (".json", ".safetensors", ".txt", ".model")  # ends of names: files that decide the vectors
USE_POOLER = "choose a pooler with --pooler to use only the transformer"


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """The entries of modules.json; `UserError` if one needs code of its own or is pickled."""
    entries: list[dict[str, Any]] = read_json(folder / MODULES)
    for entry in entries:
        module = folder / entry["path"]
        refuse_own_code(module)
        refuse_pickled(module)
        config = module / "config.json"
        # The library would take tanh for an activation that is not torch's.
        activation = read_json(config).get("activation_function") if config.is_file() else None
        for name, package in ((entry["type"], "sentence_transformers."), (activation, "torch.")):
            if name and not name.startswith(package):
                raise UserError(
                    f"{folder} needs '{name}', code of the model's own, which is not run; "
                    f"{USE_POOLER}"
                )
    return entries


def read_prompt(folder: Path, name: str | None) -> str:
    """The text of a prompt, None for the folder's default one and "" for none; `UserError` if the
    folder has no such prompt."""
    path = folder / PROMPTS
    described = read_json(path) if path.is_file() else {}
    prompts = described.get("prompts") or {}
    name = described.get("default_prompt_name") if name is None else name
    if not name:
        return ""
    if name not in prompts:
        hint = did_you_mean(name, prompts)
        raise UserError(f"{folder} has no prompt '{name}'{hint}; an empty --prompt uses none")
    return prompts[name] or ""


def load_modular(folder: Path, prompt: str | None, device: str) -> Any:
    """Load the encoder of a folder, with a prompt as `read_prompt` takes it; errors of the library
    may be of any kind."""
    entries, text = read_modules(folder), read_prompt(folder, prompt)
    model: Any = None
    if entries[0]["type"].endswith(".Transformer"):
        # Before the library, which would draw missing weights at random.
        model, _ = load_backbone(folder / entries[0]["path"])

    # Here, because importing it takes seconds.
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    # A folder may name code of the hub for its attention, and a shorter type.
    options = {"dtype": torch.float32, "use_safetensors": True, "attn_implementation": None}
    library = SentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs=options,
    )
    while isinstance(library[-1], Normalize):
        library.pop(-1)
    library.eval()

    # Our pooler, where the first two modules are a transformer's last states and that pooler.
    pooler, plain = None, {"method": "forward", "method_output_name": "last_hidden_state"}
    pooling: Any = library[1] if len(library) > 1 else None
    if model is not None and isinstance(pooling, Pooling):
        first: Any = library[0]
        is_plain = first.modality_config.get("text") == plain and not first.processing_kwargs
        if is_plain and (pooling.include_prompt or not text):
            pooler = POOLERS.get(pooling.pooling_mode)
    if pooler is None:
        return ModularEncoder(folder, text, library.to(device))
    transformer = TransformerEncoder(model.to(device), library[0].tokenizer, pooler)
    behind = torch.nn.Sequential(*list(library)[2:]).to(device)
    if not text and not len(behind):
        return transformer
    return ModularEncoder(folder, text, behind, transformer)


class ModularEncoder:
    """The modules of a folder, all of them or those behind a transformer that we run."""

    kind = "sentence-transformers"

    def __init__(
        self, folder: Path, prompt: str, modules: Any, transformer: TransformerEncoder | None = None
    ) -> None:
        self._prompt, self._modules, self._transformer = prompt, modules, transformer
        described = f"{files_sum(folder, READ)}\n{prompt}".encode()
        self.identity = f"{self.kind}-{hashlib.sha256(described).hexdigest()[:16]}"
        # Tasks are tokenized once for all runs of a suite, without a prompt.
        self.base = None if prompt else transformer

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        if self._transformer is None:
            options = {"prompt": self._prompt, "show_progress_bar": False}
            vectors = self._modules.encode(list(sentences), **options)
            return np.asarray(vectors, dtype=np.float32)
        vectors = self._transformer.encode([self._prompt + text for text in sentences])
        pooled = torch.from_numpy(vectors).to(self._transformer.model.device)
        with torch.inference_mode():
            features = {"sentence_embedding": pooled}
            for module in self._modules:
                features = module(features)
        return features["sentence_embedding"].float().cpu().numpy()


class Normalised(Mapped):
    """Normalises vectors to length 1. Zero vectors stay zero."""

    kind = "normalised"
    fixed = True

    def __init__(self, base: Any) -> None:
        self.base = base
        # Whether the identity is the same in another process.
        self.lasting = getattr(base, "lasting", True)

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(json.dumps([self.base.identity]).encode())
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def through(self, vectors: np.ndarray) -> np.ndarray:
        exact = torch.from_numpy(np.ascontiguousarray(vectors)).double()
        return F.normalize(exact, dim=-1).float().numpy()

    def save(self, folder: Path) -> dict[str, Any]:
        return {}

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, base: Any, **_: Any) -> Normalised:
        return cls(base)
