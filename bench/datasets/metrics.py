"""The metrics: what they are called, which tasks have them, and how exact print is to be met.

A new metric is one entry of `METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # help and completion read names of tasks, and numpy takes longer to load
    import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """The largest difference from the printed number at which a mean counts as `reproduced`."""

    average: float  # in points, as that of a single task
    task: float
    reason: str  # where the numbers come from
    spreads: float = 0.0  # of a task in prior standard deviations, where that is larger
    limit: float = inf  # the largest of a task
    small: float = 0.0  # of TREC and MRPC, where it is larger: 500 and 1,725 items


@dataclass(frozen=True)
class Printed:
    """A form in which papers print a metric."""

    title: str  # in captions
    sign: int = 1  # -1: print states the negated quantity
    bound: bool = False  # print states a lower bound
    direction: str = ""  # names the rows of this form in a table that has several


CORRELATION, SHARE, QUANTITY = "correlation", "share", "quantity"


@dataclass(frozen=True)
class Metric:
    """A metric of scores, or another quantity that papers print."""

    # A correlation in points, a share of samples that classifiers get right in points, or another
    # quantity. The tolerance of the first two depends on how the run was made.
    kind: str
    printed: Mapping[str, Printed] = field(default_factory=dict)  # by name in bench/reported/*.csv
    title: str = ""  # of a table of scores
    # What a table of scores adds to name and heading of its group, by default name and title.
    suffix: str = ""
    heading: str = ""
    classifier: str = ""  # named where tasks have two
    axis: str = ""  # label of an axis with averages
    digits: int = 2
    is_main: bool = False  # the score by which methods are ranked, first of its tasks
    mteb: str = ""  # its name in mteb, if that is another

    # Of scores: the protocols of tasks (`bench.datasets.tasks.Task`), or the tasks, that have it;
    # the group of tasks of the "Avg" that papers report; the smallest change that the reference of
    # the smoke suite shows: the second decimal, or two of the 150 samples of the smallest test set.
    tasks: tuple[str, ...] = ()
    average: str = ""
    least: float = 0.0
    # Gold scores or labels, and similarities or predictions -> the metric as a fraction; None for
    # the accuracies, which the classifiers' protocols give.
    formula: Callable[[np.ndarray, np.ndarray], float] | None = None

    # Of other quantities: the cell of a run, as (task, split); the analysis that measures it, or
    # empty for the outcome of the training; its value in that, or None; its tolerance.
    cell: tuple[str, str] = ("", "")
    analysis: str = ""
    value: Callable[[Mapping[str, Any]], float | None] | None = None
    tolerance: Tolerance | None = None


def _spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(predicted, gold).statistic)


def _f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted))


def _uniformity(alignment: Mapping[str, Any]) -> float | None:
    """On all sentences of STS-B. Without them the analysis says why there is none."""
    return alignment["STS-B"]["all"]["uniformity"] if "STS-B" in alignment else None


def _layer_similarity(layers: Mapping[str, Any]) -> float | None:
    """Mean over the neighbouring layers, of which a bag of words has none."""
    similarities = layers.get("setsim", {}).get("cls")
    return fmean(similarities) if similarities else None


def _token_similarity(layers: Mapping[str, Any]) -> float | None:
    """Of the last layer, in percent."""
    if not layers.get("setsim", {}).get("cls"):
        return None
    return 100 * float(layers["toksim"]["without_special"][-1])


_BOUND = Tolerance(0, 0, "print states a bound, which is exceeded or not")
# Two of the 150 samples of the world's smallest test split.
_TWO_SAMPLES = 200 / 150

METRICS = {
    "spearman": Metric(
        CORRELATION,
        {"spearman": Printed("Spearman x 100"),
         "spearman_delta": Printed("differences of Spearman x 100")},
        title="Spearman x 100", axis="STS average (Spearman x 100)", is_main=True,
        mteb="cosine_spearman", tasks=("pairs",), average="sts", least=0.01, formula=_spearman,
    ),
    "accuracy": Metric(
        SHARE, {"accuracy": Printed("accuracy")},
        title="accuracy", classifier="logistic regression", axis="average accuracy (%)",
        is_main=True, tasks=("nested", "kfold", "split", "probing"), average="transfer",
        least=_TWO_SAMPLES,
    ),
    # Of SentEval's network with one hidden layer, beside its logistic regression.
    "accuracy_mlp": Metric(
        SHARE, title="accuracy", suffix="_mlp", heading="network",
        classifier="tuned network with one hidden layer", tasks=("probing",), least=_TWO_SAMPLES,
    ),
    "f1": Metric(SHARE, title="F1", tasks=("MRPC",), least=_TWO_SAMPLES, formula=_f1),
    "best_step": Metric(
        QUANTITY, {"best_step": Printed("the training step with the best dev score")},
        digits=0, cell=("STS-B", "dev"), value=lambda outcome: outcome.get("best_step"),
        tolerance=Tolerance(
            3125, 3125,
            "a fifth of an epoch of 15,625 steps; sd of 2,730 steps over 50 public seeds on "
            "bert-base",
        ),
    ),
    # The papers speak of uniformity as a quality, while ours is the loss: a printed drop of
    # uniformity is a rise of the loss.
    "uniformity": Metric(
        QUANTITY,
        {"uniformity_drop": Printed(
            "by how much the uniformity loss on STS-B rises", direction="rise"),
         "uniformity_gain": Printed("by how much it falls", sign=-1, direction="fall")},
        cell=("uniformity", ""), analysis="alignment", value=_uniformity,
        tolerance=Tolerance(0.1, 0.1, "separates the two printed differences, 0.04 and 0.31"),
    ),
    "layer_similarity": Metric(
        QUANTITY,
        {"layer_similarity_above": Printed(
            "cosine of neighbouring layers (print states a lower bound)", bound=True)},
        cell=("SetSim", "test"), analysis="layers", value=_layer_similarity, tolerance=_BOUND,
    ),
    "token_similarity": Metric(
        QUANTITY,
        {"token_similarity_above": Printed(
            "cosine of tokens in percent (print states a lower bound)", bound=True)},
        cell=("TokSim", "test"), analysis="layers", value=_token_similarity, tolerance=_BOUND,
    ),
}  # fmt: skip

# Metric as printed -> our metric, and how it is printed. All else that papers print is a
# hyper-parameter.
PRINTED = {
    name: (metric, form)
    for metric, entry in METRICS.items()
    for name, form in entry.printed.items()
}

# What tasks of several subsets have beside one correlation over all pairs ("all"): means of the
# correlations of the subsets.
AGGREGATIONS = {
    "mean": "means over their subsets (mean)",
    "wmean": "means over their subsets, weighted by number of pairs (wmean)",
}


def aggregated(metric: str, aggregation: str) -> str:
    """The name of a metric with an aggregation; with "all" or none the metric itself."""
    return f"{metric}_{aggregation}" if aggregation in AGGREGATIONS else metric


def metric_of(name: str) -> Metric:
    """The metric of a name, which may end with an aggregation."""
    for aggregation in AGGREGATIONS:
        name = name.removesuffix(f"_{aggregation}")
    return METRICS[name]


def metrics_of(protocol: str, task: str) -> dict[str, Metric]:
    """The metrics of the scores of a task, by name."""
    return {
        name: metric
        for name, metric in METRICS.items()
        if protocol in metric.tasks or task in metric.tasks
    }


def quantities(
    outcome: Mapping[str, Any], analyses: Mapping[str, Any]
) -> dict[tuple[str, str, str], float]:
    """The metrics that are no scores, by (task, split, metric), of a training and its analyses."""
    values = {}
    for name, metric in METRICS.items():
        if metric.value:
            value = metric.value(analyses.get(metric.analysis, {}) if metric.analysis else outcome)
            if value is not None:
                values[*metric.cell, name] = float(value)
    return values
