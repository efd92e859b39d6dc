"""Encoders: objects that turn sentences into vectors and can be scored.

An encoder has `encode(sentences) -> float32 (n, d)`, an `identity`, and a `kind`. Methods may
define their own. One that can be saved has `save(folder)`, which writes files and returns what
`load(folder, stored)` gets back, for JSON. An encoder that wraps another has it as `base`, and may
hold tensors as `arrays`; `bench.models.load` stores both and passes them to `load`. An encoder
whose last step is fitted on each task has `adapt` (see `adaptation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bench.datasets.manifest import EncodeSentences
from bench.models.defaults import torch_defaults
from bench.models.packed_forward import Batch, States, is_packed
from bench.models.pooling import BY_NAME, Pooler
from bench.models.side_by_side import side_by_side
from bench.models.transformer import load_backbone, longest_input, readable_by_both, token_ids
from bench.utils.errors import UserError
from bench.utils.files import intact_files, sha256_text, write_summed
from bench.utils.progress import Progress
from methods.base import fingerprint, seeded, text_list, to_device, training_mode

# Maximum tokens of a batch, padding included. It bounds the memory for sentences of any length.
# Smaller batches are faster on a CPU, because the activations of a layer stay in its cache.
TOKEN_BUDGET = {"cpu": 4096, "cuda": 65_536}
# The most bytes of the hidden states of a batch, of all layers. Models beyond BERT-large have fewer
# tokens in a batch.
STATE_BYTES = 2**33
# The budget of a processor that computes one batch at a time: faster by a sixth than 4096 tokens.
ALONE = 1024
# Batches that a processor encodes at once; each takes up to 0.5 GB with BERT-large.
AT_ONCE = 16
SENTENCES_AT_ONCE = 10_000  # sentences that are tokenized between two updates of the progress


class Encoder(Protocol):
    """Interface of everything that can be scored."""

    kind: str

    @property
    def identity(self) -> str:
        """Hash of what determines the vectors: equal ones give equal vectors on one machine."""

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Vectors of the sentences, float32 (n, d), in order."""


def length_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield indices of sequences of similar length, for batches of at most `budget` tokens, padding
    included; a longer sequence is a batch itself."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batch and lengths[index] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def tokenizer_state(tokenizer: Any) -> dict[str, Any]:
    """What determines the output of a fast tokenizer. Truncation and padding are left out: each
    call sets them."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    return {key: value for key, value in state.items() if key not in ("truncation", "padding")}


class TokenFile(Sequence[list[int]]):
    """Token ids in a memory-mapped int32 file: number of sentences, end of each, then all ids."""

    def __init__(self, path: Path) -> None:
        content = np.load(path, mmap_mode="r")
        count = int(content[0])
        self._ends, self._ids = np.concatenate([[0], content[1 : 1 + count]]), content[1 + count :]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[index] for index in range(len(self))[row]]
        row = range(len(self))[row]
        return self._ids[self._ends[row] : self._ends[row + 1]].tolist()


def tokenized(sentences: Sequence[str], tokenizer: Any, longest: int, folder: Path) -> TokenFile:
    """Tokenize sentences, cut on the right to `longest` tokens, special ones included, or read them
    from a file in `folder`, named by a hash of sentences, tokenizer and `longest`."""
    described = "\n".join([json.dumps(tokenizer_state(tokenizer)), str(longest), *sentences, ""])
    name = sha256_text(described)[:16]
    for path in intact_files(folder, f"{name}-*.npy"):
        return TokenFile(path)
    rows: list[np.ndarray] = []
    progress = Progress(len(sentences), "tokenize")
    for start in range(0, len(sentences), SENTENCES_AT_ONCE):
        chunk = list(sentences[start : start + SENTENCES_AT_ONCE])
        rows += [np.asarray(row, np.int32) for row in token_ids(tokenizer, chunk, longest)]
        progress.advance(len(chunk))
    ends = np.cumsum([len(row) for row in rows])
    content = np.concatenate([[len(rows)], ends, *rows]).astype(np.int32)
    return TokenFile(write_summed(folder, name, ".npy", partial(np.save, arr=content)))


class TransformerEncoder:
    """A transformer with a pooler, in evaluation mode; long inputs are cut."""

    kind = "transformer"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pooler: str,
        *,
        cached_tokens: Mapping[str, list[int]] | None = None,
    ) -> None:
        """Take a Hugging Face transformer, its fast tokenizer and the name of a pooler.
        `cached_tokens` are the token ids of sentences that are encoded repeatedly."""
        self.model, self.tokenizer, self.pooler = model, tokenizer, pooler
        self._pooler = BY_NAME[pooler]
        self._cached_tokens = {} if cached_tokens is None else cached_tokens
        self._limit = self._pooler.positions or longest_input(model, tokenizer)
        self.loaded = {"pooler": pooler, "max_length": self._limit}

    @property
    def identity(self) -> str:
        config = self.model.config.to_dict()
        for irrelevant in ("_name_or_path", "transformers_version", "dtype", "architectures"):
            config.pop(irrelevant, None)  # does not affect the vectors
        description = [self.pooler, self._limit, tokenizer_state(self.tokenizer), config]
        described = json.dumps(description, sort_keys=True, default=str)
        return fingerprint(self.kind, described, self.model.state_dict())

    def tokenize(self, sentences: Sequence[str], room: int = 0) -> list[list[int]]:
        """Token ids, special tokens included, with room for tokens that the caller adds."""
        sentences = text_list(sentences)
        # With room for more tokens, a sentence may be cut earlier than its cached ids.
        if not sentences or (not room and all(text in self._cached_tokens for text in sentences)):
            return [self._cached_tokens[text] for text in sentences]
        return token_ids(self.tokenizer, sentences, self._limit - room)

    def read_tokens(self, sentences: Sequence[str], folder: Path) -> None:
        """Take the token ids of distinct sentences from a file in `folder`, written if missing."""
        rows = tokenized(sentences, self.tokenizer, self._limit, folder)
        self._cached_tokens = dict(zip(sentences, rows, strict=True))

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        return self.encode_tokens(self.tokenize(sentences))

    @torch_defaults()
    def encode_tokens(
        self,
        tokens: Sequence[Sequence[int]],
        pool: Callable[[States, Tensor], Tensor] | None = None,
        width: int | None = None,
    ) -> np.ndarray:
        """Encode token ids of sentences, special tokens included: float32 (n, width), in order.

        Args:
            pool: replaces the pooler; maps all hidden states and the attention mask to vectors.
            width: of the vectors; by default the hidden size of the model.
        """
        pooler, config = Pooler(pool) if pool else self._pooler, self.model.config
        weight = next(self.model.parameters())
        device = weight.device
        shape = len(tokens), width or config.hidden_size
        vectors = torch.zeros(*shape, dtype=torch.float32, device=device)
        lengths = [pooler.positions or len(ids) for ids in tokens]
        # Only our forward pass is known to run in several threads at once.
        is_alone = device.type == "cpu" and not is_packed(self.model)
        layers = getattr(config, "num_hidden_layers", 0) + 1
        budget = ALONE if is_alone else TOKEN_BUDGET[device.type]
        most = STATE_BYTES // (layers * config.hidden_size * weight.element_size())
        batches = list(length_batches(lengths, min(budget, most)))
        order = to_device(torch.tensor([row for rows in batches for row in rows]), device)

        @torch.inference_mode()
        def encode(batch: tuple[list[int], Tensor], _: object) -> int:
            rows, index = batch
            sequences = [tokens[row] for row in rows]
            pooled = pooler.pool(self.model, self._rows(pooler, sequences))
            vectors.index_copy_(0, index, pooled.float())  # a `pool` may give float64
            return len(rows)

        progress = Progress(len(tokens), "encode")
        work = list(zip(batches, order.split([len(rows) for rows in batches]), strict=True))
        at_once = 1 if is_alone or device.type != "cpu" else AT_ONCE
        with training_mode(self.model, False):
            side_by_side(encode, work, at_once, progress.advance)
        return vectors.cpu().numpy()  # the only wait for a GPU

    @torch.inference_mode()
    def encode_with_dropout(self, sentences: Sequence[str], seed: int) -> np.ndarray:
        """Encode one batch with the dropout of training, float32 (n, d), drawn from `seed`. The
        state of torch's global generators is restored."""
        rows = self._rows(self._pooler, self.tokenize(sentences))
        with seeded(seed, rows.ids.device), training_mode(self.model, True):
            return self._pooler.pool(self.model, rows).cpu().numpy()

    def _rows(self, pooler: Pooler, tokens: Sequence[Sequence[int]]) -> Batch:
        device = next(self.model.parameters()).device
        return Batch.of(tokens, self.tokenizer.pad_token_id, device, pooler.positions)

    def save(self, folder: Path) -> dict[str, Any]:
        self.model.save_pretrained(folder, safe_serialization=True)
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()  # otherwise the file keeps the setting of the last call
        backend.no_padding()
        self.tokenizer.save_pretrained(folder)
        readable_by_both(folder)
        return {"pooler": self.pooler}

    @classmethod
    def load(cls, folder: Path, stored: Any, *, device: str = "cpu") -> TransformerEncoder:
        pooler = stored["pooler"]
        if stored.keys() != {"pooler"} or pooler not in BY_NAME:
            raise UserError(
                f"{folder} holds an encoder of an older version, with a template, a layer or a "
                "dtype, which is not read; score the model that it was made of"
            )
        model, tokenizer = load_backbone(folder, pooling_layer=pooler == "cls")
        return cls(model.to(device), tokenizer, pooler)


def innermost(encoder: Any) -> Any:
    """The encoder under all that wrap it."""
    while getattr(encoder, "base", None):
        encoder = encoder.base
    return encoder


def adaptation(
    encoder: Encoder,
) -> Callable[[Sequence[str], EncodeSentences], EncodeSentences] | None:
    """The last step of an encoder, which is fitted on each task; None if it has none.

    The step takes all sentences of a task, two in a row a pair, and a lookup of the vectors of
    `encode`. It returns the lookup of the final vectors.
    """
    return getattr(encoder, "adapt", None)
