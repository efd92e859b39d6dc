"""SimCSE: plain InfoNCE over two dropout views (docs/reference/training.md#shared-recipe)."""

import torch

from methods.base import SHARED_RECIPE, Context, Contrastive, Step, Tokens, stream


class SimCSE(Contrastive):
    """One sentence twice, with different dropout, as positives."""

    name = "simcse"
    title = "SimCSE"
    reference = "Gao, Yao and Chen 2021, arXiv 2104.08821; code princeton-nlp/SimCSE@49fa580"

    class Hyper(Contrastive.Hyper):
        # The paper's discrete augmentation.
        delete_word: bool = False
        """the second view lacks one word"""

    paper = {**SHARED_RECIPE, "*": {"select_every": 250}}
    official = SHARED_RECIPE

    @classmethod
    def fixed_positive(cls, hyper: Hyper) -> str | None:
        return "delete_word=true" if hyper.delete_word else None

    def prepare(self, context: Context) -> None:
        if self.hyper.delete_word:
            sentences = context.sentences()
            texts = [without_a_word(text, context.seed, i) for i, text in enumerate(sentences)]
            # The recipe's length if a sentence was truncated to it; else nothing is truncated.
            self.shorter = context.tokenize(texts, max(map(len, context.tokens())))

    def views(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, ...]:
        second = step.take(self.shorter) if self.hyper.delete_word else tokens
        return tokens, second


def without_a_word(sentence: str, seed: int, row: int) -> str:
    """Return the sentence of a corpus row with one of its words deleted."""
    words = sentence.split()
    if len(words) > 1:
        del words[int(torch.randint(len(words), (), generator=stream(seed, "delete-word", row)))]
    return " ".join(words)
