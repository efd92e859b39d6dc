"""A suite that has whatever the papers' figures show, with made-up numbers."""

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.datasets.tasks import STS_TASKS, TRANSFER_TASKS
from bench.reported.figures import PaperFigure, load_figures
from bench.results.suite_results import SuiteResults, read_suite
from bench.utils.files import read_json, write_json
from tests.support.synthetic_suite import write_suite

TEXT = "[CLS] a man with a hard hat is un ##load ##ing boxes from a truck near the station . [SEP]"
SENTENCE = TEXT.split()


def curve(run: random.Random, draw: random.Random, steps: int) -> list[dict[str, float]]:
    """A training that rises quickly, then wavers; `run` decides where to, `draw` the rest."""
    rate, best, gain = run.uniform(3, 6), run.uniform(79, 84), run.uniform(0.04, 0.14)
    points = []
    for i in range(1, steps + 1):
        risen = math.exp(-i / rate)
        point = {"step": 125 * i, "loss": 0.1 / i, "dev": best - 14 * risen + draw.gauss(0, 0.3)}
        point["alignment"] = 0.28 - gain * risen + draw.gauss(0, 0.001)
        point["uniformity"] = -2.5 + 1.2 * risen + draw.gauss(0, 0.01)
        points.append(point)
    return points


def analyses(run: random.Random, draw: random.Random, depth: int) -> dict[str, Any]:
    def near(value: float) -> float:
        return value + draw.gauss(0, 0.01)

    def rising(count: int, top: float) -> list[float]:
        return [near(0.5 + (top - 0.5) * i / count) for i in range(count)]

    place = {"alignment": run.uniform(0.18, 0.26), "uniformity": run.uniform(-2.9, -2.1)}
    alignment = {
        name: {measure: near(value) for measure, value in place.items()}
        for name in ("dev", "test", "all")
    }
    top, size = run.uniform(0.7, 0.96), len(SENTENCE)
    layers = {
        "setsim": {"cls": rising(depth - 1, top), "mean": rising(depth - 1, top - 0.05)},
        "toksim": {
            "without_special": rising(depth + 1, top),
            "with_special": rising(depth + 1, top - 0.08),
        },
    }
    base = draw.uniform(0.3, 0.8)
    half = np.triu([[draw.uniform(base, 1.0) for _ in range(size)] for _ in range(size)], 1)
    tokens = {"sentence": TEXT, "tokens": SENTENCE, "layer": depth}
    tokens["cosines"] = (half + half.T + np.eye(size)).tolist()
    powers, ranks = range(4, 11), range(4)
    in_batch = {"sizes": [2**power for power in powers], "ranks": 4, "repeats": 100}
    in_batch["mean"] = [[near(0.3 + 0.05 * p - 0.04 * r) for r in ranks] for p in powers]
    in_batch["noise"] = [[0.03 + 0.008 * p - 0.006 * r for r in ranks] for p in powers]
    gold = [round(draw.uniform(0, 5), 1) for _ in range(300)]
    cosine = [min(1.0, 0.35 + 0.1 * score + draw.gauss(0, 0.08)) for score in gold]
    cosines = {"task": "STS-B", "split": "test", "gold": gold, "cosine": cosine}
    found = {"alignment": {"STS-B": alignment}, "layers": layers, "tokens": tokens}
    return found | {"in-batch": in_batch, "cosines": cosines}


def wanted(figures: Sequence[PaperFigure], depth: int) -> dict[tuple[str, str], None]:
    """Every (run, backbone) that a figure shows first, as far as the depth goes."""
    found: dict[tuple[str, str], None] = {}
    for figure in figures:
        for series in figure.series:
            for x, texts in series.points:
                fitting = [text for text in texts if "layer=" not in text or _layer(text) < depth]
                if fitting and not (figure.id == "S7" and x is not None and x >= depth):
                    found[fitting[0], series.backbone] = None
    return found


def _layer(text: str) -> int:
    return int(text.partition("layer=")[2].partition("]")[0])


# An average of another kind, which no figure of scores shows, and its tasks.
OTHER = [
    {"task": task, "split": "test", "metric": "accuracy", "aggregation": "all", "value": 9.0}
    for task in (*TRANSFER_TASKS, "Avg")
]


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
        if stand_ins is None or backbone in stand_ins:
            method, _, setting = text.partition("@")
            base = random.Random(f"{text} {backbone}").uniform(72, 78)
            for seed in seeds:
                draw = random.Random(f"{text} {backbone} {seed}")
                places = enumerate(STS_TASKS)
                scores = {task: base + 2 * place + draw.gauss(0, 0.5) for place, task in places}
                entry = {"method": method, "setting": setting, "seed": seed, "scores": scores}
                entry |= {"records": OTHER, "backbone": (stand_ins or {}).get(backbone, backbone)}
                entries.append(entry)
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
    selected = {"best_step": best["step"], "best_dev": best["dev"]}
    content["provenance"]["outcome"] |= {"curve": points, **selected}
    test = next(record for record in content["records"] if record["task"] == "STS-B")
    content["records"].append(test | {"split": "dev", "value": best["dev"], "aggregation": "all"})
    write_json(path, content)
    found = {"provenance": {}, "analyses": analyses(run, draw, depth)}
    write_json(folder / "analyses" / f"{name}.json", found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One suite that has everything."""
    return write_everything(tmp_path_factory.mktemp("everything"), seeds=(42, 43))


@pytest.fixture(scope="module")
def suite(folder) -> SuiteResults:
    return read_suite(folder)
