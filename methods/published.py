"""Published checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from methods.base import LABEL, POOLERS, Context, HyperParameters, Method


@dataclass(frozen=True)
class PublishedHyper(HyperParameters):
    # A hub id or a folder. The default is an unsupervised SimCSE checkpoint, scored as by its
    # authors (b.10).
    model: str = field(default="princeton-nlp/unsup-simcse-bert-base-uncased", metadata=LABEL)
    # None: the checkpoint's own
    pooler: str | None = field(default="cls_before_pooler", metadata=LABEL)


class Published(Method):
    """A checkpoint as its authors trained it (docs/methods.md#declutr, #published); it needs no
    backbone.

    SimCSE's four unsupervised checkpoints (`princeton-nlp/unsup-simcse-...`) use
    `cls_before_pooler`, since scoring omits the head. DeCLUTR's (`johngiorgi/declutr-base`) uses
    `avg`.
    """

    name = "published"
    title = "Published checkpoint"
    reference = "the checkpoint's authors"
    Hyper = PublishedHyper
    trained = False
    backbone_free = True
    choices = {"pooler": (*POOLERS, None)}

    def encoder(self, context: Context) -> Any:
        return context.load_encoder(self.hyper.model, self.hyper.pooler)
