"""Encoders: everything that can be scored turns sentences into vectors.

An Encoder has `encode(sentences) -> float32 (n, d)`, an `identity`, and a `kind`; `save_encoder` writes it to a folder
and `load_encoder` reads it back. The transformer with a pooler is here; a method may bring an Encoder of its own. One
that is made of another has that as its `base`: it is stored in a folder within, and given back to `load`; so are its
`arrays`, tensors by name. One whose last step needs all vectors of a task at once has `adapt` (see `adaptation`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench.models import sentence_transformers
from bench.models.packed_forward import Batch, States, Work, forward, pooler_output
from bench.models.token_cache import tokenizer_identity
from bench.models.transformer import load_backbone, longest_input, no_folder
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import atomic_folder, read_json, write_json
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
        raise UserError(f"unknown pooler '{name}'{did_you_mean(name, POOLER_NAMES)}")


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
        from bench.download import fetch_backbone
        from bench.registry.backbones import backbone

        try:
            known = backbone(str(model))
        except UserError:
            if str(model).partition("@")[0].count("/") > 1 or str(model).startswith((".", "/", "~")):
                raise no_folder(model) from None
            folder = fetch_backbone(str(model))
        else:
            folder = known.folder()
    if pooler is None and sentence_transformers.is_modular(folder):
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
    stack = sentence_transformers.read(folder, prompt)
    if stack.pooler is None:
        return stack.around(sentence_transformers.StaticEncoder.read(stack.place))
    model, tokenizer = load_backbone(stack.place)
    stack.prepare(tokenizer)
    return stack.around(TransformerEncoder(model.to(device), tokenizer, stack.pooler))


def _encoder_class(kind: str, source: Path) -> Any:
    if kind == TransformerEncoder.kind:
        return TransformerEncoder
    if kind in sentence_transformers.KINDS:
        return sentence_transformers.KINDS[kind]
    import importlib

    from bench.registry.methods import method_classes

    for cls in method_classes().values():
        for value in vars(importlib.import_module(cls.__module__)).values():
            if isinstance(value, type) and getattr(value, "kind", None) == kind:
                return value
    raise UserError(
        f"{source} names an encoder of kind '{kind}', which no method brings; was it saved by another version?"
    )
