"""The verdict on a printed number, given our seeds; docs/statistics.md states the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Literal

from bench.comparison import statistics
from bench.comparison.statistics import FEWEST_SEEDS, LEVEL, ROUNDING, Prediction

Kind = Literal[
    "reproduced", "consistent", "lower", "higher", "inconclusive",
    "diverged", "not comparable", "not run",
]  # fmt: skip

VERDICT_SYMBOLS: dict[Kind, str] = {
    "reproduced": "=",
    "consistent": "≈",
    "lower": "↓",
    "higher": "↑",
    "inconclusive": "?",
    "diverged": "×",
    "not comparable": "≠",
    "not run": "–",
}

# Shown on the page beside the symbols.
VERDICT_MEANINGS: dict[Kind, str] = {
    "reproduced": "our mean is within the tolerance of the printed number, "
    "which lies within the spread of our seeds",
    "consistent": "the printed number lies within the spread of our seeds, "
    "our mean is outside the tolerance",
    "lower": "ours is lower than printed by more than the spread of our seeds explains",
    "higher": "ours is higher than printed by more than the spread of our seeds explains",
    "inconclusive": "too few seeds, or too large a spread, for a verdict",
    "diverged": "at least one of our trainings diverged",
    "not comparable": "ours was measured on another backbone, corpus, data set or recipe",
    "not run": "the suite has no score for it",
}


@dataclass(frozen=True)
class Tolerance:
    """The largest difference from the printed number at which a mean still counts as `reproduced`.

    It is the larger one of `points` and `spreads`, for an average and for a single task.
    """

    points: tuple[float, float]
    reason: str  # where the numbers come from
    spreads: tuple[float, float] = (0, 0)  # in prior standard deviations of the cell


_SAME = Tolerance((0.02, 0.03), "same weights: rounding, and float32 on other hardware")
TOLERANCES = {
    "checkpoint": _SAME,
    "untrained": _SAME,
    "whitening": Tolerance(
        (0.1, 0.1), "a decomposition of few sentences: order of summation, float32 against float64"
    ),
    "flow": Tolerance(
        (1.0, 1.0), "fitted by gradient descent from one random start: treated as a trained model"
    ),
    "transfer": Tolerance(
        (0.3, 0.3), "same vectors, classifier trained by stochastic gradient descent"
    ),
    "transfer, small test": Tolerance(
        (1.0, 1.0), "as transfer, on 500 (TREC) or 1,725 (MRPC) items"
    ),
    "trained base": Tolerance(
        (1.0, 1.0), "mean of 5 or more seeds; single tasks vary more than the average", (0, 2)
    ),
    "trained large": Tolerance(
        (1.0, 1.0), "two standard deviations over public seeds, at least 1 point", (2, 2)
    ),
    # No prior exists for differences: how much variance pairing removes depends on the two methods.
    "difference": Tolerance(
        (0.5, 1.0), "seeds are paired; printed gains start at 0.28, so more would accept a loss"
    ),
    # The last two are not in points.
    "uniformity": Tolerance((0.1, 0.1), "separates the two printed differences, 0.04 and 0.31"),
    "best step": Tolerance(
        (3125, 3125), "a fifth of an epoch of 15,625 steps; sd of 2,730 over 50 seeds on bert-base"
    ),
}


def tolerance(kind: str, task: str, prior_sd: float | None = None) -> float:
    """The tolerance of a cell in points.

    Args:
        kind: a key of `TOLERANCES`.
        task: "Avg" or the name of a task.
        prior_sd: prior standard deviation of the cell, in points.
    """
    if kind == "transfer" and task in ("TREC", "MRPC"):
        kind = "transfer, small test"
    entry, which = TOLERANCES[kind], task != "Avg"
    return max(entry.points[which], entry.spreads[which] * (prior_sd or 0.0))


def seeds_to_decide(
    scores: Sequence[float], tolerance: float, prior_sd: float | None = None
) -> int | None:
    """The number of seeds at which the prediction interval is narrow enough for a verdict.

    None if their spread so far is unknown or if 1,000 seeds are not enough.
    """
    sd = statistics.standard_deviation(scores) if len(scores) > 1 else prior_sd
    if sd is None:
        return None
    return statistics.fewest_seeds(
        lambda n: Prediction(0.0, sd, n, prior_sd).half_width() <= 2 * tolerance
    )


@dataclass(frozen=True)
class VerdictInput:
    """What a verdict is based on, in points."""

    printed: float
    ours: Sequence[float]  # one score per seed
    tolerance: float
    deterministic: bool = False  # whether our score does not depend on a seed
    prior_sd: float | None = None  # standard deviation over public seeds, if known

    @property
    def prediction(self) -> Prediction | None:
        """Of one further seed; None for deterministic cells and below 3 seeds."""
        if self.deterministic or len(self.ours) < FEWEST_SEEDS:
            return None
        return statistics.predict(self.ours, self.prior_sd)


@dataclass(frozen=True)
class Verdict:
    """A verdict and why, as a clause."""

    kind: Kind
    reason: str = ""
    seeds: int | None = None  # the number that would decide an `inconclusive` cell, if any would


def _judge(cell: VerdictInput, prediction: Prediction | None, p_adjusted: float) -> Verdict:
    if not cell.ours:
        return Verdict("not run", "no scores in this suite")
    mean, n = fmean(cell.ours), len(cell.ours)
    near = abs(mean - cell.printed) <= cell.tolerance + ROUNDING
    direction: Kind = "lower" if mean < cell.printed else "higher"
    if cell.deterministic:
        kind = "reproduced" if near else direction
        return Verdict(kind, f"deterministic; tolerance {cell.tolerance:.2f}")

    half_width = prediction.half_width() if prediction else inf
    if half_width > 2 * cell.tolerance:
        needed = seeds_to_decide(cell.ours, cell.tolerance, cell.prior_sd)
        seeds = f"about {needed} seeds" if needed else "no number of seeds"
        wide = f"interval ±{half_width:.2f} above 2 x {cell.tolerance:.2f}"
        why = f"n = {n}" if n < FEWEST_SEEDS else wide
        return Verdict("inconclusive", f"{why}; {seeds} would decide", needed)
    if p_adjusted < LEVEL:
        return Verdict(direction, f"interval ±{half_width:.2f}, adjusted p = {p_adjusted:.2g}")
    kind = "reproduced" if near else "consistent"
    return Verdict(kind, f"interval ±{half_width:.2f}, tolerance {cell.tolerance:.2f}")


def verdicts(table: Sequence[VerdictInput]) -> list[Verdict]:
    """The verdicts on the cells of one table.

    Holm's correction covers the cells with at least 3 seeds. Cells that were not run, diverged or
    are not comparable must be left out of `table`: they need no test.
    """
    cells = [(cell, cell.prediction) for cell in table]
    p_values = [prediction.p_value(cell.printed) for cell, prediction in cells if prediction]
    adjusted = iter(statistics.holm(p_values))
    return [
        _judge(cell, prediction, next(adjusted) if prediction else 1.0)
        for cell, prediction in cells
    ]
