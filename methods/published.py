"""Published checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from methods.base import (
    LABEL,
    LATER,
    MODEL,
    POOLERS,
    Context,
    HyperParameters,
    Method,
    Refusal,
)


@dataclass(frozen=True)
class PublishedHyper(HyperParameters):
    # A hub id or a folder. The default is an unsupervised SimCSE checkpoint, scored as by its
    # authors (b.10).
    model: str = field(
        default="princeton-nlp/unsup-simcse-bert-base-uncased", metadata=LABEL | MODEL
    )
    # None: the checkpoint's own
    pooler: str | None = field(default="cls_before_pooler", metadata=LABEL)
    prompt: str | None = field(default=None, metadata=LATER)  # by name, "" for none; None: default
    normalize: bool = field(default=False, metadata=LATER)  # scale vectors to length 1


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

    @classmethod
    def check(cls, hyper: PublishedHyper) -> None:
        super().check(hyper)
        if hyper.prompt and hyper.pooler:
            raise Refusal(
                f"a pooler uses only the transformer of '{hyper.model}', without prompts; "
                "write pooler=none, or omit 'prompt'"
            )

    def encoder(self, context: Context) -> Any:
        hyper = self.hyper
        return context.load_encoder(hyper.model, hyper.pooler, hyper.prompt, hyper.normalize)
