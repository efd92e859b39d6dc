"""RankCSE's terms as loops over scalars: the formulas, and the community code
(perceptiveshawty/RankCSE@17c5226, rankcse/models.py) where `released`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.oracles.spans import info_nce, log_sum, similarity

Row = Sequence[Tensor]


def shares(row: Row) -> list[Tensor]:
    total = log_sum(row)
    return [(one - total).exp() for one in row]


def consistency(rows: Sequence[Row], columns: Sequence[Row], released: bool) -> Tensor:
    """Rows and columns of the cosines over t; models.py:58-61 and 288-291 if `released`."""
    total = rows[0][0].new_zeros(())
    for row, column in zip(rows, columns, strict=True):
        p, q = shares(row), shares(column)
        if released:
            p, q = ([one.clamp(min=1e-7) for one in each] for each in (p, q))
        for one in (p, q):
            for a, b, own in zip(p, q, one, strict=True):
                middle = ((a + b) / 2).log()
                if released:
                    middle = middle.clamp(min=1e-7)
                total = total + own * (own.log() - middle) / 2
    return total / len(rows)


def list_net(found: Sequence[Row], wanted: Sequence[Row]) -> Tensor:
    """Cross-entropy of the teachers' shares of all other sentences; both over temperatures."""
    total, n = found[0][0].new_zeros(()), len(found)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        if others:
            teacher = shares([wanted[i][j] for j in others])
            student = shares([found[i][j] for j in others])
            for a, b in zip(teacher, student, strict=True):
                total = total - a * b.log()
    return total / n


def list_mle(found: Sequence[Row], wanted: Sequence[Row], epsilon: float) -> Tensor:
    """models.py:89-109: minus the log of the chance to draw the teachers' order."""
    total, n = found[0][0].new_zeros(()), len(found)
    for i in range(n):
        order = sorted(range(n), key=lambda j, i=i: -float(wanted[i][j]))
        top = max(found[i], key=float)  # with its gradient, as in the code
        for rank in range(n):
            rest = found[i][0].new_zeros(())
            for j in order[rank:]:
                rest = rest + (found[i][j] - top).exp()
            total = total + (rest + epsilon).log() - (found[i][order[rank]] - top)
    return total / n


def loss(
    first: Tensor,
    second: Tensor,
    taught: Tensor,
    *,
    temperature: float = 0.05,
    beta: float = 1.0,
    gamma: float = 1.0,
    tau2: float = 0.05,
    tau3: float = 0.025,
    ranking: str = "listmle",
    released: bool = False,
    epsilon: float = 0.0,
) -> Tensor:
    n = len(first)
    cosines = [[similarity(first[i], second[j]) for j in range(n)] for i in range(n)]
    rows = [[cosines[i][j] / temperature for j in range(n)] for i in range(n)]
    columns = [[cosines[j][i] / temperature for j in range(n)] for i in range(n)]
    found = [[cosines[i][j] / tau2 for j in range(n)] for i in range(n)]
    wanted = [[taught[i, j] / tau3 for j in range(n)] for i in range(n)]
    ranked = list_net(found, wanted) if ranking == "listnet" else list_mle(found, wanted, epsilon)
    plain = info_nce(list(first), list(second), temperature)
    return plain + beta * consistency(rows, columns, released) + gamma * ranked


def taught(teachers: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted mean of the teachers' cosines, (n, n)."""
    n = len(teachers[0])
    return torch.tensor(
        [
            [
                sum(
                    w * float(similarity(t[i], t[j]))
                    for t, w in zip(teachers, weights, strict=True)
                )
                for j in range(n)
            ]
            for i in range(n)
        ],
        dtype=torch.float64,
    )
