"""Hours that a plan takes on a device: the floor of each run's work, times how far above their floors such runs were.

Where nothing was measured an assumption stands in, and the table says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.evaluation.classifier import MODES, Settings
from bench.models.roofline import floor, floor_of_record, peak
from bench.results.provenance import provenance
from bench.runs.config import Planned, mode_of
from bench.runs.run import Run, run_of
from bench.runs.workload import VIEWS, classifying, corpus_tokens, encoding, scored, training
from bench.utils.errors import UserError, did_you_mean
from bench.utils.files import read_json

# NVIDIA's data sheets of the SXM modules: dense products (the sheets print those of float16 and bfloat16 with sparsity,
# twice as many), float32 without TF32, which torch does not use unasked; bytes a second of the memory (A100: of 80 GB).
SHEETS = {
    "a100": {"half": 312e12, "float32": 19.5e12, "bytes_per_second": 2.039e12},
    "h100": {"half": 989.4e12, "float32": 66.9e12, "bytes_per_second": 3.35e12},
    "h200": {"half": 989.4e12, "float32": 66.9e12, "bytes_per_second": 4.8e12},
}
ASSUMED = 2.5  # seconds by seconds of the floor, where nothing was measured: the goal, not a result
START = {"cpu": 1e-6, "gpu": 2e-6}  # seconds to start an operation, by order of magnitude


@dataclass(frozen=True)
class Device:
    """What a prediction is for: one of `SHEETS`, or "cpu", this machine's processor as it is measured now."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in (*SHEETS, "cpu"):
            raise UserError(f"unknown device '{self.name}'{did_you_mean(self.name, [*SHEETS, 'cpu'])}")

    def peak(self, precision: str = "float32", threads: int = 1) -> Mapping[str, Any]:
        """As `bench.models.roofline.peak` gives it."""
        if self.name == "cpu":
            return peak("cpu", precision, threads)
        sheet = SHEETS[self.name]
        single = sheet["float32"]
        flops = single if precision == "float32" else sheet["half"]
        return {"flops": flops, "float32_flops": single, "bytes_per_second": sheet["bytes_per_second"]}

    def is_of(self, told: Mapping[str, Any]) -> bool:
        """Whether a result's provenance names this device."""
        own = _processor() if self.name == "cpu" else self.name
        return own.lower() in told["device"]["name"].lower()

    @property
    def start(self) -> float:
        """Seconds to start an operation."""
        return START["cpu" if self.name == "cpu" else "gpu"]


@cache
def _processor() -> str:
    return provenance("cpu", 1)["device"]["name"]


@dataclass(frozen=True)
class Line:
    """One line of the table: runs of one backbone at one stage.

    Attributes:
        floor, seconds: of all of them; seconds are those on one device, `ratio` times the floor.
        source: where the ratio comes from.
    """

    backbone: str
    stage: str
    runs: int
    floor: float
    ratio: float
    source: str

    @property
    def seconds(self) -> float:
        return self.floor * self.ratio


# What was measured


@dataclass
class Measured:
    """Results of suites: by how much methods' work differs from two views, and how far above their floors runs were.

    Attributes:
        factors: of forward, backward and selection FLOP, by a run's text.
        times: runs, seconds and floor of a stage, by (stage, backbone), on the device asked for.
    """

    factors: dict[str, tuple[float, float, float]]
    times: dict[tuple[str, str], tuple[int, float, float]]

    @classmethod
    def read(cls, results: Path, device: Device) -> Measured:
        """Of every suite in a folder; what earlier versions left says nothing."""
        counted: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((2, 3)))
        times: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(3))
        for path in sorted(results.glob("*/trained/*.json")):
            left = read_json(path)
            outcome = left["outcome"]
            run = _again(left["run"]) if "work" in outcome else None
            if run is None or not _is_counted(run):
                continue
            try:
                work, _, _ = training(run, outcome["steps"])
            except UserError:  # its corpus is not here, and nothing is known of it
                continue
            flop = outcome["work"]["flop"]
            counted[run.text] += (
                [flop["forward"], flop["backward"], flop["selection"]],
                [work.forward, work.backward, work.selection],
            )
            if device.is_of(left["provenance"]):
                at = device.peak(run.recipe.precision, run.recipe.threads)
                times["train", run.backbone.name] += (
                    1, outcome["work"]["seconds"], floor_of_record(outcome["work"], at)
                )  # fmt: skip
        for path in sorted(results.glob("*/scores/*.json")):
            told = read_json(path)["provenance"]
            run = _again(told["run"]) if {"seconds", "tasks"} <= told.keys() and device.is_of(told) else None
            if run:
                least = scoring(run, tuple(told["tasks"]), MODES[told["mode"]], device)
                times["score", run.backbone.name] += (1, told["seconds"], least)
        factors = {text: tuple(ours / guess) for text, (ours, guess) in counted.items()}
        return cls(factors, {key: tuple(found) for key, found in times.items()})

    def ratio(self, stage: str, backbone: str) -> tuple[float, str]:
        """Seconds by seconds of the floor: of this backbone's runs, else of all runs on the device, else assumed."""
        chosen = {name: found for (kind, name), found in self.times.items() if kind == stage and found[2] > 0}
        of = {backbone: chosen[backbone]} if backbone in chosen else chosen
        if not of:
            return ASSUMED, "assumed"
        count, seconds, least = np.sum(list(of.values()), axis=0)
        where = "" if backbone in of else f" of {', '.join(sorted(of))}"
        return seconds / least, f"measured on {count:.0f} run{'s' if count > 1 else ''}{where}"


def _again(told: Mapping[str, Any]) -> Run | None:
    """The run that `Run.describe` described.

    None where this version, or this machine, has no such run, or where it is on the embedded world, whose sets are
    small.
    """
    if told["data"] == "world":
        return None
    with suppress(UserError):
        run = run_of(told, corpus=told["corpus"] or "wiki1m")
        if run.id == told["id"]:
            return run
    return None


def scoring(run: Run, tasks: Sequence[str], settings: Settings, device: Device) -> float:
    """Seconds of the floor of a scoring: sentences encoded in float32, then classifiers."""
    known, _ = scored(run)
    width = known.hidden_size if known else run.backbone.shape.width
    flops = device.peak()["float32_flops"]
    return encoding(run, tasks) / flops + classifying(width, tasks, settings, flops, device.start)


# The prediction


def predict(planned: Iterable[Planned], mode: str, device: Device, measured: Measured) -> list[Line]:
    """The table's lines, by backbone and stage; a run that its backbone rules out takes no time."""
    floors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in planned:
        run = one.run
        if run.skip:
            continue
        if _is_counted(run):
            floors[run.backbone.name, "train"].append(_trained_floor(run, device, measured))
        floors[run.backbone.name, "score"].append(scoring(run, one.tasks, MODES[mode], device))
    return [
        Line(name, stage, len(found), sum(found), *measured.ratio(stage, name))
        for (name, stage), found in floors.items()
    ]


def _is_counted(run: Run) -> bool:
    """Whether it trains a transformer."""
    return run.trained and not run.skip and run.backbone.kind == "transformer"


def _trained_floor(run: Run, device: Device, measured: Measured) -> float:
    work, weights, steps = training(run)
    factors = measured.factors.get(run.text, (1.0, 1.0, 1.0))
    work.forward, work.backward, work.selection = np.array([work.forward, work.backward, work.selection]) * factors
    moments = 1 if run.recipe.optimiser == "rmsprop" else 2
    return floor(work, weights, steps, device.peak(run.recipe.precision, run.recipe.threads), moments)["seconds"]


def report(config: Mapping[str, Any], planned: Sequence[Planned], name: str, gpus: int, results: Path) -> str:
    """A prediction to print: the table, and what it rests on.

    Args:
        config: the validated configuration that was expanded into `planned`.
        name: of the device.
        gpus: how many devices share the runs.
        results: the folder of suites' results, from which measured ratios are taken.

    Raises:
        UserError: an unknown device, no device at all, a corpus of which nothing is known, the embedded world.
    """
    device = Device(name)
    if gpus < 1:
        raise UserError(f"--gpus is {gpus}; write how many devices share the runs, 1 or more")
    if config["data"] == "world":
        raise UserError(
            f"the suite '{config['suite']}' is on the embedded world, whose runs take seconds on any device; "
            f"hours are predicted of suites on real data, as --suite paper"
        )
    measured = Measured.read(results, device)
    lines = predict(planned, mode_of(config), device, measured)
    return "\n".join([*_table(lines, gpus), "", *_remarks(planned, device, measured)])


def _table(lines: Sequence[Line], gpus: int) -> Iterator[str]:
    total = sum(line.seconds for line in lines)
    rows = [("backbone", "stage", "runs", "floor h", "ratio", "device h", f"wall h at {gpus}", "ratio is")]
    for line in lines:
        hours = (line.floor / 3600, line.seconds / 3600, line.seconds / 3600 / gpus)
        floor_h, device_h, wall_h = (f"{value:.2f}" for value in hours)
        ratio = f"{line.ratio:.2f}"
        rows.append((line.backbone, line.stage, str(line.runs), floor_h, ratio, device_h, wall_h, line.source))
    least = sum(line.floor for line in lines) / 3600
    rows.append(("all", "", "", f"{least:.2f}", "", f"{total / 3600:.2f}", f"{total / 3600 / gpus:.2f}", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            f"{cell:<{width}}" if place in (0, 1, 7) else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _remarks(planned: Sequence[Planned], device: Device, measured: Measured) -> Iterator[str]:
    texts = {one.run.text for one in planned if one.run.trained}
    known = len(texts & measured.factors.keys())
    peaks = "measured on this machine now" if device.name == "cpu" else "the maker's data sheet"
    yield f"Peak of {device.name}: {peaks}."
    yield f"Work: {known} of {len(texts)} methods as their runs counted it, the others {VIEWS} views a sentence."
    corpora = {_told(one.run) for one in planned if _is_counted(one.run)}
    if corpora:
        yield f"Mean tokens after truncation: {'; '.join(sorted(corpora))}."
    yield "Not counted: analyses, trainings without a transformer, maps fitted on a corpus, neighbours, files."


def _told(run: Run) -> str:
    _, mean, measured = corpus_tokens(run)
    return f"{run.corpus} {mean:.1f} of {run.recipe.max_length} ({'measured' if measured else 'assumed'})"
