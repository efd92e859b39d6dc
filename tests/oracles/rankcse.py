"""RankCSE's terms as loops over scalars: the formulas, and the community code
(perceptiveshawty/RankCSE@17c5226, rankcse/models.py) where the consistency is an entropy."""

import torch

from tests.oracles.spans import info_nce, log_sum, similarity


def shares(row):
    total = log_sum(row)
    return [(one - total).exp() for one in row]


def consistency_of(rows, columns, released):
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


def list_net(found, wanted):
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


def list_mle(found, wanted, epsilon):
    """models.py:89-109: minus the log of the chance to draw the teachers' order."""
    total, n = found[0][0].new_zeros(()), len(found)
    for i in range(n):
        order = sorted(range(n), key=lambda j, i=i: -float(wanted[i][j]))
        top = max(found[i], key=lambda one: one.item())  # with its gradient, as in the code
        for rank in range(n):
            rest = found[i][0].new_zeros(())
            for j in order[rank:]:
                rest = rest + (found[i][j] - top).exp()
            total = total + (rest + epsilon).log() - (found[i][order[rank]] - top)
    return total / n


def loss(
    first, second, taught, temperature=0.05, beta=1.0, gamma=1.0, tau2=0.05, tau3=0.025,
    ranking="listmle", consistency="divergence", rank_epsilon=0.0,
):  # fmt: skip
    n = len(first)
    cosines = [[similarity(first[i], second[j]) for j in range(n)] for i in range(n)]
    rows = [[cosines[i][j] / temperature for j in range(n)] for i in range(n)]
    columns = [[cosines[j][i] / temperature for j in range(n)] for i in range(n)]
    found = [[cosines[i][j] / tau2 for j in range(n)] for i in range(n)]
    wanted = [[taught[i, j] / tau3 for j in range(n)] for i in range(n)]
    if ranking == "listnet":
        ranked = list_net(found, wanted)
    else:
        ranked = list_mle(found, wanted, rank_epsilon)
    plain = info_nce(list(first), list(second), temperature)
    return plain + beta * consistency_of(rows, columns, consistency == "entropy") + gamma * ranked


def taught(teachers, weights):
    """The weighted mean of the teachers' cosines, (n, n)."""
    n, both = len(teachers[0]), list(zip(teachers, weights, strict=True))

    def mean(i, j):
        return sum(weight * float(similarity(t[i], t[j])) for t, weight in both)

    return torch.tensor([[mean(i, j) for j in range(n)] for i in range(n)], dtype=torch.float64)
