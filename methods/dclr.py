"""DCLR: likely false negatives get weight 0, and Gaussian vectors that ascend the loss are
negatives; the released loss multiplies logits by 0 (docs/reference/methods.md#dclr)."""

import math
from typing import Literal

import torch
from torch import Tensor

from methods.base import (
    BASE_DEPTH,
    HOST,
    MODEL,
    Context,
    Contrastive,
    Field,
    Frozen,
    Negatives,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    Shape,
    Step,
    Tokens,
    Views,
    at_one_length,
    beside,
    cosine,
    frozen_model,
    on_diagonal,
    overlay,
    pair_loss,
    separate_dropout,
    transformer_with,
    weighted,
)

_SIMCSE = "princeton-nlp/unsup-simcse-"
_SIMCSE_BERT, _SIMCSE_ROBERTA = _SIMCSE + "bert-base-uncased", _SIMCSE + "roberta-base"


class DCLR(Contrastive):
    """Weights against false negatives, noise vectors as negatives."""

    name = "dclr"
    title = "DCLR"
    reference = "Zhou et al. 2022, arXiv 2205.00656; code RUCAIBox/DCLR@e2c3430"
    version = 3

    class Hyper(Contrastive.Hyper):
        phi: PositiveFloat = 0.9
        """complementary cosine of a false negative; above 1: none"""
        noise_times: NonNegativeFloat = 1.0
        """noise vectors per sentence of the batch"""
        # Steps and size: released code.
        ascent_steps: NonNegativeInt = 4
        """gradient steps that make noise harder"""
        ascent_size: NonNegativeFloat = 1e-3
        """size of a gradient step"""
        complement: str = Field(_SIMCSE_BERT, json_schema_extra=transformer_with("cls"))
        """complementary model that finds false negatives"""
        complement_dropout: bool = False
        """whether the complement uses dropout"""
        # "zeroed": logits times 0.
        false_negatives: Literal["removed", "zeroed"] = Field("removed", json_schema_extra=HOST)
        """what becomes of false negatives"""
        # "one-vs-rest": over all cells.
        loss_form: Literal["softmax", "one-vs-rest"] = Field("softmax", json_schema_extra=HOST)
        """form of the loss"""
        padded: bool = Field(False, json_schema_extra=HOST)
        """attention includes padding"""
        start: str | None = Field(None, json_schema_extra=HOST | MODEL)
        """encoder with the initial weights"""

    _base = {"batch_size": 128, "learning_rate": 3e-5, "epochs": 3}
    _large = {"batch_size": 256, "learning_rate": 3e-5, "noise_times": 3.0}
    _roberta = {"phi": 0.85, "complement": _SIMCSE_ROBERTA}
    paper = {
        "bert-base-uncased": _base,
        "bert-large-uncased": _large,
        "roberta-base": {**_base, **_roberta, "noise_times": 2.5},
        "roberta-large": {**_large, **_roberta, "learning_rate": 1e-5, "noise_times": 5.0},
        "*": {"precision": "float32", "select_on": "STS-B+SICK-R"},
    }
    _released = {
        "false_negatives": "zeroed",
        "loss_form": "one-vs-rest",
        "padded": True,
        "complement_dropout": True,
        "pooler": "cls_pooler_mlp",
        "early_epsilon": True,
    }
    # Four processes average gradients, each of a quarter of the batch's sentences alone: the result
    # is a quarter of the gradient of the batch. AdamW with four times the epsilon and clipping
    # takes the same steps.
    _large_released = {"pooler": "cls_pooler", "epsilon": 4e-8, "clip": 4.0}
    official = overlay(
        paper,
        {
            "bert-large-uncased": {"start": _SIMCSE + "bert-large-uncased", **_large_released},
            "roberta-large": {"start": _SIMCSE + "roberta-large", **_large_released},
            "*": _released,
        },
    )
    used_if = {
        "complement": lambda hyper: hyper.phi <= 1,
        "complement_dropout": lambda hyper: hyper.phi <= 1,
        "ascent_steps": lambda hyper: hyper.noise_times > 0,
        "ascent_size": lambda hyper: hyper.noise_times > 0 and hyper.ascent_steps > 0,
    }

    false: Tensor | None = None  # false negatives of the current batch, (n, n)

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        """Replace a published complementary model on backbones for which none is published."""
        if shape.depth < BASE_DEPTH and hyper.complement in (_SIMCSE_BERT, _SIMCSE_ROBERTA):
            return hyper.model_copy(update={"complement": "backbone"})
        return hyper

    # Views and weights

    def prepare(self, context: Context) -> None:
        if self.hyper.start:
            context.start_from(self.hyper.start)
        self.complement: Frozen | None = None
        if self.hyper.phi <= 1:
            self.complement = frozen_model(context, self.hyper.complement, "cls")

    def views(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, ...]:
        tokens = self._as_read(context, tokens)
        return tokens, tokens

    def _as_read(self, context: Context, tokens: Tokens) -> Tokens:
        """Return the sequences; if `padded`, `at_one_length`."""
        if not self.hyper.padded:
            return tokens
        return at_one_length(tokens, context.tokenizer.pad_token_id)

    @torch.no_grad()  # the complementary model is frozen
    def before_loss(self, context: Context, tokens: Tokens, step: Step) -> None:
        """Find the false negatives of the batch."""
        if self.complement is None:
            return
        model, tokens = self.complement.model, self._as_read(context, tokens)
        # With dropout there are two views; without it they would be the same.
        count = 2 if self.hyper.complement_dropout else 1
        model.train(self.hyper.complement_dropout)
        with separate_dropout(step, "dclr-complement", context.device):
            states, _ = context.states([*tokens] * count, model)
            vectors = states[-1][:, 0] if model.pooler is None else model.pooler(states[-1])
        first, second = vectors[: len(tokens)], vectors[-len(tokens) :]
        cosines = cosine(first, second)
        self.false = (cosines >= self.hyper.phi) & ~on_diagonal(cosines)

    def weights(self, anchors: Tensor, positives: Tensor, step: Step) -> Tensor | None:
        return None if self.false is None else (~self.false).to(anchors)

    # Noise

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        if self.hyper.loss_form == "softmax":
            count = round(self.hyper.noise_times * step.batch_size)
        else:
            count = int(self.hyper.noise_times * len(anchors))
        if count == 0:
            return []
        noise = step.gaussian("dclr-noise", count, anchors).to(anchors)
        # The noise ascends against the anchors, which are fixed; only the last noise is used.
        for _ in range(self.hyper.ascent_steps):
            with torch.enable_grad():
                noise.requires_grad_()
                (gradient,) = torch.autograd.grad(
                    self._ascent_objective(anchors.detach(), views, noise), noise
                )
            noise = noise.detach() + self.hyper.ascent_size * directions(gradient)
        return [Negatives(noise)]

    def _ascent_objective(self, anchors: Tensor, views: Views, noise: Tensor) -> Tensor:
        logits = cosine(anchors, noise) / self.hyper.temperature
        if self.hyper.loss_form == "softmax":
            return logits.logsumexp(dim=1).mean()
        positives = self.pairs(views)[1].detach()
        logits = torch.cat([cosine(anchors, positives) / self.hyper.temperature, logits], dim=1)
        return pair_loss(logits)

    # The released form of the loss

    def contrast(
        self, anchors: Tensor, positives: Tensor, negatives: list[Negatives], weights: Tensor | None
    ) -> Tensor:
        logits = cosine(anchors, positives) / self.hyper.temperature
        if weights is not None and self.hyper.false_negatives == "zeroed":
            logits = logits * weights
        else:
            logits = weighted(logits, weights)
        logits = beside(logits, negatives, anchors, self.hyper.temperature)
        return pair_loss(logits) if self.hyper.loss_form == "softmax" else one_vs_rest(logits)


def directions(vectors: Tensor) -> Tensor:
    """Return vectors (n, d) at length 1, however short they are; zero vectors stay."""
    lengths = vectors.norm(dim=1, keepdim=True)
    return torch.where(lengths > 0, vectors / lengths, 0)


def one_vs_rest(logits: Tensor) -> Tensor:
    """Return the mean of -[y log p + (1 - y) log(1 - p)] over all cells (n, m), p = softmax(row);
    y is 1 on the diagonal."""
    shares = logits.log_softmax(dim=1)
    is_pair = on_diagonal(logits)
    # If p is near 1, 1 - p loses precision; it is then computed as the sum of the other shares.
    near_1 = (shares > math.log(0.5)) & ~is_pair
    complements = torch.log1p(-shares.exp().masked_fill(is_pair | near_1, 0))
    sums = logits.masked_fill(near_1, -math.inf).logsumexp(1, keepdim=True)
    sums = sums - logits.logsumexp(1, keepdim=True)
    return -torch.where(is_pair, shares, torch.where(near_1, sums, complements)).mean()
