"""Independent oracles of Focal-InfoNCE, MixCSE and SimCSE++, as plain loops on float64 scalars;
nothing of `methods` is imported.

What SimCSE++ encodes without dropout is a plain batch of vectors here: layer 1 of the first view.
"""

from dataclasses import dataclass

import torch

from tests.oracles.methods import (
    constants,
    dot,
    gaussian,
    minus_log_share,
    named_generator,
    scalars,
    unit,
)


def similarity(u, v):
    return dot(unit(u), unit(v))


def mean_loss(own, others, t):
    """Mean over i of -log( e^{own_i/t} / ( e^{own_i/t} + sum of w e^{other/t} ) )."""
    total = torch.zeros((), dtype=torch.float64)
    for mine, rest in zip(own, others, strict=True):
        scores = [(1.0, mine / t), *((weight, score / t) for weight, score in rest)]
        total = total + minus_log_share(mine / t, scores)
    return total / len(own)


@dataclass
class HardNegativesOracle:
    """InfoNCE whose candidates a subclass names; `noise` (M, std, lambda) adds GS-InfoNCE's."""

    t: float = 0.05
    noise: tuple[int, float, float] | None = None
    memory = None

    def __call__(self, first, second, lower, *, index, total, seed):
        h, p, quiet = scalars(first), scalars(second), scalars(lower[1][0])
        own, others, noise = [], [], []
        if self.noise:
            count, std, weight = self.noise
            noise = gaussian(count, len(h[0]), std, named_generator(seed, "noise", index))
        for i in range(len(h)):
            mine, rest = self.candidates(h, p, quiet, i)
            own.append(mine)
            others.append(rest + [(weight, self.of_noise(h[i], vector)) for vector in noise])
        return mean_loss(own, others, self.t) + self.term(h, p)

    def candidates(self, h, p, quiet, i):
        """The similarity of the own pair; weights in the denominator and similarities of others."""
        raise NotImplementedError

    def of_noise(self, u, v):
        return similarity(u, v)

    def term(self, h, p):
        return 0.0


@dataclass
class FocalOracle(HardNegativesOracle):
    """s_ii^2 for the own pair, s_ij (s_ij + m) for all others (puerrrr/Focal-InfoNCE@9365beb,
    focalNCE/models.py:106-111)."""

    m: float = 0.3
    positive: bool = True
    negative: bool = True

    def candidates(self, h, p, quiet, i):
        own = similarity(h[i], p[i])
        rest = [(1.0, self.of_noise(h[i], p[j])) for j in range(len(p)) if j != i]
        return own * own if self.positive else own, rest

    def of_noise(self, u, v):
        s = similarity(u, v)
        return s * (s + self.m) if self.negative else s


@dataclass
class MixCSEOracle(HardNegativesOracle):
    """Mixtures of sentence j and the next one, j + 1 modulo n, are candidates
    (BDBC-KG-NLP/MixCSE_AAAI2022@884145e, mixcse/models_mix.py:220-264)."""

    share: float = 0.2
    mixtures: str = "all"
    mixed_anchors: bool = True
    larger_share: str = "zeroed"
    normalised: bool = False

    def mixture(self, batch, j):
        one, other = constants([batch[j], batch[(j + 1) % len(batch)]])
        if self.normalised:
            one, other = unit(one), unit(other)
        return [self.share * a + (1 - self.share) * b for a, b in zip(one, other, strict=True)]

    def candidates(self, h, p, quiet, i):
        n, zeroed = len(h), self.larger_share == "zeroed"
        mixed = [i] if self.mixtures == "own" else range(n)
        rest = [(1.0, similarity(h[i], p[j])) for j in range(n) if j != i]
        for j in mixed:
            if (j + 1) % n != i:  # else most of the mixture is the own positive
                rest.append((1.0, similarity(h[i], self.mixture(p, j))))
            elif zeroed:
                rest.append((1.0, torch.zeros((), dtype=torch.float64)))
        for j in mixed if self.mixed_anchors else []:
            if j != (i + 1) % n:  # else most of the mixture is that positive's own anchor
                rest.append((1.0, similarity(self.mixture(h, i), p[j])))
            elif zeroed:
                rest.append((1.0, torch.zeros((), dtype=torch.float64)))
        return similarity(h[i], p[i]), rest


@dataclass
class SimCSEPlusPlusOracle(HardNegativesOracle):
    """Negatives among vectors without dropout, and a contrast of dimensions
    (Jiahao004/SimCSE-plus-plus@32cf66a, simcse/models_re_vicreg.py:221-263)."""

    positive_factor: float = 1.0
    off_dropout: bool = True
    weight: float = 0.1
    feature_temperature: float = 5.0

    def candidates(self, h, p, quiet, i):
        own, others = similarity(h[i], p[i]), [j for j in range(len(h)) if j != i]
        if self.off_dropout:
            rest = [(1.0, similarity(quiet[i], quiet[j])) for j in others]
            return self.positive_factor * own, rest
        return own, [(1.0, similarity(h[i], p[j])) for j in others]

    def term(self, h, p):
        n, d = len(h), len(h[0])
        if n == 1 or not self.weight:
            return 0.0
        one, other = standardised(h), standardised(p)
        total = torch.zeros((), dtype=torch.float64)
        for k in range(d):
            row = []
            for feature in range(d):
                products = [one[i][k] * other[i][feature] for i in range(n)]
                row.append((1.0, sum(products) / n / self.feature_temperature))
            total = total + minus_log_share(row[k][1], row)
        return self.weight * total / d


def standardised(batch, epsilon=1e-5):
    """Each feature with mean 0 and variance 1 over the batch, the variance divided by n."""
    n, columns = len(batch), []
    for k in range(len(batch[0])):
        values = [vector[k] for vector in batch]
        mean = sum(values) / n
        variance = sum((value - mean) ** 2 for value in values) / n
        columns.append([(value - mean) / (variance + epsilon).sqrt() for value in values])
    return [[column[i] for column in columns] for i in range(n)]
