"""How the cost of a step of SimCSE grows with sentences, batch, layers and width, above its floor.

Backbones have random weights. The floor is that of the matrix products alone, at the rate of a
product that does nothing else; it and the ratio are in processor's seconds, which other programs
hardly change.
"""

import os
import time
from itertools import pairwise
from statistics import median

import pandas as pd
import pytest
import torch

from bench.models.packed_forward import forward_flop
from bench.runs.resolve import resolve
from bench.training.checkpoint import Log
from bench.training.loop import train
from tests.conftest import _bert_tokenizer, make_sentences

THREADS = 2
BASE = {"sentences": 640, "batch": 32, "layers": 4, "width": 128}
CURVES = {
    "sentences": [320, 640, 1280, 2560],
    "batch": [8, 16, 32, 64, 128],
    "layers": [1, 2, 4, 8],
    "width": [64, 128, 256, 384],
}
POINTS = [(axis, value) for axis, values in CURVES.items() for value in values]
ROWS = []


@pytest.fixture(scope="module", autouse=True)
def report():
    yield
    print("\n" + pd.DataFrame(ROWS).to_string(index=False, float_format="%.4g"))
    print(f"threads {THREADS}, load {os.getloadavg()[0]:.1f}; beside the axis: {BASE}")


def backbone(folder, layers, width):
    """A BERT of this shape with random weights, its tokenizer beside it; its configuration."""
    from transformers import BertConfig, BertModel

    tokenizer = _bert_tokenizer()
    shape = {"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 4 * width}
    shape |= {"num_attention_heads": width // 32, "max_position_embeddings": 64}
    config = BertConfig(vocab_size=len(tokenizer), **shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return config, tokenizer


def speed(rows, width):
    """Floating-point operations a processor's second of a layer's first feed-forward product."""
    a, b = torch.randn(rows, width), torch.randn(width, 4 * width)
    a @ b
    count, started = 0, time.process_time()
    while time.process_time() - started < 0.3:
        a @ b
        count += 1
    return count * 2 * rows * width * 4 * width / (time.process_time() - started)


@pytest.mark.usefixtures("global_state")
@pytest.mark.parametrize(("axis", "value"), POINTS)
def test_growth(benchmark, axis, value, tmp_path, tiny_data, monkeypatch):
    at = BASE | {axis: value}
    config, tokenizer = backbone(tmp_path / "random-bert", at["layers"], at["width"])
    corpus = tmp_path / "corpus.txt"
    sentences = make_sentences(at["sentences"], seed=3, lengths=(8, 24))
    corpus.write_text("".join(f"{line}\n" for line in sentences))
    recipe = {"batch_size": at["batch"], "select_every": 10**6, "precision": "float32"}
    recipe |= {"threads": THREADS}
    inputs = {"corpus": str(corpus), "data": str(tiny_data), "seed": 1, "recipe": recipe}
    run = resolve("simcse", backbone_name=str(tmp_path / "random-bert"), **inputs)
    ends, write = [], Log.write

    def noted(log, row):
        write(log, row)
        ends.append((time.perf_counter(), time.process_time()))

    monkeypatch.setattr(Log, "write", noted)
    benchmark.pedantic(train, (run, tmp_path, tmp_path / "run"), rounds=1)
    # The last step selects, the first one is a start.
    step, busy = (median(b[i] - a[i] for a, b in pairwise(ends[:-1])) for i in (0, 1))
    ids = tokenizer(sentences, truncation=True, max_length=32)["input_ids"]
    lengths = [len(row) for row in ids] * 2
    tokens = sum(lengths) / len(ends)
    # Forward, and twice that backward.
    least = 3 * forward_flop(config, lengths, True) / len(ends) / speed(round(tokens), at["width"])
    row = {"axis": axis, "value": value, "tokens": round(tokens), "step_ms": 1e3 * step}
    row |= {"processor_ms": 1e3 * busy, "token_us": 1e6 * busy / tokens}
    ROWS.append(row | {"floor_ms": 1e3 * least, "ratio": busy / least})
