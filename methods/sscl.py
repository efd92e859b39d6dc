"""SSCL: vectors of intermediate layers, with the same pooling and head, are additional negatives
(docs/reference/methods.md#sscl)."""

from typing import Any, Literal

import torch
from torch import Tensor

from methods.base import SHARED_RECIPE, Contrastive, Negatives, NonNegativeInt, Shape, Step, Views


class SSCL(Contrastive):
    """Vectors of intermediate layers as additional negatives."""

    name = "sscl"
    title = "SSCL"
    reference = "Chen et al. 2023, arXiv 2305.06154; code nuochenpku/SSCL@1a7e75f"

    class Hyper(Contrastive.Hyper):
        # Figure 3b: 2 is best.
        stack: NonNegativeInt = 2
        """last intermediate layers that are negatives"""
        # Figure 3a: 11 of 12 is best.
        layer: NonNegativeInt | None = None
        """one layer instead of a stack; 0: none"""
        positive: Literal["dropout", "self"] = "dropout"
        """`dropout`: other view; `self`: the vector itself (SSCL-BERT)"""
        negatives: Literal["all", "own"] = "all"
        """layer vectors of `all` of the batch, or only the anchor's `own`"""
        # "one": the anchor's.
        sides: Literal["both", "one"] = "both"
        """views whose layer vectors are negatives"""
        detach: bool = False
        """no gradient of negatives to the lower layers"""
        average: bool = False
        """average losses with and without layer negatives"""
        # As the released file of May 2023.
        average_self: bool = False
        """`average` with `positive=self`"""

    # Paper: learning rate 3e-5 for base and 1e-5 for large models, batch size 64; BERT only.
    paper = {**SHARED_RECIPE, "*": {"negatives": "own", "sides": "one"}}
    official = {**SHARED_RECIPE, "*": {"average": True}}
    used_if = {
        "stack": lambda hyper: hyper.layer is None,
        "average_self": lambda hyper: hyper.positive == "self",
    }

    @classmethod
    def clamp_to_backbone(cls, hyper: Hyper, shape: Shape) -> Hyper:
        """Limit the stack to layers from 1 on; SSCL-BERT averages only by another key."""
        changes: dict[str, Any] = {"stack": min(hyper.stack, shape.depth - 1)}
        if hyper.positive == "self":
            changes["average"] = hyper.average_self
        return hyper.model_copy(update=changes)

    @classmethod
    def skip(cls, hyper: Hyper, shape: Shape) -> str | None:
        if hyper.layer is not None and hyper.layer >= shape.depth:
            return (
                f"layer {hyper.layer} is not an intermediate layer of a backbone with "
                f"{shape.depth} layers"
            )
        return None

    @classmethod
    def fixed_positive(cls, hyper: Hyper) -> str | None:
        return "positive=self" if hyper.positive == "self" else None

    @property
    def plain_share(self) -> float:  # type: ignore[override]
        return 0.5 if self.hyper.average and self.layers else 0.0

    @property
    def layers(self) -> list[int]:
        """The intermediate layers that are used, from the highest down."""
        if self.hyper.layer is not None:
            return [self.hyper.layer] if self.hyper.layer else []
        return [self.shape.depth - 1 - i for i in range(self.hyper.stack)]

    def pairs(self, views: Views) -> tuple[Tensor, Tensor]:
        if self.hyper.positive == "self":
            return views.vectors[0], views.vectors[0]
        return super().pairs(views)

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        groups = []
        for layer in self.layers:
            vectors = list(views.at_layer(layer))
            if self.hyper.sides == "one":
                vectors = vectors[:1]
            if self.hyper.detach:
                vectors = [view.detach() for view in vectors]
            # Vectors of all sentences are columns of every anchor; otherwise each anchor has a set.
            all_sentences = self.hyper.negatives == "all"
            groups.append(
                Negatives(torch.cat(vectors) if all_sentences else torch.stack(vectors, dim=1))
            )
        return groups
