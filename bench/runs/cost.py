"""Estimate the hours that a plan takes on a device.

Seconds are means over similar results on the same device, else FLOP divided by an assumed share of
the peak rate.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil, floor
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.datasets import manifest
from bench.datasets.tasks import expand_tasks, is_probing, kind_of
from bench.evaluation.classifier import MODES, Settings
from bench.evaluation.protocols import fewest_steps
from bench.models.poolers import POSITIONS
from bench.models.roofline import peak
from bench.results.provenance import provenance
from bench.results.readers import DAMAGE
from bench.results.records import read_scores
from bench.runs.config import Planned, Suite
from bench.runs.run import Run
from bench.utils.errors import UserError
from bench.utils.files import read_json

# FLOP/s of products in half precision; in TF32, of trainings in float32 and of selection; and in
# float32, of scores (bench/models/float32.py). Dense, from NVIDIA's data sheets of the SXM modules,
# which print the former two of the Hoppers with sparsity, twice as much. The device "cpu" is this
# machine's processor, whose peak rates are measured.
PEAKS = {
    "a100": (312e12, 156e12, 19.5e12),
    "h100": (989.4e12, 494.7e12, 66.9e12),
    "h200": (989.4e12, 494.7e12, 66.9e12),
}

# Assumed share of the peak rate. It puts the trainings of SimCSE's released logs (3,835 s for
# BERT-base, 9,226 s for BERT-large) within a factor of 3 on the authors' GPU, an RTX 3090.
UTILISATION = 0.2
VIEWS = 2  # sequences encoded for each sentence of a batch; most methods encode two
CORPUS_TOKENS = 24  # mean of wiki1m_fallback after truncation to 32 tokens; 28.5 without truncation
TASK_TOKENS = 16  # mean of SentEval's tasks (6 to 30)
CORPUS_SENTENCES = dict.fromkeys(("wiki1m", "wiki1m_for_simcse", "wiki1m_fallback"), 1_000_000)
CORPUS_SENTENCES |= {"sts": 89_192, "cnsd": 10_462, "nli": 600_000}  # nli is assumed
DEV_SENTENCES = 2909  # of STS-B, encoded in each selection
# Seconds of a step of all classifiers that are trained at once. CPU: 118 s for seven transfer tasks
# (docs/performance.md). GPU, assumed: 10 operations (regressions) to 25 (networks) of 5
# microseconds, one after the other.
CPU_CLASSIFIER_STEP, GPU_CLASSIFIER_STEP = 1e-3, 1e-4
NOT_COUNTED = (
    "Not counted: analyses, trainings without a transformer, maps fitted on a corpus, neighbours, "
    "files, what a method encodes beside two views of a batch (teachers, a second model)."
)


@dataclass(frozen=True)
class Measured:
    """Mean seconds on one device in earlier results."""

    training: Mapping[str, float]  # by a run's identity without its seed
    step: Mapping[tuple[str, int], float]  # of a training, by (backbone, batch size)
    scoring: Mapping[tuple[str, frozenset[str]], float]  # by (backbone, tasks)
    # What `bench gpu-day` measured, if nothing above is like a run: seconds of the parts of a
    # training by (width, layers, batch size, precision), FLOP/s of encoding by (width, layers), and
    # of a step of classifiers.
    parts: Mapping[tuple[int, int, int, str], Mapping[str, float]] = field(default_factory=dict)
    encoding: Mapping[tuple[int, int], float] = field(default_factory=dict)
    classifier_step: float | None = None

    @classmethod
    def read(cls, results: Path, device: str, world: bool = False) -> Measured:
        """Read the scores of all suites in a folder on a device, on the embedded `world` or else on
        other data: its tasks have the names of SentEval's, but not their sizes."""
        name = provenance("cpu", 1)["device"]["name"] if device == "cpu" else device
        training, step, scoring = defaultdict(list), defaultdict(list), defaultdict(list)
        for path in sorted(results.glob("*/scores/*.json")):
            with suppress(UserError, *DAMAGE):  # results of other versions may have no times
                origin, _ = read_scores(path)
                run, outcome = origin["run"], origin["outcome"]
                on_device = name.lower() in origin["device"]["name"].lower()
                if (run["data"] == "world") != world or not on_device:
                    continue
                seconds = origin["seconds"]
                scoring[run["backbone"], frozenset(origin["tasks"])].append(seconds)
                if "work" in outcome and outcome["steps"]:
                    seconds = outcome["work"]["seconds"]
                    training[_experiment(run["identity"])].append(seconds)
                    step[run["backbone"], run["recipe"]["batch_size"]].append(
                        seconds / outcome["steps"]
                    )
        return cls(_means(training), _means(step), _means(scoring), *_of_gpu_day(results, name))

    def seconds(self, run: Run, stage: str, tasks: Sequence[str]) -> float | None:
        """Seconds of a run at a stage, or None if nothing similar was measured."""
        if stage == "score":
            return self.scoring.get((run.backbone.name, frozenset(expand_tasks(tasks))))
        if (found := self.of_experiment(run.identity)) is not None:
            return found
        recipe = run.recipe
        if per_step := self.step.get((run.backbone.name, recipe.batch_size)):
            return per_step * steps(run)
        shape = run.backbone.shape.width, run.shape.depth, recipe.batch_size, recipe.precision
        if not (parts := self.parts.get(shape)):
            return None
        counts = {"start": 1, "step": steps(run), "selection": selections(run), "end": 1}
        return sum(parts[part] * count for part, count in counts.items())

    def of_experiment(self, identity: Mapping[str, Any]) -> float | None:
        """Seconds of a training by its identity, at any seed, or None if it was not measured."""
        return self.training.get(_experiment(identity))


def _of_gpu_day(results: Path, name: str) -> tuple[Any, ...]:
    """Times by parts, rates of encoding, and seconds of a step of classifiers, of the device."""
    rows: dict[str, list[dict[str, Any]]] = {"timing": [], "classifiers": []}
    for part in rows:
        with suppress(UserError, *DAMAGE):
            content = read_json(results / "gpu-day" / f"{part}.json")
            if name.lower() in content["provenance"]["device"]["name"].lower():
                rows[part] = [row for row in content["results"] if "fault" not in row]
    shapes, classified = rows.values()
    keys = "width", "depth", "batch", "precision"
    parts = {tuple(row[key] for key in keys): row["seconds"] for row in shapes}
    encoding = {(row["width"], row["depth"]): row["encoding"]["flops"] for row in shapes}
    taken, counted = (sum(row[key] for row in classified) for key in ("seconds", "steps"))
    return parts, encoding, taken / counted if counted else None


def _means(times: Mapping[Any, list[float]]) -> dict[Any, float]:
    return {key: fmean(values) for key, values in times.items()}


def _experiment(identity: Mapping[str, Any]) -> str:
    return json.dumps({**identity, "seed": None}, sort_keys=True)


def weights(run: Run) -> int:
    """Weights in the matrices of a transformer's layers; 0 if the run has no transformer."""
    if run.parts[0][0] == "published":  # only the name on the hub is known
        return 12 * 24 * 1024**2 if "large" in run.parts[0][2]["model"] else 12 * 12 * 768**2
    is_transformer = run.backbone.kind == "transformer"
    return 12 * run.shape.depth * run.backbone.shape.width**2 if is_transformer else 0


def steps(run: Run) -> int:
    """Optimiser steps without early stopping; `UserError` if the size of the corpus is unknown."""
    recipe, path = run.recipe, Path(run.corpus)
    if run.corpus not in CORPUS_SENTENCES and not path.is_file():
        listed = ", ".join(CORPUS_SENTENCES)
        raise UserError(
            f"the size of the corpus '{run.corpus}' is unknown; give a file or one of {listed}"
        )
    rows = CORPUS_SENTENCES.get(run.corpus) or len(path.read_bytes().splitlines())
    rows = run.parts[0][2].get("drawn", rows)  # CT-BERT draws its items
    whole = floor if recipe.drop_last else ceil
    return recipe.epochs * whole(min(rows, recipe.sentences or rows) / recipe.batch_size)


def selections(run: Run) -> int:
    """How often the dev set is scored, without early stopping."""
    return max(1, steps(run) // run.recipe.select_every)


def training_flop(run: Run) -> tuple[float, float]:
    """FLOP of the steps, 6 a weight and token, and of the selections, 2 a weight and token."""
    positions = POSITIONS.get(run.recipe.pooler)
    trained = positions or min(CORPUS_TOKENS, run.recipe.max_length)
    tokens = VIEWS * run.recipe.batch_size * steps(run) * trained
    selected = DEV_SENTENCES * (positions or TASK_TOKENS) * selections(run)
    return 6 * weights(run) * tokens, 2 * weights(run) * selected


def scoring_work(
    run: Run, tasks: Sequence[str], settings: Settings, device: str
) -> tuple[float, int]:
    """FLOP of encoding the sentences of tasks in float32, and the steps of their classifiers."""
    shared: set[tuple[int, bool]] = set()  # of probing tasks that one loop trains
    senteval = read_json(Path(manifest.__file__).with_name("senteval.json"))
    sentences = steps_of_all = 0
    for task in expand_tasks(tasks):
        sizes = senteval.get(kind_of(task), {}).get(task, {"test": 3000})  # assumed for others
        sentences += sum(sizes.values()) * (2 if kind_of(task) == "sts" else 1)
        if kind_of(task) == "sts":
            continue
        if is_probing(task) and device != "cpu":
            loop = sizes.get("train", 0), task == "WordContent"  # which has too many labels
            if loop in shared:
                continue
            shared.add(loop)
        steps_of_all += fewest_steps(sizes, settings, device, is_probing(task))
    tokens = POSITIONS.get(run.recipe.pooler, TASK_TOKENS) * sentences
    return 2 * weights(run) * tokens, steps_of_all


def estimate(
    run: Run,
    stage: str,
    tasks: Sequence[str],
    mode: str,
    device: str,
    measured: Measured | None = None,
) -> float:
    """Seconds of a training or a scoring, by the device's peak rate, or by the rates of `measured`
    at which it scores."""
    precision, threads = run.recipe.precision, run.recipe.threads
    own = peak("cpu", precision, threads) if device == "cpu" else {}
    single = own.get("float32_flops", 0.0)  # a processor has no TF32
    half, tf32, float32 = (own["flops"], single, single) if own else PEAKS[device]
    if stage == "train":
        trained, selected = training_flop(run)
        flops = tf32 if precision == "float32" else half
        return (trained / flops + selected / tf32) / UTILISATION
    encoded, count = scoring_work(run, tasks, MODES[mode], device)
    step = CPU_CLASSIFIER_STEP if device == "cpu" else GPU_CLASSIFIER_STEP
    rate = float32 * UTILISATION
    if measured:
        shape = run.backbone.shape.width, run.shape.depth
        rate = measured.encoding.get(shape, rate)
        step = measured.classifier_step or step
    return encoded / rate + count * step


@dataclass
class Line:
    """Runs of a backbone at a stage, how many of them were measured, and seconds on one device."""

    backbone: str
    stage: str
    runs: int = 0
    measured: int = 0
    seconds: float = 0.0


def predict(planned: Iterable[Planned], mode: str, device: str, measured: Measured) -> list[Line]:
    """Estimate a plan by backbone and stage, without runs that their backbone makes impossible."""
    lines: dict[tuple[str, str], Line] = {}
    for run, tasks in ((one.run, one.tasks) for one in planned if not one.run.skip):
        name, is_trained = run.backbone.name, run.trained and run.backbone.kind == "transformer"
        for stage in ("train", "score") if is_trained else ("score",):
            seconds = measured.seconds(run, stage, tasks)
            line = lines.setdefault((name, stage), Line(name, stage))
            line.runs += 1
            line.measured += seconds is not None
            if seconds is None:
                seconds = estimate(run, stage, tasks, mode, device, measured)
            line.seconds += seconds
    return list(lines.values())


def report(suite: Suite, planned: Sequence[Planned], device: str, gpus: int, results: Path) -> str:
    """The estimate of a plan on `gpus` devices as text, with times measured in `results`.

    Raises:
        UserError: a corpus is unknown, or the data is the embedded world.
    """
    if suite.data == "world":
        raise UserError(
            f"the suite '{suite.suite}' is on the embedded world and takes minutes; choose another"
        )
    lines = predict(planned, suite.mode, device, Measured.read(results, device))
    width = max(map(len, ("backbone", *(line.backbone for line in lines))))
    rows = [f"{'backbone':{width}}  stage  runs  measured  device h  {f'wall h at {gpus}':>13}"]
    sums = (sum(getattr(line, key) for line in lines) for key in ("runs", "measured", "seconds"))
    total = Line("all", "", *sums)
    for line in (*lines, total):
        hours = f"{line.seconds / 3600:8.2f}  {line.seconds / 3600 / gpus:13.2f}"
        rows.append(
            f"{line.backbone:{width}}  {line.stage:5}  {line.runs:4}  {line.measured:8}  {hours}"
        )
    rows += [
        f"\nRuns without a measurement on this device: FLOP at {UTILISATION:.0%} of the peak rate, "
        "which is assumed.",
        NOT_COUNTED,
    ]
    return "\n".join(rows)
