"""Figures of papers with made-up data, of every kind, for tests of how they are drawn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.judged.rows import FigureRow, Series
from bench.judged.words import OURS
from tests.support.judged_rows import BASE, row


def shown(kind: str, level: float) -> Iterator[dict[str, Any]]:
    """The points of a run; a level of 0.1 or so sets runs apart."""
    match kind:
        case "sweep":
            for x in (0.0, 0.5, 2.0, 16.0):
                yield {"x": x, "task": "Avg", "split": "test", "value": 75 + level + x / 10}
                yield {"x": x, "task": "STS-B", "split": "dev", "value": 80 + level - x / 10}
        case "seeds":
            for place, task in enumerate(("STS12", "SICK-R", "Avg")):
                yield {"task": task, "split": "test", "value": 70 + 3 * place + level}
        case "curves" | "path":
            for n in range(1, 6):
                place = {"alignment": 0.25 - 0.03 * n * level, "uniformity": -2.5 + 0.1 * n + level}
                scores = {"loss": 0.1 / n, "dev": 75 + n + level, "best": n == 4}
                yield {"step": 125 * n, **scores, **place}
        case "alignment":
            place = {"alignment": 0.2 + level / 10, "uniformity": -2.5 + level}
            yield place | {"average": 75.5 + level}
        case "densities":
            for pair in range(40):
                gold, group = pair / 8 + 0.1, pair // 8
                yield {"gold": gold, "group": group, "cosine": 0.3 + gold / 8 + level / 10}
        case "setsim" | "toksim":
            for reading in ("cls", "mean"):
                for layer in range(1, 5):
                    yield {"reading": reading, "layer": layer, "value": (layer + level) / 6}
        case "tokens":
            words = ["[CLS]", "a", "man", "[SEP]"]
            for (row, column), same in np.ndenumerate(np.eye(4)):
                names = {"token": words[row], "other": words[column]}
                cosine = float(max(same, 0.5 + level / 10 + 0.01 * row * column))
                yield {"layer": 12, "row": row, "column": column, **names, "cosine": cosine}
        case "in-batch":
            for size in (16, 64, 512):
                for rank in range(1, 5):
                    means = {"sentences": (0.4 + level) / rank, "noise": (0.1 + level) / rank}
                    yield {"batch": size, "rank": rank, **means}


def point(series: str, backbone: str = BASE, **values: Any) -> dict[str, Any]:
    """A point of seed 1 of ours, unless told otherwise."""
    head = {"series": series, "run": f"{series}@official", "backbone": backbone}
    return head | {"measured_on": backbone, "seed": 1, "origin": OURS} | values


def points(
    kind: str,
    seeds: Mapping[str, int] = {"SimCSE": 2, "IS-CSE": 2},
    backbones: Sequence[str] = (BASE,),
    **values: Any,
) -> list[dict[str, Any]]:
    """Series with a number of seeds each, on some backbones; other values of every point."""
    found = []
    for place, backbone in enumerate(backbones):
        for number, (label, count) in enumerate(seeds.items()):
            for seed in range(1, count + 1):
                level = 0.9 * number + 0.05 * seed**2 + 0.3 * place
                found += [
                    point(label, backbone, seed=seed, **values | own) for own in shown(kind, level)
                ]
    return found


def figure(kind: str, rows: Iterable[Mapping[str, Any]], **more: Any) -> FigureRow:
    """A figure of these points."""
    points = list(rows)
    names = dict.fromkeys(name for point in points for name in point)
    series = dict.fromkeys((point["series"], point["backbone"]) for point in points)
    values: dict[str, Any] = {"stem": "sscl_figure-1", "heading": "SSCL, Figure 1: a title"}
    values |= {"kind": kind, "x": "multiple"}
    values["series"] = [Series(label=label, backbone=backbone) for label, backbone in series]
    values["columns"] = {name: [point.get(name) for point in points] for name in names}
    return row(FigureRow, **values | more)
