"""ConSERT: NT-Xent between two views by cutoff or shuffling of the embeddings, trained on the
sentences of the seven STS sets, **test sets included** (docs/reference/methods.md#consert)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from methods.base import (
    Context,
    Field,
    HyperParameters,
    Method,
    PositiveFloat,
    Refusal,
    Step,
    nt_xent,
    to_device,
)

# "dropout" zeroes single elements of the embeddings without rescaling; the dropout inside the
# backbone is a recipe field.
Augmentation = Literal["plain", "shuffle", "feature_cutoff", "token_cutoff", "dropout"]


class ConSERT(Method):
    """Cut off or shuffled embeddings as views."""

    name = "consert"
    title = "ConSERT"
    reference = "Yan et al. 2021, arXiv 2105.11741; code yym6472/ConSERT@03c9e8f"
    version = 2  # no decay of biases and layer norms; 67 word pieces

    class Hyper(HyperParameters):
        # docs/reference/methods.md#consert
        temperature: PositiveFloat = 0.1
        """divisor of the cosines"""
        first: Augmentation = "feature_cutoff"
        """of the first view"""
        second: Augmentation = "shuffle"
        """of the second view"""
        # Rounded down.
        rate: float = Field(0.2, ge=0, lt=1)
        """share that cutoff or dropout removes"""
        # The released code takes 0.15 of the sum of two means.
        scale: PositiveFloat = 1.0
        """factor of the mean loss"""

    _recipe = {
        "corpus": "sts",
        "batch_size": 96,
        "learning_rate": 5e-7,
        "epsilon": 1e-6,
        "bias_correction": False,
        "weight_decay": 0.01,
        "decay_biases": False,
        "warmup": 0.1,
        "max_length": 64,
        "pooler": "avg_top2",
        "patience": 10,
    }
    _base = {"epochs": 10, "select_every": 200, "dropout": 0.0}
    _large = {"epochs": 25, "select_every": 100}
    paper = {"*": {**_recipe, **_base}, "bert-large-uncased": _large, "roberta-large": _large}
    _released = {"first": "plain", "dropout": None}  # of the large runs
    official = {
        "*": {**paper["*"], "pooler": "avg", "scale": 0.3, "max_length": 67},
        "bert-large-uncased": {**_large, **_released},
        "roberta-large": {**_large, **_released},
    }

    def prepare(self, context: Context) -> None:
        if not hasattr(getattr(context.backbone, "embeddings", None), "position_embeddings"):
            raise Refusal(
                "'consert' augments the embeddings of BERT and RoBERTa, "
                "and this backbone has no position embeddings"
            )

    def step_loss(self, context: Context, step: Step) -> Tensor:
        tokens, hyper = step.take(context.tokens()), self.hyper
        lengths = [len(row) for row in tokens]
        augmentations = [
            (hyper.first, step.generator("consert-0")),
            (hyper.second, step.generator("consert-1")),
        ]
        with augmented(context.backbone, lengths, augmentations, hyper.rate):
            first, second = context.embed([tokens, tokens]).vectors
        return self.loss(first, second)

    def loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the scaled NT-Xent loss of both views (n, d)."""
        return self.hyper.scale * nt_xent(first, second, self.hyper.temperature)

    def encoder(self, context: Context) -> Any:
        return context.encoder("avg_top2")


def cutoff_mask(
    name: str, lengths: Sequence[int], padded: int, width: int, rate: float, generator: Any
) -> Tensor | None:
    """Return a mask for embeddings (n, padded, width); None if `name` is no cutoff or dropout."""
    # A feature is cut from all tokens of a sentence, and a token with all its features.
    cuts = {"feature_cutoff": (1, width), "token_cutoff": (padded, 1), "dropout": (padded, width)}
    if name not in cuts:
        return None
    # On the host, beside draws of a stream; `augmented` moves the mask.
    mask = torch.ones(len(lengths), *cuts[name])
    for row, length in zip(mask, lengths, strict=True):
        elements = row[:length].view(-1)  # padding is not counted; a feature is one element
        order = torch.randperm(len(elements), generator=generator)
        elements[order[: int(rate * len(elements))]] = 0
    return mask


@contextmanager
def augmented(
    backbone: Any,
    lengths: Sequence[int],
    views: Sequence[tuple[str, torch.Generator]],
    rate: float,
) -> Iterator[None]:
    """Augment the backbone's embeddings, each view by other draws. The views of a sentence are
    consecutive rows."""
    # Hooks inside the embedding layer: a shuffle exchanges the position vectors of a sentence
    # before they are added to its words, a cutoff masks the sums.
    count = len(lengths)

    def shuffle(module: Any, inputs: Any, positions: Tensor) -> Tensor:
        padded = positions.shape[1]
        # On the host, beside draws of a stream, and moved at once for all sentences.
        orders = torch.arange(padded).repeat(count, len(views), 1)
        for view, (name, generator) in enumerate(views):
            if name == "shuffle":
                for order, length in zip(orders[:, view], lengths, strict=True):
                    order[:length] = torch.randperm(length, generator=generator)
        # BERT has one row for all sentences.
        positions = positions.expand(count * len(views), -1, -1)
        rows = torch.arange(len(positions), device=positions.device).unsqueeze(1)
        return positions[rows, to_device(orders.flatten(0, 1), positions.device)]

    def cut(module: Any, inputs: Any, output: Tensor) -> Tensor:
        _, padded, width = output.shape
        embeddings = list(output.unflatten(0, (count, -1)).unbind(1))
        for view, (name, generator) in enumerate(views):
            mask = cutoff_mask(name, lengths, padded, width, rate, generator)
            if mask is not None:
                embeddings[view] = embeddings[view] * to_device(mask, output.device).to(output)
        return torch.stack(embeddings, dim=1).flatten(0, 1)

    layer = backbone.embeddings
    shuffled_positions = layer.position_embeddings.register_forward_hook(shuffle)
    with shuffled_positions, layer.register_forward_hook(cut):
        yield
