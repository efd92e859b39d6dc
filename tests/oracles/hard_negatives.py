"""Independent oracles of Focal-InfoNCE, MixCSE and SimCSE++, as loops over sentences in float64;
nothing of `methods` is imported.

What SimCSE++ encodes without dropout is a plain batch of vectors here: layer 1 of the first view.
"""

from dataclasses import dataclass

from tests.oracles.methods import gaussian, log_sum, named_generator, similarity, unit


@dataclass
class HardNegativesOracle:
    """InfoNCE whose candidates a subclass names; `noise` (M, std, lambda) adds GS-InfoNCE's."""

    t: float = 0.05
    noise: tuple[int, float, float] | None = None
    memory = None

    def __call__(self, h, p, lower, *, index, total, seed):
        """Mean over i of -log( e^{own_i/t} / ( e^{own_i/t} + sum of w e^{other/t} ) )."""
        losses, noise, weight = [], [], 1.0
        if self.noise:
            count, std, weight = self.noise
            noise = gaussian(count, len(h[0]), std, named_generator(seed, "noise", index))
        for i in range(len(h)):
            own, negatives = self.candidates(h, p, lower[1][0], i)
            candidates = [own, *negatives, *(self.of_noise(h[i], vector) for vector in noise)]
            scores = [candidate / self.t for candidate in candidates]
            weights = [1.0] * (1 + len(negatives)) + [weight] * len(noise)
            losses.append(log_sum(scores, weights) - scores[0])
        return sum(losses) / len(losses) + self.term(h, p)

    def candidates(self, h, p, quiet, i):
        """The similarity of the own pair, and those of others."""
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
        rest = [self.of_noise(h[i], p[j]) for j in range(len(p)) if j != i]
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
        first, second = batch[j].detach(), batch[(j + 1) % len(batch)].detach()
        if self.normalised:
            first, second = unit(first), unit(second)
        return self.share * first + (1 - self.share) * second

    def candidates(self, h, p, quiet, i):
        n = len(h)
        zeroed = [h.new_zeros(())] if self.larger_share == "zeroed" else []
        mixed = [i] if self.mixtures == "own" else range(n)
        rest = [similarity(h[i], p[j]) for j in range(n) if j != i]
        for j in mixed:
            if (j + 1) % n != i:  # else most of the mixture is the own positive
                rest.append(similarity(h[i], self.mixture(p, j)))
            else:
                rest += zeroed
        for j in mixed if self.mixed_anchors else []:
            if j != (i + 1) % n:  # else most of the mixture is that positive's own anchor
                rest.append(similarity(self.mixture(h, i), p[j]))
            else:
                rest += zeroed
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
        own, rows = similarity(h[i], p[i]), [j for j in range(len(h)) if j != i]
        if self.off_dropout:
            return self.positive_factor * own, [similarity(quiet[i], quiet[j]) for j in rows]
        return own, [similarity(h[i], p[j]) for j in rows]

    def term(self, h, p):
        if len(h) == 1 or not self.weight:
            return 0.0
        first, second = standardised(h), standardised(p)
        losses = []
        for k, feature in enumerate(first):
            row = [feature @ column / len(h) / self.feature_temperature for column in second]
            losses.append(log_sum(row) - row[k])
        return self.weight * sum(losses) / len(losses)


def standardised(batch):
    """Features (d, n) with mean 0 and variance 1 over the batch, the variance divided by n."""
    columns = []
    for column in batch.T:
        mean = column.sum() / len(column)
        variance = ((column - mean) ** 2).sum() / len(column)
        columns.append((column - mean) / (variance + 1e-5).sqrt())
    return columns
