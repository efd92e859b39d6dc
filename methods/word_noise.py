"""SimCSE with discrete noise: words of a sentence exchanged or left out before it is encoded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from methods.base import Context, HyperParameters, Method, Refusal, Step, Tokens, nt_xent, stream

NOISES = ("swap", "delete", None)
READINGS = ("shared", "second", "corpus")
CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")


@dataclass(frozen=True)
class WordNoiseHyper(HyperParameters):
    noise: str | None = field(default="swap", metadata={"label": True})  # of NOISES; which was used is not said
    probability: float = 0.1  # that a sentence is edited at all; then it is edited once
    reading: str = "shared"  # one of READINGS
    temperature: float = 0.05  # of the base code


class WordNoise(Method):
    """SimCSE on sentences of which one in ten has two words exchanged, or one word left out (methods.md b.11).

    Edits are made once, before training. `reading` says where: "shared" edits a sentence before both views are made of
    it, which is what the listing means to do and changes the corpus rather than the pair; "second" edits the second
    view alone; "corpus" takes the listing at its word, where one draw decides about all sentences at once: with
    probability 0.9 nothing is edited, else (where the listing would fail) every sentence is. Words are jieba's where a
    sentence has Chinese characters, and stand between spaces elsewhere. A sentence of one word is left alone by `swap`
    and becomes empty by `delete`, as in the listing. The report does not say which of the two its number is of.

    The loss is the base code's: each of the 2n vectors finds its other view among 2n - 1 candidates. Departures: the
    base code's mean of the first and last layer counts padding up to 64 pieces, here it is of the sentence alone; the
    base code selects on the test set, here the dev set decides. On Chinese BERT corpus and dev set are CNSD STS-B's,
    elsewhere the suite's.
    """

    name = "word-noise"
    title = "SimCSE+noise"
    reference = "SimCSE reproduction in Chinese with noise; base code shuxinyin/SimCSE-Pytorch@c5bc95a"
    Hyper = WordNoiseHyper
    # The base code's; the report's own was not released.
    paper = {
        "*": {
            "batch_size": 32,
            "learning_rate": 3e-5,
            "schedule": "constant",
            "weight_decay": 0.01,  # torch's default
            "clip": 1e9,  # none
            "max_length": 64,
            "pooler": "avg_first_last",
            "dropout": 0.15,
            "precision": "float32",
            "select_every": 5,
        },
        "bert-base-chinese": {"corpus": "cnsd", "select_on": "CNSD-STS-B"},
    }

    edited: Mapping[int, Sequence[int]] = {}  # tokens of the sentences that are edited, by row

    @classmethod
    def check(cls, hyper: WordNoiseHyper) -> None:
        if hyper.temperature <= 0:
            raise Refusal(f"'word-noise' needs temperature > 0, not {hyper.temperature}")
        if not 0 <= hyper.probability <= 1:
            raise Refusal(f"'word-noise' needs 0 <= probability <= 1, not {hyper.probability}")
        known: tuple[str | None, ...]
        for name, known in (("noise", NOISES), ("reading", READINGS)):
            if getattr(hyper, name) not in known:
                names = ", ".join(str(one).lower() for one in known)
                raise Refusal(f"'{name}' of 'word-noise' is one of {names}, not '{getattr(hyper, name)}'")

    def prepare(self, context: Context) -> None:
        """Edit the sentences that the seed decides on; an edit is a function of the seed, the row and the sentence."""
        sentences, tokens = context.sentences(), context.tokens()
        rows = self.edited_rows(len(sentences), context.seed)
        noise = self.hyper.noise or ""  # without noise there are no rows
        edited = [edit(sentences[row], noise, stream(context.seed, "word-noise", row)) for row in rows]
        # The recipe's length wherever a sentence was cut to it; else no sentence was, and none needs to be.
        longest = max(map(len, tokens))
        self.edited = dict(zip(rows, context.tokenize(edited, longest) if edited else [], strict=True))

    def edited_rows(self, count: int, seed: int) -> list[int]:
        """Which of `count` sentences are edited; the same ones for every kind of noise."""
        if self.hyper.noise is None:
            return []
        draws = torch.rand(1 if self.hyper.reading == "corpus" else count, generator=stream(seed, "word-noise"))
        return (draws.expand(count) < self.hyper.probability).nonzero().flatten().tolist()

    def views(self, tokens: Tokens, step: Step) -> tuple[Tokens, Tokens]:
        """Both views of a batch, of the tokens of its sentences as they are in the corpus."""
        edited = [self.edited.get(row, own) for row, own in zip(step.rows, tokens, strict=True)]
        return (tokens if self.hyper.reading == "second" else edited), edited

    def step_loss(self, context: Context, step: Step) -> Tensor:
        corpus = context.tokens()
        first, second = context.embed(self.views([corpus[row] for row in step.rows], step)).vectors
        return self.loss(first, second)

    def loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Of the vectors (n, d) of both views."""
        return nt_xent(first, second, self.hyper.temperature)


def edit(sentence: str, noise: str, generator: torch.Generator) -> str:
    """A sentence with two words exchanged ("swap") or one left out ("delete")."""
    chinese = CHINESE.search(sentence) is not None
    words = list(chinese_words(sentence)) if chinese else sentence.split()
    if len(words) < (2 if noise == "swap" else 1):
        return sentence
    first, *others = torch.randperm(len(words), generator=generator).tolist()
    if noise == "swap":
        words[first], words[others[0]] = words[others[0]], words[first]
    else:
        del words[first]
    return ("" if chinese else " ").join(words)


def chinese_words(sentence: str) -> Sequence[str]:
    """A sentence cut into words by jieba's dictionary; put together again they are the sentence."""
    words: list[str] = _segmenter().lcut(sentence)
    return words


@cache
def _segmenter() -> Any:
    try:
        import jieba
    except ModuleNotFoundError:
        raise Refusal("Chinese sentences need the package jieba, which cuts them into words; install it") from None
    segmenter = jieba.Tokenizer()
    # Filled here, since jieba itself would read a cache from a folder that other users may write to.
    segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
    segmenter.initialized = True
    return segmenter
