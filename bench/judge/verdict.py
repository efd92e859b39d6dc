"""The verdict on a printed number, given our seeds. docs/reference/rule.md states the rule, and
docs/explanation/error-rates.md says how often it errs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite

from bench.datasets.metrics import Tolerance, is_points
from bench.datasets.tasks import LEADERBOARDS
from bench.judge.claims import explained
from bench.judge.sample import Sample
from bench.judge.statistics import ROUNDING, Estimate, benjamini_hochberg, holm
from bench.judged.rows import Verdict
from bench.judged.verdicts import LEVEL, PrintedVerdict
from bench.reported import public_sd
from bench.utils.errors import UserError, counted, did_you_mean

# The tolerances of scores by how the run was made (docs/reference/rule.md#tolerances). Other
# metrics have tolerances of their own.
TOLERANCES = {
    "untrained": Tolerance(0.02, 0.03, "same weights: rounding, and float32 on other hardware"),
    "whitening": Tolerance(0.1, 0.1, "a decomposition of the same sentences"),
    "whitening, other text": Tolerance(1.0, 1.0, "fitted on other sentences than the paper's"),
    "flow": Tolerance(1.0, 1.0, "fitted by gradient descent from a single random start"),
    "transfer": Tolerance(
        0.3, 0.3, "same vectors, classifier trained by gradient descent", small=1.0
    ),
    "trained": Tolerance(
        1.0,
        1.0,
        "a point is what papers call a gain; single tasks vary more",
        deviations=2,
        limit=2.0,
    ),
    "trained, transfer": Tolerance(
        0.5, 1.0, "accuracies of trained encoders vary less than correlations", small=2.0
    ),
    "difference": Tolerance(
        0.5, 1.0, "seeds are paired; printed gains start at 0.28, so more would accept a loss"
    ),
}


def tolerance(entry: Tolerance, task: str, public_sd: float | None = None) -> float:
    """The tolerance of a number in points; `task` may be "Avg"."""
    if task == "Avg":
        return entry.average
    small = entry.small if task in ("TREC", "MRPC") else 0.0
    return min(max(entry.task, entry.deviations * (public_sd or 0.0), small), entry.limit)


@dataclass(frozen=True)
class VerdictInput:
    """The basis of a verdict, in points."""

    printed: float
    sample: Sample
    tolerance: float
    average: bool = True  # whether it is an average; single tasks are corrected by themselves
    above: bool = False  # whether the paper states that scores are above `printed`
    is_difference: bool = False  # a difference is not reproduced while ours may be 0
    noun: str = "seed"  # the draws of the sample

    @property
    def deterministic(self) -> bool:
        return None in self.sample.values

    def distance(self, mean: float) -> float:
        """|our mean - printed value|; of a printed lower bound, how far our mean is below it."""
        below = self.printed - mean
        return below if self.above else abs(below)

    def within(self, estimate: Estimate) -> bool | None:
        """Whether our mean is within the tolerance: True if its 96 % interval lies within (two
        one-sided tests at 2 %), False if its 98 % interval lies outside, None while neither
        does."""
        distance, bound = self.distance(estimate.mean), self.tolerance + ROUNDING
        if distance - estimate.half_width() > bound:
            return False
        may_be_0 = self.is_difference and abs(estimate.mean) <= estimate.half_width()
        is_within = distance + estimate.half_width(2 * LEVEL) <= bound
        return True if is_within and not may_be_0 else None

    @cached_property
    def p_value(self) -> float:
        """The probability that one run of ours differs from our mean as much as the printed value
        does, or is above a printed bound; 1 without a test."""
        estimate = self.sample.tested
        if not estimate:
            return 1.0
        p = estimate.further.p_value(self.printed)
        if not self.above:
            return p
        # A bound has one side: half of the two-sided p.
        return p / 2 if self.distance(estimate.mean) > 0 else 1 - p / 2


def _verdict_on(basis: VerdictInput, p_adjusted: float, family: str) -> Verdict:
    """The verdict on one number. Whether our mean is within the tolerance is asked first; p decides
    only between `consistent` and `lower` or `higher`."""
    verdict = partial(Verdict, tolerance=basis.tolerance)
    sample = basis.sample
    bounds = f"tolerance {basis.tolerance:.2f}"
    # Nothing was drawn, so there is nothing to test: the distance alone decides.
    if basis.deterministic:
        mean = sample.values[None]
        is_near = basis.distance(mean) <= basis.tolerance + ROUNDING
        kind: PrintedVerdict = "reproduced" if is_near else _direction(basis, mean)
        return verdict(kind=kind, reason=f"deterministic; {bounds}", within=is_near)
    estimate, next_look = sample.tested, sample.next_look
    if not estimate:
        reason = explained(sample, [], "", basis.noun)
        return verdict(kind="open", reason=reason, next_look=next_look)
    within, p = basis.within(estimate), basis.p_value
    one_run = f"p = {p:.2g} ({p_adjusted:.2g} corrected) that one run of ours scores as printed"
    tests = [f"{bounds} of {basis.printed:.2f}", one_run]
    kind, one_in = "open", None
    if within:
        kind = "reproduced"
    elif within is False and p_adjusted < LEVEL:
        kind = _direction(basis, estimate.mean)
    # p counts both sides of our mean, and the printed value is on one: one in 2 / p runs reaches
    # it. The p of a bound has one side already.
    elif within is False:
        kind, one_in = "consistent", round((1 if basis.above else 2) / p)
    return verdict(
        kind=kind,
        reason=explained(sample, tests, family, basis.noun),
        next_look=next_look if kind == "open" else None,
        one_in=one_in,
        within=within,
        half_width=estimate.further.half_width(),
        mean_half_width=estimate.half_width(),
        p=p,
        p_adjusted=p_adjusted,
    )


def _direction(basis: VerdictInput, mean: float) -> PrintedVerdict:
    return "lower" if mean < basis.printed else "higher"


def verdicts_of(family: Sequence[VerdictInput], pending: Sequence[bool] = ()) -> list[Verdict]:
    """The verdicts on the numbers of one paper, each once and with at least one score.

    The p values of averages are corrected by Holm's method, since one wrong `lower` is one too
    many; the p values of single tasks, of which there are many, by Benjamini and Hochberg's.
    `pending` has an entry for each number that is planned and has no test yet: whether it is an
    average. These count with p = 1: a family has its planned size from the first look on.
    """
    adjusted: dict[int, float] = {}
    families: dict[bool, str] = {}
    for average, correct in ((True, holm), (False, benjamini_hochberg)):
        places = [
            place
            for place, basis in enumerate(family)
            if basis.average is average and not basis.deterministic
        ]
        p_values = [family[place].p_value for place in places]
        p_values += [1.0] * pending.count(average)
        # The corrected p values of the pending numbers, which are last, belong to no verdict yet.
        adjusted |= zip(places, correct(p_values), strict=False)
        name, noun = ("Holm", "average") if average else ("Benjamini and Hochberg", "task")
        families[average] = f"{name} over the {counted(len(p_values), noun)} of the paper"
    return [
        _verdict_on(basis, adjusted.get(place, 1.0), families[basis.average])
        for place, basis in enumerate(family)
    ]


def judge(
    *,
    printed: float,
    scores: Sequence[float],
    planned: int,
    backbone: str = "",
    task: str = "Avg",
    leaderboard: str = "sts",
) -> Verdict:
    """Return the verdict on a printed number of trained encoders, without a suite.

    >>> scores = [76.09, 76.42, 76.31, 75.98, 76.25]
    >>> verdict = sentbench.judge(printed=80.00, scores=scores, planned=5)
    >>> verdict.kind, verdict.tolerance, round(verdict.mean_half_width, 2)
    ('lower', 1.0, 0.29)

    Args:
        printed: in points.
        scores: in points, one for each seed, in the order of the seeds.
        planned: N, how many seeds were planned before the first score; below 3 it counts as 3.
        backbone: such as "bert-base-uncased", whose public seeds may widen the tolerance of an STS
            task.
        task: a task of the leaderboard, or "Avg".
        leaderboard: such as "sts" and "transfer".

    Returns:
        `kind` ("open" before N scores), its `reason` as a sentence, `tolerance`, and half of the
        98 % interval of our mean, `mean_half_width` (points; None before N scores). It is the only
        number of its family: the numbers of a whole table belong in a suite.

    Raises:
        UserError: the leaderboard or the task is unknown, a score is not finite, or a
            number is not in points.
    """
    tasks_of = LEADERBOARDS.get(leaderboard)
    if not tasks_of or task not in (*tasks_of.tasks, "Avg"):
        hint = did_you_mean(leaderboard, LEADERBOARDS)
        raise UserError(f"no leaderboard '{leaderboard}' has '{task}'{hint}")
    if not all(map(isfinite, scores)):
        raise UserError("a score is not finite; after a diverged seed there is no verdict")
    for value in (printed, *scores):
        if not is_points(value):
            raise UserError(f"{value} is not in points; write a score such as 76.25")
    name, sd = "trained, transfer", None
    if tasks_of.metric == "spearman":
        name, sd = "trained", public_sd(backbone, task)
    allowed = tolerance(TOLERANCES[name], task, sd)
    sample = Sample(dict(enumerate(scores)), range(max(planned, len(scores))), planned)
    return verdicts_of([VerdictInput(printed, sample, allowed, average=task == "Avg")])[0]
