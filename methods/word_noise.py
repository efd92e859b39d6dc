"""SimCSE with one in ten sentences edited, once: two words swapped, or one word deleted
(docs/reference/methods.md#word-noise)."""

import re
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from methods.base import (
    LABEL,
    Context,
    Field,
    HyperParameters,
    Method,
    PositiveFloat,
    Refusal,
    Share,
    Step,
    Tokens,
    nt_xent,
    stream,
)

CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")


class WordNoise(Method):
    """SimCSE with swapped or deleted words."""

    name = "word-noise"
    title = "SimCSE+noise"
    reference = "SimCSE reproduction in Chinese with noise; code shuxinyin/SimCSE-Pytorch@c5bc95a"

    class Hyper(HyperParameters):
        # The report does not say which.
        noise: Literal["swap", "delete"] | None = Field("swap", json_schema_extra=LABEL)
        """kind of edit"""
        probability: Share = 0.1
        """that a sentence is edited, once"""
        # "corpus": as the report's listing.
        reading: Literal["shared", "second", "corpus"] = "shared"
        """edits `shared` by views, of the `second`, or once per `corpus`"""
        # Base code.
        temperature: PositiveFloat = 0.05
        """divisor of the cosines"""

    # From the base code; the code of the report was not released.
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
        "bert-base-chinese": {
            "corpus": "cnsd",
            "select_on": "CNSD-STS-B",
            "pooler": "avg_first_last_64",
        },
    }

    used_if = dict.fromkeys(("probability", "reading"), lambda hyper: hyper.noise is not None)

    def prepare(self, context: Context) -> None:
        sentences, seed = context.sentences(), context.seed
        rows = self.edited_rows(len(sentences), seed)
        noise = self.hyper.noise or ""  # without noise no rows are edited
        edited = [edit(sentences[row], noise, stream(seed, "word-noise", row)) for row in rows]
        # The recipe's length if a sentence was truncated to it; else nothing is truncated.
        longest = max(map(len, context.tokens()))
        tokens = context.tokenize(edited, longest) if edited else []
        self.edited = dict(zip(rows, tokens, strict=True))

    def edited_rows(self, count: int, seed: int) -> list[int]:
        """Return which of `count` sentences are edited; the same for both kinds of noise."""
        if self.hyper.noise is None:
            return []
        distinct = 1 if self.hyper.reading == "corpus" else count
        draws = torch.rand(distinct, generator=stream(seed, "word-noise"))
        return (draws.expand(count) < self.hyper.probability).nonzero().flatten().tolist()

    def views(self, context: Context, tokens: Tokens, step: Step) -> tuple[Tokens, Tokens]:
        edited = [self.edited.get(row, ids) for row, ids in zip(step.rows, tokens, strict=True)]
        return (tokens if self.hyper.reading == "second" else edited), edited

    def step_loss(self, context: Context, step: Step) -> Tensor:
        tokens = step.take(context.tokens())
        first, second = context.embed(self.views(context, tokens, step)).vectors
        return self.loss(first, second)

    def loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the loss of the vectors (n, d) of both views."""
        return nt_xent(first, second, self.hyper.temperature)


def edit(sentence: str, noise: str, generator: torch.Generator) -> str:
    """Return a sentence with two words swapped ("swap") or one deleted ("delete")."""
    chinese = CHINESE.search(sentence) is not None
    # The words of jieba, concatenated, are the sentence.
    words = segmenter().lcut(sentence) if chinese else sentence.split()
    if len(words) < (2 if noise == "swap" else 1):
        return sentence
    order = torch.randperm(len(words), generator=generator).tolist()
    if noise == "swap":
        words[order[0]], words[order[1]] = words[order[1]], words[order[0]]
    else:
        del words[order[0]]
    return ("" if chinese else " ").join(words)


@cache
def segmenter() -> Any:
    """Return jieba's segmentation of Chinese sentences, with its dictionary."""
    try:
        import jieba
    except ModuleNotFoundError:
        raise Refusal("Chinese sentences need the package jieba; install it") from None
    tokenizer = jieba.Tokenizer()
    # Loaded here, since jieba would read a cache from a folder that other users may write to.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
