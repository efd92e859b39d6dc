"""The verdict on a printed number, given our seeds. docs/statistics.md states the rule,
docs/error-rates.md how often it errs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import fmean

from scipy.stats import false_discovery_control

from bench.datasets.metrics import Tolerance
from bench.judge.statistics import (
    ROUNDING,
    Prediction,
    fewest_seeds,
    holm,
    level_of,
    mean_half_width,
    of_planned,
    standard_deviation,
)
from bench.judged.rows import Verdict
from bench.judged.words import AT_LEAST, FEWEST_SEEDS, LEVEL, MOST_SEEDS, Kind

# The tolerances of scores, by how the run was made; other metrics have their own.
TOLERANCES = {
    "untrained": Tolerance(0.02, 0.03, "same weights: rounding, and float32 on other hardware"),
    "whitening": Tolerance(0.1, 0.1, "a decomposition of the same sentences"),
    "whitening, other text": Tolerance(1.0, 1.0, "fitted on other sentences than print"),
    "flow": Tolerance(1.0, 1.0, "fitted by gradient descent from a single random start"),
    "transfer": Tolerance(
        0.3, 0.3, "same vectors, classifier trained by gradient descent", small=1.0
    ),
    "trained": Tolerance(
        1.0, 1.0, "a point is what papers call a gain; single tasks vary more", spreads=2, limit=2.0
    ),
    "trained, transfer": Tolerance(
        0.5, 1.0, "accuracies of trained encoders vary less than correlations", small=2.0
    ),
    # No prior exists for differences: how much pairing removes depends on the two methods.
    "difference": Tolerance(
        0.5, 1.0, "seeds are paired; printed gains start at 0.28, so more would accept a loss"
    ),
}


def tolerance(entry: Tolerance, task: str, prior_sd: float | None = None) -> float:
    """The tolerance of a number in points; `task` may be "Avg"."""
    if task == "Avg":
        return entry.average
    small = entry.small if task in ("TREC", "MRPC") else 0.0
    return min(max(entry.task, entry.spreads * (prior_sd or 0.0), small), entry.limit)


@dataclass(frozen=True)
class VerdictInput:
    """The basis of a verdict; scores, tolerance and standard deviation are in points."""

    printed: float
    ours: Sequence[float]  # one per seed
    tolerance: float
    deterministic: bool = False  # no seed
    prior_sd: float | None = None  # over public seeds, if known
    planned: int = 0  # seeds that were planned before the first score; by default those of `ours`
    average: bool = True  # of a row; corrected for multiplicity apart from single tasks
    above: bool = False  # print states that scores are above `printed`

    @property
    def tested(self) -> bool:
        return not self.deterministic and len(self.ours) >= FEWEST_SEEDS

    @property
    def distance(self) -> float:
        """|our mean - print|; by how much our mean is below print, if print is a lower bound."""
        below = self.printed - fmean(self.ours)
        return below if self.above else abs(below)

    @property
    def first(self) -> int:
        """The number of seeds that has the whole level."""
        return max(self.planned or len(self.ours), FEWEST_SEEDS)

    def mean_half_width(self, level: float, n: int | None = None) -> float:
        """Half the width of the interval of our mean with coverage `1 - level`, as if there were n
        seeds with the same spread."""
        sd = standard_deviation(self.ours) if len(self.ours) > 1 else self.prior_sd or 0.0
        return mean_half_width(sd, n or len(self.ours), level, self.prior_sd)

    def within(self, n: int | None = None) -> bool | None:
        """Whether our mean is within the tolerance: True if its 90 % interval lies within (two
        one-sided tests at 5 %), False if its 95 % interval lies outside, None while undecided. With
        fewer or more seeds than planned, the intervals are wider."""
        level = level_of(n or len(self.ours), self.first)
        if self.distance + self.mean_half_width(2 * level, n) <= self.tolerance + ROUNDING:
            return True
        if self.distance - self.mean_half_width(level, n) > self.tolerance + ROUNDING:
            return False
        return None

    @property
    def first_answer(self) -> bool | None:
        """`within` of the first look, as long as our mean remains on that side of the tolerance."""
        answer = replace(self, ours=self.ours[: self.first]).within()
        return answer if answer is (self.distance <= self.tolerance + ROUNDING) else None

    @property
    def spread_known(self) -> bool:
        """Whether a spread is known, from our scores or from elsewhere."""
        return len(self.ours) > 1 or self.prior_sd is not None

    @property
    def seeds_to_decide(self) -> int:
        """The number of seeds at which `within` is decided if mean and spread stay as they are; at
        most `MOST_SEEDS` + 1. The fewest that are tested if no spread is known, which is 0 then."""

        def decides(n: int) -> bool:
            return self.within(n) is not None

        return fewest_seeds(decides, len(self.ours), self.first) or MOST_SEEDS + 1

    @cached_property
    def p_value(self) -> float:
        """Probability that one run of ours differs from our mean as much as print does, or is above
        a printed bound. Only of what is tested."""
        p = Prediction(self.ours, self.prior_sd).p_value(self.printed)
        if not self.above:
            return p
        return p / 2 if self.distance > 0 else 1 - p / 2


def _seeds_text(given: VerdictInput) -> tuple[int | None, str]:
    if not given.spread_known:
        return FEWEST_SEEDS, AT_LEAST
    needed = given.seeds_to_decide
    if needed > MOST_SEEDS:
        return None, f"more than {MOST_SEEDS:,} seeds would be needed: our mean is at its edge"
    text = f"{needed} seeds decide if mean and spread stay as they are"
    fewest = replace(given, printed=fmean(given.ours)).seeds_to_decide
    if fewest > max(len(given.ours), FEWEST_SEEDS) and not given.above:
        text += f"; with this spread, fewer than {fewest} cannot confirm any mean"
    return needed, text


def _judge(given: VerdictInput, p_adjusted: float | None) -> Verdict:
    verdict = partial(Verdict, tolerance=given.tolerance, spread_known=given.spread_known)
    direction: Kind = "lower" if fmean(given.ours) < given.printed else "higher"
    if given.deterministic:
        near = given.distance <= given.tolerance + ROUNDING
        reason = f"deterministic; tolerance {given.tolerance:.2f}"
        return verdict(kind="reproduced" if near else direction, reason=reason, within=near)
    if p_adjusted is None:
        seeds, text = _seeds_text(given)
        made = of_planned(len(given.ours), given.planned) or f"n = {len(given.ours)}; "
        return verdict(kind="inconclusive", reason=made + text, seeds=seeds)

    answer = within = given.within()
    early = ""
    if answer is None:  # with the seeds that were added; the first look may have decided
        within = given.first_answer
        if within is not None:
            early = f"; the first {given.first} seeds decided"
    level = level_of(len(given.ours), given.first)
    if within:  # two one-sided tests
        level *= 2
    width = given.mean_half_width(level)
    verdict = partial(
        verdict,
        within=within,
        half_width=Prediction(given.ours, given.prior_sd).half_width(),
        mean_half_width=width,
        mean_coverage=100 * (1 - level),
        p=given.p_value,
        p_adjusted=p_adjusted,
    )
    made = of_planned(len(given.ours), given.planned)
    interval = f"{made}our mean ±{width:.2f}, tolerance {given.tolerance:.2f}{early}"
    if within is None:
        seeds, text = _seeds_text(given)
        return verdict(kind="inconclusive", reason=f"{interval}; {text}", seeds=seeds)
    if within:
        return verdict(kind="reproduced", reason=interval)
    if p_adjusted < LEVEL:
        return verdict(kind=direction, reason=f"{interval}; adjusted p = {p_adjusted:.2g}")
    much = "much" if direction == "lower" else "little"
    one_in = round((1 if given.above else 2) / given.p_value)
    reason = f"{interval}; one run of ours in {one_in} scores as {much} as print"
    return verdict(kind="consistent", reason=reason, one_in=one_in)


def verdicts_of(family: Sequence[VerdictInput], pending: Sequence[bool] = ()) -> list[Verdict]:
    """The verdicts on the numbers of one paper, each once and with at least one score. The p values
    of averages are corrected by Holm's method, those of single tasks by Benjamini and Hochberg's.

    `pending` says of each number that is planned and has no test yet whether it is an average. They
    count with p = 1: a family has its planned size from the first look on.
    """
    adjusted: dict[int, float] = {}
    for average, correct in ((True, holm), (False, false_discovery_control)):
        of_kind = [
            index
            for index, given in enumerate(family)
            if given.average is average and not given.deterministic
        ]
        p_values = [family[index].p_value if family[index].tested else 1.0 for index in of_kind]
        corrected = correct(p_values + [1.0] * pending.count(average))
        adjusted |= zip(of_kind, map(float, corrected[: len(of_kind)]), strict=True)
    return [
        _judge(given, adjusted[index] if given.tested else None)
        for index, given in enumerate(family)
    ]
