"""ESimCSE: the second view repeats some tokens; a queue of vectors of a momentum encoder are
negatives, which is all that it adds after a `+` (docs/reference/methods.md#esimcse)."""

from typing import Any

import torch
from torch import Tensor

from methods.base import (
    Context,
    Negatives,
    NonNegativeInt,
    Queued,
    Shape,
    Share,
    Step,
    Tokens,
    Views,
    stream,
)

MOST_REPEATS = 9  # released code: below min(10, ...)
PAPER_RANGE = 2  # paper: dup_len may always reach 2


class ESimCSE(Queued):
    """Repeated tokens as positives, momentum queue as negatives."""

    name = "esimcse"
    title = "ESimCSE"
    reference = "Wu et al. 2022, arXiv 2109.04380; code caskcsg/sentemb@5eeec55"

    class Hyper(Queued.Hyper):
        rate: Share = 0.32
        """largest share of repeated tokens"""
        # As in the paper; otherwise once per sentence.
        redraw: bool = True
        """new repetitions at each use"""
        # 2.5 batches of 64 (paper)
        queue: NonNegativeInt = 160
        """rows of the queue; 0: none"""
        # Paper and code.
        momentum: Share = 0.995
        """of the second encoder"""
        random_start: bool = False
        """the second encoder starts random, no copy"""

    # Batch size 64 on all backbones, unlike SimCSE; all values are from the released logs.
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
    used_if = {
        "redraw": lambda hyper: hyper.rate > 0,
        "momentum": lambda hyper: hyper.queue > 0,
        "random_start": lambda hyper: hyper.queue > 0,
    }

    def __init__(self, hyper: Hyper, shape: Shape) -> None:
        super().__init__(hyper, shape, hyper.queue)

    @classmethod
    def needs_dropout(cls, hyper: Hyper) -> bool:
        return hyper.rate == 0

    def prepare(self, context: Context) -> None:
        self.momentum: Any = None
        if self.hyper.queue:
            self.momentum = context.copy_backbone("momentum" if self.hyper.random_start else None)
            self.momentum.requires_grad_(False)

    def views(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, Tokens]:
        if self.hyper.rate == 0:
            return tokens, tokens
        if self.hyper.redraw:
            generators = [step.generator("repetition")] * len(tokens)
        else:
            # A stream for each row of the corpus draws the same repetitions in each epoch.
            generators = [stream(step.seed, "repetition", row) for row in step.rows]
        return tokens, list(map(self._repeat, tokens, generators))

    def _repeat(self, tokens: Any, generator: torch.Generator) -> list[int]:
        """Return tokens with some of them repeated, drawn uniformly without the special ones."""
        inner = len(tokens) - 2
        if self.hyper.redraw:
            most = min(max(PAPER_RANGE, int(self.hyper.rate * inner)), inner)
        else:
            most = min(int(self.hyper.rate * len(tokens)) - 1, MOST_REPEATS, inner)
        if most <= 0:
            return list(tokens)
        count = int(torch.randint(most + 1, (), generator=generator))
        # On the host: token ids are lists.
        times = torch.ones(len(tokens), dtype=torch.long)
        times[1 + torch.randperm(inner, generator=generator)[:count]] = 2
        return torch.tensor(tokens).repeat_interleave(times).tolist()

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        if self.filled == 0:
            return []
        return [Negatives(self.rows[len(self.rows) - self.filled :].to(anchors))]

    def after_loss(self, context: Context, step: Step) -> None:
        super().after_loss(context, step)
        if self.hyper.queue:
            self._follow(context.backbone)
            tokens = step.take(context.tokens())
            self.append(context.embed([tokens], model=self.momentum.eval()).vectors[0])

    def _follow(self, backbone: Any) -> None:
        # theta_m <- lambda theta_m + (1 - lambda) theta, all weights in one call.
        slow, weights = list(self.momentum.parameters()), list(backbone.parameters())
        torch._foreach_lerp_(slow, weights, 1 - self.hyper.momentum)
