"""Mistakes that only a GPU would show are caught on the pretended device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import methods.contrastive as contrastive
from bench.evaluation.classifier import MODES, Fold, fit
from bench.evaluation.heads import Head
from bench.models.packed_forward import Batch
from bench.training.context import RunContext
from bench.training.loop import Training
from bench.training.state import TrainingState
from methods.base import Negatives, cosine
from methods.gs_infonce import GSInfoNCE
from tests.gpu.conftest import Make
from tests.support.pretended_device import PretendedDevice

Patch = pytest.MonkeyPatch
Spoil = Callable[[Patch], None]


def _noise(made: Callable[[Tensor, Any], Tensor]) -> Spoil:
    def negatives(self: Any, anchors: Tensor, views: Any, step: Any) -> list[Negatives]:
        return [Negatives(made(anchors, step))]

    return lambda patch: patch.setattr(GSInfoNCE, "negatives", negatives)


def host_labels(patch: Patch) -> None:
    def loss(anchors: Tensor, positives: Tensor, temperature: float, *_: Any) -> Tensor:
        logits = cosine(anchors, positives) / temperature
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    patch.setattr(contrastive, "info_nce", loss)


def batch_without_to(patch: Patch) -> None:
    def made(*args: Any, **more: Any) -> Batch:
        batch = plain(*args, **more)
        return replace(batch, firsts=batch.firsts.cpu())

    plain = Batch.of
    patch.setattr(Batch, "of", made)


def second_backbone_without_to(patch: Patch) -> None:
    def step(self: Training, batch: Any) -> None:
        self.method.momentum = self.method.momentum.to("cpu")
        plain(self, batch)

    plain = Training._step
    patch.setattr(Training, "_step", step)


# The method, the mistake, and what torch says.
SAME = "Expected all tensors to be on the same device"
MISTAKES: dict[str, tuple[str, Spoil, str]] = {
    "noise of the host": (
        "gs-infonce", _noise(lambda anchors, _: torch.randn(4, anchors.shape[1])), SAME,
    ),
    "generator of the host": (
        "gs-infonce",
        _noise(lambda anchors, step: torch.randn(
            4, anchors.shape[1], device=anchors.device, generator=step.generator("noise"))),
        "Expected a 'cuda' device type for generator",
    ),
    "by numpy": (
        "gs-infonce", _noise(lambda anchors, _: torch.from_numpy(anchors.detach().numpy())),
        "can't convert cuda:0",
    ),
    "labels of the host": ("simcse", host_labels, SAME),
    "batch without .to": ("simcse", batch_without_to, SAME),
    "backbone without .to": ("esimcse[queue=12]", second_backbone_without_to, SAME),
}  # fmt: skip


def one_step(run: Any, folder: Path) -> TrainingState:
    training = Training(run, RunContext(run, folder, "cuda"), {})
    training.step(next(iter(training.batches())))
    return training.state


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_training(
    name: str, make: Make, device: PretendedDevice, tmp_path: Path, monkeypatch: Patch
) -> None:
    text, spoil, said = MISTAKES[name]
    spoil(monkeypatch)
    with pytest.raises((RuntimeError, TypeError), match=said):
        one_step(make(text), tmp_path)


def test_the_devices_generator_without_a_seed(
    make: Make, device: PretendedDevice, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Dropout then differs between two equal steps, which a resumed training has to repeat."""
    run = make("simcse", dropout=0.1, precision="float32")

    def weights() -> list[Any]:
        state = one_step(run, tmp_path)
        return [weight.tolist() for weight in state.modules.parameters()]

    assert weights() == weights()
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: None)
    assert weights() != weights()


@pytest.mark.parametrize("on_host", ["features", "labels"])
def test_inputs_of_classifiers_on_the_host(on_host: str, device: PretendedDevice) -> None:
    given = {"features": torch.randn(20, 4), "labels": torch.arange(20) % 2}
    moved = {name: one if name == on_host else one.to("cuda") for name, one in given.items()}
    with pytest.raises(RuntimeError, match=SAME):
        fit(*moved.values(), [Fold(np.arange(20), None, (Head(0.0),), 2)], MODES["dev"])
