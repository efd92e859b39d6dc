"""The untrained backbone with any pooler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from methods.base import LABEL, POOLERS, Context, HyperParameters, Method


@dataclass(frozen=True)
class UntrainedHyper(HyperParameters):
    # The default reproduces the published 56.70 (docs/methods.md#untrained).
    pooler: str = field(default="avg_embedding_last", metadata=LABEL)


class Untrained(Method):
    """A pooler on the raw checkpoint, without training (docs/methods.md#vectors, #untrained)."""

    name = "untrained"
    title = "Untrained"
    reference = "Gao, Yao and Chen 2021, Table 5; princeton-nlp/SimCSE issue 285"
    Hyper = UntrainedHyper
    trained = False
    choices = {"pooler": POOLERS}

    def encoder(self, context: Context) -> Any:
        return context.encoder(self.hyper.pooler)
