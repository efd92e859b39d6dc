"""Encoders that lie in a folder as a list of modules, as sentence-transformers writes them, read without that library.

`read` says what a folder holds; `bench.models.encoder` puts a transformer under it. Built are: Transformer with Pooling
(mean or [CLS]; the mean of two layers by WeightedLayerPooling), StaticEmbedding, Dense (plain or tanh) and Normalize,
and the prompts of `config_sentence_transformers.json`.
A folder that asks for anything else is refused by the module's name, for its vectors would not be the model's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json
from methods.base import Mapped
from methods.projection import Affine

LIST = "modules.json"
PROMPTS = "config_sentence_transformers.json"
WEIGHTS = "model.safetensors"
# A transformer's own settings; the first name is today's, the second that of the first RoBERTa models.
SETTINGS = ("sentence_bert_config.json", "sentence_roberta_config.json")

# What a pooling is called, in today's form ("pooling_mode": name) and as a flag of its own before.
POOLINGS = {"mean": "avg", "cls": "cls_before_pooler"}
FLAGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}

# Poolers that are the mean of two layers' states: which, embeddings first.
LAYERS = {"avg_top2": (-1, -2), "avg_first_last": (1, -1), "avg_embedding_last": (0, -1)}

BUILT = ("Transformer", "WeightedLayerPooling", "Pooling", "StaticEmbedding", "Dense", "Normalize")
ACTIVATIONS = {"Identity": False, "Tanh": True}  # of a Dense module: whether it is tanh

INSTEAD = "name a pooler with --pooler, which takes the transformer alone"


@dataclass(frozen=True)
class Module:
    """One entry of the list: the last part of its type, and its folder."""

    kind: str
    folder: Path


@dataclass(frozen=True)
class Stack:
    """What a folder's modules are.

    Attributes:
        place: the folder of the first module.
        pooler: of its transformer; None where it is a table of vectors.
        longest: word pieces that the transformer is given at most, special tokens included; None: what it can take.
        lower: whether sentences are put in small letters first.
        after: what comes behind, in order, without a last normalisation.
        prompt: what stands before each sentence.
        counted: whether its tokens are pooled with the others.
    """

    place: Path
    pooler: str | None
    longest: int | None = None
    lower: bool = False
    after: Sequence[Module] = field(default_factory=tuple)
    prompt: str = ""
    counted: bool = True

    def prepare(self, tokenizer: Any) -> None:
        """Have a fast tokenizer cut, and put in small letters, as the folder says."""
        if self.longest is not None:
            tokenizer.model_max_length = self.longest
        if self.lower:
            from tokenizers.normalizers import Lowercase, Sequence

            backend = tokenizer.backend_tokenizer
            backend.normalizer = Sequence([Lowercase(), *([backend.normalizer] if backend.normalizer else [])])

    def around(self, encoder: Any) -> Any:
        """An Encoder of the first module with the prompt before and the other modules behind it.

        Raises:
            UserError: a Dense module is not built here, or its files are broken.
        """
        if self.prompt:
            encoder = Prompted(encoder, self.prompt, self.counted)
        for module in self.after:
            encoder = Normalised(encoder) if module.kind == "Normalize" else _dense(encoder, module)
        return encoder


def is_modular(folder: Path) -> bool:
    """Whether a folder names its modules."""
    return (folder / LIST).is_file()


def read(folder: Path, prompt: str | None = None) -> Stack:
    """What a folder holds.

    A last normalisation is left out: cosines do not see it, and SentEval's classifiers are given plain vectors.

    Args:
        prompt: the name of one of the folder's prompts, or "" for none; None takes the folder's own default.

    Raises:
        UserError: it asks for modules or a pooling that are not built here, has no such prompt, or is damaged.
    """
    modules = _modules(folder)
    for module in modules:
        if module.kind not in BUILT:
            raise UserError(f"{folder} has a module '{module.kind}', which is not built here; {INSTEAD}")
    text = _prompt(folder, prompt)
    if modules and modules[0].kind == "StaticEmbedding":
        return Stack(modules[0].folder, None, after=_behind(folder, modules[1:]), prompt=text)
    mixed = len(modules) > 1 and modules[1].kind == "WeightedLayerPooling"
    pools = 2 if mixed else 1  # where Pooling stands
    usual = (
        modules and modules[0].kind == "Transformer" and [module.kind for module in modules[pools:]][:1] == ["Pooling"]
    )
    described = _described(modules[pools].folder) if usual else {}
    pooler = _pooler(folder, described)
    if mixed:
        pooler = _mixed(modules[1], pooler)
    counted = described.get("include_prompt", True) is not False
    if text and not counted and pooler != "avg":
        raise UserError(f"{folder} pools without its prompt, and not by the mean, which is not built here; {INSTEAD}")
    place = modules[0].folder
    longest, lower = _settings(place)
    return Stack(place, pooler, longest, lower, _behind(folder, modules[pools + 1 :]), text, counted)


def _modules(folder: Path) -> list[Module]:
    listed = read_json(folder / LIST)
    if not isinstance(listed, list) or not all(isinstance(module, dict) for module in listed):
        raise UserError(f"{folder / LIST} is no list of modules; {INSTEAD}")
    modules = []
    for module in listed:
        place = PurePosixPath(str(module.get("path") or ""))
        if place.is_absolute() or ".." in place.parts:
            raise UserError(f"{folder / LIST} names the folder '{place}', which is not within it; {INSTEAD}")
        modules.append(Module(str(module.get("type", "")).rpartition(".")[2], folder / place))
    return modules


def _behind(folder: Path, modules: Sequence[Module]) -> tuple[Module, ...]:
    """What comes behind the vectors, without the last normalisation."""
    if odd := [module.kind for module in modules if module.kind not in ("Dense", "Normalize")]:
        raise UserError(f"{folder} has a module '{odd[0]}' in a place where it is not built here; {INSTEAD}")
    while modules and modules[-1].kind == "Normalize":
        modules = modules[:-1]
    return tuple(modules)


def _described(folder: Path) -> dict[str, Any]:
    found = read_json(folder / "config.json")
    if not isinstance(found, dict):
        raise UserError(f"{folder / 'config.json'} does not say how to pool; {INSTEAD}")
    return found


def _pooler(folder: Path, pooling: Mapping[str, Any]) -> str:
    chosen = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
    modes = [FLAGS.get(name, name) for name in chosen]
    if "pooling_mode" in pooling:
        named = pooling["pooling_mode"]
        modes = [str(mode) for mode in (named if isinstance(named, list) else [named])]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise UserError(f"{folder} pools by {', '.join(modes) or 'nothing known'}; {INSTEAD}")
    return POOLINGS[modes[0]]


def layer_weights(pooler: str, depth: int) -> Tensor:
    """How much each layer's states count, (depth + 1), embeddings first, for a pooler of `LAYERS`."""
    weights = torch.zeros(depth + 1)
    for layer in LAYERS[pooler]:
        weights[layer] += 1
    return weights


def _mixed(module: Module, pooler: str) -> str:
    """The pooler that a mean of layers is, before the mean of tokens."""
    told, weights = read_json(module.folder / "config.json"), _weights(module).get("layer_weights")
    from_first = isinstance(told, dict) and told.get("layer_start") == 0
    if from_first and pooler == "avg" and weights is not None and weights.dim() == 1 and len(weights) > 1:
        for name in LAYERS:
            wanted = layer_weights(name, len(weights) - 1)
            if torch.equal(weights / weights.sum(), wanted / wanted.sum()):
                return name
    raise UserError(f"{module.folder} weighs layers as no pooler here does; {INSTEAD}")


def _settings(folder: Path) -> tuple[int | None, bool]:
    """How long an input may be, and whether it is put in small letters."""
    path = next((folder / name for name in SETTINGS if (folder / name).is_file()), None)
    found = read_json(path) if path else {}
    longest = found.get("max_seq_length") if isinstance(found, dict) else ""
    if longest is not None and (not isinstance(longest, int) or longest < 3):
        raise UserError(f"{path} says that {longest!r} word pieces fit; mend its max_seq_length")
    return longest, bool(found.get("do_lower_case"))


def _prompt(folder: Path, name: str | None) -> str:
    """The text of a prompt: of the one that is named, else of the folder's default, else none."""
    path = folder / PROMPTS
    found = read_json(path) if path.is_file() else {}
    prompts = found.get("prompts") if isinstance(found, dict) else None
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise UserError(f"{path} does not hold prompts; mend it, or {INSTEAD}")
    chosen = found.get("default_prompt_name") if name is None else name
    if not chosen:
        return ""
    if chosen not in prompts:
        raise UserError(
            f"{folder} has no prompt '{chosen}'{did_you_mean(str(chosen), prompts)}; --prompt '' takes none"
        )
    return prompts[chosen] or ""


def _weights(module: Module) -> dict[str, Tensor]:
    path = module.folder / WEIGHTS
    if not path.is_file():
        why = "pickled weights are refused" if list(module.folder.glob("*.bin")) else f"it holds no {WEIGHTS}"
        raise UserError(f"{module.folder} has a module '{module.kind}' that cannot be read, for {why}; {INSTEAD}")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path} is truncated or broken ({error}); fetch it again") from None


def _dense(encoder: Any, module: Module) -> Affine:
    """An Encoder's vectors through a Dense module."""
    told = read_json(module.folder / "config.json")
    told = told if isinstance(told, dict) else {}
    activation = str(told.get("activation_function", "Tanh")).rpartition(".")[2]
    inner = {told.get(name) or "sentence_embedding" for name in ("module_input_name", "module_output_name")}
    if "in_features" not in told or told.get("use_residual") or inner != {"sentence_embedding"}:
        raise UserError(f"{module.folder} has a module 'Dense' of another kind than is built here; {INSTEAD}")
    if activation not in ACTIVATIONS:
        raise UserError(f"{module.folder} has a module 'Dense' with {activation}, which is not built here; {INSTEAD}")
    weights = _weights(module)
    weight, bias = weights.get("linear.weight"), weights.get("linear.bias")
    if weight is None or weight.dim() != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise UserError(f"{module.folder / WEIGHTS} holds no linear map; fetch it again")
    bias = torch.zeros(len(weight)) if bias is None else bias
    return Affine(encoder, weight.float(), bias.float(), ACTIVATIONS[activation])


def _sum(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class Prompted:
    """An Encoder: another one's vectors of sentences behind a prompt."""

    kind = "prompted"

    def __init__(self, base: Any, prompt: str, counted: bool = True) -> None:
        self.base, self.prompt, self.counted = base, prompt, counted

    @property
    def identity(self) -> str:
        return f"{self.kind}-{_sum(self.base.identity, self.prompt, self.counted)}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        texts = [self.prompt + text for text in sentences]
        if self.counted:
            return cast(np.ndarray, self.base.encode(texts))
        ids = self.base.tokenize([self.prompt])[0]
        before = len(ids) - (ids[-1] in self.base.tokenizer.all_special_ids)

        def pool(states: Any, mask: Tensor) -> Tensor:
            kept = mask.clone()
            kept[:, :before] = 0
            weights = kept.unsqueeze(-1).to(states[-1])
            return (states[-1] * weights).sum(1) / weights.sum(1).clamp(min=1)

        return cast(np.ndarray, self.base.encode_tokens(self.base.tokenize(texts), pool=pool))

    def save(self, folder: Path) -> dict[str, Any]:
        return {"prompt": self.prompt, "counted": self.counted}

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, base: Any, **_: Any) -> Prompted:
        return cls(base, stored["prompt"], stored["counted"])


class Normalised(Mapped):
    """An Encoder: another one's vectors, of length 1; a zero vector stays one."""

    kind = "normalised"
    fixed = True

    def __init__(self, base: Any) -> None:
        self.base = base

    @property
    def identity(self) -> str:
        return f"{self.kind}-{_sum(self.base.identity)}"

    @property
    def lasting(self) -> bool:
        """Whether another process knows its vectors again."""
        return getattr(self.base, "lasting", True)

    def through(self, vectors: np.ndarray) -> np.ndarray:
        return F.normalize(torch.from_numpy(np.ascontiguousarray(vectors)).double(), dim=-1).float().numpy()

    def save(self, folder: Path) -> dict[str, Any]:
        return {}

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, base: Any, **_: Any) -> Normalised:
        return cls(base)


class StaticEncoder:
    """An Encoder: the mean of the vectors of a sentence's tokens, from a table; without any token the zero vector."""

    kind = "static"

    def __init__(self, tokenizer: Any, table: Tensor) -> None:
        self.tokenizer, self.table = tokenizer, table
        self.tokenizer.no_padding()

    @property
    def arrays(self) -> dict[str, Tensor]:
        return {"table": self.table}

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(self.tokenizer.to_str().encode())
        digest.update(np.ascontiguousarray(self.table.numpy()).data)
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        rows = [each.ids for each in self.tokenizer.encode_batch(list(sentences), add_special_tokens=False)]
        starts = torch.tensor(np.cumsum([0, *map(len, rows)])[:-1], dtype=torch.int64)
        ids = torch.tensor([number for row in rows for number in row], dtype=torch.int64)
        return F.embedding_bag(ids, self.table, starts, mode="mean").numpy()

    def save(self, folder: Path) -> dict[str, Any]:
        self.tokenizer.save(str(folder / "tokenizer.json"))
        return {}

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, arrays: dict[str, Tensor], **_: Any) -> StaticEncoder:
        return cls(_tokenizer(folder), arrays["table"])

    @classmethod
    def read(cls, folder: Path) -> StaticEncoder:
        """From a StaticEmbedding module's folder, or model2vec's: rows by number, or by `mapping`, times `weights`.

        Raises:
            UserError: its files are missing or broken, or the tokenizer knows more tokens than the table has.
        """
        weights = _weights(Module("StaticEmbedding", folder))
        table = weights.get("embedding.weight", weights.get("embeddings"))
        if table is None or table.dim() != 2:
            raise UserError(f"{folder / WEIGHTS} holds no table of vectors; fetch it again")
        if "mapping" in weights:
            table = table[weights["mapping"].long()]
        table = table.float()
        if "weights" in weights:
            table = table * weights["weights"].float().unsqueeze(1)
        tokenizer = _tokenizer(folder)
        if (largest := max(tokenizer.get_vocab().values(), default=-1)) >= len(table):
            raise UserError(
                f"{folder / 'tokenizer.json'} gives token ids up to {largest}, but the table has {len(table)} rows; "
                "put the model's own tokenizer beside it"
            )
        return cls(tokenizer, table.contiguous())


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more special
        raise UserError(f"{path} is no tokenizer ({error}); fetch it again") from None


KINDS = {cls.kind: cls for cls in (Prompted, Normalised, StaticEncoder)}
