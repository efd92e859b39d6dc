"""A method tried on the processor: runs of a few steps on a corpus and a backbone that are made on the fly.

The corpus is the embedded world's, the backbone a toy one. They also stand in for any other corpus or model that a
method asks for, so nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.models.encoder import Encoder, TransformerEncoder
from bench.registry.backbones import backbone
from bench.registry.plugins import type_name
from bench.runs.run import Run, resolve
from bench.training.context import RunContext
from bench.training.loop import Diverged, Training
from methods.base import Method, Step, Transform, seed_torch, stream_seed

STEPS, HALF = 6, 3  # of a training, and after how many of them one is stopped
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
LINES = 1200  # of the corpus


class Fault(Exception):
    """A clause of the contract that does not hold: one sentence with the remedy."""


class _Context(RunContext):
    """A run's tools, where other corpora and models are played by its own."""

    def sentences(self, corpus: str | None = None) -> Sequence[str]:
        return super().sentences()

    def load_encoder(self, model: str, pooler: str | None = None) -> Encoder:
        folder = backbone("toy-bert").folder(self.suite)
        return TransformerEncoder.load(folder, {"pooler": pooler or "cls_before_pooler"}, device=self.device)


def make_inputs(suite: Path) -> None:
    """Write the embedded world with a short corpus."""
    from bench.world import build

    build(suite / "world", lines=LINES)


class Trial:
    """A method, and the folder of a suite with all that its runs read."""

    def __init__(self, cls: type[Method], suite: Path) -> None:
        self.cls, self.suite = cls, suite
        self.fields = {item.name: type_name(item.type) for item in fields(cls.Hyper)}

    def text(self, **keys: str) -> str:
        """The method with keys, as the last part of a run's text where it cannot stand first."""
        written = ",".join(f"{key}={value}" for key, value in keys.items())
        own = f"{self.cls.name}[{written}]" if keys else self.cls.name
        return f"untrained+{own}" if issubclass(self.cls, Transform) else own

    def run(self, text: str | None = None, seed: int = 1, **recipe: Any) -> Run:
        """A run on the toy backbone of the kind that the method needs.

        Raises:
            Fault: the method leaves that backbone out.
            UserError: the text or the recipe cannot be read.
        """
        run = resolve(
            text or self.text(),
            backbone_name="toy-glove" if self.cls.backbone_kind == "words" else "toy-bert",
            corpus="world",
            data="world",
            seed=seed,
            recipe=RECIPE | recipe,
        )
        if run.skip:
            raise Fault(
                f"skip() leaves it out on 4 layers of width 64 ({run.skip}); let clamp_to_backbone() find values that it supports"
            )
        return run

    def training(self, text: str | None = None, seed: int = 1, **recipe: Any) -> Training:
        """A training at its start."""
        run = self.run(text, seed, **recipe)
        return Training(run, _Context(run, self.suite, "cpu"), {})

    def untrained(self) -> Encoder:
        """What is scored of a method that is not trained."""
        run = self.run()
        context, method = _Context(run, self.suite, "cpu"), run.build()
        method.begin(context)
        return method.finish(method.encoder(context), context)


def first_loss(training: Training, count: int | None = None, still: bool = False) -> Tensor:
    """The loss of the first step, a scalar with its gradient.

    Args:
        count: of the batch's items only the first so many.
        still: transformers have no dropout, and so draw nothing.

    Raises:
        Fault: it is no scalar tensor, not finite, or without gradient.
    """
    rows = next(training.batches())[:count]
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
        raise Fault(f"the loss is {loss.item()}; look for a division, a logarithm or a root of 0")
    if not loss.requires_grad:
        raise Fault("the loss has no gradient; take nothing of it out of the graph (detach, item, no_grad)")
    with torch.no_grad():
        training.method.after_loss(training.context, step)
    return loss


def advance(training: Training, count: int) -> list[dict[str, Any]]:
    """Rows of the log of the next `count` steps.

    Raises:
        Fault: the training diverged.
    """
    try:
        rows: list[dict[str, Any]] = []
        for batch in islice(training.batches(), count):
            training.step(batch)
            rows += training.rows()
        return rows
    except Diverged as diverged:
        raise Fault(f"in step {diverged.step}, {diverged}; mend the loss or lower its scale") from None
