"""Methods of a suite compared with a baseline, paired by seed, and the printed gains over it.

`against` is the only path from a suite to these comparisons.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import nan, sqrt
from statistics import NormalDist, fmean

from bench.datasets.metrics import METRICS
from bench.datasets.tasks import Board
from bench.judge import statistics
from bench.judge.heading import differs
from bench.judge.items import ItemDifference, compare_items
from bench.judge.statistics import ROUNDING, Prior, estimated_prior, level_of, of_planned
from bench.judge.systems import board_rows, shown_name
from bench.judge.verdict import TOLERANCES, tolerance
from bench.judged.rows import NO_BACKBONE, Claim, PairRow, ScoreColumns, grouped
from bench.judged.words import AT_LEAST, FEWEST_SEEDS, LEVEL, MOST_SEEDS, Pairing, Word
from bench.reported import prior_sd
from bench.reported.number import Number, numbers
from bench.results.suite_results import RunResults, SuiteResults, diverged, planned_row
from bench.runs.plan import named
from bench.runs.run import PlannedRun
from bench.utils.errors import UserError, errors_of

# Points by seed, or by template; the single score of an untrained method has the seed None.
Draw = int | str | None
BySeed = Mapping[Draw, float]
Seeds = AbstractSet[Draw]

UNTESTED: tuple[Pairing, ...] = ("deterministic", "templates")  # they count in no family


def has_templates(scores: BySeed) -> bool:
    return any(isinstance(draw, str) for draw in scores)


@dataclass(frozen=True, eq=False)
class PairedDifferences:
    """The differences A - B of two methods' scores, and the statistics of them. If one side is
    untrained, its single score is compared with every seed of the other ("one-sample"); if both
    are, there is one difference, whose error the test items give ("items"), or, where they are not
    stored, none does ("deterministic"). Templates are chosen and not drawn, so differences over
    them have no test ("templates")."""

    a: BySeed
    b: BySeed
    tolerance: float = 0.0  # for a deterministic pair: rounding, and other hardware
    # The seeds of both that were planned before the first score; by default those with scores.
    first_seeds: Seeds = frozenset()
    # The spread of one run, known from elsewhere: only estimates the seeds needed, below 3 pairs.
    prior_sd: float | None = None
    # A prior of the standard deviation of the differences, from the other comparisons of a suite.
    prior: Prior = (None, 0)
    # How many seeds diverged, as a clause. The others would be a biased sample, so that nothing is
    # decided from them.
    diverged: str = ""
    # The test items, of two encoders without seeds.
    items: ItemDifference | None = None
    # The same of each template that both have, in the order of `differences`.
    template_items: Sequence[ItemDifference | None] = ()

    @cached_property
    def kind(self) -> Pairing:
        if has_templates(self.a) or has_templates(self.b):
            return "templates"
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
        return self.kind not in UNTESTED and self.n >= FEWEST_SEEDS

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

    @property
    def planned(self) -> int:
        """The number of seeds that has the whole level."""
        return max(len(self.first_seeds) or self.n, FEWEST_SEEDS)

    @property
    def deciding_p(self) -> float:
        """p at a level of 5 %, however one has looked: p of all seeds over their share of the level
        (`level_of`), or p of the first seeds, as long as the mean stays on that side of 0. 1 if not
        tested."""
        if not self.tested or self.diverged:
            return 1.0
        if self.items:
            return self.p_value
        p = min(1.0, self.p_value * (LEVEL / level_of(self.n, self.planned)))
        if self.n <= self.planned:
            return p
        first = [
            {seed: side[seed] for seed in side if seed in (*self.first_seeds, None)}
            for side in (self.a, self.b)
        ]
        look = replace(self, a=first[0], b=first[1])
        return min(p, look.p_value) if look.tested and look.mean * self.mean > 0 else p

    def seeds_for(self, gain: float, level: float = LEVEL) -> int | None:
        """The number of planned seeds that would show a mean difference of `gain` points, as in
        `seeds_to_show`."""
        if self.items or self.kind in UNTESTED:
            return None
        return seeds_to_show(gain, self.moderated_sd, level, self.prior[1])

    def seeds_to_decide(self, share: float) -> int | None:
        """The number of seeds at which the mean is shown to differ from 0 if mean and spread stay
        as they are, at a `share` of `level_of`; None if none would."""
        sd, prior_df = self.moderated_sd, self.prior[1]

        def decides(n: int) -> bool:
            level = share * level_of(n, self.planned)
            return statistics.mean_half_width(sd, n, level, sd, prior_df) < abs(self.mean)

        return statistics.fewest_seeds(decides, self.n, self.planned)


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


def _decide(pair: PairedDifferences, p_adjusted: float, share: float) -> Decision:
    if pair.diverged:
        return Decision("undecided", pair.diverged)
    if pair.kind == "templates":
        return Decision("by template", _over_templates(pair, share))
    word: Word = "better" if pair.mean > 0 else "worse"
    if pair.kind in ("items", "deterministic"):
        word = "higher" if pair.mean > 0 else "lower"
    if pair.kind == "deterministic":
        reason = f"deterministic; tolerance {pair.tolerance:.2f}"
        if abs(pair.mean) <= pair.tolerance + ROUNDING:
            word = "undecided"
        return Decision(word, reason)
    made = of_planned(pair.n, len(pair.first_seeds)) if not pair.items else ""
    if p_adjusted < LEVEL:
        return Decision(word, f"{made}adjusted p = {p_adjusted:.2g}", p_adjusted)
    # Why it is undecided, the most definite first; only a spread of seeds tells how many decide.
    if not pair.n:
        return Decision("undecided", "no seed in common")
    if pair.items:
        return Decision("undecided", f"{pair.items.n:,} test items do not decide", p_adjusted)
    if all(abs(difference) <= ROUNDING for difference in pair.differences):
        return Decision("undecided", f"{made}the same scores at every seed", p_adjusted)
    needed = pair.seeds_to_decide(share)
    reason = f"{MOST_SEEDS} seeds would not decide"
    if needed:
        reason = f"about {needed} seeds would decide"
    elif pair.n == 1 and pair.prior_sd is None:
        reason = AT_LEAST
    if not (pair.tested or made):
        made = f"n = {pair.n}; "
    return Decision("undecided", made + reason, p_adjusted, needed)


def _over_templates(pair: PairedDifferences, share: float) -> str:
    """In how many templates A is higher, and in how many it is so on other test items, too."""
    higher = sum(difference > 0 for difference in pair.differences)
    text = f"higher in {higher} of {pair.n} templates"
    if not pair.template_items:
        return text
    above = below = 0
    for difference, items in zip(pair.differences, pair.template_items, strict=True):
        if items and items.p_value < share * LEVEL / pair.n:
            above += difference > 0
            below += difference < 0
    return f"{text}; on other test items higher in {above} and lower in {below}"


def size_of(family: Sequence[PairedDifferences]) -> int:
    """The number of comparisons in a family that are planned to have a test."""
    return sum(pair.kind not in UNTESTED for pair in family)


def decide(family: Sequence[PairedDifferences]) -> list[Decision]:
    """The verdicts on the comparisons of one family, with Holm's correction over all that are
    planned: one without a test, such as one with a diverged seed, has p = 1. The number of seeds
    that would decide holds whatever the rest of the family gives."""
    counted = [pair for pair in family if pair.kind not in UNTESTED]
    adjusted = {}
    p_values = statistics.holm([pair.deciding_p for pair in counted])
    for pair, p in zip(counted, p_values, strict=True):
        adjusted[pair] = p if pair.tested and not pair.diverged else nan
    share = 1 / max(1, size_of(family))
    return [_decide(pair, adjusted.get(pair, nan), share) for pair in family]


def find(suite: SuiteResults, text: str) -> PlannedRun:
    """A run of the planned method that a text names (`bench.runs.plan`); without `@`, of its
    official setting if that is planned."""
    with errors_of(f"suite {suite.plan.suite}"):
        chosen = named(text, [result.run for result in suite.runs])
    return min(chosen, key=lambda run: run.setting != "official")


def results_on(suite: SuiteResults, text: str, backbone: str) -> list[RunResults]:
    """The results of a method on a backbone, of several corpora or recipes the first. A method
    without a backbone has the same on all of them."""
    found = suite.results(text, backbone) or suite.results(text, NO_BACKBONE)
    return [result for result in found if result.experiment == found[0].experiment]


def _name(run: PlannedRun) -> str:
    """As in configurations, with its setting: `simcse@official`. Of an outside encoder its
    label."""
    return run.label if run.outside else run.text


@dataclass(frozen=True, eq=False, kw_only=True)
class _Comparison(PairedDifferences):
    """A method (A) against the baseline (B) on one task of a board, or its `Avg`."""

    board: Board
    backbone: str
    task: str
    results_a: list[RunResults]
    results_b: list[RunResults]

    @property
    def pool(self) -> tuple[str, ...]:
        """Names of the comparisons that it shares a prior with: those of two trained methods on its
        board, backbone and task. What is not moderated is alone."""
        name = self.results_a[0].run.text
        if self.kind == "paired" and self.tested and not self.diverged:
            name = ""
        return self.board.name, self.backbone, self.task, name

    @property
    def has_row(self) -> bool:
        """Whether both sides have scores, or one, if a training diverged, which is reported."""
        if self.diverged:
            return bool(self.a or self.b)
        return bool(self.a and self.b)

    def row(self, decision: Decision, claims: Sequence[Claim]) -> PairRow:
        a, b = _paired(self.a, self.b), _paired(self.b, self.a)
        run = self.results_a[0].run
        return PairRow(
            board=self.board.name,
            backbone=self.backbone,
            method=run.method,
            setting=run.setting,
            task=self.task,
            label=run.label,
            name=shown_name(self.results_a),
            outside=run.outside,
            labelled=run.labelled,
            runs=tuple(result.run.id for result in self.results_a),
            baseline=_name(self.results_b[0].run),
            baseline_name=shown_name(self.results_b),
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
            p_adjusted=decision.p_adjusted,
            verdict=decision.verdict,
            reason=decision.reason,
            seeds=decision.seeds,
            claims=tuple(claims),
        )


def _paired(scores: BySeed, beside: BySeed) -> ScoreColumns:
    """The scores that are paired with one of the other method."""
    if not (None in scores or None in beside):
        scores = {seed: score for seed, score in scores.items() if seed in beside}
    return ScoreColumns(scores=tuple(scores.values()))


def _comparisons(
    board: Board, backbone: str, results_a: list[RunResults], results_b: list[RunResults]
) -> Iterator[_Comparison]:
    """The comparisons on a board's tasks that are planned, with scores or without: all count in
    their family."""
    clauses = [diverged(results, results[0].run.label) for results in (results_a, results_b)]
    ended_badly = "; ".join(filter(None, clauses))
    is_sts = board.metric == "spearman"
    entry = TOLERANCES["untrained" if is_sts else "transfer"]
    for task in dict.fromkeys((*board.tasks, board.overall)):
        a, b = scores_by_seed(results_a, board, task), scores_by_seed(results_b, board, task)
        first_a, first_b = (first_seeds(results, board, task) for results in (results_a, results_b))
        if not (first_a and first_b):
            continue
        items = prior = None
        # Items are of the main metric alone.
        if a.keys() == b.keys() == {None} and METRICS[board.metric].is_main:
            tasks = board.tasks if task == "Avg" else [task]
            sides = results_a[0].items, results_b[0].items
            items = compare_items(*sides, tasks, a[None] - b[None])
        by_template: list[ItemDifference | None] = []
        if results_a[0].run.template or results_b[0].run.template:
            if not (a and b):  # without a test it counts in no family
                continue
            a, b = _beside_templates(a), _beside_templates(b)
            by_template = _items_of_templates(results_a, results_b, board, task)
        if is_sts and board.is_in_print(task):
            prior = prior_sd(backbone, task)
        yield _Comparison(
            a,
            b,
            tolerance=tolerance(entry, task),
            first_seeds=of_both(first_a, first_b),
            prior_sd=prior,
            diverged=ended_badly,
            items=items,
            template_items=by_template,
            board=board,
            backbone=backbone,
            task=task,
            results_a=results_a,
            results_b=results_b,
        )


def _beside_templates(scores: BySeed) -> BySeed:
    """Scores as they are compared with those over templates: seeds by their mean."""
    if not scores or None in scores or has_templates(scores):
        return scores
    return {None: fmean(scores.values())}


def _items_of_templates(
    results_a: Sequence[RunResults], results_b: Sequence[RunResults], board: Board, task: str
) -> list[ItemDifference | None]:
    """The test items of each template that both have, in the order of templates."""
    found = {}
    tasks = board.tasks if task == "Avg" else [task]
    for a, b in product(results_a, results_b):
        of_a, of_b = a.points(board, task), b.points(board, task)
        if a.run.template == b.run.template and of_a is not None and of_b is not None:
            found[a.run.template] = compare_items(a.items, b.items, tasks, of_a - of_b)
    return [found[template] for template in sorted(found)]


def first_seeds(results: Sequence[RunResults], board: Board, task: str) -> Seeds:
    """The seeds of a row for which a task was planned before the row had scores."""
    tasks = set(board.tasks if task == "Avg" else [task])
    planned = [run for run in planned_row(results) if not run.skip]
    return {run.draw for run in planned if tasks <= set(run.first_tasks)}


def of_both(a: Seeds, b: Seeds) -> Seeds:
    """The seeds that both have; those of the other if one is untrained."""
    if b == {None}:
        return a
    return b if a == {None} else a & b


def scores_by_seed(results: Sequence[RunResults], board: Board, task: str) -> BySeed:
    points = {result.run.draw: result.points(board, task) for result in results}
    return {seed: value for seed, value in points.items() if value is not None}


@cache
def _printed(method: str, backbone: str, task: str, metric: str) -> list[Number]:
    """The printed scores of a method, for both of its settings."""
    return [
        number
        for number in numbers()
        if (number.our_backbone, number.task, number.metric) == (backbone, task, metric)
        and number.split == "test"
        and number.run.partition("@")[0] == method
    ]


def _share_table(a: Number, b: Number) -> bool:
    """Whether two printed numbers share a table and, if both have one, a backbone."""
    either_without = NO_BACKBONE in (a.our_backbone, b.our_backbone)
    is_beside = (a.source, a.table) == (b.source, b.table)
    return is_beside and (either_without or a.backbone == b.backbone)


def _share_settings(a: Number, b: Number) -> bool:
    """Whether two printed numbers agree in every setting that both state, as in `bs=64, cls`."""
    stated: dict[str, str] = {}
    for piece in f"{a.variant}, {b.variant}".split(", "):
        name, is_setting, value = piece.partition("=")
        if is_setting and stated.setdefault(name, value) != value:
            return False
    return True


def _claims(compared: _Comparison, level: float) -> list[Claim]:
    """The printed numbers of a comparison: those of A, each with those of B from its table."""
    if not compared.board.is_in_print(compared.task):
        return []
    sides = []
    for results in (compared.results_a, compared.results_b):
        method, cell = results[0].run.method, (compared.task, compared.board.metric)
        printed = _printed(method, compared.backbone, *cell)
        sides.append(printed or _printed(method, NO_BACKBONE, *cell))
    numbers_a, numbers_b = sides
    alone: list[Claim] = []
    beside_b: list[Claim] = []
    for a in numbers_a:
        beside = [b for b in numbers_b if _share_table(a, b)]
        rows = [number for number in numbers_a if _share_table(number, a)]
        if any(_share_settings(*pair) for pair in product(rows, beside)):
            beside = [b for b in beside if _share_settings(a, b)]
        # Otherwise the table is a sweep, and our two runs differ in the swept setting just as the
        # printed rows do.
        for b in beside:
            claimed = a.value - b.value
            part, low, high = compared.part_of(claimed)
            beside_b.append(
                Claim(
                    source=a.source,
                    table=a.table,
                    printed_on=a.backbone,
                    printed_a=a.value,
                    printed_b=b.value,
                    claimed=claimed,
                    part=part,
                    part_low=low,
                    part_high=high,
                    seeds_claimed=compared.seeds_for(claimed, level),
                )
            )
        alone.append(
            Claim(source=a.source, table=a.table, printed_on=a.backbone, printed_a=a.value)
        )
    # A number of A alone adds nothing if a table prints both.
    return beside_b or alone


def against(suite: SuiteResults, baseline: str) -> list[PairRow]:
    """Compare all methods of a suite with `baseline`, each on the backbones that it shares with it:
    a row for each board, backbone, method and task (or `Avg`) that both have scores on.

    The families of Holm's correction are, per board, its overall scores and its single tasks.
    Printed numbers stand beside a row, each with that of the baseline from the same table, unless
    the suite cannot be compared with papers.
    """
    side_b = find(suite, baseline)
    texts = dict.fromkeys(result.run.text for result in suite.runs)
    del texts[side_b.text]
    names = dict.fromkeys(result.run.backbone for result in suite.runs)
    comparisons: list[_Comparison] = []
    for board, backbone, text in product(board_rows(suite), names, texts):
        results_a = results_on(suite, text, backbone)
        results_b = results_on(suite, side_b.text, backbone)
        if results_a and results_b:
            own_a, own_b = results_a[0].run.backbone, results_b[0].run.backbone
            # If neither side uses a backbone there is one comparison, not one per backbone.
            if backbone in (NO_BACKBONE, own_a, own_b):
                comparisons += _comparisons(board.whole, backbone, results_a, results_b)
    if not any(compared.has_row for compared in comparisons):
        raise UserError(
            f"suite {suite.plan.suite} has no scores to compare with '{_name(side_b)}' on "
            f"{', '.join(names)}; run its missing runs first, or pass others"
        )
    comparisons = _moderated(comparisons)
    is_beside_print = not (suite.plan.stand_ins or differs(suite))
    rows: dict[_Comparison, PairRow] = {}
    for family in grouped(comparisons, lambda x: (x.board.name, x.task == x.board.overall)):
        level = LEVEL / max(1, size_of(family))
        for compared, decision in zip(family, decide(family), strict=True):
            if not compared.has_row:
                continue
            claims = _claims(compared, level) if is_beside_print else []
            rows[compared] = compared.row(decision, claims)
    return [rows[compared] for compared in comparisons if compared in rows]


def _moderated(comparisons: Sequence[_Comparison]) -> list[_Comparison]:
    """Comparisons with the prior that those of their pool give."""
    spreads: dict[tuple[str, ...], list[tuple[float, int]]] = defaultdict(list)
    for compared in comparisons:
        spreads[compared.pool].append((compared.sd, compared.n))
    priors = {pool: estimated_prior(members) for pool, members in spreads.items()}
    return [replace(compared, prior=priors[compared.pool]) for compared in comparisons]
