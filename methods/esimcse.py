"""ESimCSE: repeated word pieces in the second view, and a queue of momentum vectors as further negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from methods.base import (
    Context,
    Contrastive,
    ContrastiveHyper,
    Negatives,
    Refusal,
    Shape,
    Step,
    Tokens,
    Views,
    enqueue,
    stream,
)

MOST_REPEATS = 9  # of the released code: below min(10, ...)
PAPER_RANGE = 2  # of the paper: dup_len may always reach 2


@dataclass(frozen=True)
class ESimCSEHyper(ContrastiveHyper):
    rate: float = 0.32  # share of the word pieces that may be repeated; 0 repeats none
    redraw: bool = True  # repeats are drawn at each step (paper), not once for each sentence
    queue: int = 160  # rows of the queue: 2.5 batches of 64 (paper); 0 has none
    momentum: float = 0.995  # of the second encoder (paper and code)
    random_start: bool = False  # the second encoder starts from fresh weights, not as a copy


class ESimCSE(Contrastive):
    """The second view repeats some word pieces; vectors of earlier batches, by a slowly following second encoder, are
    further negatives (methods.md b.12).

    Released code: repeats are drawn once a sentence, and the momentum encoder starts from random weights, as the
    authors' logs say of all four runs. The paper draws them at each use, and its momentum encoder is a copy. Readings:
    the paper's length counts word pieces without the two special tokens, the code's counts all; after a step's loss
    the momentum encoder first follows the weights that gave it, then encodes the batch for the queue, without dropout
    and through the current head; where the paper names no value, the logs' holds.

    After a `+` it brings the queue alone: views are those of the method written first.
    """

    name = "esimcse"
    title = "ESimCSE"
    reference = "Wu et al. 2022, arXiv 2109.04380; code caskcsg/sentemb@5eeec55"
    Hyper = ESimCSEHyper
    # Batch size 64 everywhere, unlike SimCSE; all values from the released logs.
    paper = {
        "bert-base-uncased": {"learning_rate": 3e-5},
        "bert-large-uncased": {"learning_rate": 1e-5},
        "roberta-base": {"learning_rate": 1e-5, "rate": 0.30},
        "roberta-large": {"learning_rate": 1e-5, "rate": 0.28, "dropout": 0.15},
    }
    official = {
        **paper,
        "roberta-large": {**paper["roberta-large"], "queue": 128},
        "*": {"redraw": False, "random_start": True},
    }

    rows: Tensor
    filled: Tensor

    def __init__(self, hyper: ESimCSEHyper, shape: Shape) -> None:
        super().__init__(hyper, shape)
        self.momentum: Any = None
        self.register_buffer("rows", torch.zeros(hyper.queue, shape.width))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))

    @classmethod
    def check(cls, hyper: ESimCSEHyper) -> None:
        super().check(hyper)
        if not 0 <= hyper.rate <= 1:
            raise Refusal(f"'esimcse' needs 0 <= rate <= 1, not {hyper.rate}")
        if hyper.queue < 0:
            raise Refusal(f"'esimcse' needs a queue of 0 or more rows, not {hyper.queue}")
        if not 0 <= hyper.momentum <= 1:
            raise Refusal(f"'esimcse' needs 0 <= momentum <= 1, not {hyper.momentum}")

    def prepare(self, context: Context) -> None:
        super().prepare(context)
        if self.hyper.queue:
            self.momentum = context.copy_backbone("momentum" if self.hyper.random_start else None)
            self.momentum.requires_grad_(False)

    def views(self, tokens: Tokens, step: Step) -> tuple[Tokens, Tokens]:
        if self.hyper.rate == 0:
            return tokens, tokens
        if self.hyper.redraw:
            generator = step.generator("repetition")
            return tokens, [self._repeat(row, generator) for row in tokens]
        once = (stream(step.seed, "repetition", row) for row in step.rows)
        return tokens, [self._repeat(row, generator) for row, generator in zip(tokens, once, strict=True)]

    def _repeat(self, tokens: Any, generator: torch.Generator) -> list[int]:
        """Each of some positions twice, never the special tokens at both ends; which ones are drawn evenly."""
        inner = len(tokens) - 2
        if self.hyper.redraw:
            most = min(max(PAPER_RANGE, int(self.hyper.rate * inner)), inner)
        else:
            most = min(int(self.hyper.rate * len(tokens)) - 1, MOST_REPEATS, inner)
        if most <= 0:
            return list(tokens)
        count = int(torch.randint(most + 1, (), generator=generator))
        twice = set((1 + torch.randperm(inner, generator=generator)[:count]).tolist())
        return [token for place, token in enumerate(tokens) for _ in range(1 + (place in twice))]

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        filled = int(self.filled)
        return [Negatives(self.rows[len(self.rows) - filled :].to(anchors))] if filled else []

    def after_loss(self, context: Context, step: Step) -> None:
        super().after_loss(context, step)
        if self.hyper.queue:
            self._follow(context.backbone)
            corpus = context.tokens()
            self._append(context.embed([[corpus[row] for row in step.rows]], model=self.momentum.eval()).vectors[0])

    def _follow(self, backbone: Any) -> None:
        for slow, weight in zip(self.momentum.parameters(), backbone.parameters(), strict=True):
            slow.lerp_(weight, 1 - self.hyper.momentum)

    def _append(self, vectors: Tensor) -> None:
        self.rows, self.filled = enqueue(self.rows, self.filled, vectors, self.hyper.queue)
