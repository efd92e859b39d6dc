"""SimCSE: a sentence's other dropout view is its positive, the batch's other sentences are its negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from methods.base import SHARED_RECIPE, Context, Contrastive, ContrastiveHyper, Step, Tokens, overlay, stream


@dataclass(frozen=True)
class SimCSEHyper(ContrastiveHyper):
    delete_word: bool = field(default=False, metadata={"later": True})  # whether the second view lacks a word


class SimCSE(Contrastive):
    """Plain InfoNCE over two dropout views (methods.md a).

    Paper and released code agree on the loss. The paper evaluates every 250 steps, the released script every 125.
    `delete_word` is the paper's comparison with discrete augmentation, for which no code was released. Readings: words
    stand between spaces; the one left out is drawn once for each sentence, and a sentence of one word keeps it.
    """

    name = "simcse"
    title = "SimCSE"
    reference = "Gao, Yao and Chen 2021, arXiv 2104.08821; code princeton-nlp/SimCSE@49fa580"
    Hyper = SimCSEHyper
    paper = overlay(SHARED_RECIPE, {"*": {"select_every": 250}})
    official = SHARED_RECIPE

    shorter: Sequence[Sequence[int]] = ()  # tokens of all sentences without a word

    @classmethod
    def own_pairs(cls, hyper: SimCSEHyper) -> str | None:
        return "delete_word=true" if hyper.delete_word else None

    def prepare(self, context: Context) -> None:
        super().prepare(context)
        if self.hyper.delete_word:
            texts = [without_a_word(text, context.seed, row) for row, text in enumerate(context.sentences())]
            # The recipe's length wherever a sentence was cut to it; else no sentence was, and none needs to be.
            self.shorter = context.tokenize(texts, max(map(len, context.tokens())))

    def views(self, tokens: Tokens, step: Step) -> Sequence[Tokens]:
        if self.hyper.delete_word:
            return tokens, [self.shorter[row] for row in step.rows]
        return super().views(tokens, step)


def without_a_word(sentence: str, seed: int, row: int) -> str:
    """The sentence of a row of the corpus, one of its words left out."""
    words = sentence.split()
    if len(words) > 1:
        del words[int(torch.randint(len(words), (), generator=stream(seed, "delete-word", row)))]
    return " ".join(words)
