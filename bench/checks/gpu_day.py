"""What is to be done when a GPU is at hand: device tests, and the times that plans need.

Five parts, each of which writes a file of results with their provenance:

* `losses`: the first losses of every kind of training, on the GPU beside the processor;
* `timing`: trainings of published shapes, by parts, and their memory;
* `graphs`: steps of these trainings with CUDA graphs and without;
* `classifiers`: those of a transfer task and of the probing tasks;
* `smoke`: the runs of the smoke suite, against its reference, which processors measured.

What fails is noted as a fault, and the others go on. `bench.checks.gpu_page` renders the files,
and `bench.runs.cost` reads the times.
"""

from __future__ import annotations

import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.checks import regression
from bench.checks.timing import (
    EVERY,
    PAIRS,
    SHAPES,
    Clock,
    PublishedShape,
    compare_graphs,
    time_shape,
)
from bench.evaluation import protocols
from bench.evaluation.classifier import MODES
from bench.models.float32 import ELSEWHERE, float32_products
from bench.registry.plugins import describe_error
from bench.results.provenance import provenance
from bench.runs.resolve import run_of
from bench.runs.run import Run
from bench.stages.jobs import run_plan
from bench.training.context import RunContext
from bench.training.loop import Training, deterministic_kernels
from bench.utils.errors import UserError
from bench.utils.files import read_json, write_json

LOSSES = 3  # steps: one before any update, two after it
# Largest difference of these losses, relative to the largest: ten times what TF32 moved those of
# CARDS, which then retrieves other neighbours; others moved by 0.0006 at most
# (docs/performance.md#on-a-gpu). Noise that is drawn on the device moves them by less than 0.00001.
TOLERANCE = 0.05
# Tasks by name, with SentEval's number of samples, and how many of them share a loop on a GPU: a
# nested one, and the probing tasks but for WordContent.
CLASSIFIED = {
    "MR": ({"positive": 5331, "negative": 5331}, 1),
    "Length": ({"train": 100_000, "dev": 10_000, "test": 10_000}, 9),
}
COMMON = 4  # one sample in as many has the rarer label

Row = dict[str, Any]


@dataclass(frozen=True)
class Day:
    """What is measured, and where.

    Attributes:
        out: folder of the results.
        plan: of the smoke suite.
        reference: its reference file.
        device: torch device.
        shapes: published shapes by name.
        steps, every, pairs: as in `bench.checks.timing.time_shape`.
        graph_steps: of a training with CUDA graphs, and of one without.
        classified: as `CLASSIFIED`.
        width: of the vectors that are classified.
    """

    out: Path
    plan: Mapping[str, Any]
    reference: Path
    device: str = "cuda"
    shapes: Mapping[str, PublishedShape] = field(
        default_factory=lambda: {name: shape for name, shape in SHAPES.items() if name != "toy"}
    )
    steps: int = 500
    every: int = EVERY
    pairs: int = PAIRS
    graph_steps: int = 2 * EVERY
    classified: Mapping[str, tuple[Mapping[str, int], int]] = field(
        default_factory=lambda: CLASSIFIED
    )
    width: int = 768

    @property
    def suite(self) -> Path:
        """The folder of the smoke suite's runs on this device."""
        return self.out / "smoke"

    def entries(self) -> list[Row]:
        """The first seed of each planned run."""
        first = {regression.name_of(one): one for one in reversed(self.plan["runs"])}
        return list(reversed(first.values()))


def measure(day: Day, parts: list[str]) -> list[str]:
    """Run parts one after the other, writing each result as soon as it is there; return the
    faults."""
    faults = []
    for part in parts:
        rows: list[Row] = []
        content = {"provenance": provenance(day.device, torch.get_num_threads()), "results": rows}
        for name, function in PARTS[part](day):
            row = {"name": name} | _attempt(function)
            rows.append(row)
            write_json(day.out / f"{part}.json", content)
            state = f": {row['fault']}" if "fault" in row else ""
            print(f"{part}: {name}{state}", file=sys.stderr, flush=True)
            faults += [f"{part}, {name}{state}"] if state else []
    return faults


def _attempt(function: Callable[[], Row]) -> Row:
    """What a function returns, or the error that it raised as "fault"."""
    try:
        return function()
    except UserError as error:
        return {"fault": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"fault": describe_error(error)}
    finally:
        torch.cuda.empty_cache()


Measurements = Iterator[tuple[str, Callable[[], Row]]]


def _begin_suite(day: Day) -> None:
    """Start the smoke suite without results, which other code may have left."""
    shutil.rmtree(day.suite, ignore_errors=True)


def _losses(day: Day) -> Measurements:
    _begin_suite(day)
    for entry in day.entries():
        run = run_of(entry, corpus=day.plan["corpus"], data=day.plan["data"])
        if run.trained and not run.skip:
            yield regression.name_of(entry), partial(compare_losses, run, day)


def compare_losses(run: Run, day: Day) -> Row:
    """The largest "difference" of the first losses of a training on the device from those on the
    processor, relative to the largest loss; in float32 without dropout."""
    far = LOSSES + 1
    recipe = replace(run.recipe, dropout=0.0, precision="float32", select_every=far)
    exact = replace(run, recipe=recipe)
    host, own = (first_losses(exact, day.suite, place) for place in ("cpu", day.device))
    difference = float(np.abs(np.subtract(own, host)).max() / np.abs(host).max())
    if not difference <= TOLERANCE:  # nor if it is NaN
        raise UserError(
            f"the losses differ by {difference:.2g} of the largest, more than {TOLERANCE}: "
            f"{own} on the device, {host} on the processor"
        )
    return {"losses": own, "on_the_cpu": host, "difference": difference}


def first_losses(run: Run, suite: Path, device: str) -> list[float]:
    with deterministic_kernels(), float32_products(ELSEWHERE):
        training = Training(run, RunContext(run, suite, device), {})
        for batch in islice(training.batches(), LOSSES):
            training.step(batch)
        return [row["loss"] for row in training.sync()]


def _smoke(day: Day) -> Measurements:
    _begin_suite(day)
    plan = {**day.plan, "runs": day.entries()}
    write_json(day.suite / "plan.json", plan)
    for entry in plan["runs"]:
        yield regression.name_of(entry), partial(repeat, entry, day)


def repeat(entry: Row, day: Day) -> Row:
    """Take a run of the smoke suite through its stages; how many "scores" it has, and those
    "outside" their intervals of the reference, each with its interval."""
    name, known = regression.name_of(entry), read_json(day.reference)
    complete: Row = {"tasks": [], "analyses": [], "recipe_changes": {}} | entry
    list(run_plan(day.suite, day.plan, [complete], day.device))
    cells, described, unfinished = regression.cells_of(day.suite, {name})
    if unfinished:
        outcome = described[name]["outcome"]
        raise UserError(f"the training {outcome['status']}: {outcome.get('reason')}")
    judged = list(regression.judged(cells, known, day.reference))
    outside = [
        {"cell": cell, "value": value, "low": low, "high": high}
        for _, cell, value, low, high in judged
        if not low <= value <= high
    ]
    return {"scores": len(judged), "outside": outside}


def _timing(day: Day) -> Measurements:
    sizes = {"every": day.every, "pairs": day.pairs}
    for name, shape in day.shapes.items():
        yield name, partial(time_shape, name, shape, day.steps, day.device, **sizes)


def _graphs(day: Day) -> Measurements:
    for name, shape in day.shapes.items():
        how = (name, shape, day.graph_steps, day.device)
        yield name, partial(compare_graphs, *how, pairs=day.pairs)


def _classifiers(day: Day) -> Measurements:
    for task, (sizes, count) in day.classified.items():
        yield task, partial(time_classifiers, sizes, count, day)


def time_classifiers(sizes: Mapping[str, int], count: int, day: Day) -> Row:
    """Train the classifiers of `count` probing tasks with parts of these `sizes`, or of a nested
    task, from vectors that say nothing: every training ends after the fewest passes.

    Returns:
        "tasks", "seconds", "steps" as plans count them, "memory" of the GPU in bytes.
    """
    settings = MODES["test"]

    def part(rows: int) -> protocols.Part:
        labels = (torch.arange(rows) % COMMON == 0).long()
        return protocols.Part(torch.zeros(rows, day.width).to(day.device), labels.to(day.device))

    def advance(heads: int) -> None: ...

    with float32_products(ELSEWHERE):
        clock = Clock(day.device)
        if "train" in sizes:
            splits = [
                protocols.Split({name: part(size) for name, size in sizes.items()}, 2)
                for _ in range(count)
            ]
            clock.end("vectors")
            protocols.probing(splits, settings, advance)
        else:
            data = part(sum(sizes.values()))
            clock.end("vectors")
            protocols.nested(data, 2, settings, advance)
        seconds = clock.end("training")
    steps = protocols.fewest_steps(sizes, settings, day.device, "train" in sizes)
    return {"tasks": count, "seconds": seconds, "steps": steps, "memory": clock.memory}


PARTS: Mapping[str, Callable[[Day], Measurements]] = {
    "losses": _losses,
    "timing": _timing,
    "graphs": _graphs,
    "classifiers": _classifiers,
    "smoke": _smoke,
}
