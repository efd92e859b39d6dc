"""GS-InfoNCE: M vectors of N(0, std^2) a step are negatives
(docs/reference/methods.md#gs-infonce)."""

from torch import Tensor

from methods.base import (
    SHARED_RECIPE,
    Contrastive,
    Negatives,
    NonNegativeFloat,
    PositiveFloat,
    Step,
    Views,
)


class GSInfoNCE(Contrastive):
    """Gaussian noise vectors as additional negatives."""

    name = "gs-infonce"
    title = "GS-InfoNCE"
    reference = "Wu et al. 2021, arXiv 2109.04321; code caskcsg/sentemb@5eeec55"

    class Hyper(Contrastive.Hyper):
        # Table 3
        multiple: NonNegativeFloat = 3.0
        """M, noise vectors per sentence"""
        # docs/reference/methods.md#gs-infonce
        std: PositiveFloat = 1.0
        """of the noise; no effect on the loss"""
        # The released code has none: 1.
        weight: NonNegativeFloat = 1.0
        """lambda of the noise term"""

    # Table 1: batch size 64 on all backbones; learning rates "as SimCSE".
    paper = {
        **SHARED_RECIPE,
        "*": {"select_every": 250},
        "roberta-base": {**SHARED_RECIPE["roberta-base"], "batch_size": 64},
        "roberta-large": {**SHARED_RECIPE["roberta-large"], "batch_size": 64},
    }
    # The values of the released logs.
    official = {
        "bert-base-uncased": {"batch_size": 64, "learning_rate": 3e-5, "dropout": 0.2, "std": 0.5},
        "bert-large-uncased": {"batch_size": 64, "learning_rate": 1e-5, "dropout": 0.2, "std": 0.1},
        "roberta-base": {"batch_size": 64, "learning_rate": 1e-5, "std": 0.1},
        "roberta-large": {"batch_size": 128, "learning_rate": 2e-5, "std": 0.5, "multiple": 1.5},
    }
    used_if = {
        "std": lambda hyper: hyper.multiple > 0 and hyper.weight > 0,
        "weight": lambda hyper: hyper.multiple > 0,
    }

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        # Of the full batch size, so that a short last batch sees as much noise.
        count = round(self.hyper.multiple * step.batch_size)
        if count == 0 or self.hyper.weight == 0:
            return []
        noise = step.gaussian("noise", count, anchors)
        return [Negatives((noise * self.hyper.std).to(anchors), weight=self.hyper.weight)]
