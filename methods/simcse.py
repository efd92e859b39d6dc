"""SimCSE: a sentence's other dropout view is its positive, the batch's other sentences are its negatives."""

from __future__ import annotations

from methods.base import SHARED_RECIPE, Contrastive, overlay


class SimCSE(Contrastive):
    """Plain InfoNCE over two dropout views (methods.md a).

    Paper and released code agree on the loss. The paper evaluates every 250 steps, the released script every 125.
    """

    name = "simcse"
    title = "SimCSE"
    reference = "Gao, Yao and Chen 2021, arXiv 2104.08821; code princeton-nlp/SimCSE@49fa580"
    paper = overlay(SHARED_RECIPE, {"*": {"select_every": 250}})
    official = SHARED_RECIPE
