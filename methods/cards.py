"""CARDS: a positive with switched capitals, and negatives retrieved from the whole corpus; after a
`+` only the negatives (docs/reference/methods.md#cards)."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from methods.base import (
    ComputedPooler,
    Context,
    Contrastive,
    Negatives,
    NonNegativeInt,
    Shape,
    Share,
    Step,
    Tokens,
    Views,
    to_device,
)


class CARDS(Contrastive):
    """Switched capitals as positives, retrieved sentences as negatives."""

    name = "cards"
    title = "CARDS"
    reference = "Wang et al. 2022, arXiv 2206.02457; code alibaba/SimCSE-with-CARDS@8e038a0"
    version = 2

    class Hyper(Contrastive.Hyper):
        # Of their first letters.
        switch: Share = 0.05
        """share of words that change case"""
        # "each": an independent draw per word (code v2); "count": max(1, round(switch x words))
        # words (v1).
        words: Literal["each", "count"] = "each"
        """how words are drawn"""
        # K - 1, since the code's K includes the sentence itself.
        neighbours: NonNegativeInt = 64
        """nearest sentences to draw from; 0: none"""
        retrieval: ComputedPooler = "avg"
        """pooler of the raw backbone searched"""

    _large = {"switch": 0.1, "words": "count", "neighbours": 8, "retrieval": "cls_before_pooler"}
    # Batch size 128 on each of 4 GPUs; the authors train RoBERTa only.
    official = {
        "*": {"batch_size": 512, "learning_rate": 4e-5},
        "roberta-large": {"learning_rate": 7.5e-6, **_large},
    }
    paper = official
    used_if = {
        "words": lambda hyper: hyper.switch > 0,
        "retrieval": lambda hyper: hyper.neighbours > 0,
    }

    @classmethod
    def skip(cls, hyper: Hyper, shape: Shape) -> str | None:
        if shape.cased or hyper.switch == 0:
            return None
        return (
            "the backbone's tokenizer knows no capitals, so switching them changes nothing; "
            "cards[switch=0] can run"
        )

    @classmethod
    def needs_dropout(cls, hyper: Hyper) -> bool:
        return hyper.switch == 0

    def prepare(self, context: Context) -> None:
        if self.hyper.neighbours == 0:
            return
        # Equal sentences are retrieved as one. `_rows` has their first row, `_numbers` counts them.
        sentences, corpus = context.sentences(), context.tokens()
        numbers = {text: number for number, text in enumerate(dict.fromkeys(sentences))}
        self._numbers = [numbers[text] for text in sentences]
        self._rows = np.unique(self._numbers, return_index=True)[1].tolist()
        distinct = [corpus[row] for row in self._rows]
        vectors = context.encode_tokens(context.encoder(self.hyper.retrieval), distinct)
        # Not a buffer: it is recomputed from the same corpus and backbone.
        self._nearest: Any = context.neighbours(vectors, self.hyper.neighbours)

    def views(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, ...]:
        if self.hyper.switch == 0:
            return tokens, tokens
        tokenizer, generator = context.tokenizer, step.generator("switch-case")
        texts = [tokenizer.decode(row, skip_special_tokens=True) for row in tokens]
        # Not truncated to the recipe's length: a switched word may have more tokens.
        return tokens, context.tokenize([self._switch(text, generator) for text in texts])

    def _switch(self, text: str, generator: torch.Generator) -> str:
        words = [word for word in text.split(" ") if word]
        if self.hyper.words == "each":
            draws = torch.rand(len(words), generator=generator)
            chosen = (draws < self.hyper.switch).nonzero().flatten().tolist()
        else:
            order = torch.randperm(len(words), generator=generator).tolist()
            letters = [index for index in order if words[index][0].isalpha()]
            chosen = letters[: max(1, round(self.hyper.switch * len(words)))]
        for index in chosen:
            words[index] = words[index][0].swapcase() + words[index][1:]
        return " ".join(words)

    def _retrieved(self, step: Step) -> list[int]:
        """Return a drawn neighbour of each item, as an index into the distinct sentences."""
        # Drawn from a named stream, so `extras` and `negatives` get the same neighbours.
        size, generator = (len(step.rows),), step.generator("retrieval")
        ranks = torch.randint(self.hyper.neighbours, size, generator=generator).numpy()
        return self._nearest[step.take(self._numbers), ranks].tolist()

    def extras(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, ...]:
        if self.hyper.neighbours == 0:
            return ()
        corpus = context.tokens()
        return ([corpus[self._rows[number]] for number in self._retrieved(step)],)

    def negatives(self, anchors: Tensor, views: Views, step: Step) -> list[Negatives]:
        if self.hyper.neighbours == 0:
            return []
        (vectors,) = views.extras[self.name]
        numbers = to_device(torch.tensor(step.take(self._numbers)), anchors.device)
        retrieved = to_device(torch.tensor(self._retrieved(step)), anchors.device)
        # An anchor's sentence, retrieved for another anchor, is no negative of it.
        return [Negatives(vectors, weights=(numbers.unsqueeze(1) != retrieved).to(anchors))]
