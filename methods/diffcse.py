"""DiffCSE: InfoNCE plus the detection of a generator's tokens by a second transformer, which reads
the sentence vector in place of its first embedding (docs/reference/methods.md#diffcse)."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.base import (
    BASE_DEPTH,
    LANGUAGE_MODEL,
    Context,
    Contrastive,
    Field,
    Frozen,
    NonNegativeFloat,
    Shape,
    Step,
    Tokens,
    Views,
    separate_dropout,
    stream,
    to_device,
)
from methods.declutr import MaskedShare, masked_pieces

IGNORED = -100  # label of padding, which torch's cross-entropy leaves out


class DiffCSE(Contrastive):
    """SimCSE plus detection of replaced tokens."""

    name = "diffcse"
    title = "DiffCSE"
    reference = "Chuang et al. 2022, arXiv 2204.10298; code voidism/DiffCSE@f724b2c"

    class Hyper(Contrastive.Hyper):
        generator: str = Field("distilbert-base-uncased", json_schema_extra=LANGUAGE_MODEL)
        """masked language model that fills in tokens"""
        masked: MaskedShare = 0.30
        """share of the tokens to fill in"""
        weight: NonNegativeFloat = 0.005
        """lambda of detection; 0: no second model"""
        batchnorm: bool = True
        """projector of two layers in place of the head"""
        padded: bool = False
        """the mean of the detection includes padding"""

    _roberta = {"learning_rate": 1e-5, "masked": 0.20, "generator": "distilroberta-base"}
    paper = {
        "*": {"batch_size": 64, "epochs": 2, "pooler": "cls_before_pooler"},
        "bert-base-uncased": {"learning_rate": 7e-6},
        "roberta-base": _roberta,
        "roberta-large": _roberta,
    }
    official = {**paper, "*": {**paper["*"], "padded": True}}
    used_if = dict.fromkeys(("generator", "masked", "padded"), lambda hyper: hyper.weight > 0)

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        """Replace the published generators on backbones that cannot share their vocabulary."""
        if shape.depth < BASE_DEPTH and hyper.generator.startswith("distil"):
            return hyper.model_copy(update={"generator": "backbone"})
        return hyper

    def prepare(self, context: Context) -> None:
        self.projector: nn.Module | None = None
        if self.hyper.batchnorm:
            self.projector = projector(self.shape.width, stream(context.seed, "projector"))
        if self.hyper.weight:
            self.prepare_reader(context)

    def prepare_reader(self, context: Context) -> None:
        """Set up what reads the sentence vector."""
        language_model = context.load_masked_language_model(self.hyper.generator)
        self.generator = Frozen(language_model.train())  # its configuration sets its dropout
        self.discriminator = context.copy_backbone()
        self.detector = nn.Linear(self.shape.width, 2)
        bound, generator = 1 / math.sqrt(self.shape.width), stream(context.seed, "detector")
        for weights in self.detector.parameters():  # torch's default distribution
            nn.init.uniform_(weights, -bound, bound, generator=generator)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        tokens = step.take(context.tokens())
        encoded = context.embed([tokens, tokens], self.read_batch(context, tokens, step))
        views = encoded.mapped(partial(self.projected, context))
        loss = self.loss(views, step)
        if not self.hyper.weight:
            return loss
        reading = self.reader_loss(context, [*tokens, *tokens], encoded, views, step)
        return loss + self.hyper.weight * reading

    def reader_loss(
        self, context: Context, tokens: Tokens, encoded: Views, views: Views, step: Step
    ) -> Tensor:
        """Return the loss of what reads the vectors of m sequences, before or after projection:
        here, of telling which of their tokens are new."""
        vectors = torch.cat([*views.vectors])
        masked, *_ = masked_pieces(tokens, context.tokenizer, self.hyper.masked, step)
        with separate_dropout(step, "diffcse-generator", context.device):
            guesses = context.guesses(self.generator.model, masked).tolist()
        # All tokens are the generator's, but for the first, whose embedding is the vector.
        pairs = zip(tokens, guesses, strict=True)
        filled = [[row[0], *guess[1 : len(row)]] for row, guess in pairs]
        # On the host: labels are filled row by row and moved at once.
        longest = max(map(len, tokens))
        labels = torch.full((len(tokens), longest), 0 if self.hyper.padded else IGNORED)
        for label, row, new in zip(labels, tokens, filled, strict=True):
            label[: len(row)] = torch.tensor(row) != torch.tensor(new)

        def with_vectors(module: Any, inputs: Any, output: Tensor) -> Tensor:
            return torch.cat([vectors.to(output).unsqueeze(1), output[:, 1:]], dim=1)

        positions = longest if self.hyper.padded else None
        with self.discriminator.embeddings.register_forward_hook(with_vectors):
            states, _ = context.states(filled, self.discriminator, positions=positions)
        logits = context.apply(self.detector, states[-1].to(vectors.dtype))
        return F.cross_entropy(logits.flatten(0, 1), to_device(labels.flatten(), logits.device))

    def projected(self, context: Context, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Project lists of vectors (n, d) together: they share the batch statistics."""
        if self.projector is None or not vectors:
            return vectors
        return context.apply(self.projector, torch.cat([*vectors])).chunk(len(vectors))


def projector(width: int, generator: torch.Generator) -> nn.Module:
    """Return DiffCSE's projector: weights from N(0, 0.02), no biases, batch norms; the last one
    without weights (diffcse/models.py:35-50)."""
    first, second = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)
    for layer in (first, second):
        nn.init.normal_(layer.weight, std=0.02, generator=generator)
    return nn.Sequential(
        first, nn.BatchNorm1d(2 * width), nn.ReLU(), second, nn.BatchNorm1d(width, affine=False)
    )
