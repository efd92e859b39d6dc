"""The hours that a plan takes on a device, and its disk.

Seconds are means over similar results on the same device, else of steps that were measured on a
card. They are seconds of a whole device: the seconds of runs that shared one are divided by their
number. For work that was never measured there is an order of magnitude.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache
from math import ceil, floor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bench.datasets.corpora import read_sentences
from bench.datasets.tasks import PAIRS, expand_tasks, task_of
from bench.results.provenance import provenance, runs_per_gpu
from bench.results.records import read_scores
from bench.runs.paths import Files
from bench.runs.plan import Plan
from bench.runs.run import Run
from bench.training.checkpoint import GENERATIONS
from bench.utils.errors import UserError
from bench.utils.files import read_toml

# Seconds of steps that were measured on a card, by card, backbone, batch size and precision.
STEPS = read_toml(Path(__file__).with_name("steps.toml"))
# Seconds for a sentence and a weight, as they were measured: for a training by `STEPS` and
# results/wiki-mini (1e-12 to 7e-12, and 3e-9 to 14e-9 at batch size 64), for a scoring, with its
# classifiers, by docs/explanation/performance.md#on-a-gpu and results/wiki-mini.
PLACES = {
    "a GPU": {"train": 3e-12, "score": 2e-12},
    "a thread of a processor": {"train": 5e-9, "score": 3e-10},
}
CORPUS_TOKENS = 24  # mean of wiki1m_fallback after truncation to 32 tokens
# Known sizes, so that a plan is predicted before its corpora are downloaded.
CORPUS_SENTENCES = {
    "wiki1m": 1_000_000, "wiki1m_for_simcse": 1_000_000, "wiki1m_fallback": 1_000_000,
    "nli": 600_000, "nli_for_simcse": 600_000,  # an assumption
    # docs/reference/methods.md#consert and docs/reference/methods.md#word-noise
    "sts": 89_192, "cnsd": 10_462,
}  # fmt: skip
# Hours from which on a user has to agree: of work that was not measured (any suite on the toy data
# takes less), and of all work on a processor.
ROUGH_LIMIT, PROCESSOR_LIMIT = 0.5, 1.0
STEP_BYTES = 80  # of a row in log.jsonl, about
Work = Collection[tuple[Run, str]]  # runs and their stages
ALL = "all"


class Measured:
    """Mean seconds on one device in earlier results: of a training step by backbone, batch size and
    precision, and of a scoring by backbone, tasks and number of further classifier seeds."""

    def __init__(self, results: Path, device: str) -> None:
        """Read the scores of all suites in a folder on a device; "" is none."""
        self.times: dict[tuple[str, str, object], list[float]] = defaultdict(list)
        if not device:
            return
        name = device
        if device == "cpu":
            # Results name the model of their processor, and so does the comparison.
            name = provenance("cpu", 1)["device"]["name"]
        for path in results.glob("*/scores/*.json"):
            with suppress(UserError):
                origin = read_scores(path).provenance
                run, outcome = origin.run, origin.outcome
                # A user writes h200, where torch says NVIDIA H200.
                if origin.seconds and name.lower() in origin.device.name.lower():
                    work = frozenset(origin.tasks), len(origin.probe_seeds)
                    self.times["score", run.backbone, work].append(
                        origin.seconds / origin.runs_per_gpu
                    )
                    if outcome.seconds and outcome.steps:
                        recipe = run.recipe.get("batch_size"), run.recipe.get("precision")
                        step = outcome.seconds / outcome.runs_per_gpu / outcome.steps
                        self.times["train", run.backbone, recipe].append(step)

    def seconds(self, run: Run, stage: str) -> float:
        """Seconds of a run at a stage, or 0 if nothing similar was measured."""
        work: object = frozenset(expand_tasks(run.tasks)), len(run.further_seeds(run.tasks))
        count = 1
        if stage == "train":
            work, count = (run.recipe.batch_size, run.recipe.precision), steps(run)
        return count * fmean(self.times.get((stage, run.backbone, work), [0.0]))


def weights(run: Run) -> int:
    """Weights in the matrices of a transformer's layers: 4 of attention and 8 of the feed-forward
    part, each of width x width; 0 if the run has no transformer, and so no layers."""
    return 12 * run.shape.depth * run.pretrained.shape.width**2


@cache
def _length(corpus: str) -> int:
    return len(read_sentences(Files(Path()).corpus(corpus)))


def _rows(run: Run) -> int:
    """Sentences of the training corpus that a run reads; `UserError` if the corpus is not here."""
    rows = CORPUS_SENTENCES.get(run.corpus) or _length(run.corpus)
    return min(rows, run.recipe.sentences or rows)


def steps(run: Run) -> int:
    """Optimiser steps without early stopping; `UserError` if the corpus is not here."""
    recipe = run.recipe
    items = run.parts[0][2].get("drawn") or _rows(run)  # CT-BERT draws its items
    batches = floor if recipe.drop_last else ceil
    return recipe.epochs * batches(items / recipe.batch_size)


def sentences(run: Run, stage: str) -> int:
    """How many sentences a training or a scoring reads; `UserError` if the corpus is not here."""
    if stage == "train":
        return steps(run) * run.recipe.batch_size
    count = 0
    for task in map(task_of, expand_tasks(run.tasks)):
        items = sum(task.sizes.values()) or 3000  # assumed for user-defined tasks
        count += 2 * items if task.protocol == PAIRS else items
    return count


def measured_seconds(
    run: Run, stage: str, device: str, measured: Measured
) -> tuple[float, float] | None:
    """Least and most seconds of a training or a scoring on a device, by results there or `STEPS`;
    None if nothing similar was measured."""
    recipe, mean = run.recipe, measured.seconds(run, stage)
    if mean:
        return mean, mean
    times = STEPS.get(f"{device} {run.backbone} {recipe.batch_size} {recipe.precision}")
    if stage == "score" or times is None:
        return None
    least, most = times["step"]
    # Runs that share a card overlap at best until it is always busy, and at worst not at all.
    fewest = max(least / runs_per_gpu(), times.get("busy", least))
    # A training selects once at least, after its last step (docs/reference/protocol.md#selection).
    selection = max(1, steps(run) // recipe.select_every) * times["selection"]
    return steps(run) * fewest + selection, steps(run) * most + selection


def work_of(runs: Iterable[Run]) -> Work:
    """The counted trainings and scorings of a plan. Runs that their backbone makes impossible, and
    trainings without a transformer, take no time to speak of."""
    work = []
    for run in runs:
        if run.skip:
            continue
        if run.trained and run.pretrained.kind == "transformer":
            work.append((run, "train"))
        work.append((run, "score"))
    return work


def predict(work: Work, device: str, measured: Measured) -> tuple[dict[str, np.ndarray], Work]:
    """Count the measured trainings and scorings, with their least and most hours on a device: of
    all, and by backbone and stage. Also return the work that was not measured."""
    hours, unmeasured = defaultdict(lambda: np.zeros(3), {ALL: np.zeros(3)}), []
    for run, stage in work:
        span = measured_seconds(run, stage, device, measured)
        if span is None:
            unmeasured.append((run, stage))
            continue
        # The count, the least and the most hours.
        row = [1, *(seconds / 3600 for seconds in span)]
        hours[ALL] += row
        hours[f"{run.backbone} {stage}"] += row
    return hours, unmeasured


def rough_hours(work: Work, place: str) -> float:
    """The order of magnitude of the hours that work takes in one of `PLACES`."""
    seconds = 0.0
    for run, stage in work:
        seconds += sentences(run, stage) * weights(run) * PLACES[place][stage]
    return seconds / 3600


def one_digit(hours: float) -> str:
    return f"{float(f'{hours:.0e}'):,g}"


def rough(work: Work) -> str:
    """The hours of work that was not measured, as text."""
    texts = []
    for place in PLACES:
        # Shorter work takes as long as its process needs to start.
        hours = max(0.1, rough_hours(work, place))
        texts.append(f"{one_digit(hours)} h on {place}")
    return f"some {' or '.join(texts)}, not measured"


def stored_weights(run: Run) -> int:
    """About how many weights an encoder has, in its layers and its vocabulary."""
    return weights(run) + run.pretrained.vocabulary_size * run.pretrained.shape.width


def disk(trained: Sequence[Run], keep_encoders: bool = True) -> dict[str, float]:
    """About how many bytes the files of trainings take, by what they are; `UserError` if a corpus
    is not here."""
    # Weights are float32.
    encoders = [4 * stored_weights(run) for run in trained]
    corpora = {(run.corpus, run.backbone): _rows(run) for run in trained}
    # A checkpoint has the weights, the best weights and the two moments of Adam. A new checkpoint
    # is written beside the `GENERATIONS` that are kept.
    at_work = 4 * (GENERATIONS + 1) * max(encoders, default=0)
    return {
        f"{len(encoders)} encoders": keep_encoders * sum(encoders),
        # Token ids are int32.
        "tokens of corpora": 4 * CORPUS_TOKENS * sum(corpora.values()),
        "logs": STEP_BYTES * sum(map(steps, trained)),
        "each training at work, at most": at_work,
    }


def forecast(plan: Plan, work: Work, device: str, results: Path) -> dict[str, Any]:
    """What `work` on a device and the files of a plan take, as cost.txt prints it, by earlier
    results of all suites; and whether it is so long that a user has to agree.

    `UserError`: a corpus is not here.
    """
    hours, unmeasured = predict(work, device, Measured(results, device))
    trainings = [run for run, stage in work if stage == "train"]
    is_long = rough_hours(unmeasured, "a GPU") > ROUGH_LIMIT
    if device == "cpu":
        rough_sum = rough_hours(unmeasured, "a thread of a processor")
        is_long = rough_sum > ROUGH_LIMIT or rough_sum + hours[ALL][2] > PROCESSOR_LIMIT
    return {
        "device": device,
        "hours": hours,
        "unmeasured": unmeasured,
        "estimate": rough(unmeasured),
        "disk": disk(trainings, plan.keep_encoders),
        "is_long": is_long,
    }
