"""Trial runs of a method on the CPU: a few steps on a generated corpus and a toy backbone.

The corpus is that of the embedded world. Corpus and backbone also stand in for any other corpus or
model that a method asks for, so nothing is downloaded.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.models.encoder import Encoder, TransformerEncoder
from bench.registry.backbones import backbone
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.training.context import RunContext
from bench.training.loop import Diverged, Training, batches
from methods.base import Method, Step, Transform, seed_torch, stream_seed

STEPS, HALF = 6, 3  # steps of a training, and the step at which one is interrupted
RECIPE = {
    "batch_size": 8,
    "learning_rate": 1e-3,
    "select_every": HALF,
    "corpus": "world",
    "sentences": 64,
    "precision": "float32",
    "threads": 1,
    "select_on": "STS-B",
}


class Fault(Exception):
    """A violated check: one sentence with the remedy."""


class _Context(RunContext):
    """A run's context in which the run's own corpus and backbone stand in for any other."""

    def sentences(self, corpus: str | None = None) -> Sequence[str]:
        return super().sentences()

    def triples(self) -> Sequence[Sequence[int]]:
        count = len(self.sentences())
        return [range(first, first + 3) for first in range(0, count - 2, 3)]

    def load_encoder(self, model: str, pooler: str | None = None, *_: Any) -> Encoder:
        folder = backbone("toy-bert").folder()
        return TransformerEncoder.load(
            folder, {"pooler": pooler or "cls_before_pooler"}, device=self.device
        )


class Trial:
    """Trial runs of one method, `cls`, in the folder of a suite."""

    def __init__(self, cls: type[Method], suite: Path) -> None:
        self.cls, self.suite = cls, suite

    def text(self, **keys: str) -> str:
        """Return the text of a run with these hyper-parameters; a transform follows `untrained`."""
        settings = ",".join(f"{key}={value}" for key, value in keys.items())
        text = f"{self.cls.name}[{settings}]" if keys else self.cls.name
        return f"untrained+{text}" if issubclass(self.cls, Transform) else text

    def resolve(self, text: str, seed: int = 1) -> Run:
        """Return the run of a text on the toy backbone of the kind that the method needs."""
        name = "toy-glove" if self.cls.backbone_kind == "words" else "toy-bert"
        return resolve(
            text, backbone_name=name, corpus="world", data="world", seed=seed, recipe=RECIPE
        )

    def run(self, text: str | None = None, seed: int = 1) -> Run:
        """Return a run, or raise `Fault` if the method skips the backbone."""
        run = self.resolve(text or self.text(), seed)
        if run.skip:
            raise Fault(
                f"skip() refuses a backbone with 4 layers of width 64 ({run.skip}); "
                "let clamp_to_backbone() return values that it supports"
            )
        return run

    def training(self, text: str | None = None, seed: int = 1) -> Training:
        """Return a training at step 0."""
        run = self.run(text, seed)
        return Training(run, _Context(run, self.suite, "cpu"), {})

    def untrained(self) -> Encoder:
        """Return the Encoder of a method that is not trained."""
        run = self.run()
        context, method = _Context(run, self.suite, "cpu"), run.build()
        method.begin(context)
        return method.finish(method.encoder(context), context)


def first_loss(training: Training, count: int | None = None, still: bool = False) -> Tensor:
    """Return the loss of the first step, or raise `Fault` if it is no scalar to train on.

    `count` is the number of items that are used; `still` turns off the dropout of transformers.
    """
    rows = next(batches(training.items, training.run.recipe, training.seed))[:count]
    training.modules.train()
    for module in training.modules.modules():
        if still and hasattr(module, "config"):
            module.eval()
    seed_torch(stream_seed(training.seed, "dropout", 0))
    step = Step(0, training.total, training.run.recipe.batch_size, training.seed, rows)
    loss = training.method.step_loss(training.context, step)
    if not isinstance(loss, Tensor) or loss.dim() != 0:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise Fault(f"the loss is {shape}, not a scalar tensor; take its mean over the batch")
    if not torch.isfinite(loss):
        raise Fault(
            f"the loss is {loss.item()}; look for a division by 0, or a logarithm or root of 0"
        )
    if not loss.requires_grad:
        raise Fault("the loss has no gradient; remove detach, item or no_grad from its computation")
    with torch.no_grad():
        training.method.after_loss(training.context, step)
    return loss


def advance(training: Training, count: int) -> list[dict[str, Any]]:
    """Take the next `count` steps and return their log rows; raises `Fault` if one diverges."""
    try:
        return list(islice(training.steps(), count))
    except Diverged as diverged:
        raise Fault(
            f"in step {diverged.step}, {diverged}; correct the loss or lower its scale"
        ) from None
