"""Estimate the hours that a plan takes on a device, and the disk.

Seconds are means over similar results on the same device; else those of steps that were measured on
a card; else FLOP divided by an assumed share of the peak rate. They are seconds of a whole device:
those of runs that shared one are divided by their number.
"""

import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache
from math import ceil, floor
from pathlib import Path
from statistics import fmean

import numpy as np

from bench.datasets.corpora import read_sentences
from bench.datasets.tasks import PAIRS, PROBING, expand_tasks, task_of
from bench.evaluation.classifier import MODES
from bench.evaluation.protocols import fewest_steps
from bench.models.packed_forward import POSITIONS
from bench.results.provenance import provenance, runs_per_gpu
from bench.results.records import read_scores
from bench.runs.paths import corpus_file
from bench.runs.plan import Plan
from bench.runs.run import PlannedRun, Run
from bench.training.checkpoint import GENERATIONS
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
STEP_BYTES = 80  # of a row in log.jsonl, about
# Steps that were measured on a card.
STEPS = tomllib.loads(Path(__file__).with_name("steps.toml").read_text(encoding="utf-8"))
ASSUMED = f"The rest is FLOP at {UTILISATION:.0%} of the peak rate, which is assumed."
Work = Iterable[tuple[PlannedRun, str, float]]  # runs, stages, and the parts of them to be done
_Prediction = dict[tuple[str, str], np.ndarray]
ALL = "all", ""
NOT_COUNTED = (
    "Not counted: analyses, scores of published encoders, trainings without a transformer, maps "
    "fitted on a corpus, neighbours, files, what a method encodes beside two views of a batch "
    "(teachers, a second model)."
)


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
            name = provenance("cpu", 1)["device"]["name"]
        for path in sorted(results.glob("*/scores/*.json")):
            with suppress(UserError):
                origin = read_scores(path).provenance
                run, outcome = origin.run, origin.outcome
                if origin.seconds and name.lower() in origin.device.name.lower():
                    work = frozenset(origin.tasks), len(origin.probe_seeds)
                    self.times["score", run.backbone, work].append(
                        origin.seconds / origin.runs_per_gpu
                    )
                    if outcome.seconds and outcome.steps:
                        recipe = run.recipe.get("batch_size"), run.recipe.get("precision")
                        step = outcome.seconds / outcome.runs_per_gpu / outcome.steps
                        self.times["train", run.backbone, recipe].append(step)

    def seconds(self, run: PlannedRun, stage: str) -> float:
        """Seconds of a run at a stage, or 0 if nothing similar was measured."""
        work: object = frozenset(expand_tasks(run.tasks)), len(run.further_seeds(run.tasks))
        count = 1
        if stage == "train":
            work, count = (run.recipe.batch_size, run.recipe.precision), steps(run)
        return count * fmean(self.times.get((stage, run.backbone, work), [0.0]))


NOTHING = Measured(Path(), "")


def weights(run: Run) -> int:
    """Weights in the matrices of a transformer's layers; 0 if the run has no transformer."""
    is_transformer = run.pretrained.kind == "transformer"
    return 12 * run.shape.depth * run.pretrained.shape.width**2 if is_transformer else 0


@cache
def _length(corpus: str) -> int:
    return len(read_sentences(corpus_file(corpus, Path())))


def _rows(run: Run) -> int:
    """Sentences of the training corpus that a run reads; `UserError` if the corpus is not here."""
    rows = CORPUS_SENTENCES.get(run.corpus) or _length(run.corpus)
    return min(rows, run.recipe.sentences or rows)


def steps(run: Run) -> int:
    """Optimiser steps without early stopping; `UserError` if the corpus is not here."""
    recipe = run.recipe
    items = run.parts[0][2].get("drawn") or _rows(run)  # CT-BERT draws its items
    whole = floor if recipe.drop_last else ceil
    return recipe.epochs * whole(items / recipe.batch_size)


def scoring_work(tasks: Sequence[str], mode: str, device: str) -> tuple[int, int]:
    """The number of sentences of tasks, and of steps of their classifiers."""
    sentences = classifier_steps = 0
    for task in map(task_of, expand_tasks(tasks)):
        sizes = task.sizes or {"test": 3000}  # assumed for user-defined tasks
        if task.protocol == PAIRS:
            sentences += 2 * sum(sizes.values())
            continue
        sentences += sum(sizes.values())
        classifier_steps += fewest_steps(sizes, MODES[mode], device, task.protocol == PROBING)
    return sentences, classifier_steps


def _measured_as(run: Run, device: str) -> str:
    """The name that the steps of a training have in `STEPS`."""
    return f"{device} {run.backbone} {run.recipe.batch_size} {run.recipe.precision}"


def estimate(run: Run, stage: str, tasks: Sequence[str], mode: str, device: str) -> list[float]:
    """Least and most seconds of a training or a scoring on a device, a key of `PEAKS`: by `STEPS`,
    else by its peak rate."""
    recipe, share, classifier_step = run.recipe, UTILISATION, GPU_CLASSIFIER_STEP
    if device == "cpu":
        share, classifier_step = UTILISATION * recipe.threads, CPU_CLASSIFIER_STEP
    half, tf32, float32 = PEAKS[device]
    flop = 2 * weights(run) / share  # that encode a token
    positions = POSITIONS.get(recipe.pooler)
    if stage == "score":
        sentences, classifier_steps = scoring_work(tasks, mode, device)
        classifier_steps *= 1 + len(run.further_seeds(tasks))
        encoding = flop * sentences * (positions or TASK_TOKENS) / float32
        return [encoding + classifier_steps * classifier_step] * 2
    rate = tf32 if recipe.precision == "float32" else half
    tokens = VIEWS * recipe.batch_size * (positions or min(CORPUS_TOKENS, recipe.max_length))
    step = 3 * flop * tokens / rate  # with its backward pass
    selection = flop * DEV_SENTENCES * (positions or TASK_TOKENS) / tf32
    times = STEPS.get(_measured_as(run, device), {"step": [step, step], "selection": selection})
    least, most = times["step"]
    # Runs that share a card overlap at best until it is always busy, and at worst not at all.
    shared = max(least / runs_per_gpu(), times.get("busy", least))
    selected = max(1, steps(run) // recipe.select_every) * times["selection"]
    return [steps(run) * seconds + selected for seconds in (shared, most)]


def work_of(runs: Iterable[PlannedRun]) -> Work:
    """All of a plan that is counted, without runs that their backbone makes impossible."""
    for run in runs:
        if run.trained and run.pretrained.kind == "transformer" and not run.skip:
            yield run, "train", 1.0
        if not run.skip:
            yield run, "score", 1.0


def predict(work: Work, mode: str, device: str, measured: Measured = NOTHING) -> _Prediction:
    """Estimate work, of all and by backbone and stage: how much it is, how much of it was measured,
    and least and most hours on one device."""
    prediction = defaultdict(lambda: np.zeros(4), {ALL: np.zeros(4)})
    for run, stage, part in work:
        known = measured.seconds(run, stage)
        is_measured = known or (stage == "train" and _measured_as(run, device) in STEPS)
        span = [known] * 2 if known else estimate(run, stage, run.tasks, mode, device)
        row = [1, bool(is_measured), *(part * seconds / 3600 for seconds in span)]
        prediction[ALL] += row
        prediction[run.backbone, stage] += row
    return prediction


def stored_weights(run: Run) -> int:
    """About how many weights an encoder has: those of its layers and its vocabulary."""
    return weights(run) + run.pretrained.vocabulary_size * run.pretrained.shape.width


def disk(plan: Plan) -> dict[str, float]:
    """About how many bytes the files of a plan take, by what they are; `UserError` if a corpus is
    not here."""
    trained = [run for run in plan.runs if run.trained and not run.skip]
    encoders = [4 * stored_weights(run) for run in trained]
    corpora = {(run.corpus, run.backbone): _rows(run) for run in trained}
    # A checkpoint has weights, the best ones and two moments; one is written beside those kept.
    at_work = 4 * (GENERATIONS + 1) * max(encoders, default=0)
    return {
        f"{len(encoders)} encoders": plan.keep_encoders * sum(encoders),
        "tokens of corpora": 4 * CORPUS_TOKENS * sum(corpora.values()),
        "logs": STEP_BYTES * sum(map(steps, trained)),
        "each training at work, at most": at_work,
    }


def by_plan(work: Collection[tuple[PlannedRun, str, float]], mode: str) -> str:
    """The hours that work takes on one device of each kind, as text."""
    texts = []
    for device in PEAKS:
        _, measured, *hours = predict(work, mode, device)[ALL]
        span = " to ".join(dict.fromkeys(f"{number:.2f}" for number in hours))  # once if equal
        texts.append(f"{span} on one {device.upper()} ({measured:.0f} measured)")
    return f"{', '.join(texts)}. {ASSUMED}"
