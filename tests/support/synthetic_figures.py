"""A suite that has whatever the papers' figures show, with made-up numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.datasets.tasks import STS_TASKS
from bench.report.figures.described import PaperFigure, load_figures
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import write_suite

SENTENCE = "[CLS] a man with a hard hat is un ##load ##ing boxes from the truck near the station . [SEP]".split()  # noqa: SIM905


def curve(
    run: random.Random, draw: random.Random, steps: int, every: int = 125
) -> list[dict[str, float]]:
    """A training that rises quickly, then wavers; `run` decides where it goes, `draw` what the seed
    adds."""
    rate, best, gain, low = (
        run.uniform(3, 6),
        run.uniform(79, 84),
        run.uniform(0.04, 0.14),
        run.uniform(-2.9, -2.1),
    )
    return [
        {
            "step": every * i,
            "loss": 0.1 / i,
            "dev": best - 14 * math.exp(-i / rate) + draw.gauss(0, 0.3),
            "alignment": 0.28 - gain * math.exp(-i / rate) + draw.gauss(0, 0.001),
            "uniformity": low + 1.2 * math.exp(-i / (rate + 2)) + draw.gauss(0, 0.01),
        }
        for i in range(1, steps + 1)
    ]


def geometry(run: random.Random, draw: random.Random) -> dict[str, Any]:
    """An analysis of alignment."""
    alignment, uniformity = run.uniform(0.18, 0.26), run.uniform(-2.9, -2.1)
    sizes = {"pairs": 338, "sentences": 2758}
    return {
        "STS-B": {
            part: {
                "alignment": alignment + draw.gauss(0, 0.003),
                "uniformity": uniformity + draw.gauss(0, 0.02),
                **sizes,
            }
            for part in ("dev", "test", "all")
        }
    }


def layers(run: random.Random, draw: random.Random, depth: int) -> dict[str, Any]:
    def rising(count: int, top: float) -> list[float]:
        return [
            0.5 + (top - 0.5) * i / max(count - 1, 1) + draw.gauss(0, 0.01) for i in range(count)
        ]

    top = run.uniform(0.7, 0.96)
    return {
        "depth": depth,
        "setsim": {"cls": rising(depth - 1, top), "mean": rising(depth - 1, top - 0.05)},
        "toksim": {
            "without_special": rising(depth + 1, top),
            "with_special": rising(depth + 1, top - 0.08),
        },
        "sentences": 2758,
    }


def tokens(draw: random.Random, depth: int) -> dict[str, Any]:
    size = len(SENTENCE)
    base = draw.uniform(0.3, 0.8)
    half = [[draw.uniform(base, 1.0) for _ in range(size)] for _ in range(size)]
    cosines = [
        [1.0 if i == j else half[min(i, j)][max(i, j)] for j in range(size)] for i in range(size)
    ]
    return {"sentence": " ".join(SENTENCE), "tokens": SENTENCE, "layer": depth, "cosines": cosines}


def in_batch(draw: random.Random) -> dict[str, Any]:
    sizes = [16, 32, 64, 128, 256, 512, 1024]
    mean = [
        [0.3 + 0.05 * math.log2(size) - 0.04 * rank + draw.gauss(0, 0.003) for rank in range(4)]
        for size in sizes
    ]
    noise = [[0.03 + 0.008 * math.log2(size) - 0.006 * rank for rank in range(4)] for size in sizes]
    return {
        "sizes": sizes,
        "ranks": 4,
        "repeats": 100,
        "mean": mean,
        "noise": noise,
        "corpus": "wiki1m",
    }


def cosines(draw: random.Random, pairs: int = 300) -> dict[str, Any]:
    gold = [round(draw.uniform(0, 5), 1) for _ in range(pairs)]
    width = draw.uniform(0.05, 0.12)
    return {
        "task": "STS-B",
        "split": "test",
        "gold": gold,
        "cosine": [min(1.0, 0.35 + 0.1 * score + draw.gauss(0, width)) for score in gold],
    }


def wanted(figures: Sequence[PaperFigure], depth: int) -> dict[tuple[str, str], None]:
    """Every (run, backbone) that a figure shows first, as far as the depth goes."""
    found: dict[tuple[str, str], None] = {}
    for figure in figures:
        for series in figure.series:
            for x, texts in series.runs:
                fitting = [text for text in texts if "layer=" not in text or _layer(text) < depth]
                if fitting and not (figure.id == "S7" and x is not None and x >= depth):
                    found[fitting[0], series.backbone] = None
    return found


def _layer(text: str) -> int:
    return int(text.partition("layer=")[2].partition("]")[0])


def write_everything(
    folder: Path,
    *,
    depth: int = 12,
    seeds: Sequence[int] = (42, 43, 44),
    only: Sequence[str] | None = None,
    stand_ins: Mapping[str, str] | None = None,
    steps: int = 25,
    **more: Any,
) -> Path:
    """Write a suite with the runs of the figures `only` (by id; all by default), each with scores,
    curve, analyses.

    `stand_ins` maps a printed backbone to the one that is measured; others are left out where it is
    given.
    """
    figures = [figure for figure in load_figures() if only is None or figure.id in only]
    entries = []
    for text, backbone in wanted(figures, depth):
        if stand_ins is None or backbone in stand_ins:
            method, _, setting = text.partition("@")
            base = random.Random(f"{text} {backbone}").uniform(72, 78)
            for seed in seeds:
                draw = random.Random(f"{text} {backbone} {seed}")
                scores = {
                    task: base + 2 * place + draw.gauss(0, 0.5)
                    for place, task in enumerate(STS_TASKS)
                }
                entry = {"method": method, "setting": setting, "seed": seed, "scores": scores}
                # An average of another kind, which no figure of scores shows.
                entry["records"] = [
                    {
                        "task": "Avg",
                        "split": "test",
                        "metric": "accuracy",
                        "aggregation": "all",
                        "value": 9.0,
                    }
                ]
                entries.append(entry | {"backbone": (stand_ins or {}).get(backbone, backbone)})
    write_suite(folder, entries, stand_ins=stand_ins, **more)
    for number, entry in enumerate(entries):
        measured(folder, f"run{number:03d}", entry, depth, steps)
    return folder


def measured(folder: Path, name: str, entry: Mapping[str, Any], depth: int, steps: int) -> None:
    """Lay dev score, curve and analyses beside the scores of a run."""
    run, draw = random.Random(f"{entry['method']} {entry['backbone']}"), random.Random(f"{entry}")
    path = folder / "scores" / f"{name}.json"
    content = read_json(path)
    points = curve(run, draw, steps)
    best = max(points, key=lambda point: point["dev"])
    content["provenance"]["outcome"] |= {
        "curve": points,
        "best_step": best["step"],
        "best_dev": best["dev"],
    }
    test = next(record for record in content["records"] if record["task"] == "STS-B")
    content["records"].append(test | {"split": "dev", "value": best["dev"], "aggregation": "all"})
    write_json(path, content)
    found = {
        "alignment": geometry(run, draw),
        "layers": layers(run, draw, depth),
        "tokens": tokens(draw, depth),
        "in-batch": in_batch(draw),
        "cosines": cosines(draw),
    }
    write_json(folder / "analyses" / f"{name}.json", {"provenance": {}, "analyses": found})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One suite that has everything."""
    return write_everything(tmp_path_factory.mktemp("everything"), seeds=(42, 43))


@pytest.fixture(scope="module")
def suite(folder) -> SuiteResults:
    return read_suite(folder)
