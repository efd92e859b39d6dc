"""InfoCSE: InfoNCE plus a masked-language loss of a few layers, which read the sentence's state
beside token states of a frozen copy of the backbone (docs/reference/methods.md#infocse)."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.base import (
    Context,
    Contrastive,
    Count,
    NonNegativeFloat,
    Refusal,
    Shape,
    Step,
    Tokens,
    Views,
    frozen_model,
    to_device,
)
from methods.declutr import MaskedShare, masked_pieces
from methods.diffcse import DiffCSE

READER_LAYERS = 2  # n_head_layers of both scripts


class InfoCSE(DiffCSE):
    """SimCSE plus masked words from the sentence."""

    name = "infocse"
    title = "InfoCSE"
    reference = "Wu et al. 2022, arXiv 2210.06432; code caskcsg/sentemb@5eeec55"

    class Hyper(Contrastive.Hyper):
        masked: MaskedShare = 0.40
        """share of the tokens to predict"""
        weight: NonNegativeFloat = 1e-5
        """lambda of the prediction; 0: none"""
        batchnorm: bool = True
        """projector of two layers in place of the head"""
        skip: Count = 6
        """layer of the frozen copy that gives the tokens"""
        steady: bool = True
        """the frozen copy is without dropout"""

    # Infocse-bert-base.sh, InfoCSE-bert-large.sh; the paper was not at hand.
    official = {
        "*": {
            "batch_size": 64, "epochs": 2, "learning_rate": 7e-6, "pooler": "cls_before_pooler",
        },
        "bert-large-uncased": {"masked": 0.30, "steady": False},
    }  # fmt: skip
    paper = official
    used_if = dict.fromkeys(("masked", "skip", "steady"), lambda hyper: hyper.weight > 0)

    @classmethod
    def clamp_to_backbone(cls, hyper: Any, shape: Shape) -> Any:
        """Limit the layer to those of the backbone."""
        return hyper.model_copy(update={"skip": min(hyper.skip, shape.depth)})

    def prepare_reader(self, context: Context) -> None:
        self.frozen = frozen_model(context, "backbone", "cls_before_pooler")
        self.frozen.model.train(not self.hyper.steady)
        self.reader = context.copy_backbone("reader")
        if not hasattr(self.reader, "encoder"):
            raise Refusal("'infocse' adds layers of BERT or RoBERTa; choose such a backbone")
        del self.reader.encoder.layer[READER_LAYERS:]
        self.reader.embeddings = StateInput()
        # A copy, because the head's weights may be the backbone's embeddings.
        self.language_head = copy.deepcopy(context.masked_language_head())

    def reader_loss(
        self, context: Context, tokens: Tokens, encoded: Views, views: Views, step: Step
    ) -> Tensor:
        masked, *predicted = masked_pieces(tokens, context.tokenizer, self.hyper.masked, step)
        with torch.no_grad():
            states, _ = context.states(masked, self.frozen.model)
        first, others = torch.cat([*encoded.vectors]).unsqueeze(1), states[self.hyper.skip][:, 1:]
        rows, positions, targets = (to_device(ids, first.device) for ids in predicted)
        if not len(targets):
            return first.new_zeros(())
        self.reader.embeddings.states = torch.cat([first, others.to(first)], dim=1)
        states, _ = context.states(masked, self.reader)
        guesses = context.apply(self.language_head, states[-1][rows, positions].to(first.dtype))
        return F.cross_entropy(guesses, targets)


class StateInput(nn.Module):
    """In the place of an embedding layer: it returns `states`, whatever the tokens are."""

    states: Tensor

    def forward(self, **_: Any) -> Tensor:
        return self.states
