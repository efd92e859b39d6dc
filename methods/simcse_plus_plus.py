"""SimCSE++: negatives are cosines of sentences encoded without dropout, and a second loss tells the
dimensions of both views apart (docs/reference/methods.md#simcse)."""

from torch import Tensor
from torch.nn import functional as F

from methods.base import (
    HOST,
    SHARED_RECIPE,
    Context,
    Contrastive,
    Field,
    Negatives,
    NonNegativeFloat,
    PositiveFloat,
    Step,
    Terms,
    Tokens,
    Views,
    cosine,
    on_diagonal,
    pair_loss,
)


class SimCSEPlusPlus(Contrastive):
    """Negatives without dropout, and contrast between dimensions."""

    name = "simcse-plus-plus"
    title = "SimCSE++"
    reference = "Xu et al. 2023, arXiv 2305.13192; code Jiahao004/SimCSE-plus-plus@32cf66a"

    class Hyper(Contrastive.Hyper):
        off_dropout: bool = True
        """negatives come from a pass without dropout"""
        # 1 in the script of both terms, 0.9 in the script of the first term.
        positive_factor: PositiveFloat = Field(1.0, json_schema_extra=HOST)
        """p, factor of the positive's cosine"""
        # Released script, and released code.
        weight: NonNegativeFloat = 0.1
        """of the contrast of dimensions; 0: none"""
        feature_temperature: PositiveFloat = 5.0
        """T of the contrast of dimensions"""

    paper = official = SHARED_RECIPE
    used_if = {"feature_temperature": lambda hyper: hyper.weight > 0}

    def quiet(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, ...]:
        return (tokens,) if self.hyper.off_dropout else ()

    def weights(self, anchors: Tensor, positives: Tensor, step: Step) -> Tensor | None:
        # Of the in-batch candidates only the positive stays: e^{p s/t} = e^{(p - 1) s/t} e^{s/t}.
        if not self.hyper.off_dropout:
            return None
        cosines = cosine(anchors, positives.unsqueeze(1)).squeeze(1)
        factors = ((self.hyper.positive_factor - 1) * cosines / self.hyper.temperature).exp()
        return factors.diag()

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        if not self.hyper.off_dropout:
            return []
        (vectors,) = views.quiet[self.name]
        cosines = cosine(vectors, vectors)
        # A sentence is no negative of itself.
        return [Negatives(cosines=cosines, weights=(~on_diagonal(cosines)).to(cosines))]

    def terms(self, anchors: Tensor, positives: Tensor, temperature: float, step: Step) -> Terms:
        if self.hyper.weight == 0 or len(anchors) == 1:
            return []
        # Normalised over the batch, a dimension has mean 0 and variance 1, so that the products are
        # correlations of dimensions.
        first = F.batch_norm(anchors, None, None, training=True)
        second = F.batch_norm(positives, None, None, training=True)
        logits = first.T @ second / len(anchors) / self.hyper.feature_temperature
        return [(self.hyper.weight, pair_loss(logits))]
