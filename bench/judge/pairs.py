"""Methods of a suite compared with a baseline, paired by seed; claims are decided.

`against` is the only path from a suite to these comparisons.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import nan
from statistics import NormalDist, fmean
from typing import Any

from bench.datasets.metrics import METRICS
from bench.judge.claims import Claimed, Decision, decide, explained
from bench.judge.heading import differs
from bench.judge.items import ItemDifference, compare_items
from bench.judge.printed_gains import printed_gains
from bench.judge.sample import Sample, differences_of
from bench.judge.statistics import holm
from bench.judge.systems import shown_name
from bench.judged.rows import NO_BACKBONE, BoardRow, PairRow, ScoreColumns, grouped
from bench.judged.words import ITEMS_LEVEL, Pairing
from bench.results.suite_results import SuiteResults
from bench.results.system import Scores, System
from bench.runs.plan import Claim, PlannedRun
from bench.utils.errors import UserError, counted


def system_on(suite: SuiteResults, text: str, backbone: str) -> System | None:
    """The system of a method on a backbone. A method without a backbone has the same on all."""
    return suite.system(text, backbone) or suite.system(text, NO_BACKBONE)


def _name(run: PlannedRun) -> str:
    """As in configurations, with its setting: `simcse@official`. Of an outside encoder its
    label."""
    return run.label if run.outside else run.text


@dataclass(frozen=True, eq=False)
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
        run, sample, items = self.a.first, self.sample, self.items
        estimate = sample.estimate
        differences = sample.differences
        width = p = nan
        if items:
            width = NormalDist().inv_cdf(1 - ITEMS_LEVEL / 2) * items.error
            p = items.p_value
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
    for board, backbone, text in product(boards, names, texts):
        a, b = system_on(suite, text, backbone), system_on(suite, baseline, backbone)
        if not (a and b):
            continue
        runs = a.first, b.first
        # If neither side uses a backbone there is one comparison, not one per backbone.
        if any(run.template for run in runs) or backbone not in (
            NO_BACKBONE, *(run.backbone for run in runs)
        ):  # fmt: skip
            continue
        for task in dict.fromkeys((*board.whole.tasks, board.whole.overall)):
            claim = current.get((text, backbone))
            if claim and not (
                task == board.overall and claim.is_on(board.name) and claim.is_of(a.first)
            ):
                claim = None
            cells = board.whole.cells(task)
            sides = a.scores(cells), b.scores(cells)
            if all(scores.values for scores in sides):
                yield _Comparison(board, backbone, task, a, b, *sides, claim)


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
    is_beside_print = not (suite.plan.stand_ins or differs(suite))
    families: dict[tuple[str, int], list[tuple[_Comparison, Claim]]] = defaultdict(list)
    for compared in comparisons:
        if compared.claim:
            place = compared.board.name, compared.claim.family
            families[place].append((compared, compared.claim))
    answers: dict[_Comparison, dict[str, Any]] = {}
    for (board, number), members in families.items():
        size = sum(claim.family == number and claim.is_on(board) for claim in claims)
        pairs = [Claimed(compared.sample, claim.margin) for compared, claim in members]
        family = f"Holm over the {counted(size, 'claim')} of family {number}"
        if number > 1:
            family += ", added after a score"
        for (compared, claim), decision in zip(members, decide(pairs, size), strict=True):
            answers[compared] = _answered(compared.sample, claim, decision, family)
    rows = []
    for compared in comparisons:
        row = compared.row(is_beside_print)
        rows.append(row.model_copy(update=answers.get(compared, {})))
    return _over_items(
        rows, {compared.board.name: compared.board.overall for compared in comparisons}
    )


def _answered(sample: Sample, claim: Claim, decision: Decision, family: str) -> dict[str, Any]:
    """The fields of a row that its claim adds."""
    progress, size = [], sample.next_look
    if claim.family > 1:
        progress.append("claimed after a score")
    # Of one that is decided, once the next look has begun.
    if size and (decision.answer == "open" or sample.made(size) > sample.look):
        progress.append(f"{sample.made(size)} of {size} seeds")
    tests = [
        f"corrected p = {decision.p:.2g} of no gain",
        f"{decision.p_below:.2g} of {claim.margin:.2f} or more",
    ]
    return {
        "family": claim.family,
        "margin": claim.margin,
        "planned": sample.sizes[0],
        "next_look": size,
        "progress": ", ".join(progress),
        "p_adjusted": decision.p if sample.tested else None,
        "p_below": decision.p_below if sample.tested else None,
        "verdict": decision.answer,
        "reason": explained(sample, tests, family),
    }


def _over_items(rows: Sequence[PairRow], overall: Mapping[str, str]) -> list[PairRow]:
    """Rows with the words of those that test items decide: on what sums up a board, once, and
    corrected by Holm's method over the board."""
    tested = [row for row in rows if row.kind == "items" and row.task == overall[row.board]]
    answers: dict[int, dict[str, Any]] = {}
    for of_board in grouped(tested, lambda row: row.board):
        for row, p in zip(of_board, holm([row.p or 0.0 for row in of_board]), strict=True):
            difference, word = row.difference or 0.0, "open"
            if p < ITEMS_LEVEL:
                word = "higher" if difference > 0 else "lower"
            reason = (
                f"{row.items:,} test items; difference {difference:.2f}, "
                f"{100 * (1 - ITEMS_LEVEL):.0f} % interval ±{row.half_width:.2f}; p = {p:.2g}, "
                f"Holm over {counted(len(of_board), 'pair')}"
            )
            answers[id(row)] = {"p_adjusted": p, "verdict": word, "reason": reason}
    return [row.model_copy(update=answers.get(id(row), {})) for row in rows]
