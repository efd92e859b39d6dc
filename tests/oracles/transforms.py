"""Whitening by singular values; Glow, one vector at a time."""

import math

import numpy as np
import torch
from torch import Tensor

# Whitening


def whitened(train: Tensor, rows: Tensor, k: int) -> Tensor:
    """(x - mu) U S^(-1/2), its first k columns, of length 1; U and S of the training rows X, from
    X - mu = V sqrt((n - 1) S) U^T."""
    mean = train.numpy().mean(axis=0)
    _, values, directions = np.linalg.svd(train.numpy() - mean, full_matrices=False)
    z = (rows.numpy() - mean) @ directions[:k].T / values[:k]
    return torch.from_numpy(z / np.linalg.norm(z, axis=1, keepdims=True))


# Glow as in bohanli/BERT-flow@7fa8f6d: every vector passes alone, so that gradients come from this
# formula and from no other

State = dict[str, Tensor]


def actnorm(state: State, name: str, x: Tensor) -> Tensor:
    """Add, then multiply by the exponential of three times the weight (glow_ops_1x1.py:153-183)."""
    return (x + state[f"{name}.shift"]) * torch.exp(3 * state[f"{name}.log_scale"])


def coupled(state: State, name: str, x: Tensor) -> Tensor:
    """Additive coupling: the second part plus a network of the first half, rounded down; each of
    its three layers ends with an actnorm (:365-373, :406-455)."""
    half = len(x) // 2
    hidden = x[:half]
    for layer in (0, 3, 6):
        hidden = state[f"{name}.network.{layer}.weight"] @ hidden
        hidden = actnorm(state, f"{name}.network.{layer + 1}", hidden)
        if layer < 6:
            hidden = torch.where(hidden > 0, hidden, 0)
    return torch.cat([x[:half], x[half:] + hidden])


def flow_step(state: State, name: str, x: Tensor) -> Tensor:
    x = actnorm(state, f"{name}.scale", x)
    return coupled(state, f"{name}.coupling", x[state[f"{name}.order"]])


def glow(state: State, levels: int, depth: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """f^-1 of one vector and its log-determinant."""
    gone = x[:0]
    log_determinant = x.new_zeros(())
    for level in range(levels):
        if level > 0:
            half = len(x) // 2
            x, gone = x[:half], torch.cat([x[half:], gone])
        for step in range(depth):
            name = f"levels.{level}.{step}"
            log_determinant = log_determinant + 3 * state[f"{name}.scale.log_scale"].sum()
            x = flow_step(state, name, x)
    return torch.cat([x, gone]), log_determinant


def glow_cost(state: State, levels: int, depth: int, u: Tensor) -> Tensor:
    """Mean over vectors of -(log N(f^-1(u); 0, I) + log |det|), in bits per dimension
    (glow_1x1.py:73-82)."""
    total = u.new_zeros(())
    for row in u:
        z, log_determinant = glow(state, levels, depth, row)
        total = total + (z * z / 2 + math.log(2 * math.pi) / 2).sum() - log_determinant
    return total / (math.log(2) * u.numel())


def _start(state: State, name: str, rows: Tensor) -> Tensor:
    """Minus the mean, then minus a third of the logarithm of the root mean square (:144-178); the
    rows with both applied."""
    mean = rows.mean(0)
    square = ((rows - mean) ** 2).mean(0)
    state[f"{name}.shift"].data = -mean
    state[f"{name}.log_scale"].data = torch.log(1 / (square.sqrt() + 1e-6)) / 3
    return actnorm(state, name, rows)


def data_start(state: State, levels: int, depth: int, rows: Tensor) -> None:
    """Initialise all actnorms but the couplings' last ones from a batch, in the order of the
    pass."""
    for level in range(levels):
        if level > 0:
            rows = rows[:, : rows.shape[1] // 2]
        for step in range(depth):
            name = f"levels.{level}.{step}"
            turned = _start(state, f"{name}.scale", rows)[:, state[f"{name}.order"]]
            hidden = turned[:, : rows.shape[1] // 2]
            for layer in (0, 3):
                network = f"{name}.coupling.network"
                hidden = hidden @ state[f"{network}.{layer}.weight"].T
                hidden = _start(state, f"{network}.{layer + 1}", hidden).clamp(min=0)
            rows = torch.stack([flow_step(state, name, row) for row in rows])


def trained_glow(
    state: State, levels: int, depth: int, batches: list[tuple[Tensor, Tensor]], rate: float
) -> State:
    """The weights after one step for each batch of first and second sentences.

    The loss is the sum of both means (run_siamese.py:282). All weights share one clipping to norm 1
    and decay by 0.01; the moments are not corrected (optimization_bert_flow.py:80-94, 150-171).
    """
    names = [name for name, tensor in state.items() if tensor.is_floating_point()]
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    means, squares = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for sides in batches:
        for name in names:
            state[name].requires_grad_()
        loss = sum(glow_cost(state, levels, depth, side) for side in sides)
        gradients = torch.autograd.grad(loss, [state[name] for name in names])
        norm = math.sqrt(sum((gradient**2).sum().item() for gradient in gradients))
        for name, gradient in zip(names, gradients, strict=True):
            clipped = gradient * min(1.0, 1.0 / norm)
            means[name] = 0.9 * means[name] + 0.1 * clipped
            squares[name] = 0.999 * squares[name] + 0.001 * clipped * clipped
            update = means[name] / (torch.sqrt(squares[name]) + 1e-6)
            state[name] = (state[name] - rate * (update + 0.01 * state[name])).detach()
    return state
