"""The answers to claims of a gain (docs/statistics.md#answers), and the sentence that explains an
answer of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from bench.judge.sample import Sample
from bench.judge.statistics import holm
from bench.judged.words import LEVEL, Word
from bench.utils.errors import counted


@dataclass(frozen=True)
class Claimed:
    """A claim: the differences of a method and the baseline, and the margin in points."""

    sample: Sample
    margin: float


@dataclass(frozen=True)
class Decision:
    """The answer to a claim, or to a comparison over test items; p values are by Holm's method, NaN
    without a test."""

    answer: Word | None = None
    p: float = nan  # that the gain is 0
    p_below: float = nan  # that it is the margin or more


def decide(family: Sequence[Claimed], size: int) -> list[Decision]:
    """The answers to those claims of a family on a board that have scores. The two questions are
    corrected by themselves, for all `size` claims: a claim without a test has p = 1."""
    differs, below = [1.0] * size, [1.0] * size
    for place, claimed in enumerate(family):
        estimate = claimed.sample.tested
        if estimate:
            differs[place] = estimate.p_value()
            below[place] = estimate.p_below(claimed.margin)
    p_values = zip(family, holm(differs), holm(below), strict=False)
    return [_decision(claimed.sample, p, p_below) for claimed, p, p_below in p_values]


def _decision(sample: Sample, p: float, p_below: float) -> Decision:
    estimate = sample.tested
    if not estimate:
        return Decision("open")
    answer: Word = "open"
    is_better = p < LEVEL and estimate.mean > 0 and not sample.missing
    if p < LEVEL and estimate.mean < 0:
        answer = "worse"
    elif p_below < LEVEL:
        answer = "better, gain below the margin" if is_better else "gain below the margin"
    elif is_better:
        answer = "better"
    return Decision(answer, p, p_below)


def explained(sample: Sample, tests: Sequence[str], family: str, noun: str = "seed") -> str:
    """What an answer rests on, as a sentence: seeds, look, mean, interval, tests, level, family,
    and the next look."""
    first, following = sample.sizes[0], sample.next_look
    parts = []
    if sample.look:
        parts.append(f"look at {counted(sample.look, noun)} (N = {first})")
    estimate = sample.estimate
    if estimate:
        low, high = (estimate.mean + sign * estimate.half_width() for sign in (-1, 1))
        interval = f"{100 * (1 - LEVEL):.0f} % interval {low:.2f} to {high:.2f}"
        parts.append(f"mean {estimate.mean:.2f} of n = {estimate.n}, {interval}")
    if sample.tested:
        parts += [*tests, f"level {100 * LEVEL:.0f} %, {family}"]
    gone = {*sample.planned[: sample.look or None]} & {*sample.left_out, *sample.diverged}
    if gone:
        fate = ", so that the method cannot be better" if sample.missing else ""
        parts.append(f"{counted(len(gone), noun)} diverged and left the pairs{fate}")
    if following:
        title = "next look" if sample.look else "first look"
        parts.append(f"{title} at {counted(following, noun)}, {sample.made(following)} made")
    elif not sample.beside:
        parts.append("no further look")
    return "; ".join(parts)
