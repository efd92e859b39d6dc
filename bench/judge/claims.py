"""The verdicts on claims of a gain (docs/reference/rule.md#verdicts), and the sentence that
explains a verdict of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from bench.judge.sample import Sample
from bench.judge.statistics import holm
from bench.judged.verdicts import LEVEL, PairVerdict
from bench.utils.errors import counted


@dataclass(frozen=True)
class Claimed:
    """A claim: the differences of a method and the baseline, and the margin in points."""

    sample: Sample
    margin: float


@dataclass(frozen=True)
class Decision:
    """The verdict on a claim, or on a comparison over test items. The p values are corrected by
    Holm's method, and NaN without a test."""

    verdict: PairVerdict | None = None
    p: float = nan  # of the hypothesis that the gain is 0
    p_below: float = nan  # of the hypothesis that the gain is the margin or more


def decide(family: Sequence[Claimed], size: int) -> list[Decision]:
    """The verdicts on the claims of a family on a leaderboard that have scores.

    Both questions (is the gain 0, is it the margin or more) are corrected separately, each for all
    `size` claims of the family. A claim without a test counts with p = 1, so that the correction
    does not grow while seeds arrive.
    """
    differs, below = [1.0] * size, [1.0] * size
    for place, claimed in enumerate(family):
        estimate = claimed.sample.tested
        if estimate:
            differs[place] = estimate.p_value()
            below[place] = estimate.p_below(claimed.margin)
    # The corrections return `size` values. The last ones belong to claims without a score.
    p_values = zip(family, holm(differs), holm(below), strict=False)
    return [_decision(claimed.sample, p, p_below) for claimed, p, p_below in p_values]


def _decision(sample: Sample, p: float, p_below: float) -> Decision:
    estimate = sample.tested
    if not estimate:
        return Decision("open")
    verdict: PairVerdict = "open"
    # A diverged training of the method leaves the pairs. The mean of the remaining ones may be
    # lucky, so that they can show a loss and not a gain.
    is_better = p < LEVEL and estimate.mean > 0 and not sample.missing
    # A loss is below every margin, since margins are positive. So `worse` is said alone.
    if p < LEVEL and estimate.mean < 0:
        verdict = "worse"
    elif p_below < LEVEL:
        verdict = "better, gain below the margin" if is_better else "gain below the margin"
    elif is_better:
        verdict = "better"
    return Decision(verdict, p, p_below)


def explained(sample: Sample, tests: Sequence[str], family: str, noun: str = "seed") -> str:
    """The basis of a verdict as a sentence: seeds, look, mean, interval, tests, level, family, and
    the next look."""
    next_look = sample.next_look
    parts = []
    if sample.look:
        parts.append(f"look at {counted(sample.look, noun)} (N = {sample.sizes[0]})")
    estimate = sample.estimate
    if estimate:
        low, high = (estimate.mean + sign * estimate.half_width() for sign in (-1, 1))
        interval = f"{100 * (1 - LEVEL):.0f} % interval {low:.2f} to {high:.2f}"
        parts.append(f"mean {estimate.mean:.2f} of n = {estimate.n}, {interval}")
    if sample.tested:
        parts += [*tests, f"level {100 * LEVEL:.0f} %, {family}"]
    diverged = {*sample.planned[: sample.look or None]} & {*sample.left_out, *sample.diverged}
    if diverged:
        consequence = ", so that the method cannot be better" if sample.missing else ""
        parts.append(f"{counted(len(diverged), noun)} diverged and left the pairs{consequence}")
    if next_look:
        title = "next look" if sample.look else "first look"
        parts.append(f"{title} at {counted(next_look, noun)}, {sample.made(next_look)} made")
    elif not sample.beside:
        parts.append("no further look")
    return "; ".join(parts)
