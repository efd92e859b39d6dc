"""What encoding costs: each distinct sentence once, batched by length, against SentEval's way."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.datasets import sts
from bench.evaluation.scoring import read_tasks, sentences
from bench.models.encoder import TransformerEncoder
from bench.models.packed_forward import Batch
from bench.models.transformer import load_backbone


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> TransformerEncoder:
    torch.set_num_threads(1)
    return TransformerEncoder(*load_backbone(tiny_bert), "avg")


@pytest.fixture(scope="module")
def tasks(world: Path) -> list[sts.StsTask]:
    return read_tasks(["sts"], world)


def as_senteval(encoder: TransformerEncoder, tasks: list[sts.StsTask]) -> np.ndarray:
    """Both sides of every pair in file order, batches of 128, padded to the longest of each.

    Source: docs/protocol.md#sts.
    """
    vectors = []
    encoder.model.eval()
    with torch.inference_mode():
        for subset in (subset for task in tasks for subset in task.subsets):
            for side in (subset.first, subset.second):
                for start in range(0, len(side), 128):
                    tokens = encoder.tokenize(side[start : start + 128])
                    batch = Batch.of(tokens, encoder.tokenizer.pad_token_id)
                    out = encoder.model(input_ids=batch.ids, attention_mask=batch.mask)
                    states = out.last_hidden_state
                    weights = batch.mask.unsqueeze(-1).float()
                    vectors.append(((states * weights).sum(1) / weights.sum(1)).numpy())
    return np.concatenate(vectors)


def test_distinct_sentences_once(
    benchmark, encoder: TransformerEncoder, tasks: list[sts.StsTask]
) -> None:
    started = time.perf_counter()
    theirs = as_senteval(encoder, tasks)
    seconds = time.perf_counter() - started
    distinct = sentences(tasks)
    ours = benchmark.pedantic(encoder.encode, (distinct,), rounds=3, warmup_rounds=1)
    rows = {sentence: row for row, sentence in enumerate(distinct)}
    subsets = [subset for task in tasks for subset in task.subsets]
    sides = [text for subset in subsets for text in (*subset.first, *subset.second)]
    np.testing.assert_allclose(ours[[rows[text] for text in sides]], theirs, atol=1e-4)
    faster = round(seconds / benchmark.stats["median"], 2)
    benchmark.extra_info |= {"sentences": len(sides), "distinct": len(distinct)}
    benchmark.extra_info["times faster"] = faster
    print(f"\nencoding: {faster} times faster than both sides in file order")
