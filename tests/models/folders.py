"""Model folders that tests spoil, and what must be said about them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench.utils.errors import UserError


def refused(action: Callable[[], Any], *words: str) -> None:
    """Check that the action fails with a one-line error that contains these words."""
    with pytest.raises(UserError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    for word in words:
        assert word in message


def change(path: Path, **values: Any) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_weights(folder: Path, edit: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = folder / "model.safetensors"
    save_file(edit(load_file(path)), path, metadata={"format": "pt"})


def copy_with_pooler(source: Path, target: Path, spread: float = 1.0) -> Path:
    """A copy of the tiny BERT with a stored pooler of its own."""
    shutil.copytree(source, target)
    draw = torch.Generator().manual_seed(5)
    weight = torch.randn(32, 32, generator=draw) * spread
    pooler = {"weight": weight, "bias": torch.randn(32, generator=draw)}
    pooler = {f"pooler.dense.{name}": tensor for name, tensor in pooler.items()}
    change_weights(target, lambda weights: weights | pooler)
    return target
