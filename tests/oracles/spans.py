"""DeCLUTR's loss from the printed formulas; its released spans (JohnGiorgi/DeCLUTR@b78ac57),
restated line by line."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.oracles.methods import log_sum
from tests.oracles.outside import nt_xent


def declutr_contrast(
    anchors: Tensor, positives: Tensor, temperature: float, average: bool
) -> Tensor:
    """Section 3.1: e_{i + AN} the mean of anchor i's positives; l(i, i + AN) + l(i + AN, i)."""
    n = len(anchors)
    count = len(positives) // n
    means = [sum(positives[i * count : (i + 1) * count]) / count for i in range(n)]
    return nt_xent(anchors, means, temperature) * (1 if average else 2 * n)


def cross_entropy(logits: Tensor, targets: Sequence[int]) -> Tensor:
    rows = zip(logits, targets, strict=True)
    return sum(log_sum(row) - row[target] for row, target in rows) / len(targets)


def released_spans(
    pieces: Sequence[str], anchors: int, positives: int, shortest: int, longest: int, draw: Any
) -> tuple[list[str], list[str]]:
    """declutr/common/contrastive_utils.py:66-139. A beta(4, 2) number is the fourth smallest of
    five uniform ones, a beta(2, 4) number the second."""

    def beta(a: int, b: int) -> float:
        return sorted(torch.rand(a + b - 1, generator=draw, dtype=torch.float64).tolist())[a - 1]

    def randint(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=draw))

    number, result, around = len(pieces), [], []
    starts = [start for start in range(number - longest + 1) if start % longest == 0]
    for i in range(anchors):
        anchor_len = int(beta(4, 2) * (longest - shortest) + shortest)
        if len(starts) // (anchors - i) < anchors - i:
            chosen = [0, len(starts) - 1][randint(0, 2)]
        else:
            chosen = randint(0, len(starts))
        begin = randint(starts[chosen], starts[chosen] + longest - anchor_len + 1)
        starts = [start for at, start in enumerate(starts) if abs(at - chosen) > 1]
        end = begin + anchor_len
        result.append(" ".join(pieces[begin:end]))
        for _ in range(positives):
            size = int(beta(2, 4) * (longest - shortest) + shortest)
            low, high = max(0, begin - size), min(end, number - size) + 1
            first = randint(low, high)
            around.append(" ".join(pieces[first : first + size]))
    return result, around


def released_ids(tokenizer: Any, span: str, longest: int) -> list[int]:
    """declutr/dataset_reader.py:202-205: back to text, cleaned as by Transformers 3, and tokenized
    again. AllenNLP 1.1 cuts to `max_length` (declutr.jsonnet:24: longest - 2) and then adds the two
    special tokens (allennlp@df4b573, pretrained_transformer_tokenizer.py:230-277)."""
    text = tokenizer.decode(tokenizer.convert_tokens_to_ids(span.split()))
    for spaced in (" .", " ?", " !", " ,"):
        text = text.replace(spaced, spaced[1:])
    text = text.replace(" ' ", "'")
    for spaced in (" n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(spaced, spaced[1:])
    ids = tokenizer.encode(text, add_special_tokens=False)[: longest - 2]
    return [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
