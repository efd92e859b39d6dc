"""Encoders: everything that can be scored turns sentences into vectors.

An Encoder has `encode(sentences) -> float32 (n, d)`, an `identity`, and a `kind`; `save_encoder` writes it to a folder
and `load_encoder` reads it back. The transformer with a pooler is here; a method may bring an Encoder of its own. One
that is made of another has that as its `base`: it is stored in a folder within, and given back to `load`; so are its
`arrays`, tensors by name. One whose last step needs all vectors of a task at once has `adapt` (see `adaptation`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

os.environ.setdefault(
    "TOKENIZERS_PARALLELISM", "false"
)  # jobs share the machine's cores; forked tokenizer pools do not

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench import modular
from bench.engine import Batch, States, Work, forward, pooler_output
from bench.errors import UserError, nearest
from bench.files import atomic_folder, read_json, write_json
from bench.tokens import tokenizer_identity
from methods.base import POOLERS as POOLER_NAMES

# Tokens in one batch, padding included: bounds memory whatever the sentences' lengths. On a processor less is faster,
# since a layer's activations then stay in its cache.
TOKEN_BUDGET = {"cpu": 4096, "cuda": 16_384}

ARRAYS = "arrays.safetensors"


def _masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over tokens, special tokens included (methods.md a.2)."""
    weights = mask.unsqueeze(-1).to(states)
    return (states * weights).sum(1) / weights.sum(1)


# Each takes all hidden states (embeddings first) and the attention mask. `cls` is the model's own pooler output.
POOLERS: dict[str, Callable[[States, Tensor], Tensor]] = {
    "cls_before_pooler": lambda states, mask: states.first(-1),
    "avg": lambda states, mask: _masked_mean(states[-1], mask),
    "avg_top2": lambda states, mask: _masked_mean((states[-1] + states[-2]) / 2, mask),
    "avg_first_last": lambda states, mask: _masked_mean((states[-1] + states[1]) / 2, mask),
    "avg_embedding_last": lambda states, mask: _masked_mean((states[-1] + states[0]) / 2, mask),
}
assert ("cls", *POOLERS) == POOLER_NAMES
FIRST_ONLY = ("cls", "cls_before_pooler")  # poolers that look at nothing but the first token of the last layer


def check_pooler(name: str) -> None:
    """Raise `UserError` for a pooler that does not exist."""
    if name == "cls_mlp":
        raise UserError("pooler 'cls_mlp' is the training head and is not scored; choose cls_before_pooler")
    if name not in POOLER_NAMES:
        raise UserError(f"unknown pooler '{name}'{nearest(name, POOLER_NAMES)}")


class Encoder(Protocol):
    """Everything that can be scored."""

    kind: str

    @property
    def identity(self) -> str:
        """Decides the vectors: equal identities give equal vectors on one machine."""

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Vectors of the sentences, float32 (n, d), in order."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write files into `folder`; what is returned is stored beside them and given back to `load`."""


def _weights_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = read_json(index)
        names = listed.get("weight_map") if isinstance(listed, dict) else None
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise UserError(f"{index} lists no files of weights; save or fetch the model again")
        if other := sorted(name for name in names.values() if "/" in name or not name.endswith(".safetensors")):
            raise UserError(
                f"{index} names weights in '{other[0]}', which is no safetensors file beside it; convert them, or "
                "fetch the model again"
            )
        return [folder / name for name in sorted(set(names.values()))]
    return [folder / "model.safetensors"]


def check_folder(folder: Path) -> None:
    """Check that a folder holds a transformer in Hugging Face format.

    Raises:
        UserError: the folder, its configuration, weights or tokenizer are missing, or its weights are pickled.
    """
    if not folder.is_dir():
        raise UserError(f"model folder {folder} does not exist; give a Hugging Face folder or a hub id")
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no config.json; give a folder in Hugging Face format")
    missing = [path.name for path in _weights_files(folder) if not path.is_file()]
    if missing:
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        if pickled:
            raise UserError(
                f"{folder} holds only pickled weights ({pickled[0]}), which are refused; convert them to safetensors"
            )
        raise UserError(f"{folder} holds no {missing[0]}; give a folder with safetensors weights")
    if not any(
        (folder / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
    ):
        raise UserError(
            f"{folder} holds no tokenizer (tokenizer.json or a vocabulary); put its files beside the weights"
        )


def load_backbone(folder: Path, *, dropout: float | None = None, pooling_layer: bool = False) -> tuple[Any, Any]:
    """A transformer and its fast tokenizer from a local folder, in float32.

    Args:
        dropout: both the hidden and the attention dropout; None keeps the model's own.
        pooling_layer: load the model's own pooler (dense + tanh).

    Raises:
        UserError: files are missing, pickled or broken, or the tokenizer cannot pad or is another model's.
    """
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    check_folder(folder)
    if pooling_layer and not _stores_pooler(folder):
        raise UserError(
            f"{folder} stores no pooler weights, and pooler 'cls' would be random; choose cls_before_pooler or avg"
        )
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        config._attn_implementation = None  # a configuration may name code on the hub
        if dropout is not None:
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        options = (
            {"add_pooling_layer": pooling_layer} if config.model_type in ("bert", "roberta", "xlm-roberta") else {}
        )
        model, loading = AutoModel.from_pretrained(
            folder,
            output_loading_info=True,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            **options,
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"cannot load the model in {folder}: {first_line}; check its config.json, weights and tokenizer"
        ) from error
    except Exception as error:  # transformers' own validation raises many kinds
        if type(error).__name__ == "SafetensorError":
            raise UserError(
                f"the weights in {folder} are truncated or broken ({error}); save or fetch them again"
            ) from error
        raise UserError(
            f"cannot load the model in {folder} ({type(error).__name__}); check its config.json, weights and tokenizer"
        ) from error
    unused = sorted(name for name in loading["unexpected_keys"] if re.search(r"\blayers?\.\d", name))
    if unused:
        raise UserError(f"{folder / 'config.json'} has no place for the weights {unused[0]}; mend its number of layers")
    missing = sorted(loading["missing_keys"])
    if missing:
        raise UserError(f"the weights in {folder} lack {missing[0]}, which would be random; save or fetch them again")
    if tokenizer.pad_token is None:
        raise UserError(f"the tokenizer in {folder} has no padding token; name one in its tokenizer_config.json")
    rows, largest = len(model.get_input_embeddings().weight), max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise UserError(
            f"the tokenizer in {folder} gives token ids up to {largest}, but the weights embed only {rows} tokens; "
            f"put the model's own tokenizer beside the weights"
        )
    for weights in (*model.parameters(), *model.buffers()):
        # Tensors of a file lie as the file has them, and the last bits of products depend on how they are aligned.
        weights.data = weights.data.clone()
    return model, tokenizer


def _stores_pooler(folder: Path) -> bool:
    for path in _weights_files(folder):
        try:
            with safe_open(path, framework="pt") as weights:
                if any(name.endswith("pooler.dense.weight") for name in weights.keys()):  # noqa: SIM118 (not a dict)
                    return True
        except SafetensorError as error:
            raise UserError(f"the weights in {folder} are truncated or broken ({error}); fetch them again") from None
    return False


def longest_input(model: Any, tokenizer: Any) -> int:
    """Word pieces that fit, special tokens included; RoBERTa's positions start after the padding index.

    Raises:
        UserError: the tokenizer's `model_max_length` is no number, or too small for a word between special tokens.
    """
    longest = tokenizer.model_max_length
    positions = getattr(model.config, "max_position_embeddings", None) or longest
    if model.config.model_type in ("roberta", "xlm-roberta"):
        positions -= (model.config.pad_token_id or 0) + 1
    if not isinstance(longest, int | float) or min(positions, longest) < 3:
        raise UserError(
            f"{tokenizer.name_or_path} says that {longest!r} word pieces fit; mend model_max_length in its "
            "tokenizer_config.json"
        )
    return int(min(positions, longest))


def length_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches of about equal length whose padded size stays within `budget` tokens (at least one each)."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batch and lengths[index] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


class TransformerEncoder:
    """A backbone with a pooler. In evaluation mode, float32, never truncated below what the backbone can take."""

    kind = "transformer"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pooler: str,
        *,
        known: Mapping[str, list[int]] | None = None,
        work: Work | None = None,
    ) -> None:
        """Join a model, its tokenizer and a pooler.

        Args:
            known: token ids of sentences that are encoded again and again.
            work: where the passes of `encode` are counted.

        Raises:
            UserError: there is no such pooler, or the tokenizer does not say how much fits.
        """
        check_pooler(pooler)
        self.model, self.tokenizer, self.pooler = model, tokenizer, pooler
        self._known, self._work = {} if known is None else known, work
        self._limit = longest_input(model, tokenizer)

    @property
    def identity(self) -> str:
        words = json.loads(tokenizer_identity(self.tokenizer))
        passing = ("_name_or_path", "transformers_version", "dtype", "architectures")  # say nothing of the vectors
        config = {key: value for key, value in self.model.config.to_dict().items() if key not in passing}
        described = json.dumps([self.pooler, self._limit, words, config], sort_keys=True, default=str)
        digest = hashlib.sha256(described.encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return f"{self.kind}-{digest.hexdigest()[:16]}"

    def tokenize(self, sentences: Sequence[str], room: int = 0) -> list[list[int]]:
        """Token ids, special tokens included; truncation and padding that a tokenizer file may carry do not apply.

        Args:
            room: how many word pieces are left free for what the caller adds.
        """
        if not sentences:
            return []
        if not room and all(text in self._known for text in sentences):
            return [self._known[text] for text in sentences]
        limit = self._limit - room
        return self.tokenizer(list(sentences), truncation=True, max_length=limit, padding=False)["input_ids"]

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        return self.encode_tokens(self.tokenize(sentences))

    @torch.inference_mode()
    def encode_tokens(
        self,
        tokens: Sequence[Sequence[int]],
        progress: Callable[[int], object] | None = None,
        pool: Callable[[States, Tensor], Tensor] | None = None,
        width: int | None = None,
    ) -> np.ndarray:
        """Vectors of tokenized sentences, float32 (n, width), in order.

        Args:
            tokens: token ids of each sentence, special tokens included.
            progress: told how many more are done.
            pool: what makes vectors of `width` of all hidden states and the attention mask, in place of the pooler.
            width: that of the backbone where there is no `pool`.
        """
        device = next(self.model.parameters()).device
        vectors = np.zeros((len(tokens), width or self.model.config.hidden_size), dtype=np.float32)
        training = self.model.training
        self.model.eval()
        try:
            for rows in length_batches([len(row) for row in tokens], TOKEN_BUDGET.get(device.type, 4096)):
                batch = Batch.of([tokens[row] for row in rows], self.tokenizer.pad_token_id, device)
                vectors[rows] = self._pooled(batch, pool).float().cpu().numpy()
                if progress:
                    progress(len(rows))
        finally:
            self.model.train(training)
        return vectors

    def _pooled(self, batch: Batch, pool: Callable[[States, Tensor], Tensor] | None) -> Tensor:
        if pool is None and self.pooler == "cls":
            return pooler_output(self.model, batch, self._work)
        first_only = pool is None and self.pooler in FIRST_ONLY
        states = forward(self.model, batch, first_only=first_only, work=self._work)
        return (pool or POOLERS[self.pooler])(states, batch.mask)

    def save(self, folder: Path) -> dict[str, Any]:
        self.model.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.backend_tokenizer.no_truncation()  # else its file would hold the cut of its last call
        self.tokenizer.backend_tokenizer.no_padding()
        self.tokenizer.save_pretrained(folder)
        return {"pooler": self.pooler}

    @classmethod
    def load(cls, folder: Path, stored: dict[str, Any], *, device: str = "cpu") -> TransformerEncoder:
        model, tokenizer = load_backbone(folder, pooling_layer=stored["pooler"] == "cls")
        return cls(model.to(device), tokenizer, stored["pooler"])


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write an Encoder to a folder, whole or not at all.

    Raises:
        UserError: the folder cannot be written.
    """
    with atomic_folder(folder) as temporary:
        stored = encoder.save(temporary)
        if base := getattr(encoder, "base", None):
            save_encoder(base, temporary / "base")
        if arrays := getattr(encoder, "arrays", None):
            save_file({name: array.contiguous() for name, array in arrays.items()}, temporary / ARRAYS)
        write_json(temporary / "encoder.json", {"kind": encoder.kind, **stored})


def load_encoder(
    model: str | Path, *, pooler: str | None = None, prompt: str | None = None, device: str = "cpu"
) -> Encoder:
    """An Encoder from a folder (that `save_encoder` wrote, of sentence-transformers, of Hugging Face), or a hub id.

    Args:
        pooler: needed where the folder stores none; refused where the suite stored another. Of a folder of
            sentence-transformers it takes the transformer alone, without its other modules and prompts.
        prompt: of a folder of sentence-transformers, the name of the prompt, or "" for none; by default its own.

    Raises:
        UserError: the model cannot be found or loaded; the pooler or prompt is missing, unknown or another than stored.
    """
    if pooler is not None:
        check_pooler(pooler)
        if prompt:
            raise UserError(f"--pooler takes the transformer alone of {model}, without prompts; leave --prompt out")
    folder = Path(model)
    if not str(model) or folder.is_file():
        told = f"{model} is a file" if str(model) else "the model's name is empty"
        raise UserError(f"{told}; give a folder or a hub id (vectors of words are scored as a backbone of 'glove')")
    if (folder / "encoder" / "encoder.json").is_file():  # the folder of a run
        folder = folder / "encoder"
    stored_file = folder / "encoder.json"
    if stored_file.is_file():
        if prompt:
            raise UserError(f"{folder} was saved with the prompt it has; leave --prompt out")
        stored = read_json(stored_file)
        if not isinstance(stored, dict) or not isinstance(stored.get("kind"), str):
            raise UserError(f"{stored_file} names no kind of encoder; save the encoder again")
        if stored["kind"] == TransformerEncoder.kind and stored.get("pooler") not in POOLER_NAMES:
            raise UserError(f"{stored_file} names no pooler; save the encoder again")
        if pooler not in (None, stored.get("pooler")):
            own = f"with pooler '{stored['pooler']}'" if stored.get("pooler") else f"as '{stored['kind']}'"
            raise UserError(
                f"{folder} was saved {own}, not with pooler '{pooler}'; leave --pooler out, or write pooler=none"
            )
        within: dict[str, Any] = {}
        if (folder / "base").is_dir():
            within["base"] = load_encoder(folder / "base", device=device)
        if (folder / ARRAYS).is_file():
            within["arrays"] = _load_arrays(folder / ARRAYS)
        try:
            return _encoder_class(stored["kind"], stored_file).load(folder, stored, device=device, **within)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{stored_file} or what should stand beside it makes no '{stored['kind']}' ({error}); save it again"
            ) from error
    if not folder.is_dir():
        from bench.catalogue import backbone
        from bench.data import fetch_backbone

        try:
            known = backbone(str(model))
        except UserError:
            if str(model).partition("@")[0].count("/") > 1 or str(model).startswith((".", "/", "~")):
                raise UserError(
                    f"model folder {model} does not exist; give a Hugging Face folder or a hub id"
                ) from None
            folder = fetch_backbone(str(model))
        else:
            if known.source == "toy":
                raise UserError(f"'{model}' is made by a suite; give its folder, results/<suite>/backbones/{model}")
            folder = known.folder(Path())
    if pooler is None and modular.is_modular(folder):
        return _modular(folder, prompt, device)
    if prompt:
        raise UserError(f"{model} has no prompts; leave --prompt out")
    if pooler is None:
        raise UserError(f"{model} stores no pooler; say which with --pooler ({', '.join(POOLER_NAMES)})")
    return TransformerEncoder.load(folder, {"pooler": pooler}, device=device)


def _load_arrays(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path} is truncated or broken ({error}); save the encoder again") from None


def adaptation(encoder: Encoder) -> Callable[[np.ndarray], np.ndarray] | None:
    """What is still to be done with all vectors of one task, (n, d) -> (n, k), or None."""
    return getattr(encoder, "adapt", None)


def _modular(folder: Path, prompt: str | None, device: str) -> Encoder:
    """The Encoder of a folder that names its modules."""
    stack = modular.read(folder, prompt)
    if stack.pooler is None:
        return stack.around(modular.StaticEncoder.read(stack.place))
    model, tokenizer = load_backbone(stack.place)
    stack.prepare(tokenizer)
    return stack.around(TransformerEncoder(model.to(device), tokenizer, stack.pooler))


def _encoder_class(kind: str, source: Path) -> Any:
    if kind == TransformerEncoder.kind:
        return TransformerEncoder
    if kind in modular.KINDS:
        return modular.KINDS[kind]
    import importlib

    from bench.catalogue import method_classes

    for cls in method_classes().values():
        for value in vars(importlib.import_module(cls.__module__)).values():
            if isinstance(value, type) and getattr(value, "kind", None) == kind:
                return value
    raise UserError(
        f"{source} names an encoder of kind '{kind}', which no method brings; was it saved by another version?"
    )


def load_language_head(folder: Path, backbone: Any) -> Any:
    """The masked-language head of a checkpoint, from last states to logits; its decoder is the backbone's embeddings.

    Raises:
        UserError: the checkpoint stores no such head, or one that is not a single module.
    """
    from transformers import AutoConfig, AutoModelForMaskedLM

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        config._attn_implementation = None  # as in `load_backbone`
        model, loading = AutoModelForMaskedLM.from_pretrained(
            folder,
            config=config,
            output_loading_info=True,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise UserError(
            f"{folder} gives no masked-language head ({type(error).__name__}); take one with BERT's head"
        ) from error
    heads = [module for module in model.children() if module is not model.base_model]
    if loading["missing_keys"] or len(heads) != 1:
        raise UserError(f"{folder} stores no masked-language head, and a new one would be random; take one that does")
    if getattr(model.config, "tie_word_embeddings", True):
        model.get_output_embeddings().weight = backbone.get_input_embeddings().weight
    return heads[0]
