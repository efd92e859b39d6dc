"""Supervised SimCSE: InfoNCE over premises, entailments and, as negatives, contradictions. It
trains on **human labels**, so it is a control (docs/reference/methods.md#supervised-simcse)."""

from dataclasses import replace

from torch import Tensor

from methods.base import Context, Contrastive, Negatives, NonNegativeFloat, Step, Views


class SupSimCSE(Contrastive):
    """Labelled entailments as positives, contradictions as negatives."""

    name = "sup-simcse"
    title = "SimCSE, trained with labels"
    reference = "Gao, Yao and Chen 2021, arXiv 2104.08821; code princeton-nlp/SimCSE@49fa580"

    class Hyper(Contrastive.Hyper):
        # Without them, only pairs.
        contradictions: bool = True
        """whether contradictions are negatives"""
        own_weight: NonNegativeFloat = 1.0
        """of an anchor's own contradiction"""

    # README.md:236-244 and run_sup_example.sh there.
    _large = {"learning_rate": 1e-5, "dimension": 1024}
    paper = {
        "*": {"corpus": "nli", "batch_size": 512, "epochs": 3},
        "bert-base-uncased": {"learning_rate": 5e-5, "dimension": 768},
        "bert-large-uncased": _large,
        "roberta-base": {"learning_rate": 5e-5, "dimension": 768},
        "roberta-large": _large,
    }
    official = {**paper, "*": {**paper["*"], "epsilon": 4e-8, "clip": 4.0}}
    used_if = {"own_weight": lambda hyper: hyper.contradictions}

    @classmethod
    def reads(cls, hyper: Hyper) -> str:
        return "triples"

    @classmethod
    def fixed_positive(cls, hyper: Hyper) -> str | None:
        return "labelled pairs"

    def prepare(self, context: Context) -> None:
        self.triples = context.triples()

    def items(self, context: Context) -> int:
        return len(self.triples)

    def step_loss(self, context: Context, step: Step) -> Tensor:
        corpus, columns = context.tokens(), list(zip(*step.take(self.triples), strict=True))
        premises, entailments, contradictions = ([corpus[row] for row in rows] for rows in columns)
        # Parts that join look up the premises.
        step = replace(step, rows=columns[0])
        extras = self.read_batch(context, premises, step)
        if self.hyper.contradictions:
            extras[self.name] = [contradictions]
        return self.loss(context.embed([premises, entailments], extras), step)

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        if not self.hyper.contradictions:
            return []
        (contradictions,) = views.extras[self.name]
        weights = anchors.new_ones(len(anchors), len(anchors))
        weights.fill_diagonal_(self.hyper.own_weight)
        return [Negatives(contradictions, weights=weights)]
