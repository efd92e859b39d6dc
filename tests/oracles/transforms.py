"""Whitening and Glow as plain loops over scalars; and programmers' mistakes in both."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Whitening


def covariance(rows: list[list[float]]) -> tuple[list[float], list[list[float]]]:
    n, d = len(rows), len(rows[0])
    mean = [sum(row[k] for row in rows) / n for k in range(d)]
    return mean, [
        [sum((row[i] - mean[i]) * (row[j] - mean[j]) for row in rows) / (n - 1) for j in range(d)]
        for i in range(d)
    ]


def jacobi(matrix: list[list[float]]) -> tuple[list[float], list[list[float]]]:
    """Eigenvalues, largest first, and eigenvectors as columns, by Jacobi's rotations."""
    d = len(matrix)
    a = [row[:] for row in matrix]
    v = [[float(i == j) for j in range(d)] for i in range(d)]
    for _ in range(60):
        for p in range(d):
            for q in range(p + 1, d):
                if a[p][q] == 0:
                    continue
                angle = 0.5 * math.atan2(2 * a[p][q], a[q][q] - a[p][p])
                c, s = math.cos(angle), math.sin(angle)
                for k in range(d):
                    a[k][p], a[k][q] = c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]
                for k in range(d):
                    a[p][k], a[q][k] = c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]
                for k in range(d):
                    v[k][p], v[k][q] = c * v[k][p] - s * v[k][q], s * v[k][p] + c * v[k][q]
    order = sorted(range(d), key=lambda k: -a[k][k])
    return [a[k][k] for k in order], [[v[i][k] for k in order] for i in range(d)]


def whitened(train: list[list[float]], rows: list[list[float]], k: int) -> list[list[float]]:
    """(x - mu) U S^(-1/2), its first k columns, of length 1."""
    mean, sigma = covariance(train)
    values, vectors = jacobi(sigma)
    d = len(mean)
    found = []
    for row in rows:
        z = [
            sum((row[i] - mean[i]) * vectors[i][j] for i in range(d)) / math.sqrt(values[j])
            for j in range(k)
        ]
        length = math.sqrt(sum(x * x for x in z))
        found.append([x / length for x in z])
    return found


def cosines(rows: list[list[float]]) -> list[list[float]]:
    def cosine(x: list[float], y: list[float]) -> float:
        dot = sum(a * b for a, b in zip(x, y, strict=True))
        return dot / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))

    return [[cosine(x, y) for y in rows] for x in rows]


# Glow: vectors are lists of scalar tensors, so that gradients come from this formula and from no
# other


def dense(weight: Tensor, bias: Tensor, x: list[Tensor]) -> list[Tensor]:
    return [sum((weight[o, i] * x[i] for i in range(len(x))), bias[o]) for o in range(len(bias))]


def coupled(state: dict[str, Tensor], name: str, x: list[Tensor]) -> list[Tensor]:
    """Additive coupling: the second part plus a network of the first half, rounded down."""
    half = len(x) // 2
    hidden = x[:half]
    for layer in (0, 2, 4):
        hidden = dense(
            state[f"{name}.network.{layer}.weight"], state[f"{name}.network.{layer}.bias"], hidden
        )
        if layer < 4:
            hidden = [h if h > 0 else h * 0 for h in hidden]
    return x[:half] + [x[half + i] + hidden[i] for i in range(len(x) - half)]


def glow(
    state: dict[str, Tensor], levels: int, depth: int, u: Tensor
) -> tuple[list[Tensor], Tensor]:
    """f^-1 of one vector and its log-determinant."""
    x = list(u)
    gone: list[Tensor] = []
    log_determinant = torch.zeros((), dtype=u.dtype)
    for level in range(levels):
        if level > 0:
            half = len(x) // 2
            x, gone = x[:half], x[half:] + gone
        for step in range(depth):
            name = f"levels.{level}.{step}"
            shift, log_scale = state[f"{name}.scale.shift"], state[f"{name}.scale.log_scale"]
            x = [(x[i] + shift[i]) * torch.exp(log_scale[i]) for i in range(len(x))]
            for i in range(len(x)):
                log_determinant = log_determinant + log_scale[i]
            x = [x[i] for i in state[f"{name}.order"].tolist()]
            x = coupled(state, f"{name}.coupling", x)
    return x + gone, log_determinant


def glow_cost(state: dict[str, Tensor], levels: int, depth: int, u: Tensor) -> Tensor:
    """Mean over vectors and dimensions of -(log N(f^-1(u); 0, I) + log |det|)."""
    total = torch.zeros((), dtype=u.dtype)
    for row in u:
        z, log_determinant = glow(state, levels, depth, row)
        for value in z:
            total = total + value * value / 2 + math.log(2 * math.pi) / 2
        total = total - log_determinant
    return total / (u.shape[0] * u.shape[1])


# Mistakes


def mutant(method: str, old: str, new: str, folder: Path) -> Any:
    """The module `methods.<method>` with one place of its source changed."""
    source = (Path(__file__).parents[2] / "methods" / f"{method}.py").read_text()
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {method}"
    path = folder / f"mutant_{method}.py"
    path.write_text(source.replace(old, new))
    spec = importlib.util.spec_from_file_location(f"mutant_{method}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module
