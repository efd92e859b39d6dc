"""SNCSE: PromptBERT without denoising, and a margin between the cosines of a sentence with its
positive and with its negation (docs/reference/methods.md#sncse)."""

from string import punctuation

from torch import Tensor
from torch.nn import functional as F

from methods.base import Context, NonNegativeFloat, Refusal, Step, Tokens, Views
from methods.promptbert import PromptBERT, Unlabelled

LONGEST = 32  # pieces of a filled template: train_SNCSE.sh:12


class SNCSE(PromptBERT):
    """Prompts, and a margin to each sentence's negation."""

    name = "sncse"
    title = "SNCSE"
    reference = "Wang et al. 2022, arXiv 2201.05979; code Sense-GVT/SNCSE@faa013e"

    class Hyper(PromptBERT.Hyper):
        # SNCSE/train_SNCSE.py:490-501
        template: Unlabelled[str] = 'This sentence : " <sentence> " means <mask> .'
        """of the first view and of scoring: `<sentence>`, then `<mask>`"""
        template_2: Unlabelled[str] = 'This sentence of " <sentence> " means <mask> .'
        """of the second view and of the negation"""
        denoise: bool = False
        """subtract the template's own state in training"""
        # SNCSE/train_SNCSE.py:364-369
        alpha: NonNegativeFloat = 0.1
        """least margin of the positive's cosine"""
        beta: NonNegativeFloat = 0.3
        """largest margin"""
        weight: NonNegativeFloat = 1e-3
        """lambda of the margin loss; 0: no negations"""
        negations: Unlabelled[str] = "soft-negatives"
        """corpus with the negation of each sentence"""

    # train_SNCSE.sh, without --fp16; the paper was not at hand.
    _large = {"batch_size": 128, "learning_rate": 5e-6}
    official = {
        "*": {"batch_size": 256, "learning_rate": 1e-5, "precision": "float32"},
        "bert-large-uncased": _large,
        "roberta-base": {"weight": 5e-4},
        "roberta-large": {**_large, "weight": 5e-4},
    }
    paper = official
    used_if = dict.fromkeys(("alpha", "beta", "negations"), lambda hyper: hyper.weight > 0)

    @classmethod
    def joins(cls) -> bool:
        return False  # its negations need its templates

    @classmethod
    def corpora(cls, hyper: Hyper) -> list[str]:
        return [hyper.negations] if hyper.weight else []

    def prepare(self, context: Context) -> None:
        super().prepare(context)
        self.pieces = LONGEST + 2 - len(self.prompts[0])  # special tokens are in both
        texts = context.sentences()
        self.texts = list(map(ended, texts))
        if not self.hyper.weight:
            return
        negations = context.sentences(self.hyper.negations)
        if len(negations) < len(texts):
            raise Refusal(
                f"'{self.hyper.negations}' has {len(negations)} negations of {len(texts)} "
                "sentences; write one a line, in the order of the corpus"
            )
        # As released, which looks up a text after its end was added (train_SNCSE.py:511-514).
        self.negations = [
            ended(negation) if text == whole else f"Not {whole}"
            for text, whole, negation in zip(texts, self.texts, negations, strict=False)
        ]

    def views(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, Tokens]:
        tokens = context.tokenize(step.take(self.texts), self.pieces)
        return tokens, tokens

    def extras(self, context: Context, tokens: Tokens, step: Step) -> list[Tokens]:
        if not self.hyper.weight:
            return []
        return [context.tokenize(step.take(self.negations), self.pieces)]

    def loss(self, views: Views, step: Step) -> Tensor:
        loss = super().loss(views, step)
        for opposites in views.extras[self.name]:
            anchors, positives = self.pairs(views)
            gap = F.cosine_similarity(anchors, opposites) - F.cosine_similarity(anchors, positives)
            margin = F.relu(gap + self.hyper.alpha) + F.relu(-gap - self.hyper.beta)
            loss = loss + self.hyper.weight * margin.mean()
        return loss


def ended(text: str) -> str:
    """Return a text that ends in punctuation."""
    return text if text.rstrip()[-1:] in punctuation else f"{text} ."
