"""Vectors with a mean and correlations, an Encoder of fixed ones, and what it is mapped on."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from methods.projection import Affine


def affine(base: Any, weight: Tensor, bias: Tensor, tanh: bool = False) -> Affine:
    return Affine(base, {"weight": weight, "bias": bias}, tanh=tanh)


def correlated(count: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    mix = torch.randn(6, 6, generator=draw, dtype=torch.float64)
    return torch.randn(count, 6, generator=draw, dtype=torch.float64) @ mix + 3


class Vectors:
    """An Encoder of fixed vectors; a sentence is the number of its row, any other has the first."""

    kind = "fixed"

    def __init__(self, vectors: Tensor, identity: str = "fixed") -> None:
        self.vectors, self.identity = vectors.float().numpy(), identity

    def encode(self, sentences: list[str]) -> np.ndarray:
        return self.vectors[[int(sentence) if sentence.isdigit() else 0 for sentence in sentences]]
