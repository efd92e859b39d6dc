"""What a training leaves: its log, its outcome, its weights, all its files."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import bench.training.loop
from bench.datasets import sts
from bench.evaluation.scoring import score_tasks


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def outcome_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "outcome.json").read_text())["outcome"]


def weights_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "encoder" / "model.safetensors")


def dev_score(encoder: Any, data: Path) -> float:
    (record,) = score_tasks(encoder, [sts.read("STS-B", data, "dev")])
    return record["value"]


def timeless(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome without what time decides."""
    if outcome["status"] != "finished":
        return outcome
    return {**outcome, "seconds": 0}


def assert_same_training(left: Path, right: Path) -> None:
    torch.testing.assert_close(weights_of(left), weights_of(right), rtol=0, atol=0)
    assert log_of(left) == log_of(right)
    assert timeless(outcome_of(left)) == timeless(outcome_of(right))


def left(folder: Path) -> dict[str, bytes]:
    """The log and the encoder of a training, and its outcome without times."""
    inside = [path for path in (folder / "encoder").rglob("*") if path.is_file()]
    files = [folder / "log.jsonl", *inside]
    result = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return result | {"outcome": json.dumps(timeless(outcome_of(folder))).encode()}


def assert_left(folder: Path, expected: dict[str, bytes]) -> None:
    """Byte for byte, and nothing else."""
    result = left(folder)
    assert expected.keys() == result.keys()
    assert [name for name in expected if expected[name] != result[name]] == []
    assert sorted(os.listdir(folder)) == ["encoder", "log.jsonl", "outcome.json"]


def script_dev(
    patch: pytest.MonkeyPatch,
    values: Iterable[float],
    states: list[dict[str, Tensor]] | None = None,
) -> None:
    """Scorings of the dev set have these values one after the other; `states` gets the weights that
    they saw."""
    left = iter(values)

    def score(encoder: Any, *_: Any) -> list[dict[str, Any]]:
        if states is not None:
            weights = encoder.model.state_dict()
            states.append({name: tensor.clone() for name, tensor in weights.items()})
        return [{"task": "STS-B", "aggregation": "all", "value": next(left)}]

    patch.setattr(bench.training.loop, "score_tasks", score)
