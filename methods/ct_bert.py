"""CT-BERT, Contrastive Tension: f1(a) . f2(b) is a logit for "a and b are the same sentence", and
the better encoder is kept; `batch_size` counts positive pairs
(docs/reference/methods.md#ct-bert)."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.base import Context, Count, HyperParameters, Method, NonNegativeInt, Step, to_device


class CTBERT(Method):
    """Two encoders tell equal from different sentences."""

    name = "ct-bert"
    title = "CT-BERT"
    version = 2  # 5,000 steps, boundaries of the learning rate, draws of the released code
    reference = "Carlsson et al. 2021 (ICLR); code FreddeFrallan/Contrastive-Tension@75293a8"

    class Hyper(HyperParameters):
        # K (docs/reference/methods.md#ct-bert).
        negatives: NonNegativeInt = 7
        """negative pairs per positive pair"""
        # As in the paper; the code draws new ones.
        anchored: bool = True
        """negative pairs contain the positive's sentence"""
        # 5,000 steps of two
        drawn: Count = 10_000
        """positive pairs of an epoch"""

    # Released code, which states that these are the paper's hyper-parameters.
    _recipe = {
        "batch_size": 2,
        "learning_rate": 1e-5,
        "optimiser": "rmsprop",
        "epsilon": 1e-7,  # TensorFlow's
        # Boundaries 500, 1,000, 1,500, 2,000 of 5,000 steps, as shares (Training.py:13).
        "schedule": "0.1+0.2+0.3+0.4",
        "clip": 1e9,  # none
        "dropout": 0.0,
        "max_length": 75,
        "pooler": "avg",
        "precision": "float32",
        "select_every": 500,
    }
    paper = {"*": _recipe}
    official = {"*": {**_recipe, "anchored": False}}

    def prepare(self, context: Context) -> None:
        self.second = context.copy_backbone()

    def items(self, context: Context) -> int:
        return self.hyper.drawn

    def pairs(self, sentences: int, step: Step) -> tuple[Tensor, Tensor]:
        """Return rows of the corpus for each encoder, (groups, 1 + K), the positive pair first."""
        groups, negatives = len(step.rows), self.hyper.negatives
        generator = step.generator("ct-bert")
        positives = torch.randint(sentences, (groups, 1), generator=generator)
        if self.hyper.anchored:
            # An offset of 1 to sentences - 1 never gives the same row.
            offsets = torch.randint(1, sentences, (groups, negatives), generator=generator)
            first, second = positives.expand(groups, negatives), (positives + offsets) % sentences
        else:
            rows = torch.randint(sentences, (groups, 2, negatives), generator=generator)
            first, second = rows.unbind(1)
        return torch.cat([positives, first], dim=1), torch.cat([positives, second], dim=1)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        corpus = context.tokens()

        def encode(rows: Tensor, model: Any) -> Tensor:
            # Without dropout equal sentences have equal vectors, so each is encoded once.
            distinct, inverse = rows.unique(return_inverse=True)
            tokens = [corpus[row] for row in distinct.tolist()]
            (vectors,) = context.embed([tokens], model=model).vectors
            return vectors[to_device(inverse, context.device)]

        first, second = self.pairs(len(corpus), step)
        return self.loss(encode(first, None), encode(second, self.second))

    def loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the loss of both encoders' vectors (groups, 1 + K, d), positive pairs first."""
        logits = (first * second).sum(-1)
        same = torch.zeros_like(logits)
        same[:, 0] = 1
        return F.binary_cross_entropy_with_logits(logits, same)

    def encoders(self, context: Context) -> list[Any]:
        first = context.encoder()
        second = copy.copy(first)
        second.model = self.second
        return [first, second]
