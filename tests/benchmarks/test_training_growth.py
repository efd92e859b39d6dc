"""How the cost of a step of SimCSE grows with sentences, batch, layers and width, and how far it is
above its floor.

Backbones have random weights. The floor is that of the matrix products alone, at the rate of a
product that does nothing else. Floor and ratio are in the processor's seconds, of all threads
together, which another program's load hardly changes. Written to results/benchmarks/, and as a
figure to figures/benchmarks/.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from bench.models.packed_forward import forward_flop
from bench.runs.resolve import resolve
from bench.training.log import Log
from bench.training.loop import train
from bench.utils.files import write_text
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
ROOT = Path(__file__).parents[2]
ROWS: list[dict[str, Any]] = []


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    if not ROWS:
        return
    names = [
        "axis",
        "value",
        "tokens",
        "step_ms",
        "processor_ms",
        "token_us",
        "floor_ms",
        "ratio",
        "whole_s",
    ]
    lines = [",".join(f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in names)
             for row in ROWS]  # fmt: skip
    write_text(
        ROOT / "results" / "benchmarks" / "training-growth.csv",
        "\n".join([",".join(names), *lines]) + "\n",
    )
    print("\n" + "".join(f"{name:>13}" for name in names))
    for line in lines:
        print("".join(f"{cell:>13}" for cell in line.split(",")))
    print(f"threads {THREADS}, load {os.getloadavg()[0]:.1f}; beside the axis: {BASE}")
    if len(ROWS) == len(POINTS):
        draw()


def draw() -> None:
    import matplotlib as mpl
    import pandas as pd
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator

    from bench.report.figures import style

    frame = pd.DataFrame(ROWS)
    kinds = [("processor_ms", "step, processor", 0), ("floor_ms", "its floor", 1)]
    handles = [
        Line2D([], [], label=label, marker=style.MARKS[i], **style.LINES[i])
        for _, label, i in kinds
    ]
    note = (
        f"Processor's time of {THREADS} threads; random weights, float32; beside the axis: "
        + ", ".join(f"{v} {k}" for k, v in BASE.items())
    )
    with mpl.rc_context(style.STYLE):
        figure, axes = style.grid(
            "What a step of a training costs", note, handles, count=4, columns=2, height=1.7
        )
        for panel, axis in zip(axes, CURVES, strict=True):
            rows = frame[frame.axis == axis]
            for column, _, i in kinds:
                panel.plot(rows.value, rows[column], marker=style.MARKS[i], ms=4, **style.LINES[i])
            panel.set(
                xscale="log",
                yscale="log",
                xlabel=axis,
                ylabel="ms" if axis in ("sentences", "layers") else None,
            )
            panel.set_xticks(CURVES[axis], [str(value) for value in CURVES[axis]])
            panel.minorticks_off()
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:g}")
        style.save(figure, ROOT / "figures" / "benchmarks" / "training-growth", frame)


def backbone(folder: Path, layers: int, width: int) -> Any:
    """A BERT of this shape with random weights, its tokenizer beside it; its configuration."""
    from transformers import BertConfig, BertModel

    tokenizer = _bert_tokenizer()
    shape = {"hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 4 * width}
    config = BertConfig(
        vocab_size=len(tokenizer),
        num_attention_heads=width // 32,
        max_position_embeddings=64,
        **shape,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return config, tokenizer


def speed(rows: int, width: int) -> float:
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
def test_growth(
    benchmark: Any,
    axis: str,
    value: int,
    tmp_path: Path,
    tiny_data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = BASE | {axis: value}
    config, tokenizer = backbone(tmp_path / "random-bert", at["layers"], at["width"])
    corpus = tmp_path / "corpus.txt"
    sentences = make_sentences(at["sentences"], seed=3, lengths=(8, 24))
    corpus.write_text("".join(f"{line}\n" for line in sentences))
    recipe = {
        "batch_size": at["batch"],
        "select_every": 10**6,
        "precision": "float32",
        "threads": THREADS,
    }
    inputs = {
        "backbone_name": str(tmp_path / "random-bert"),
        "corpus": str(corpus),
        "data": str(tiny_data),
    }
    run = resolve("simcse", **inputs, seed=1, recipe=recipe)
    ends: list[tuple[float, float]] = []
    write = Log.write

    def noted(log: Log, row: dict[str, Any]) -> None:
        write(log, row)
        ends.append((time.perf_counter(), time.process_time()))

    monkeypatch.setattr(Log, "write", noted)
    benchmark.pedantic(train, (run, tmp_path, tmp_path / "run"), rounds=1)
    # The last step selects, the first one is a start.
    step, busy = (median(b[i] - a[i] for a, b in pairwise(ends[:-1])) for i in (0, 1))
    lengths = [
        len(row) for row in tokenizer(sentences, truncation=True, max_length=32)["input_ids"]
    ] * 2
    tokens = sum(lengths) / len(ends)
    # Forward, and twice that backward.
    least = 3 * forward_flop(config, lengths, True) / len(ends) / speed(round(tokens), at["width"])
    ROWS.append(
        {
            "axis": axis,
            "value": value,
            "tokens": round(tokens),
            "step_ms": 1e3 * step,
            "processor_ms": 1e3 * busy,
        }
        | {"token_us": 1e6 * busy / tokens, "floor_ms": 1e3 * least, "ratio": busy / least}
        | {"whole_s": ends[-1][0] - ends[0][0]}
    )
    benchmark.extra_info |= ROWS[-1]
