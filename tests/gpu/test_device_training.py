"""Every method of the registry trains and resumes on the pretended device."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.evaluation.scoring import read_tasks, score_tasks
from bench.models.load import load_encoder
from bench.registry.methods import method_classes
from bench.stages.analyse import Material, analyse
from bench.training.loop import train
from bench.utils import interrupts
from tests.gpu.cases import RESUMED, TRAINED, some_slow
from tests.gpu.conftest import Make
from tests.gpu.test_device_scoring import ROUNDED, numbers
from tests.support.outcomes import timeless
from tests.support.pretended_device import PretendedDevice
from tests.training.test_loop import log_of, outcome_of, weights_of

Device = PretendedDevice
# Ten times what was measured over all methods, of float32 with AVX-512, AVX2 and neither. Small
# losses are differences of logits up to 20 (1 / temperature): their rounding is the absolute part.
FLOAT32, MIXED = {"rel": 1.5e-5, "abs": 1.3e-5}, {"rel": 2e-2, "abs": 1e-6}


def test_every_method_that_trains_is_here() -> None:
    trained = {name for name, method in method_classes().items() if method.trained}
    assert {part.partition("[")[0] for text in TRAINED for part in text.split("+")} == trained


@pytest.mark.parametrize("text", some_slow(TRAINED, quick=14))
def test_trains_scores_and_is_analysed_as_on_the_host(
    text: str, make: Make, device: Device, tmp_path: Path
) -> None:
    run, logs, found = make(text, precision="float32"), [], []
    for place in ("cpu", "cuda"):
        with device.recorded() as seen:
            outcome = train(run, tmp_path, tmp_path / place, place)["outcome"]
        # Scored and analysed on both, the encoder that was trained on the host.
        encoder = load_encoder(tmp_path / "cpu", device=place)
        material = Material(run, tmp_path, place, outcome["best_step"])
        records = score_tasks(encoder, read_tasks(["STS12"], Path(run.data)))
        results = analyse(encoder, material, ["alignment", "layers", "memory"])
        logs.append(log_of(tmp_path / place))
        found.append((records, numbers(results)))
    host, own = logs
    assert [row["loss"] for row in own] == pytest.approx([row["loss"] for row in host], **FLOAT32)
    assert [row.get("dev") for row in own] == [row.get("dev") for row in host]
    assert len(own) > 1
    assert not seen.refused
    assert found[1][0] == found[0][0]
    assert found[1][1] == pytest.approx(found[0][1], **ROUNDED)


@pytest.mark.parametrize("text", some_slow(TRAINED, quick=1))
def test_trains_in_mixed_precision(
    text: str, make: Make, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses are near those of float32, from a scale at which no gradient overflows."""
    scaler = partial(torch.amp.GradScaler, init_scale=1.0)
    monkeypatch.setattr(torch.amp, "GradScaler", scaler)
    found = []
    for precision in ("float32", "mixed"):
        run = make(text, precision=precision)
        with device.recorded() as seen:
            train(run, tmp_path, tmp_path / precision, "cuda")
        found.append([row["loss"] for row in log_of(tmp_path / precision)])
    assert found[1] == pytest.approx(found[0], **MIXED)
    # Skip-Thought has no backbone that autocast could reach.
    assert (found[1] == found[0]) == text.startswith("skip-thought")
    assert not seen.refused


@pytest.mark.parametrize("text", some_slow(RESUMED, quick=1))
def test_resumes_to_the_same_bits(
    text: str, make: Make, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mixed precision with dropout, stopped after the first step."""
    run = make(text, precision="mixed", dropout=0.1)
    train(run, tmp_path, tmp_path / "whole", "cuda")
    with monkeypatch.context() as patch:
        said = iter(["SIGTERM"])
        patch.setattr(interrupts, "pending_signal", lambda: next(said, None))
        with pytest.raises(interrupts.Stopped):
            train(run, tmp_path, tmp_path / "resumed", "cuda")
    train(run, tmp_path, tmp_path / "resumed", "cuda")
    whole, resumed = (left(tmp_path / name) for name in ("whole", "resumed"))
    assert resumed == whole


def left(folder: Path) -> dict[str, Any]:
    """What a training leaves, without what time decides."""
    weights = {name: tensor.tolist() for name, tensor in weights_of(folder).items()}
    outcome: dict[str, Any] = timeless(outcome_of(folder))
    return {"log": log_of(folder), "outcome": json.dumps(outcome), "weights": weights}
