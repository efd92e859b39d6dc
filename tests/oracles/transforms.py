"""Whitening and Glow as plain loops over scalars."""

import math

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


def whitened(train: list[list[float]], rows: list[list[float]], k: int) -> Tensor:
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
    return torch.tensor(found, dtype=torch.float64)


# Glow as in bohanli/BERT-flow@7fa8f6d: vectors are lists of scalar tensors, so that gradients come
# from this formula and from no other

State = dict[str, Tensor]


def actnorm(state: State, name: str, x: list[Tensor]) -> list[Tensor]:
    """Add, then multiply by the exponential of three times the weight (glow_ops_1x1.py:153-183)."""
    shift, log_scale = state[f"{name}.shift"], state[f"{name}.log_scale"]
    return [(x[i] + shift[i]) * torch.exp(3 * log_scale[i]) for i in range(len(x))]


def dense(weight: Tensor, x: list[Tensor]) -> list[Tensor]:
    zero = torch.zeros((), dtype=weight.dtype)
    return [sum((weight[o, i] * x[i] for i in range(len(x))), zero) for o in range(len(weight))]


def coupled(state: State, name: str, x: list[Tensor]) -> list[Tensor]:
    """Additive coupling: the second part plus a network of the first half, rounded down; each of
    its three layers ends with an actnorm (:365-373, :406-455)."""
    half = len(x) // 2
    hidden = x[:half]
    for layer in (0, 3, 6):
        hidden = dense(state[f"{name}.network.{layer}.weight"], hidden)
        hidden = actnorm(state, f"{name}.network.{layer + 1}", hidden)
        if layer < 6:
            hidden = [h if h > 0 else h * 0 for h in hidden]
    return x[:half] + [x[half + i] + hidden[i] for i in range(len(x) - half)]


def flow_step(state: State, name: str, x: list[Tensor]) -> list[Tensor]:
    x = actnorm(state, f"{name}.scale", x)
    return coupled(state, f"{name}.coupling", [x[i] for i in state[f"{name}.order"].tolist()])


def glow(state: State, levels: int, depth: int, u: Tensor) -> tuple[list[Tensor], Tensor]:
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
            for i in range(len(x)):
                log_determinant = log_determinant + 3 * state[f"{name}.scale.log_scale"][i]
            x = flow_step(state, name, x)
    return x + gone, log_determinant


def glow_cost(state: State, levels: int, depth: int, u: Tensor) -> Tensor:
    """Mean over vectors of -(log N(f^-1(u); 0, I) + log |det|), in bits per dimension
    (glow_1x1.py:73-82)."""
    total = torch.zeros((), dtype=u.dtype)
    for row in u:
        z, log_determinant = glow(state, levels, depth, row)
        for value in z:
            total = total + value * value / 2 + math.log(2 * math.pi) / 2
        total = total - log_determinant
    return total / (math.log(2) * u.shape[0] * u.shape[1])


def _start(state: State, name: str, rows: list[list[Tensor]]) -> None:
    """Minus the mean, then minus a third of the logarithm of the root mean square (:144-178)."""
    for i in range(len(rows[0])):
        mean = sum(float(row[i]) for row in rows) / len(rows)
        square = sum((float(row[i]) - mean) ** 2 for row in rows) / len(rows)
        state[f"{name}.shift"].data[i] = -mean
        state[f"{name}.log_scale"].data[i] = math.log(1 / (math.sqrt(square) + 1e-6)) / 3


def data_start(state: State, levels: int, depth: int, u: Tensor) -> None:
    """Initialise all actnorms but the couplings' last ones from a batch, in the order of the
    pass."""
    rows = [list(row) for row in u]
    for level in range(levels):
        if level > 0:
            rows = [row[: len(row) // 2] for row in rows]
        for step in range(depth):
            name = f"levels.{level}.{step}"
            _start(state, f"{name}.scale", rows)
            turned = [actnorm(state, f"{name}.scale", row) for row in rows]
            hidden = [[row[i] for i in state[f"{name}.order"].tolist()] for row in turned]
            hidden = [row[: len(row) // 2] for row in hidden]
            for layer in (0, 3):
                network = f"{name}.coupling.network"
                hidden = [dense(state[f"{network}.{layer}.weight"], row) for row in hidden]
                _start(state, f"{network}.{layer + 1}", hidden)
                hidden = [actnorm(state, f"{network}.{layer + 1}", row) for row in hidden]
                hidden = [[h if h > 0 else h * 0 for h in row] for row in hidden]
            rows = [flow_step(state, name, row) for row in rows]


def trained_glow(
    state: State, levels: int, depth: int, batches: list[tuple[Tensor, Tensor]], rate: float
) -> State:
    """The weights after one step for each batch of first and second sentences.

    The loss is the sum of both means (run_siamese.py:282). All weights share one clipping to norm 1
    and decay by 0.01; the moments are not corrected (optimization_bert_flow.py:80-94, 150-171).
    """
    names = [name for name, tensor in state.items() if tensor.is_floating_point()]
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    first = {name: torch.zeros_like(state[name]) for name in names}
    second = {name: torch.zeros_like(state[name]) for name in names}
    for one, other in batches:
        for name in names:
            state[name].requires_grad_()
        loss = glow_cost(state, levels, depth, one) + glow_cost(state, levels, depth, other)
        gradients = torch.autograd.grad(loss, [state[name] for name in names])
        norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
        for name, gradient in zip(names, gradients, strict=True):
            clipped = gradient * min(1.0, 1.0 / norm)
            first[name] = 0.9 * first[name] + 0.1 * clipped
            second[name] = 0.999 * second[name] + 0.001 * clipped * clipped
            update = first[name] / (torch.sqrt(second[name]) + 1e-6)
            state[name] = (state[name] - rate * (update + 0.01 * state[name])).detach()
    return state
