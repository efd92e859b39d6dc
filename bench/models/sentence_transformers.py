"""Read model folders of sentence-transformers without that library.

Supported modules: Transformer with Pooling (mean or [CLS]; the mean of two layers by
WeightedLayerPooling), StaticEmbedding, Dense (linear or tanh) and Normalize, and the prompts of
`config_sentence_transformers.json`. A folder with any other module is rejected, because its vectors
would differ from the model's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from bench.models.encoder import TransformerEncoder
from bench.models.poolers import LAYERS, layer_weights
from bench.models.transformer import check_folder, load_backbone
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json
from methods.base import Mapped
from methods.projection import Affine

LIST = "modules.json"
PROMPTS = "config_sentence_transformers.json"
WEIGHTS = "model.safetensors"
# Settings of the Transformer module; the second name is that of early RoBERTa models.
SETTINGS = ("sentence_bert_config.json", "sentence_roberta_config.json")

# Pooling modes: the value of "pooling_mode", or, in older versions, one boolean flag each.
POOLINGS = {"mean": "avg", "cls": "cls_before_pooler"}
FLAGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}

BEHIND = ("Dense", "Normalize")  # what may follow the pooling
SUPPORTED = ("Transformer", "WeightedLayerPooling", "Pooling", "StaticEmbedding", *BEHIND)
ACTIVATIONS = {"Identity": False, "Tanh": True}  # of a Dense module -> whether it is tanh

USE_POOLER = "choose a pooler with --pooler to use only the transformer"


class Module(NamedTuple):
    """One entry of modules.json: the class name of its type, and its folder."""

    kind: str
    folder: Path


class Parts(NamedTuple):
    """What a folder describes.

    Attributes:
        first: the Transformer or StaticEmbedding.
        pooler: empty of a StaticEmbedding.
        width: of the transformer's vectors by the pooling's configuration, if that says it.
        prompt: the text before each sentence.
        counted: whether the pooling counts the tokens of the prompt.
        behind: the modules after the pooling, without a final Normalize: it does not change
            cosines, and SentEval's classifiers get unnormalised vectors.
    """

    first: Module
    pooler: str
    width: Any
    prompt: str
    counted: bool
    behind: list[Module]


def load_modular(folder: Path, prompt: str | None, device: str) -> Any:
    """Load the encoder of a folder.

    Args:
        folder: of a model.
        prompt: name of one of the folder's prompts, or "" for no prompt; None uses the folder's
            default.
        device: of a transformer.

    Raises:
        UserError: as `parts_of`, or a file is broken.
    """
    parts = parts_of(folder, prompt)
    encoder: Any = _transformer(parts, device) if parts.pooler else StaticEncoder.read(parts.first)
    if parts.prompt:
        encoder = Prompted(encoder, parts.prompt, parts.counted)
    for module in parts.behind:
        encoder = Normalised(encoder) if module.kind == "Normalize" else _dense(encoder, module)
    return encoder


def parts_of(folder: Path, prompt: str | None = None) -> Parts:
    """Read what a folder describes, without its weights; `prompt` as for `load_modular`.

    Raises:
        UserError: a module or the pooling is not supported, the prompt is unknown, or the folder
            lacks a file.
    """
    modules, text = _modules(folder), _prompt(folder, prompt)
    at = 2 if [each.kind for each in modules[1:2]] == ["WeightedLayerPooling"] else 1
    is_static = [each.kind for each in modules[:1]] == ["StaticEmbedding"]
    behind = modules[1 if is_static else at + 1 :]
    for module in modules:
        if module.kind not in SUPPORTED:
            raise _unsupported(f"{folder} has a module '{module.kind}'")
    pooler, width, counted = _pooling(folder, [] if is_static else modules[: at + 1])
    for module in behind:
        if module.kind not in BEHIND:
            raise _unsupported(f"{folder} has a module '{module.kind}' after the pooling")
    while behind and behind[-1].kind == "Normalize":
        behind.pop()
    if text and not counted and pooler != "avg":
        raise _unsupported(f"{folder} excludes its prompt from a pooling other than the mean")
    if pooler:
        check_folder(modules[0].folder)
    return Parts(modules[0], pooler, width, text, counted, behind)


def _unsupported(what: str) -> UserError:
    return UserError(f"{what}, which is not supported; {USE_POOLER}")


def _object(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise UserError(f"{path} does not exist; save or download it again, or {USE_POOLER}")
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object; save or download it again, or {USE_POOLER}")
    return content


def _modules(folder: Path) -> list[Module]:
    path = folder / LIST
    modules, entries = [], read_json(path)
    with suppress(AttributeError, KeyError, TypeError):
        modules = [Module(one["type"].rpartition(".")[2], Path(one["path"])) for one in entries]
    if not modules:
        what = f"{path} is not a list of modules, each with 'type' and 'path'"
        raise UserError(f"{what}; save or download it again, or {USE_POOLER}")
    for _, place in modules:
        if place.is_absolute() or ".." in place.parts:
            what = f"{path} names the folder '{place}', which is outside the model's folder"
            raise UserError(f"{what}; {USE_POOLER}")
    return [Module(kind, folder / place) for kind, place in modules]


def _pooling(folder: Path, modules: Sequence[Module]) -> tuple[str, Any, bool]:
    """`Parts.pooler`, `Parts.width` and `Parts.counted`."""
    if not modules:  # a StaticEmbedding
        return "", None, True
    kinds, config = [module.kind for module in modules], {}
    if kinds[:1] == ["Transformer"] and kinds[-1] == "Pooling":
        config = _object(modules[-1].folder / "config.json")
    named = config.get("pooling_mode", [])
    modes = list(map(str, named)) if isinstance(named, list) else [str(named)]
    if "pooling_mode" not in config:
        flags = [name for name in config if name.startswith("pooling_mode_")]
        modes = [FLAGS.get(name, name) for name in flags if config[name] is True]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise _unsupported(f"{folder} has the pooling {', '.join(modes) or 'none'}")
    pooler = POOLINGS[modes[0]]
    counted = config.get("include_prompt", True) is not False
    pooler = _two_layer_pooler(modules[1], pooler) if len(modules) == 3 else pooler
    return pooler, config.get("word_embedding_dimension"), counted


def _two_layer_pooler(module: Module, pooler: str) -> str:
    """The pooler of `LAYERS` with the weights of a WeightedLayerPooling before the mean."""
    config, weights = _object(module.folder / "config.json"), _weights(module).get("layer_weights")
    if config.get("layer_start") == 0 and pooler == "avg" and weights is not None:
        for name in LAYERS if weights.dim() == 1 and len(weights) > 1 else ():
            expected = layer_weights(name, len(weights) - 1)
            if torch.equal(weights / weights.sum(), expected / expected.sum()):
                return name
    raise UserError(f"{module.folder} has layer weights that no supported pooler has; {USE_POOLER}")


def _transformer(parts: Parts, device: str) -> TransformerEncoder:
    """The transformer, with the maximum length and lowercasing of its module's settings."""
    folder = parts.first.folder
    path = next((folder / name for name in SETTINGS if (folder / name).is_file()), None)
    settings = _object(path) if path else {}
    longest = settings.get("max_seq_length")
    if longest is not None and (not isinstance(longest, int) or longest < 3):
        raise UserError(f"{path} has max_seq_length {longest!r}; set it to at least 3")
    model, tokenizer = load_backbone(folder)
    if parts.width not in (None, width := model.config.hidden_size):
        what = f"the pooling behind {folder} has word_embedding_dimension {parts.width!r}"
        raise UserError(f"{what}, but the transformer has {width}; correct it, or {USE_POOLER}")
    if longest is not None:
        tokenizer.model_max_length = longest
    if settings.get("do_lower_case"):
        from tokenizers import normalizers

        backend = tokenizer.backend_tokenizer
        own = [backend.normalizer] if backend.normalizer else []
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
    return TransformerEncoder(model.to(device), tokenizer, parts.pooler)


def _prompt(folder: Path, name: str | None) -> str:
    """The text of a prompt, by default the folder's own; "" for none."""
    path = folder / PROMPTS
    config = _object(path) if path.is_file() else {}
    prompts = config.get("prompts")
    prompts = {} if prompts is None else prompts
    is_map = isinstance(prompts, dict)
    if not is_map or not all(isinstance(text, str | None) for text in prompts.values()):
        raise UserError(f"{path} does not map names to prompts; correct it, or {USE_POOLER}")
    chosen = str((config.get("default_prompt_name") if name is None else name) or "")
    if not chosen:
        return ""
    if chosen not in prompts:
        hint = did_you_mean(chosen, prompts)
        raise UserError(f"{folder} has no prompt '{chosen}'{hint}; an empty --prompt uses none")
    return prompts[chosen] or ""


def _weights(module: Module) -> dict[str, Tensor]:
    path = module.folder / WEIGHTS
    if not path.is_file():
        is_pickled = any(module.folder.glob("*.bin"))
        why = "its weights are pickled" if is_pickled else f"it holds no {WEIGHTS}"
        what = f"cannot read the module '{module.kind}' in {module.folder}: {why}"
        raise UserError(f"{what}; {USE_POOLER}")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path} is truncated or broken ({error}); download it again") from None


def _dense(encoder: Any, module: Module) -> Affine:
    """Apply a Dense module to the vectors of an encoder."""
    config, own = _object(module.folder / "config.json"), "sentence_embedding"
    where = f"{module.folder} has a module 'Dense' with unsupported"
    tensors = {config.get(f"module_{end}_name") or own for end in ("input", "output")}
    if "in_features" not in config or config.get("use_residual") or tensors != {own}:
        raise UserError(f"{where} settings; {USE_POOLER}")
    activation = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if activation not in ACTIVATIONS:
        raise UserError(f"{where} activation {activation}; {USE_POOLER}")
    weights = _weights(module)
    weight, bias = weights.get("linear.weight"), weights.get("linear.bias")
    if weight is None or weight.dim() != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise UserError(f"{module.folder / WEIGHTS} holds no linear layer; download it again")
    bias = torch.zeros(len(weight)) if bias is None else bias
    return Affine(encoder, weight.float(), bias.float(), ACTIVATIONS[activation])


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class Prompted:
    """Prepends a prompt to each sentence before encoding."""

    kind = "prompted"

    def __init__(self, base: Any, prompt: str, counted: bool = True) -> None:
        self.base, self.prompt, self.counted = base, prompt, counted

    @property
    def identity(self) -> str:
        return f"{self.kind}-{_digest(self.base.identity, self.prompt, self.counted)}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        texts = [self.prompt + text for text in sentences]
        if self.counted:
            return cast(np.ndarray, self.base.encode(texts))
        ids = self.base.tokenize([self.prompt])[0]
        prompt_length = len(ids) - (ids[-1] in self.base.tokenizer.all_special_ids)

        def pool(states: Any, mask: Tensor) -> Tensor:
            after_prompt = mask.clone()
            after_prompt[:, :prompt_length] = 0
            weights = after_prompt.unsqueeze(-1).to(states[-1])
            return (states[-1] * weights).sum(1) / weights.sum(1).clamp(min=1)

        return cast(np.ndarray, self.base.encode_tokens(self.base.tokenize(texts), pool=pool))

    def save(self, folder: Path) -> dict[str, Any]:
        return {"prompt": self.prompt, "counted": self.counted}

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, base: Any, **_: Any) -> Prompted:
        return cls(base, stored["prompt"], stored["counted"])


class Normalised(Mapped):
    """Normalises vectors to length 1. Zero vectors stay zero."""

    kind = "normalised"
    fixed = True

    def __init__(self, base: Any) -> None:
        self.base = base

    @property
    def identity(self) -> str:
        return f"{self.kind}-{_digest(self.base.identity)}"

    @property
    def lasting(self) -> bool:
        """Whether the identity is the same in another process."""
        return getattr(self.base, "lasting", True)

    def through(self, vectors: np.ndarray) -> np.ndarray:
        exact = torch.from_numpy(np.ascontiguousarray(vectors)).double()
        return F.normalize(exact, dim=-1).float().numpy()

    def save(self, folder: Path) -> dict[str, Any]:
        return {}

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, base: Any, **_: Any) -> Normalised:
        return cls(base)


class StaticEncoder:
    """Mean of static token vectors from a table. A sentence without tokens is the zero vector."""

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
        encoded = self.tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        rows = [each.ids for each in encoded]
        starts = torch.tensor(np.cumsum([0, *map(len, rows)])[:-1], dtype=torch.int64)
        ids = torch.tensor([number for row in rows for number in row], dtype=torch.int64)
        return F.embedding_bag(ids, self.table, starts, mode="mean").numpy()

    def save(self, folder: Path) -> dict[str, Any]:
        self.tokenizer.save(str(folder / "tokenizer.json"))
        return {}

    @classmethod
    def load(
        cls, folder: Path, stored: dict[str, Any], *, arrays: dict[str, Tensor], **_: Any
    ) -> StaticEncoder:
        return cls(_tokenizer(folder), arrays["table"])

    @classmethod
    def read(cls, module: Module) -> StaticEncoder:
        """Read a StaticEmbedding module or model2vec.

        model2vec may map token ids to rows (`mapping`) and scale each token's vector (`weights`).

        Raises:
            UserError: files are missing or broken, or the tokenizer has more tokens than the table
                has rows.
        """
        folder, weights = module.folder, _weights(module)
        table = weights.get("embedding.weight", weights.get("embeddings"))
        if table is None or table.dim() != 2:
            raise UserError(f"{folder / WEIGHTS} holds no embedding table; download it again")
        if "mapping" in weights:
            table = table[weights["mapping"].long()]
        table = table.float()
        if "weights" in weights:
            table = table * weights["weights"].float().unsqueeze(1)
        tokenizer = _tokenizer(folder)
        if (largest := max(tokenizer.get_vocab().values(), default=-1)) >= len(table):
            raise UserError(
                f"{folder / 'tokenizer.json'} gives token ids up to {largest}, but the table has "
                f"{len(table)} rows; put the model's own tokenizer beside it"
            )
        return cls(tokenizer, table.contiguous())


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise UserError(f"{path} is not a tokenizer ({error}); download it again") from None


ENCODER_KINDS = {cls.kind: cls for cls in (Prompted, Normalised, StaticEncoder)}
