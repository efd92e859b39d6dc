"""Shared by the tests of methods outside the formula, and runs on the tiny backbones."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.models.load import load_encoder, save_encoder
from bench.registry.methods import method_classes
from bench.runs.paths import Files
from bench.runs.resolve import resolve
from bench.runs.run import Run
from bench.training.context import RunContext
from methods.base import Step
from tests.support.method_cases import Gradients, difference, gradients

ROWS = [3, 6, 17, 30]  # of a batch of the tiny corpus
BERT, LARGE = "bert-base-uncased", "bert-large-uncased"
ROBERTA, ROBERTA_LARGE = "roberta-base", "roberta-large"
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
Loss = Callable[[Sequence[Tensor]], Tensor]
Train = Callable[..., Path]  # the fixture train_tiny


def of_methods(constant: str) -> Iterator[tuple[str, Any]]:
    """Each method's name, and what its test file, `test_<method>.py`, says under a name: VALUES,
    OUT_OF_LIMITS or WITHOUT_EFFECT."""
    for name, cls in method_classes().items():
        module = cls.__module__.removeprefix("methods.")
        tests = importlib.import_module(f"tests.methods.test_{module}")
        if hasattr(tests, constant):
            yield name, getattr(tests, constant)


def disagreement(
    own: Loss,
    oracle: Loss,
    tensors: Sequence[Tensor],
    dtype: torch.dtype,
    floor: float = 1e-6,
    unit: Callable[[Tensor], Tensor | float] = lambda leaf: 1.0,
) -> float:
    """The largest `method_cases.difference` of a loss of `dtype` from its oracle in float64."""

    def step(loss: Loss, kind: torch.dtype) -> tuple[Gradients, list[Tensor]]:
        leaves = [tensor.detach().to(kind, copy=True).requires_grad_() for tensor in tensors]
        return gradients(loss(leaves), leaves), leaves

    result, leaves = step(own, dtype)
    return difference(result, step(oracle, torch.float64)[0], leaves, floor, unit)


def step_disagreement(
    loss: Tensor, expected: Tensor, weights: Sequence[Tensor], floor: float = 1e-3
) -> float:
    """The largest `method_cases.difference` of a step's loss from its oracle, by its weights."""
    result, wanted = (gradients(value, weights) for value in (loss, expected))
    return difference(result, wanted, weights, floor, lambda weight: 1.0)


def vectors(kind: str, *shape: int, seed: int = 0) -> Tensor:
    """Vectors of float32's numbers in float64: "random", or one of the hard kinds."""
    draw = torch.Generator().manual_seed(seed)
    result = torch.randn(*shape, generator=draw, dtype=torch.float64)
    if kind in ("near-duplicates", "duplicates"):
        result = result[:1] + (1e-5 if kind == "near-duplicates" else 0.0) * result
    return ({"large": 10.0, "tiny": 1e-4}.get(kind, 1.0) * result).float().double()


HARD = ("near-duplicates", "duplicates", "large", "tiny")


def run_of(
    text: str,
    backbone: object = "bert-base-uncased",
    corpus_name: object = "wiki1m",
    data: object = "senteval",
    seed: int = 1,
    **recipe: Any,
) -> Run:
    return resolve(
        text,
        backbone_name=str(backbone),
        corpus=str(corpus_name),
        data=str(data),
        seed=seed,
        recipe=recipe,
    )


def text_of(name: str, **hyper: object) -> str:
    """A method with hyper-parameters, as a configuration has it."""
    return f"{name}[{','.join(f'{key}={value}' for key, value in hyper.items())}]"


def encoder_of(run: Run, folder: Path) -> Any:
    """The Encoder of a run that is not trained."""
    context, method = RunContext(run, Files(folder, run.data), "cpu"), run.build()
    method.begin(context)
    return method.finish(method.encoder(context), context)


def weights_of(context: RunContext) -> list[Tensor]:
    return [weight for module in context.modules() for weight in module.parameters()]


class Runs:
    """Runs of a method on a tiny backbone, to be stepped through by hand."""

    def __init__(self, backbone: Path, corpus: Path, data: Path, folder: Path) -> None:
        self.backbone, self.corpus, self.data, self.folder = backbone, corpus, data, folder

    def resolve(self, text: str, seed: int = 1, **recipe: Any) -> Run:
        recipe = {"corpus": str(self.corpus), **recipe}
        return run_of(text, self.backbone, self.corpus, self.data, seed, **recipe)

    def start(self, text: str, **recipe: Any) -> tuple[Any, RunContext, torch.nn.ModuleList]:
        """A prepared method, its context, and all that is trained."""
        run = self.resolve(text, **recipe)
        context, method = RunContext(run, Files(self.folder, run.data), "cpu"), run.build()
        method.begin(context)
        return method, context, torch.nn.ModuleList([*context.modules(), method]).train()

    def exact(self, text: str, dtype: torch.dtype = torch.float64, **recipe: Any) -> Any:
        """A prepared method and its context, of one type and without dropout."""
        method, context, modules = self.start(text, **recipe)
        modules.to(dtype).eval()
        return method, context


def step(index: int, rows: Sequence[int]) -> Step:
    return Step(index, 10, len(rows), 1, rows)


def assert_same_step(step: Step, *methods: tuple[Any, RunContext]) -> None:
    """Check that two methods have the same loss and gradient bit for bit."""
    (loss, slopes), (other_loss, other_slopes) = (
        gradients(method.step_loss(context, step), weights_of(context))
        for method, context in methods
    )
    assert torch.equal(loss, other_loss)
    assert all(map(torch.equal, slopes, other_slopes))


def stored(encoder: Any, folder: Path, texts: Sequence[str]) -> Any:
    """An Encoder saved and loaded, whose identity and vectors are the same."""
    save_encoder(encoder, folder)
    loaded = load_encoder(folder)
    assert loaded.identity == encoder.identity
    assert np.array_equal(loaded.encode(texts), encoder.encode(texts))
    return loaded
