"""The metrics: their names, the tasks that have them, and how near a printed value must be met.

A new metric is one entry of `METRICS`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from statistics import fmean, pvariance
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.utils.errors import UserError

if TYPE_CHECKING:  # help and completion read names of tasks, and numpy takes longer to load
    import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """The largest difference from a printed value at which a mean counts as `reproduced`."""

    average: float  # of an average, in points
    task: float  # of a single task, in points
    reason: str  # where the numbers come from
    # Of a task in standard deviations of public seeds, where that is larger.
    deviations: float = 0.0
    limit: float = inf  # the largest tolerance of a task
    # Of TREC and MRPC, where it is larger: their test sets have 500 and 1,725 items.
    small: float = 0.0


@dataclass(frozen=True)
class _Printed:
    """A form in which papers print a metric."""

    title: str  # in captions
    sign: int = 1  # -1: the paper states the negated quantity
    bound: bool = False  # the paper states a lower bound
    tolerance: Tolerance | None = None  # in place of the metric's
    direction: str = ""  # names the rows of this form in a table that has several


CORRELATION, SHARE, QUANTITY = "correlation", "share", "quantity"


@dataclass(frozen=True)
class Metric:
    """A metric of scores, or another quantity that papers print."""

    # A correlation in points, a share of samples that classifiers get right in points, or another
    # quantity. The tolerance of the first two depends on how the run was made.
    kind: str
    printed: Mapping[str, _Printed] = field(default_factory=dict)  # by name in bench/reported/*.csv
    title: str = ""  # of a table of scores
    # What a table of scores adds to name and heading of its group, unless it is the main one.
    suffix: str = ""
    heading: str = ""
    classifier: str = ""  # named where tasks have two
    axis: str = ""  # label of an axis with averages
    digits: int = 2
    is_main: bool = False  # the score by which methods are ranked, first of its tasks

    # --- Fields of scores ---

    # The protocols (`bench.datasets.tasks.Task`) or the tasks that have the metric.
    tasks: tuple[str, ...] = ()
    average: str = ""  # the group of tasks behind the "Avg" that papers report
    # The least tolerance of a number of the toy data
    # (docs/explanation/toy-data.md#reference-scores): the second decimal, or two of the 150 samples
    # of the smallest test set.
    least: float = 0.0
    # Gold scores or labels, and similarities or predictions -> the metric as a fraction; None for
    # the accuracies, which the classifiers' protocols give.
    formula: Callable[[np.ndarray, np.ndarray], float] | None = None

    # --- Fields of other quantities ---

    cell: tuple[str, str] = ("", "")  # task and split of the cell of a run
    analysis: str = ""  # the analysis that measures it; empty: the outcome of the training
    # Result of the analysis, or outcome -> the quantity; None where it was not measured.
    value: Callable[[Any], float | None] | None = None
    tolerance: Tolerance | None = None


def spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Spearman's correlation of two arrays (n,) whose values are not all equal."""
    # Loaded here, because scipy.stats takes half a second, and help only reads names of metrics.
    from scipy.stats import spearmanr

    return float(spearmanr(predicted, gold).statistic)


def _f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    # Of label 1, as in facebookresearch/SentEval@5d6dc11:senteval/mrpc.py:100.
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted))


BOUNDS = (1, 2, 3, 4)  # bounds of the groups of gold scores: up to 1, ..., above 4
EARLY = 1500  # steps; SSCL, Figure 6: the best of SSCL-SimCSE


def _early_dev(outcome: Any) -> float | None:
    """Mean dev score up to the step at which SSCL has its best printed value."""
    scores = [point.dev for point in outcome.curve or () if point.step <= EARLY]
    return fmean(scores) if scores else None


def _of_all(name: str, alignment: Mapping[str, Any]) -> float | None:
    """A value of all sentences of STS-B; None if the analysis has none, and says why."""
    return alignment["STS-B"]["all"].get(name) if "STS-B" in alignment else None


def _cosine_variance(cosines: Mapping[str, Any]) -> float | None:
    """Mean of the variances within the groups of gold scores."""
    # IS-CSE prints no number for its figure 4. The mean of variances within ranges is a reading
    # (docs/reference/analyses.md#statements-in-words).
    groups = defaultdict(list)
    for gold, cosine in zip(cosines.get("gold", ()), cosines.get("cosine", ()), strict=True):
        groups[bisect_left(BOUNDS, gold)].append(cosine)
    return fmean(map(pvariance, groups.values())) if groups else None


def _setsim(layers: Mapping[str, Any], top: int = 0) -> float | None:
    """Mean over the `top` pairs of neighbouring layers, or all; a bag of words has none."""
    # SSCL does not name its pooling: the first token is a reading
    # (docs/reference/analyses.md#layers-and-tokens).
    similarities = layers.get("setsim", {}).get("cls")
    # A `top` of 0 takes all, since -0 is 0.
    return fmean(similarities[-top:]) if similarities else None


def _toksim(layers: Mapping[str, Any], top: int = 1) -> float | None:
    """Mean over the `top` layers, in percent."""
    if not layers.get("setsim", {}).get("cls"):
        return None
    # SSCL does not say whether special tokens count: without them is a reading.
    return 100 * fmean(layers["toksim"]["without_special"][-top:])


_BOUND = Tolerance(0, 0, "the paper states a bound, which is exceeded or not")
_SAID = "(the paper states that it does, without a number)"
# Two of the 150 samples of the smallest test split of the toy data.
_TWO_SAMPLES = 200 / 150

METRICS = {
    "spearman": Metric(
        CORRELATION,
        {"spearman": _Printed("Spearman x 100"),
         "spearman_delta": _Printed("differences of Spearman x 100")},
        title="Spearman x 100", axis="STS average (Spearman x 100)", is_main=True,
        tasks=("pairs",), average="sts", least=0.01, formula=spearman,
    ),
    "accuracy": Metric(
        SHARE,
        {"accuracy": _Printed("accuracy"),
         "accuracy_delta_above": _Printed(
            "differences of accuracy (the paper states no number: better or on par)", bound=True)},
        title="accuracy", classifier="logistic regression", axis="average accuracy (%)",
        is_main=True, tasks=("nested", "kfold", "split", "probing"), average="transfer",
        least=_TWO_SAMPLES,
    ),
    # Of SentEval's network with one hidden layer, beside its logistic regression.
    "accuracy_mlp": Metric(
        SHARE, title="accuracy", suffix="_mlp", heading=", network",
        classifier="tuned network with one hidden layer", tasks=("probing",), least=_TWO_SAMPLES,
    ),
    "f1": Metric(SHARE, title="F1", tasks=("MRPC",), least=_TWO_SAMPLES, formula=_f1),
    "best_step": Metric(
        QUANTITY, {"best_step": _Printed("the training step with the best dev score")},
        digits=0, cell=("STS-B", "dev"), value=lambda outcome: outcome.best_step,
        tolerance=Tolerance(
            3125, 3125,
            "a fifth of an epoch of 15,625 steps; sd of 2,730 steps over 50 public seeds on "
            "bert-base",
        ),
    ),
    "early_dev": Metric(
        QUANTITY,
        {"early_dev_lead_above": _Printed(
            f"lead on STS-B dev, mean up to step {EARLY:,} (the paper states a range)",
            bound=True)},
        cell=("early STS-B", "dev"), value=_early_dev, tolerance=_BOUND,
    ),
    "alignment": Metric(
        QUANTITY,
        {"alignment_gain_above": _Printed(
            f"by how much the alignment loss on STS-B falls {_SAID}", sign=-1, bound=True)},
        cell=("alignment", ""), analysis="alignment", value=partial(_of_all, "alignment"),
        tolerance=_BOUND,
    ),
    # The papers speak of uniformity as a quality, and we measure its loss: a printed drop of
    # uniformity is a rise of the loss.
    "uniformity": Metric(
        QUANTITY,
        {"uniformity_drop": _Printed(
            "by how much the uniformity loss on STS-B rises", direction="rise"),
         "uniformity_gain": _Printed("by how much it falls", sign=-1, direction="fall"),
         "uniformity_drop_above": _Printed(
            f"by how much the uniformity loss rises {_SAID}", bound=True, tolerance=_BOUND)},
        cell=("uniformity", ""), analysis="alignment", value=partial(_of_all, "uniformity"),
        tolerance=Tolerance(0.1, 0.1, "separates the two printed differences, 0.04 and 0.31"),
    ),
    "cosine_variance": Metric(
        QUANTITY,
        {"cosine_variance_drop_above": _Printed(
            f"by how much the variance of cosines within groups of gold scores falls {_SAID}",
            sign=-1, bound=True)},
        digits=4, cell=("cosine variance", "test"), analysis="cosines", value=_cosine_variance,
        tolerance=_BOUND,
    ),
    "layer_similarity": Metric(
        QUANTITY,
        {"layer_similarity_above": _Printed(
            "cosine of neighbouring layers (the paper states a lower bound)", bound=True)},
        cell=("SetSim", "test"), analysis="layers", value=_setsim, tolerance=_BOUND,
    ),
    "last_layer_similarity": Metric(
        QUANTITY,
        {"last_layer_similarity_drop_above": _Printed(
            f"by how much the cosine of the last two layers falls {_SAID}", sign=-1, bound=True)},
        cell=("last SetSim", "test"), analysis="layers", value=partial(_setsim, top=1),
        tolerance=_BOUND,
    ),
    "token_similarity": Metric(
        QUANTITY,
        {"token_similarity_above": _Printed(
            "cosine of tokens in percent (the paper states a lower bound)", bound=True)},
        cell=("TokSim", "test"), analysis="layers", value=_toksim, tolerance=_BOUND,
    ),
    "last_token_similarity": Metric(
        QUANTITY,
        {"last_token_similarity_drop_above": _Printed(
            f"by how much the cosine of tokens in the last two layers falls {_SAID}",
            sign=-1, bound=True)},
        cell=("last TokSim", "test"), analysis="layers", value=partial(_toksim, top=2),
        tolerance=_BOUND,
    ),
}  # fmt: skip

# Metric as printed -> our metric, and how it is printed. All else that papers print is a
# hyper-parameter.
PRINTED = {
    name: (metric, form)
    for metric, entry in METRICS.items()
    for name, form in entry.printed.items()
}


class OfMetric:
    """A base of what has a `metric` as printed."""

    if TYPE_CHECKING:  # a field of the class that extends it
        metric: str

    @property
    def is_score(self) -> bool:
        """Whether it is a score, of which more is better: no difference, and no step."""
        return self.metric in METRICS and METRICS[self.metric].is_main

    @property
    def our_metric(self) -> Metric:
        return METRICS[PRINTED[self.metric][0]]

    @property
    def form(self) -> _Printed:
        """How its metric is printed."""
        return PRINTED[self.metric][1]


# Tasks of several subsets have one correlation over all pairs ("all"), and beside it these means of
# the correlations of their subsets.
AGGREGATIONS = {
    "mean": "means over their subsets (mean)",
    "wmean": "means over their subsets, weighted by number of pairs (wmean)",
}


# Aggregations over a part of the test items (docs/reference/protocol.md#contamination). UNSEEN: no
# sentence of the item stands in a training corpus. REST: the item stands in no dev set either.
UNSEEN, REST = "unseen", "rest"

# SentEval's seed, for weights, permutations, dropout and folds
# (facebookresearch/SentEval@5d6dc11:senteval/tools/classifier.py:28-30, validation.py:63-65).
CLASSIFIER_SEED = 1111
# Further seeds for an encoder that a suite does not train
# (docs/reference/protocol.md#further-seeds).
FURTHER_SEEDS = (1112, 1113, 1114, 1115)
# How the aggregation of scores with classifiers of a further seed begins
# (docs/reference/protocol.md#further-seeds).
PROBE_SEED = "probe seed"


class Cell(NamedTuple):
    """What a score is of. The aggregation is "all", of `AGGREGATIONS`, `UNSEEN`, `REST`, or the
    seed of the classifiers (`probe_seed`)."""

    task: str
    split: str
    metric: str
    aggregation: str = "all"


def is_points(value: Any) -> bool:
    """Whether a score, times 100 as in papers, can have this value. Scores are often computed as
    fractions, which no encoder's points are as small as."""
    return value == 0 or 1 < abs(value) <= 100


def probe_seed(seed: int) -> str:
    """The aggregation of scores with classifiers of a seed."""
    return "all" if seed == CLASSIFIER_SEED else f"{PROBE_SEED} {seed}"


def check_probe_seeds(seeds: Sequence[int]) -> None:
    """Refuse further seeds of classifiers that are no seeds, SentEval's seed, or repeated."""
    for seed in seeds:
        is_seed = isinstance(seed, int) and seed in range(2**32)  # as numpy takes them
        if not is_seed or [CLASSIFIER_SEED, *seeds].count(seed) > 1:
            raise UserError(
                f"'probe_seeds' has {seed!r}; give distinct whole numbers from 0 to below 2**32, "
                f"without {CLASSIFIER_SEED}, SentEval's seed, which is always used"
            )


def score_record(
    task: str, split: str, metric: str, value: float, aggregation: str = "all"
) -> dict[str, Any]:
    """A score, in points, as `bench.results.records` has it."""
    return {
        "task": task, "split": split, "metric": metric, "aggregation": aggregation, "value": value,
    }  # fmt: skip


def metrics_of(protocol: str, task: str) -> dict[str, Metric]:
    """The metrics of the scores of a task, by name."""
    return {
        name: metric
        for name, metric in METRICS.items()
        if protocol in metric.tasks or task in metric.tasks
    }


def quantities(outcome: Any, analyses: Mapping[str, Any]) -> dict[Cell, float]:
    """The values of the metrics that are no scores, from the `bench.results.records.Outcome` of a
    training and from its analyses."""
    values = {}
    for name, metric in METRICS.items():
        if metric.value:
            value = metric.value(analyses.get(metric.analysis, {}) if metric.analysis else outcome)
            if value is not None:
                values[Cell(*metric.cell, name)] = float(value)
    return values
