"""A suite that has whatever the papers' figures show, with made-up numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.reported.figures import PaperFigure, load_figures
from bench.results.suite_results import SuiteResults, read_results
from tests.support.synthetic_suite import write_suite

TEXT = "[CLS] a man with a hard hat is un ##load ##ing boxes from a truck near the station . [SEP]"
# An average of another metric, which no figure of scores shows, and its tasks.
OTHER = [
    {"task": task, "split": "test", "metric": "accuracy", "aggregation": "all", "value": 9.0}
    for task in (*TRANSFER_TASKS, "Avg")
]


def training(level: float, rng: np.random.Generator, steps: int) -> dict[str, Any]:
    """The outcome of a training that rises quickly, then wavers."""
    step = 125 * np.arange(1, steps + 1)
    risen = 1 - np.exp(-step / (400 + 400 * level))
    curve = pd.DataFrame({"step": step, "loss": 10 / step})
    curve["dev"] = 65 + 5 * level + 14 * risen + rng.normal(0, 0.3, steps)
    curve["alignment"] = 0.28 - (0.04 + 0.1 * level) * (1 - risen) + rng.normal(0, 0.001, steps)
    curve["uniformity"] = -1.3 - 1.2 * risen + rng.normal(0, 0.01, steps)
    points = curve.to_dict("records")
    best = points[curve["dev"].argmax()]
    return {"curve": points, "best_step": best["step"], "best_dev": best["dev"]}


def analyses(level: float, rng: np.random.Generator, depth: int) -> dict[str, Any]:
    def near(values: Any) -> Any:
        return (values + rng.normal(0, 0.01, np.shape(values))).tolist()

    layers, tokens = np.linspace(0.5, 0.65 + 0.3 * level, depth + 1), TEXT.split()
    batches, ranks = np.arange(7)[:, None], np.arange(4)
    gold = np.random.default_rng(1).uniform(0, 5, 300).round(1)  # every run has the same pairs
    return {
        "alignment": {
            "STS-B": {
                split: {"alignment": near(0.18 + 0.08 * level), "uniformity": near(level - 3)}
                for split in ("dev", "test", "all")
            }
        },
        "layers": {
            "setsim": {"cls": near(layers[2:]), "mean": near(layers[2:] - 0.05)},
            "toksim": {"without_special": near(layers), "with_special": near(layers - 0.08)},
        },
        "tokens": {
            "tokens": tokens,
            "layer": depth,
            "cosines": rng.uniform(0.3 + 0.5 * level, 1, (len(tokens), len(tokens))).tolist(),
        },
        "in-batch": {
            "sizes": [16, 32, 64, 128, 256, 512, 1024],
            "mean": near(0.5 + 0.05 * batches - 0.04 * ranks),
            "noise": (0.06 + 0.008 * batches - 0.006 * ranks).tolist(),
        },
        "cosines": {
            "gold": gold.tolist(),
            "cosine": np.minimum(1, 0.35 + 0.1 * gold + rng.normal(0, 0.08, 300)).tolist(),
        },
    }


def wanted(figures: Sequence[PaperFigure], depth: int) -> dict[tuple[str, str], None]:
    """Every (run, backbone) that a figure shows first, as far as the depth goes."""
    result: dict[tuple[str, str], None] = {}
    for figure in figures:
        for series in figure.series:
            for x, texts in series.points:
                fitting = [text for text in texts if "layer=" not in text or _layer(text) < depth]
                if fitting and not (figure.id == "S7" and x is not None and x >= depth):
                    result[fitting[0], series.backbone] = None
    return result


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
    """Write a suite with the runs of the figures `only` (by id), with scores, curve, analyses.

    `stand_ins` maps printed backbones to those measured; others are left out where it is given.
    """
    figures = [figure for figure in load_figures() if only is None or figure.id in only]
    entries = []
    for text, backbone in wanted(figures, depth):
        if stand_ins is not None and backbone not in stand_ins:
            continue
        method, _, setting = text.partition("@")
        level = Random(f"{text} {backbone}").random()
        for seed in seeds:
            rng = np.random.default_rng([seed, int(1e6 * level)])
            values = 72 + 6 * level + 2 * np.arange(7) + rng.normal(0, 0.5, 7)
            outcome = training(level, rng, steps)
            dev = {"task": "STS-B", "split": "dev", "metric": "spearman", "aggregation": "all"}
            entries.append(
                {
                    "method": method,
                    "setting": setting,
                    "seed": seed,
                    "backbone": (stand_ins or {}).get(backbone, backbone),
                    "scores": dict(zip(STS_TASKS, values.tolist(), strict=True)),
                    "records": [*OTHER, dev | {"value": outcome["best_dev"]}],
                    "outcome": outcome,
                    "analyses": analyses(level, rng, depth),
                }
            )
    return write_suite(folder, entries, stand_ins=stand_ins, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One suite that has everything."""
    return write_everything(tmp_path_factory.mktemp("everything"), seeds=(42, 43))


@pytest.fixture(scope="module")
def suite(folder) -> SuiteResults:
    return read_results(folder)
