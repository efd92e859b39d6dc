"""Methods of a suite compared with a baseline, paired by seed; claims are decided.

`against` is the only path from a suite to these comparisons.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import nan
from statistics import fmean

from bench.datasets.metrics import METRICS
from bench.judge.claims import Claimed, Decision, decide, explained
from bench.judge.heading import differs
from bench.judge.items import ItemDifference, compare_items
from bench.judge.printed_gains import printed_gains
from bench.judge.sample import Sample, differences_of
from bench.judge.statistics import holm
from bench.judge.systems import shown_name
from bench.judged.rows import NO_BACKBONE, BoardRow, PairRow, ScoreColumns
from bench.judged.words import ITEMS_LEVEL, Pairing, Word
from bench.results.suite_results import SuiteResults
from bench.results.system import Scores, System
from bench.runs.plan import Claim, PlannedRun
from bench.utils.errors import UserError, counted


def _name(run: PlannedRun) -> str:
    """As in configurations, with its setting: `simcse@official`. Of an outside encoder its
    label."""
    return run.label if run.outside else run.text


@dataclass(eq=False)
class _Comparison:
    """A method (A) against the baseline (B) on one task of a board, or its `Avg`."""

    board: BoardRow
    backbone: str
    task: str
    a: System
    b: System
    scores_a: Scores
    scores_b: Scores
    claim: Claim | None
    # What decides it: the claim, or the test items; and all that this rests on, as a sentence.
    decision: Decision = field(default_factory=Decision)
    reason: str = ""
    progress: str = ""  # of the claim

    @cached_property
    def sample(self) -> Sample:
        """The differences; of a claim at its look, else of all seeds."""
        sample = differences_of(self.scores_a, self.scores_b)
        return sample if self.claim else replace(sample, planned=[])

    @cached_property
    def items(self) -> ItemDifference | None:
        """The test items of two encoders without seeds, which are of the main metric alone."""
        board, mean = self.board.whole, self.sample.values.get(None)
        if mean is None or not METRICS[board.metric].is_main:
            return None
        tasks = board.tasks if self.task == "Avg" else [self.task]
        return compare_items(self.a.runs[0].items, self.b.runs[0].items, tasks, mean)

    @property
    def kind(self) -> Pairing:
        if None in self.sample.values:
            return "items" if self.items else "deterministic"
        if self.sample.beside:
            return "Welch"
        both = self.a.has_seeds and self.b.has_seeds
        return "paired" if both else "one-sample"

    def row(self, is_beside_print: bool) -> PairRow:
        a, b = self._side(self.scores_a), self._side(self.scores_b)
        run, sample, items, claim = self.a.first, self.sample, self.items, self.claim
        estimate = sample.estimate
        differences = sample.differences
        width = p = nan
        if items:
            width, p = items.half_width(), items.p_value
        elif estimate:
            width, p = estimate.half_width(), estimate.p_value()
        printed = []
        if is_beside_print:
            methods = self.a.first.method, self.b.first.method
            printed = printed_gains(methods, self.board.whole, self.task, self.backbone, estimate)
        return PairRow(
            board=self.board.name,
            backbone=self.backbone,
            method=run.method,
            setting=run.setting,
            task=self.task,
            label=run.label,
            name=shown_name(self.a.runs),
            outside=run.outside,
            labelled=run.labelled,
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
            family=claim.family if claim else None,
            margin=claim.margin if claim else None,
            planned=sample.sizes[0] if claim else None,
            next_look=sample.next_look if claim else None,
            progress=self.progress,
            p_adjusted=self.decision.p,
            p_below=self.decision.p_below,
            verdict=self.decision.answer,
            reason=self.reason,
            printed=tuple(printed),
        )

    def _side(self, scores: Scores) -> ScoreColumns:
        """The scores of one side that the differences are of."""
        values = scores.values
        if scores.has_seeds:
            values = {draw: values[draw] for draw in self.sample.draws if draw in values}
        return ScoreColumns(scores=tuple(values.values()))


def _comparisons(
    suite: SuiteResults, boards: Iterable[BoardRow], baseline: str, claims: Sequence[Claim]
) -> Iterator[_Comparison]:
    """The comparisons with a baseline in which both sides have scores. Templates are chosen and not
    drawn, so rows over templates have none."""
    texts = dict.fromkeys(result.run.text for result in suite.runs)
    del texts[baseline]
    names = dict.fromkeys(result.run.backbone for result in suite.runs)
    current = {(claim.method, claim.backbone): claim for claim in claims if not claim.dropped}
    for board, backbone in product(boards, names):
        # A method without a backbone has the same scores on all.
        b = suite.system(baseline, backbone, NO_BACKBONE)
        tasks = dict.fromkeys((*board.whole.tasks, board.whole.overall))
        scores_b = {task: b.scores(board.whole.cells(task)) for task in tasks}
        for text in texts:
            a = suite.system(text, backbone, NO_BACKBONE)
            runs = [system.first for system in (a, b) if system]
            # If neither side uses a backbone there is one comparison, not one per backbone.
            places = {NO_BACKBONE, *(run.backbone for run in runs)}
            if not a or any(run.template for run in runs) or backbone not in places:
                continue
            claim = current.get((text, backbone))
            if claim and not (claim.is_on(board.name) and claim.is_of(a.first)):
                claim = None
            for task in tasks:
                sides = a.scores(board.whole.cells(task)), scores_b[task]
                if all(scores.values for scores in sides):
                    of_task = claim if task == board.overall else None
                    yield _Comparison(board, backbone, task, a, b, *sides, of_task)


def against(suite: SuiteResults, boards: Sequence[BoardRow], baseline: str) -> list[PairRow]:
    """Compare all methods of a suite with `baseline`, such as `simcse@official`, each on the
    backbones that it shares with it: a row for each board, backbone, method and task (or `Avg`)
    that both have scores on.

    A claim of the plan has an answer in the row that sums up its board. Printed numbers stand
    beside a row, each with that of the baseline from the same table, unless the suite cannot be
    compared with papers.
    """
    claims = [claim for claim in suite.plan.claims if claim.baseline == baseline]
    comparisons = [*_comparisons(suite, boards, baseline, claims)]
    if not comparisons:
        names = dict.fromkeys(result.run.backbone for result in suite.runs)
        name = next(_name(x.run) for x in suite.runs if x.run.text == baseline)
        raise UserError(
            f"suite {suite.plan.suite} has no scores to compare with '{name}' on "
            f"{', '.join(names)}; run its missing runs first, or pass others"
        )
    _decide_claims(comparisons, claims)
    for board in boards:
        _decide_over_items(x for x in comparisons if (x.board, x.task) == (board, board.overall))
    is_beside_print = not (suite.plan.stand_ins or differs(suite))
    return [comparison.row(is_beside_print) for comparison in comparisons]


def _decide_claims(comparisons: Iterable[_Comparison], claims: Sequence[Claim]) -> None:
    """Decide the claims of a baseline, by families on each board. All claims of a family count,
    those that were dropped and those without a score, too."""
    families: dict[tuple[str, int], list[tuple[_Comparison, Claim]]] = defaultdict(list)
    for comparison in comparisons:
        if comparison.claim:
            place = comparison.board.name, comparison.claim.family
            families[place].append((comparison, comparison.claim))
    for (board, number), members in families.items():
        size = sum(claim.family == number and claim.is_on(board) for claim in claims)
        pairs = [Claimed(comparison.sample, claim.margin) for comparison, claim in members]
        family = f"Holm over the {counted(size, 'claim')} of family {number}"
        if number > 1:
            family += ", added after a score"
        for (comparison, claim), decision in zip(members, decide(pairs, size), strict=True):
            tests = [
                f"corrected p = {decision.p:.2g} of no gain",
                f"{decision.p_below:.2g} of {claim.margin:.2f} or more",
            ]
            comparison.decision = decision
            comparison.reason = explained(comparison.sample, tests, family)
            comparison.progress = _progress(comparison.sample, number, decision)


def _progress(sample: Sample, family: int, decision: Decision) -> str:
    """Whether a claim is a late one, and how many seeds of its next look are there."""
    clauses, size = [], sample.next_look
    if family > 1:
        clauses.append("claimed after a score")
    # Of one that is decided, once the next look has begun.
    if size and (decision.answer == "open" or sample.made(size) > sample.look):
        clauses.append(f"{sample.made(size)} of {size} seeds")
    return ", ".join(clauses)


def _decide_over_items(of_board: Iterable[_Comparison]) -> None:
    """Decide the comparisons of a board that rest on test items: on what sums it up, once, and
    corrected by Holm's method over the board."""
    tested = [(comparison, comparison.items) for comparison in of_board if comparison.items]
    p_values = holm([items.p_value for _, items in tested])
    for (comparison, items), p in zip(tested, p_values, strict=True):
        answer: Word = "open"
        if p < ITEMS_LEVEL:
            answer = "higher" if items.difference > 0 else "lower"
        comparison.decision = Decision(answer, p)
        comparison.reason = (
            f"{items.n:,} test items; difference {items.difference:.2f}, "
            f"{100 * (1 - ITEMS_LEVEL):.0f} % interval ±{items.half_width():.2f}; p = {p:.2g}, "
            f"Holm over {counted(len(tested), 'pair')}"
        )
