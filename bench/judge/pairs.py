"""Comparisons: methods of a suite with a baseline, paired by seed, with the verdicts on claims; and
two encoders over test items."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import nan
from statistics import fmean
from typing import Any

from bench.datasets.metrics import METRICS
from bench.judge.claims import Claimed, Decision, decide, explained
from bench.judge.heading import differs
from bench.judge.items import ItemDifference, compare_items
from bench.judge.printed_gains import printed_gains
from bench.judge.sample import Sample, differences_of
from bench.judge.statistics import holm
from bench.judge.systems import shown_name
from bench.judged.rows import NO_BACKBONE, LeaderboardRow, PairRow, ScoreColumns
from bench.judged.verdicts import ITEMS_LEVEL, Pairing, PairVerdict
from bench.results.suite_results import SuiteResults
from bench.results.system import Scores, System
from bench.runs.plan import Claim, PlannedRun
from bench.utils.errors import UserError, counted
from bench.utils.groups import grouped

# Of a claim: the method does what the baseline does. Its p values of 0 and 1 say nothing.
SAME_SCORES = "same scores at every seed"


def _name(run: PlannedRun) -> str:
    """The name in configurations, with its setting: `simcse@official`; of an outside encoder its
    label."""
    return run.label if run.outside else run.text


@dataclass(eq=False)
class _Comparison:
    """A method (A) against the baseline (B) on one task of a leaderboard, or its `Avg`."""

    leaderboard: LeaderboardRow
    backbone: str
    task: str
    a: System
    b: System
    scores_a: Scores
    scores_b: Scores
    claim: Claim | None
    # The verdict of the claim, or of the test items, with its basis as a sentence.
    decision: Decision = field(default_factory=Decision)
    reason: str = ""
    progress: str = ""  # of the claim

    @cached_property
    def sample(self) -> Sample:
        """The differences; of a claim at its look. What nobody claims has no verdict, so all its
        seeds may be used."""
        sample = differences_of(self.scores_a, self.scores_b)
        return sample if self.claim else replace(sample, planned=[])

    @cached_property
    def items(self) -> ItemDifference | None:
        """The difference over the test items of two encoders without seeds. Items are stored of the
        main metric alone."""
        leaderboard, mean = self.leaderboard.whole, self.sample.values.get(None)
        if mean is None or not METRICS[leaderboard.metric].is_main:
            return None
        tasks = leaderboard.tasks if self.task == "Avg" else [self.task]
        return compare_items(self.a.runs[0].items, self.b.runs[0].items, tasks, mean)

    @property
    def kind(self) -> Pairing:
        # Where neither side has seeds there is one difference, whose draw is None
        # (`differences_of`).
        if None in self.sample.values:
            return "items" if self.items else "deterministic"
        if self.sample.beside:
            return "Welch"
        return "paired" if self.a.has_seeds and self.b.has_seeds else "one-sample"

    def row(self, is_beside_print: bool) -> PairRow:
        run, a, b = self.a.first, self._side(self.scores_a), self._side(self.scores_b)
        sample, items, claim = self.sample, self.items, self.claim
        estimate, differences = sample.estimate, sample.differences
        width = p = nan
        if items:
            width, p = items.half_width(), items.p_value
        elif estimate:
            width, p = estimate.half_width(), estimate.p_value()
        printed = []
        if is_beside_print:
            methods = run.method, self.b.first.method
            printed = printed_gains(
                methods, self.leaderboard.whole, self.task, self.backbone, estimate
            )
        of_claim: dict[str, Any] = {}
        if claim:
            of_claim = {"family": claim.family, "margin": claim.margin}
            of_claim |= {"planned": sample.sizes[0], "next_look": sample.next_look}
        return PairRow(
            leaderboard=self.leaderboard.name,
            backbone=self.backbone,
            method=run.method,
            setting=run.setting,
            label=run.label,
            outside=run.outside,
            labelled=run.labelled,
            task=self.task,
            name=shown_name(self.a.runs),
            runs=tuple(result.run.id for result in self.a.runs),
            baseline=_name(self.b.first),
            baseline_name=shown_name(self.b.runs),
            kind=self.kind,
            n=len(differences),
            items=items.n if items else None,
            mean_a=a.mean,
            sd_a=a.sd,
            mean_b=b.mean,
            sd_b=b.sd,
            differences=differences,
            difference=fmean(differences) if differences else nan,
            half_width=width,
            p=p,
            **of_claim,
            progress=self.progress,
            p_adjusted=self.decision.p,
            p_below=self.decision.p_below,
            verdict=self.decision.verdict,
            reason=self.reason,
            printed=tuple(printed),
        )

    def _side(self, scores: Scores) -> ScoreColumns:
        """The scores of one side behind the differences."""
        values = scores.values
        # Mean and standard deviation are over the pairs of the look. Classifier seeds are in no
        # pair, so all of them count.
        if scores.has_seeds:
            values = {draw: values[draw] for draw in self.sample.draws if draw in values}
        return ScoreColumns(scores=tuple(values.values()))


def _comparisons(
    suite: SuiteResults,
    leaderboards: Iterable[LeaderboardRow],
    baseline: str,
    claims: Sequence[Claim],
) -> Iterator[_Comparison]:
    """The comparisons with a baseline in which both sides have scores. Rows over templates have no
    comparison: templates are chosen and not drawn."""
    texts = dict.fromkeys(result.run.text for result in suite.runs)
    del texts[baseline]
    # A dropped claim has no verdict. It still counts in its family (`_decide_claims`).
    current = {(claim.method, claim.backbone): claim for claim in claims if not claim.dropped}
    for leaderboard, backbone in product(leaderboards, suite.backbones):
        # A method without a backbone has the same scores on all.
        b = suite.system(baseline, backbone, NO_BACKBONE)
        # A leaderboard of one task is summed up by this task, which must not have two rows.
        tasks = dict.fromkeys((*leaderboard.whole.tasks, leaderboard.whole.overall))
        scores_b = {task: b.scores(leaderboard.whole.cells(task)) for task in tasks}
        for text in texts:
            a = suite.system(text, backbone, NO_BACKBONE)
            runs = [system.first for system in (a, b) if system]
            # If neither side uses a backbone there is one comparison, not one per backbone.
            places = {NO_BACKBONE, *(run.backbone for run in runs)}
            if not a or any(run.template for run in runs) or backbone not in places:
                continue
            claim = current.get((text, backbone))
            # A claim is of the corpus and recipe with which it was planned: a changed training is
            # another comparison, which nobody has claimed.
            if claim and not (claim.is_on(leaderboard.name) and claim.is_of(a.first)):
                claim = None
            for task in tasks:
                sides = a.scores(leaderboard.whole.cells(task)), scores_b[task]
                if all(scores.values for scores in sides):
                    # A claim is of one number, the column that sums up the leaderboard.
                    claim_on_task = claim if task == leaderboard.overall else None
                    yield _Comparison(leaderboard, backbone, task, a, b, *sides, claim_on_task)


def against(
    suite: SuiteResults, leaderboards: Sequence[LeaderboardRow], baseline: str
) -> list[PairRow]:
    """Compare all methods of a suite with `baseline`, such as `simcse@official`: a row for each
    leaderboard, backbone, method and task (or `Avg`) on which both have scores.

    A claim of the plan has its verdict in the row that sums up its leaderboard. Printed numbers
    stand beside a row, each with the number of the baseline from the same table, unless the suite
    cannot be compared with papers."""
    claims = [claim for claim in suite.plan.claims if claim.baseline == baseline]
    comparisons = [*_comparisons(suite, leaderboards, baseline, claims)]
    if not comparisons:
        name = next(_name(x.run) for x in suite.runs if x.run.text == baseline)
        raise UserError(
            f"suite {suite.plan.suite} has no scores to compare with '{name}' on "
            f"{', '.join(suite.backbones)}; run its missing runs first, or pass others"
        )
    _decide_claims(comparisons, claims)
    # There is one look, on the column that sums up the leaderboard.
    _decide_over_items(x for x in comparisons if x.task == x.leaderboard.overall)
    is_beside_print = not (suite.plan.stand_ins or differs(suite))
    return [comparison.row(is_beside_print) for comparison in comparisons]


def over_items(suite: SuiteResults, leaderboards: Iterable[LeaderboardRow]) -> list[PairRow]:
    """Compare the first encoder of a suite with the second, neither of which has seeds: in the
    columns that sum up each leaderboard."""
    comparisons = _comparisons(suite, leaderboards, suite.runs[1].run.text, ())
    pairs = [pair for pair in comparisons if pair.task in pair.leaderboard.summary]
    _decide_over_items(pairs)
    return [pair.row(is_beside_print=False) for pair in pairs]


def _decide_claims(comparisons: Iterable[_Comparison], claims: Sequence[Claim]) -> None:
    """Decide the claims of a baseline by families on each leaderboard. All claims of a family
    count, also dropped ones and claims without a score: otherwise dropping a claim would help the
    others."""
    families: dict[tuple[str, int], list[tuple[_Comparison, Claim]]] = defaultdict(list)
    for comparison in comparisons:
        if comparison.claim:
            # Claims that were added after a score are a family of their own, because scores may
            # have suggested them (docs/reference/rule.md#claims).
            place = comparison.leaderboard.name, comparison.claim.family
            families[place].append((comparison, comparison.claim))
    for (leaderboard, number), members in families.items():
        size = sum(claim.family == number and claim.is_on(leaderboard) for claim in claims)
        pairs = [Claimed(comparison.sample, claim.margin) for comparison, claim in members]
        family = f"Holm over the {counted(size, 'claim')} of family {number}"
        if number > 1:
            family += ", added after a score"
        for (comparison, claim), decision in zip(members, decide(pairs, size), strict=True):
            tests = [
                f"corrected p = {decision.p:.2g} of no gain",
                f"{decision.p_below:.2g} of {claim.margin:.2f} or more",
            ]
            if comparison.sample.is_same:
                tests = [SAME_SCORES]
            comparison.decision = decision
            comparison.reason = explained(comparison.sample, tests, family)
            comparison.progress = _progress(comparison.sample, number, decision)


def _progress(sample: Sample, family: int, decision: Decision) -> str:
    """Whether a claim is a late one, and how many seeds of its next look exist."""
    clauses, size = [], sample.next_look
    if sample.is_same:
        clauses.append(SAME_SCORES)
    if family > 1:
        clauses.append("claimed after a score")
    # A claim that is decided says it only once its next look has begun.
    if size and (decision.verdict == "open" or sample.made(size) > sample.look):
        clauses.append(f"{sample.made(size)} of {size} seeds")
    return ", ".join(clauses)


def _decide_over_items(comparisons: Iterable[_Comparison]) -> None:
    """Decide the comparisons that rest on test items. Holm's correction is over those of a
    leaderboard."""
    for of_leaderboard in grouped(comparisons, "leaderboard.name"):
        tested = [(pair, pair.items) for pair in of_leaderboard if pair.items]
        p_values = holm([items.p_value for _, items in tested])
        for (pair, items), p in zip(tested, p_values, strict=True):
            verdict: PairVerdict = "open"
            if p < ITEMS_LEVEL:
                verdict = "higher" if items.difference > 0 else "lower"
            pair.decision = Decision(verdict, p)
            pair.reason = (
                f"{items.n:,} test items; difference {items.difference:.2f}, "
                f"{100 * (1 - ITEMS_LEVEL):.0f} % interval ±{items.half_width():.2f}; "
                f"p = {p:.2g}, Holm over {counted(len(tested), 'pair')}"
            )
