"""What several methods share: texts, tensors, and models beside the backbone."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from methods.base.contract import Context, Refusal, Step, Tokens
from methods.base.streams import seeded, stream_seed

__all__ = [
    "Frozen", "at_one_length", "check_vocabulary", "fingerprint", "frozen_model", "masked_mean",
    "separate_dropout", "text_list", "to_device", "training_mode",
]  # fmt: skip


def text_list(sentences: Any) -> list[str]:
    """Return sentences as a list; `TypeError` for one text, or for what are no texts."""
    # One text, a map and a table are iterable, too: over letters, keys and columns.
    is_one = isinstance(sentences, str) or hasattr(sentences, "keys")
    texts: list[Any] = [None] if is_one else list(sentences)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{sentences!r:.60} is no list of texts; pass one")
    return texts


def to_device(tensor: Tensor, device: str | torch.device) -> Tensor:
    """Copy a tensor of the host to a device without waiting for what the device computes."""
    # An expanded tensor has several elements at one address, and cannot be pinned.
    tensor = tensor.contiguous()
    if torch.device(device).type == "cpu":
        return tensor
    # Only pinned memory is copied while the device computes.
    return tensor.pin_memory().to(device, non_blocking=True)


def at_one_length(tokens: Tokens, pad: int) -> list[list[int]]:
    """Return sequences with padding that no mask tells apart, all as long as the longest."""
    longest = max(map(len, tokens))
    return [[*row, *[pad] * (longest - len(row))] for row in tokens]


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (n, d) of states (n, length, d) over all tokens, special tokens included."""
    weights = mask.unsqueeze(-1).to(states)
    return (states * weights).sum(1) / weights.sum(1)


def fingerprint(kind: str, described: str, arrays: Mapping[str, Tensor]) -> str:
    """Return an Encoder's identity: its kind and a hash of its description and arrays."""
    digest = hashlib.sha256(described.encode())
    for name, array in sorted(arrays.items()):
        # As bytes, because numpy has no bfloat16.
        content = array.cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        digest.update(name.encode() + content)
    return f"{kind}-{digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class Frozen:
    """A model that a training reads and never changes, such as a teacher.

    torch sees no submodule in it. So it is no part of checkpoints and of the best weights, of which
    it would take most; a training that resumes loads it again.
    """

    model: Any


def frozen_model(context: Context, name: str, pooler: str) -> Frozen:
    """Return the transformer of another encoder, or a copy of the "backbone", without gradient."""
    if name == "backbone":
        return Frozen(context.copy_backbone().requires_grad_(False))
    encoder = context.load_encoder(name, pooler)
    check_vocabulary(name, encoder.tokenizer, context.tokenizer)
    return Frozen(encoder.model.requires_grad_(False))


def check_vocabulary(name: str, tokenizer: Any, backbones: Any) -> None:
    """Raise `Refusal` if another model's tokenizer has not the vocabulary of the backbone's."""
    if tokenizer.get_vocab() != backbones.get_vocab():
        raise Refusal(
            f"'{name}' has another vocabulary than the backbone, so it cannot read its tokens"
        )


@contextmanager
def training_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Have a model draw its dropout, or not, within the block."""
    before = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(before)


def separate_dropout(step: Step, name: str, device: str) -> AbstractContextManager[None]:
    """Draw the dropout of a second model from the step's stream `name` within a block."""
    # It must not shift the backbone's dropout, which draws from the same global generator.
    return seeded(stream_seed(step.seed, name, step.index), device)
