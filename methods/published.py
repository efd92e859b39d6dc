"""A checkpoint as its authors published it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from methods.base import POOLERS, Context, HyperParameters, Method, Refusal


@dataclass(frozen=True)
class PublishedHyper(HyperParameters):
    # A hub id or a folder. The defaults are SimCSE's first unsupervised checkpoint, as its authors score it (b.10).
    model: str = field(default="princeton-nlp/unsup-simcse-bert-base-uncased", metadata={"label": True})
    pooler: str | None = field(default="cls_before_pooler", metadata={"label": True})  # None: what the checkpoint names


class Published(Method):
    """What its authors trained, scored as it is (methods.md b.9, b.10); needs no backbone, for it is one.

    SimCSE's four unsupervised checkpoints (`princeton-nlp/unsup-simcse-...`) take `cls_before_pooler`: the head is left
    out when scoring. DeCLUTR's (`johngiorgi/declutr-base`) takes `avg`.
    """

    name = "published"
    title = "Published checkpoint"
    reference = "the checkpoint's authors"
    Hyper = PublishedHyper
    trained = False
    backbone_free = True

    @classmethod
    def check(cls, hyper: PublishedHyper) -> None:
        if hyper.pooler is not None and hyper.pooler not in POOLERS:
            raise Refusal(f"there is no pooler '{hyper.pooler}' (known: {', '.join(POOLERS)})")

    def encoder(self, context: Context) -> Any:
        return context.load_encoder(self.hyper.model, self.hyper.pooler)
