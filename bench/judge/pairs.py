"""Methods of a suite compared with a baseline, paired by seed, and the printed gains over it.

`against` is the only path from a suite to these comparisons.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import isnan, nan, sqrt
from statistics import NormalDist, fmean

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import Board
from bench.judge import statistics
from bench.judge.heading import differs
from bench.judge.items import ItemDifference, compare_items
from bench.judge.statistics import ROUNDING, Prior, estimated_prior
from bench.judge.systems import board_rows, shown_name
from bench.judge.verdict import TOLERANCES, tolerance
from bench.judged.rows import NO_BACKBONE, Claim, PairRow, ScoreColumns
from bench.judged.words import AT_LEAST, FEWEST_SEEDS, LEVEL, MOST_SEEDS, Pairing, Word
from bench.reported import prior_sd
from bench.reported.number import Number, numbers
from bench.results.suite_results import RunResults, SuiteResults, diverged
from bench.runs.plan import named
from bench.utils.errors import UserError, errors_of

# Points by seed; the single score of an untrained method has the seed None.
BySeed = Mapping[int | None, float]


@dataclass(frozen=True, eq=False)
class PairedDifferences:
    """The differences A - B of two methods' scores, and the statistics of them. If one side is
    untrained, its single score is compared with every seed of the other ("one-sample"); if both
    are, there is one difference, whose error the test items give ("items"), or, where they are not
    stored, none does ("deterministic")."""

    a: BySeed
    b: BySeed
    tolerance: float = 0.0  # for a deterministic pair: rounding, and other hardware
    # The spread of one run, known from elsewhere: only estimates the seeds needed, below 3 pairs.
    prior_sd: float | None = None
    # A prior of the standard deviation of the differences, from the other comparisons of a suite.
    prior: Prior = (None, 0)
    # How many seeds diverged, as a clause. The others would be a biased sample, so that nothing is
    # decided from them.
    diverged: str = ""
    # The test items, of two encoders without seeds.
    items: ItemDifference | None = None

    @property
    def kind(self) -> Pairing:
        kinds: list[Pairing] = ["paired", "one-sample", "items" if self.items else "deterministic"]
        return kinds[(None in self.a) + (None in self.b)]

    @cached_property
    def differences(self) -> tuple[float, ...]:
        """One per seed that both sides have, in the order of the seeds."""
        pairs = matched(dict(sorted(self.a.items())), dict(sorted(self.b.items())))
        return tuple(a - b for a, b in pairs)

    @property
    def n(self) -> int:
        return len(self.differences)

    @property
    def tested(self) -> bool:
        """Whether there are items, or enough seeds, for an interval and a test."""
        if self.items:
            return True
        return self.kind != "deterministic" and self.n >= FEWEST_SEEDS

    @cached_property
    def mean(self) -> float:
        """Mean difference in points; NaN without pairs."""
        return fmean(self.differences) if self.n else nan

    @cached_property
    def sd(self) -> float:
        """Standard deviation of the differences in points; NaN with fewer than 2 pairs."""
        return statistics.standard_deviation(self.differences) if self.n > 1 else nan

    @property
    def moderated_sd(self) -> float:
        """`sd` pooled with the prior, if there is one. With fewer than 3 pairs sqrt(2) `prior_sd`,
        as for independent runs, if that is known."""
        if self.tested or self.prior_sd is None:
            return statistics.pooled_sd(self.sd, self.n, *self.prior)
        return sqrt(2) * self.prior_sd

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of the mean in points, t of seeds and normal of
        items; NaN if not tested."""
        if not self.tested:
            return nan
        if self.items:
            return NormalDist().inv_cdf(1 - LEVEL / 2) * self.items.error
        return statistics.mean_half_width(self.sd, self.n, LEVEL, *self.prior)

    @property
    def p_value(self) -> float:
        """Two-sided p of the paired (one-sample) t test against mean 0, or of the items; NaN if not
        tested."""
        if not self.tested:
            return nan
        if self.items:
            return self.items.p_value
        df = statistics.degrees_of_freedom(self.n, *self.prior)
        return statistics.t_p_value(self.mean, self.moderated_sd / sqrt(self.n), df)

    def part_of(self, gain: float) -> tuple[float, float, float]:
        """The mean difference divided by a printed gain in points, which has no spread of its own,
        and the ends of its 95 % interval; NaN if the gain is 0, there are fewer than 3 pairs, or a
        seed diverged. The part of two untrained methods has no interval."""
        if self.diverged or not gain or not (self.tested or self.kind == "deterministic"):
            return nan, nan, nan
        ends = (self.mean - self.half_width) / gain, (self.mean + self.half_width) / gain
        return self.mean / gain, min(ends), max(ends)

    def seeds_for(self, gain: float, level: float = LEVEL) -> int | None:
        """The number of seeds that would show a mean difference of `gain` points, as in
        `seeds_to_show`."""
        if self.kind in ("deterministic", "items"):
            return None
        return seeds_to_show(gain, self.moderated_sd, level, self.prior[1])


def seeds_to_show(gain: float, sd: float, level: float = LEVEL, prior_df: float = 0) -> int | None:
    """The fewest seeds at which the interval of a mean difference of `gain` points, with coverage
    `1 - level`, excludes 0, if the differences have this sd, of which `prior_df` degrees of
    freedom come from elsewhere; None if it is NaN, if `gain` is 0, or if more than 1,000 would be
    needed."""
    return statistics.fewest_seeds(
        lambda n: statistics.mean_half_width(sd, n, level, sd, prior_df) < abs(gain)
    )


def matched(a: BySeed, b: BySeed) -> list[tuple[float, float]]:
    """Scores of both at the seeds that both have, in the order of `a`; the single score of an
    untrained method is paired with every seed of the other."""
    if b.keys() == {None}:
        b = dict.fromkeys(a, b[None])
    elif a.keys() == {None}:
        a = dict.fromkeys(b, a[None])
    return [(score, b[seed]) for seed, score in a.items() if seed in b]


@dataclass(frozen=True)
class Decision:
    """The verdict on a comparison and why, as a clause."""

    verdict: Word
    reason: str
    p_adjusted: float = nan  # p after Holm's correction; NaN without a test
    seeds: int | None = None  # the number that would decide an `undecided` pair, if any would


def _decide(pair: PairedDifferences, p_adjusted: float, level: float) -> Decision:
    if pair.diverged:
        return Decision("undecided", pair.diverged)
    word: Word = "better" if pair.mean > 0 else "worse"
    if pair.kind == "deterministic":
        reason = f"deterministic; tolerance {pair.tolerance:.2f}"
        if abs(pair.mean) <= pair.tolerance + ROUNDING:
            word = "undecided"
        return Decision(word, reason)
    if p_adjusted < LEVEL:
        return Decision(word, f"adjusted p = {p_adjusted:.2g}", p_adjusted)
    # Why it is undecided, the most definite first; only a spread of seeds tells how many decide.
    if not pair.n:
        return Decision("undecided", "no seed in common")
    if pair.items:
        return Decision("undecided", f"{pair.items.n:,} test items do not decide", p_adjusted)
    if all(abs(difference) <= ROUNDING for difference in pair.differences):
        return Decision("undecided", "the same scores at every seed", p_adjusted)
    needed = pair.seeds_for(pair.mean, level)
    reason = f"{MOST_SEEDS} seeds would not decide"
    if needed:
        reason = f"about {needed} seeds would decide"
    elif pair.n == 1 and pair.prior_sd is None:
        reason = AT_LEAST
    if not pair.tested:
        reason = f"n = {pair.n}; {reason}"
    return Decision("undecided", reason, p_adjusted, needed)


def strictest_level(family: Sequence[PairedDifferences]) -> float:
    """The Bonferroni level of a family: a p below it rejects whatever the others give."""
    counted = [pair for pair in family if pair.kind != "deterministic" and not pair.diverged]
    return LEVEL / max(1, len(counted))


def decide(family: Sequence[PairedDifferences]) -> list[Decision]:
    """The verdicts on the comparisons of one family, with Holm's correction over the tested ones
    without a diverged seed. The number of seeds that would decide holds whatever the rest of the
    family gives."""
    tested = [pair for pair in family if not (pair.diverged or isnan(pair.p_value))]
    p_values = statistics.holm([pair.p_value for pair in tested])
    adjusted = dict(zip(tested, p_values, strict=True))
    level = strictest_level(family)
    return [_decide(pair, adjusted.get(pair, nan), level) for pair in family]


class NothingToCompare(UserError):
    """No method of a suite has scores beside those of the baseline."""


@dataclass(frozen=True)
class Candidate:
    """A method of a suite in one setting, with the results of its runs by backbone."""

    method: str
    setting: str
    label: str
    outside: bool
    name: str  # label and setting
    results: dict[str, list[RunResults]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As in configurations, with its setting: `simcse@official`. Of an outside encoder its
        label."""
        return self.label if self.outside else f"{self.method}@{self.setting}"

    def on(self, backbone: str) -> list[RunResults]:
        """Its results on a backbone. A method without a backbone has the same on all of them."""
        return self.results.get(backbone) or self.results.get(NO_BACKBONE, [])


def candidates(suite: SuiteResults) -> list[Candidate]:
    """The methods that can be compared, in the order of the plan; of several corpora or recipes of
    one on a backbone the first."""
    by_name: dict[tuple[str, str], Candidate] = {}
    for result in suite.runs:
        run = result.run
        name = run.method, run.setting
        if name not in by_name:
            by_name[name] = Candidate(*name, run.label, run.outside, shown_name(result))
        results = by_name[name].results.setdefault(run.backbone, [])
        if not results or result.experiment == results[0].experiment:
            results.append(result)
    return list(by_name.values())


def find(suite: SuiteResults, text: str) -> Candidate:
    """The planned method that a text names (`bench.runs.plan`); without `@`, its official setting
    if that is planned."""
    with errors_of(f"suite {suite.plan.suite}"):
        chosen = named(text, [result.run for result in suite.runs])
    names = {(run.method, run.setting) for run in chosen}
    meant = [method for method in candidates(suite) if (method.method, method.setting) in names]
    return min(meant, key=lambda candidate: candidate.setting != "official")


@dataclass(frozen=True, eq=False, kw_only=True)
class _Comparison(PairedDifferences):
    """A method (A) against the baseline (B) on one task of a board, or its `Avg`."""

    board: Board
    backbone: str
    task: str
    method: Candidate
    baseline: Candidate

    @property
    def pool(self) -> tuple[str, ...]:
        """Names of the comparisons that it shares a prior with: those of two trained methods on its
        board, backbone and task. What is not moderated is alone."""
        name = self.method.text
        if self.kind == "paired" and self.tested and not self.diverged:
            name = ""
        return self.board.name, self.backbone, self.task, name

    def row(self, decision: Decision, claims: Sequence[Claim]) -> PairRow:
        a, b = _paired(self.a, self.b), _paired(self.b, self.a)
        method, results = self.method, self.method.on(self.backbone)
        return PairRow(
            **vars(decision),
            board=self.board.name,
            backbone=self.backbone,
            method=method.method,
            setting=method.setting,
            task=self.task,
            label=method.label,
            name=method.name,
            outside=method.outside,
            labelled=any(result.run.labelled for result in results),
            runs=tuple(result.run.id for result in results),
            baseline=self.baseline.text,
            baseline_name=self.baseline.name,
            kind=self.kind,
            n=self.n,
            n_a=len(self.a),
            n_b=len(self.b),
            items=self.items.n if self.items else None,
            mean_a=a.mean,
            sd_a=a.sd,
            mean_b=b.mean,
            sd_b=b.sd,
            differences=self.differences,
            difference=self.mean,
            prior_sd=self.prior[0],
            prior_df=self.prior[1],
            half_width=self.half_width,
            p=self.p_value,
            claims=tuple(claims),
        )


def _paired(scores: BySeed, beside: BySeed) -> ScoreColumns:
    """The scores that are paired with one of the other method."""
    if not (None in scores or None in beside):
        scores = {seed: score for seed, score in scores.items() if seed in beside}
    return ScoreColumns(scores=tuple(scores.values()))


def _comparisons(
    board: Board, backbone: str, method: Candidate, baseline: Candidate
) -> Iterator[_Comparison]:
    """The comparisons on a board's tasks: those with scores of both sides, or of one if a training
    diverged, which is reported."""
    results_a, results_b = method.on(backbone), baseline.on(backbone)
    clauses = (diverged(results_a, method.label), diverged(results_b, baseline.label))
    ended_badly = "; ".join(filter(None, clauses))
    is_sts = board.metric == "spearman"
    entry = TOLERANCES["untrained" if is_sts else "transfer"]
    for task in dict.fromkeys((*board.tasks, board.overall)):
        a, b = scores_by_seed(results_a, board, task), scores_by_seed(results_b, board, task)
        if not (a or b) or not (ended_badly or (a and b)):
            continue
        items = prior = None
        # Items are of the main metric alone.
        if a.keys() == b.keys() == {None} and METRICS[board.metric].is_main:
            tasks = board.tasks if task == "Avg" else [task]
            difference = a[None] - b[None]
            items = compare_items(results_a[0].items, results_b[0].items, tasks, difference)
        if is_sts and board.is_in_print(task):
            prior = prior_sd(backbone, task)
        yield _Comparison(
            a,
            b,
            tolerance=tolerance(entry, task),
            prior_sd=prior,
            diverged=ended_badly,
            items=items,
            board=board,
            backbone=backbone,
            task=task,
            method=method,
            baseline=baseline,
        )


def scores_by_seed(results: Sequence[RunResults], board: Board, task: str) -> BySeed:
    points = {result.run.seed: result.points(board, task) for result in results}
    return {seed: value for seed, value in points.items() if value is not None}


# (method, backbone in the suite, task, metric) -> printed scores
_Printed = Mapping[tuple[str, str, str, str], list[Number]]


def _printed() -> _Printed:
    """The printed scores of methods, each for both settings of its method."""
    printed = defaultdict(list)
    for number in numbers():
        if number.split == "test" and number.run:
            method = number.run.partition("@")[0]
            printed[method, number.our_backbone, number.task, number.metric].append(number)
    return printed


def _share_table(a: Number, b: Number) -> bool:
    """Whether two printed numbers share a table and, if both have one, a backbone."""
    either_without = NO_BACKBONE in (a.our_backbone, b.our_backbone)
    same_backbone = either_without or a.backbone == b.backbone
    return same_backbone and (a.source, a.table) == (b.source, b.table)


def _share_settings(a: Number, b: Number) -> bool:
    """Whether two printed numbers agree in every setting that both state, as in `bs=64, cls`."""
    stated: dict[str, str] = {}
    for piece in f"{a.variant}, {b.variant}".split(", "):
        name, is_setting, value = piece.partition("=")
        if is_setting and stated.setdefault(name, value) != value:
            return False
    return True


def _claims(compared: _Comparison, printed: _Printed) -> list[tuple[Number, Number | None]]:
    """The printed numbers of a comparison: those of A, each with those of B from its table."""
    if not compared.board.is_in_print(compared.task):
        return []
    sides = []
    for method in (compared.method.method, compared.baseline.text.partition("@")[0]):
        cell = compared.task, compared.board.metric
        without = printed.get((method, NO_BACKBONE, *cell), [])
        sides.append(printed.get((method, compared.backbone, *cell), without))
    numbers_a, numbers_b = sides
    claims: list[tuple[Number, Number | None]] = []
    for a in numbers_a:
        beside = [b for b in numbers_b if _share_table(a, b)]
        rows = [number for number in numbers_a if _share_table(number, a)]
        if any(_share_settings(*pair) for pair in product(rows, beside)):
            beside = [b for b in beside if _share_settings(a, b)]
        # Otherwise the table is a sweep, and our two runs differ in the swept setting just as the
        # printed rows do.
        claims += [(a, b) for b in beside] or [(a, None)]
    # A number of A alone adds nothing if a table prints both.
    return [(a, b) for a, b in claims if b] or claims


def _claim(compared: _Comparison, a: Number, b: Number | None, level: float) -> Claim:
    printed_b = b.value if b else None
    claimed = nan if printed_b is None else a.value - printed_b
    part, low, high = compared.part_of(claimed)
    return Claim(
        source=a.source,
        table=a.table,
        printed_on=a.backbone,
        printed_a=a.value,
        printed_b=printed_b,
        claimed=claimed,
        part=part,
        part_low=low,
        part_high=high,
        seeds_claimed=compared.seeds_for(claimed, level),
    )


def against(suite: SuiteResults, baseline: str) -> list[PairRow]:
    """Compare all methods of a suite with `baseline`, each on the backbones that it shares with it:
    a row for each board, backbone, method and task (or `Avg`) that both have scores on.

    The families of Holm's correction are, per board, its overall scores and its single tasks.
    Printed numbers stand beside a row, each with that of the baseline from the same table, unless
    the suite cannot be compared with papers.
    """
    side_b = find(suite, baseline)
    sides = [method for method in candidates(suite) if method.text != side_b.text]
    names = list(dict.fromkeys(result.run.backbone for result in suite.runs))
    comparisons: list[_Comparison] = []
    for board, backbone, side_a in product(board_rows(suite), names, sides):
        # If neither side uses a backbone there is one comparison, not one per backbone.
        used = backbone in (NO_BACKBONE, *side_a.results, *side_b.results)
        if used and side_a.on(backbone) and side_b.on(backbone):
            comparisons += _comparisons(board.whole, backbone, side_a, side_b)
    if not comparisons:
        raise NothingToCompare(
            f"suite {suite.plan.suite} has no scores to compare with '{side_b.text}' on "
            f"{', '.join(names)}; run its missing runs first, or pass others"
        )
    comparisons = _moderated(comparisons)
    families: dict[tuple[str, bool], list[_Comparison]] = defaultdict(list)
    for compared in comparisons:
        families[compared.board.name, compared.task == compared.board.overall].append(compared)
    printed: _Printed = {}
    if not (suite.plan.stand_ins or differs(suite)):
        printed = _printed()
    rows: dict[_Comparison, PairRow] = {}
    for family in families.values():
        level = strictest_level(family)
        for compared, decision in zip(family, decide(family), strict=True):
            claims = [_claim(compared, a, b, level) for a, b in _claims(compared, printed)]
            rows[compared] = compared.row(decision, claims)
    return [rows[compared] for compared in comparisons]


def _moderated(comparisons: Sequence[_Comparison]) -> list[_Comparison]:
    """Comparisons with the prior that those of their pool give."""
    spreads: dict[tuple[str, ...], list[tuple[float, int]]] = defaultdict(list)
    for compared in comparisons:
        spreads[compared.pool].append((compared.sd, compared.n))
    priors = {pool: estimated_prior(members) for pool, members in spreads.items()}
    return [replace(compared, prior=priors[compared.pool]) for compared in comparisons]
