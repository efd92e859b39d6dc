"""RankCSE's terms as loops over scalars: the formulas, and the community code
(perceptiveshawty/RankCSE@17c5226, rankcse/models.py) where the consistency is an entropy."""

import torch

from tests.oracles.methods import infonce, log_sum, similarity


def consistency_of(rows, columns, released):
    """Rows and columns of the cosines over t; models.py:58-61 and 288-291 if `released`."""
    losses = []
    for row, column in zip(rows, columns, strict=True):
        p, q = (row - log_sum(row)).exp(), (column - log_sum(column)).exp()
        middle = ((p + q) / 2).log()
        if released:
            p, q = p.clamp(min=1e-7), q.clamp(min=1e-7)
            middle = ((p + q) / 2).log().clamp(min=1e-7)
        losses += [(shares * (shares.log() - middle)).sum() / 2 for shares in (p, q)]
    return sum(losses) / len(rows)


def list_net(scores, wanted):
    """Cross-entropy of the teachers' shares of all other sentences; both over temperatures."""
    losses = [scores.new_zeros(())]
    for i in range(len(scores)):
        candidates = [j for j in range(len(scores)) if j != i]
        for j in candidates:
            share = (wanted[i, j] - log_sum(wanted[i, candidates])).exp()
            losses.append(share * (log_sum(scores[i, candidates]) - scores[i, j]))
    return sum(losses) / len(scores)


def list_mle(scores, wanted, epsilon):
    """models.py:89-109: minus the log of the chance to draw the teachers' order."""
    losses, n = [], len(scores)
    for i in range(n):
        order = sorted(range(n), key=lambda j, i=i: -wanted[i, j].item())
        row = (scores[i] - scores[i].max())[order]  # with the largest's gradient, as in the code
        losses += [(row[rank:].exp().sum() + epsilon).log() - row[rank] for rank in range(n)]
    return sum(losses) / n


def cosines(first, second):
    return torch.stack([torch.stack([similarity(u, v) for v in second]) for u in first])


def loss(
    first, second, taught, temperature=0.05, beta=1.0, gamma=1.0, tau2=0.05, tau3=0.025,
    ranking="listmle", consistency="divergence", rank_epsilon=0.0,
):  # fmt: skip
    result = cosines(first, second)
    rows, columns = result / temperature, result.T / temperature
    if ranking == "listnet":
        ranked = list_net(result / tau2, taught / tau3)
    else:
        ranked = list_mle(result / tau2, taught, rank_epsilon)
    plain = infonce(first, second, temperature)
    return plain + beta * consistency_of(rows, columns, consistency == "entropy") + gamma * ranked


def taught(teachers, weights):
    """The weighted mean of the teachers' cosines, (n, n)."""
    return sum(w * cosines(t, t) for t, w in zip(teachers, weights, strict=True))
