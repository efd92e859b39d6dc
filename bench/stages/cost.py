"""Estimate the hours that a plan takes on a device.

Seconds are means over similar results on the same device, else FLOP divided by an assumed share of
the peak rate.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from math import ceil, floor
from pathlib import Path
from statistics import fmean

import pandas as pd

from bench.datasets.corpora import read_sentences
from bench.datasets.tasks import PAIRS, PROBING, expand_tasks, task_of
from bench.evaluation.classifier import MODES
from bench.evaluation.protocols import fewest_steps
from bench.models.packed_forward import POSITIONS
from bench.results.provenance import provenance
from bench.results.records import read_scores
from bench.runs.config import Suite
from bench.runs.paths import corpus_file
from bench.runs.run import PlannedRun, Run
from bench.utils.errors import UserError

# FLOP/s of products in half precision, in TF32 (trainings in float32, and selection) and in float32
# (scores): dense, from NVIDIA's data sheets of the SXM modules. "cpu" is one thread, as the runs of
# results/wiki-mini measured it.
HOPPER = (989.4e12, 494.7e12, 66.9e12)
PEAKS = {"a100": (312e12, 156e12, 19.5e12), "h100": HOPPER, "h200": HOPPER, "cpu": (1.6e11,) * 3}
# Assumed share of the peak rate. It puts the trainings of SimCSE's released logs (3,835 s for
# BERT-base, 9,226 s for BERT-large) within a factor of 3 on the authors' GPU, an RTX 3090.
UTILISATION = 0.2
VIEWS = 2  # sequences encoded for each sentence of a batch; most methods encode two
CORPUS_TOKENS = 24  # mean of wiki1m_fallback after truncation to 32 tokens
TASK_TOKENS = 16  # mean of SentEval's tasks (6 to 30)
CORPUS_SENTENCES = {
    **dict.fromkeys(("wiki1m", "wiki1m_for_simcse", "wiki1m_fallback"), 1_000_000),
    **dict.fromkeys(("nli", "nli_for_simcse"), 600_000),  # which is assumed
    **{"sts": 89_192, "cnsd": 10_462},
}
DEV_SENTENCES = 2909  # of STS-B, encoded in each selection
# Seconds of a step of all classifiers that are trained at once: on a CPU measured
# (docs/performance.md), on a GPU assumed, 10 to 25 operations of 5 microseconds.
CPU_CLASSIFIER_STEP, GPU_CLASSIFIER_STEP = 1e-3, 1e-4
NOT_COUNTED = (
    "Not counted: analyses, trainings without a transformer, maps fitted on a corpus, neighbours, "
    "files, what a method encodes beside two views of a batch (teachers, a second model)."
)


class Measured:
    """Mean seconds on one device in earlier results: of a training step by backbone and batch size,
    and of a scoring by backbone and tasks."""

    def __init__(self, results: Path, device: str) -> None:
        """Read the scores of all suites in a folder on a device; "" is none."""
        self.times: dict[tuple[str, str, object], list[float]] = defaultdict(list)
        if not device:
            return
        name = device
        if device == "cpu":
            name = provenance("cpu", 1)["device"]["name"]
        for path in sorted(results.glob("*/scores/*.json")):
            with suppress(UserError):
                origin = read_scores(path).provenance
                run, outcome = origin.run, origin.outcome
                if origin.seconds and name.lower() in origin.device.name.lower():
                    tasks, size = frozenset(origin.tasks), run.recipe.get("batch_size")
                    self.times["score", run.backbone, tasks].append(origin.seconds)
                    if outcome.seconds and outcome.steps:
                        step = outcome.seconds / outcome.steps
                        self.times["train", run.backbone, size].append(step)

    def seconds(self, run: PlannedRun, stage: str) -> float | None:
        """Seconds of a run at a stage, or None if nothing similar was measured."""
        work: object = frozenset(expand_tasks(run.tasks))
        if stage == "train":
            work = run.recipe.batch_size
        times = self.times.get((stage, run.backbone, work))
        if not times:
            return None
        return fmean(times) * steps(run) if stage == "train" else fmean(times)


def weights(run: Run) -> int:
    """Weights in the matrices of a transformer's layers; 0 if the run has no transformer."""
    if run.parts[0][0] == "published":  # only the name on the hub is known
        return 12 * 24 * 1024**2 if "large" in run.parts[0][2]["model"] else 12 * 12 * 768**2
    is_transformer = run.pretrained.kind == "transformer"
    return 12 * run.shape.depth * run.pretrained.shape.width**2 if is_transformer else 0


@cache
def _length(corpus: str) -> int:
    return len(read_sentences(corpus_file(corpus, Path())))


def steps(run: Run) -> int:
    """Optimiser steps without early stopping; `UserError` if the corpus is not here."""
    recipe, rows = run.recipe, CORPUS_SENTENCES.get(run.corpus) or _length(run.corpus)
    rows = run.parts[0][2].get("drawn", rows)  # CT-BERT draws its items
    whole = floor if recipe.drop_last else ceil
    return recipe.epochs * whole(min(rows, recipe.sentences or rows) / recipe.batch_size)


def training_flop(run: Run) -> tuple[float, float]:
    """FLOP of the steps, 6 a weight and token, and of the selections, 2 a weight and token."""
    positions = POSITIONS.get(run.recipe.pooler)
    trained = positions or min(CORPUS_TOKENS, run.recipe.max_length)
    tokens = VIEWS * run.recipe.batch_size * steps(run) * trained
    selections = max(1, steps(run) // run.recipe.select_every)
    selected = DEV_SENTENCES * (positions or TASK_TOKENS) * selections
    return 6 * weights(run) * tokens, 2 * weights(run) * selected


def scoring_work(run: Run, tasks: Sequence[str], mode: str, device: str) -> tuple[float, int]:
    """FLOP of encoding the sentences of tasks in float32, and the steps of their classifiers."""
    shared: set[tuple[int, bool]] = set()  # of probing tasks that one loop trains on a GPU
    sentences = classifier_steps = 0
    for task in map(task_of, expand_tasks(tasks)):
        sizes = task.sizes or {"test": 3000}  # assumed for user-defined tasks
        if task.protocol == PAIRS:
            sentences += 2 * sum(sizes.values())
            continue
        sentences += sum(sizes.values())
        loop = sizes.get("train", 0), task.name == "WordContent"  # which has too many labels
        is_probing = task.protocol == PROBING
        if is_probing and device != "cpu" and loop in shared:
            continue
        shared.add(loop)
        classifier_steps += fewest_steps(sizes, MODES[mode], device, is_probing)
    tokens = POSITIONS.get(run.recipe.pooler, TASK_TOKENS) * sentences
    return 2 * weights(run) * tokens, classifier_steps


def estimate(run: Run, stage: str, tasks: Sequence[str], mode: str, device: str) -> float:
    """Seconds of a training or a scoring by the peak rate of a device, a key of `PEAKS`."""
    share, step = UTILISATION, GPU_CLASSIFIER_STEP
    if device == "cpu":
        share, step = UTILISATION * run.recipe.threads, CPU_CLASSIFIER_STEP
    half, tf32, float32 = PEAKS[device]
    if stage == "train":
        trained, selected = training_flop(run)
        rate = tf32 if run.recipe.precision == "float32" else half
        return (trained / rate + selected / tf32) / share
    encoded, classifier_steps = scoring_work(run, tasks, mode, device)
    return encoded / float32 / share + classifier_steps * step


def predict(runs: Iterable[PlannedRun], mode: str, device: str, measured: Measured) -> pd.DataFrame:
    """Estimate a plan, without runs that their backbone makes impossible: by backbone and stage
    the number of runs, how many of them were measured, and seconds on one device."""
    rows = []
    for run in runs:
        if run.skip:
            continue
        for stage in ("train", "score"):
            if stage == "train" and not (run.trained and run.pretrained.kind == "transformer"):
                continue
            known = measured.seconds(run, stage)
            seconds = known or estimate(run, stage, run.tasks, mode, device)
            rows.append([run.backbone, stage, 1, known is not None, seconds])
    table = pd.DataFrame(rows, columns=["backbone", "stage", "runs", "measured", "seconds"])
    return table.groupby(["backbone", "stage"], sort=False, as_index=False).sum()


def by_plan(work: Sequence[tuple[PlannedRun, str, float]], mode: str) -> str:
    """The hours that parts of trainings and scorings take on one device of each kind, as text."""
    hours = []
    for device in PEAKS:
        seconds = sum(
            part * estimate(run, stage, run.tasks, mode, device) for run, stage, part in work
        )
        hours.append(f"{seconds / 3600:.2f} on one {device.upper()}")
    return ", ".join(hours)


def report(suite: Suite, runs: Sequence[PlannedRun], device: str, results: Path) -> str:
    """The estimate of a plan as text, with times measured in `results`."""
    table = predict(runs, suite.mode, device, Measured(results, device))
    table.loc[len(table)] = ["all", "", *table[["runs", "measured", "seconds"]].sum()]
    table["device h"] = table.pop("seconds") / 3600
    rows = table.astype({"runs": int, "measured": int}).to_string(index=False, float_format="%.2f")
    return (
        f"{rows}\n\nRuns without a measurement on this device: FLOP at {UTILISATION:.0%} of the "
        f"peak rate, which is assumed.\n{NOT_COUNTED}"
    )
