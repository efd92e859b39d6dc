"""Printed numbers beside the scores of a suite. `judge_numbers` is the only path from scores to
verdicts on printed numbers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain
from statistics import fmean
from typing import Any

from bench.datasets.metrics import METRICS, SHARE, Cell, Tolerance
from bench.judge.sample import Sample, differences_of, sample_of
from bench.judge.systems import task_scores
from bench.judge.verdict import TOLERANCES, VerdictInput, tolerance, verdicts_of
from bench.judged.rows import (
    NO_BACKBONE,
    LeaderboardRow,
    NumberRow,
    PairRow,
    PrintedNumber,
    QuotedRow,
    RunScores,
    SettingRow,
    SideRow,
    Verdict,
)
from bench.reported import SOURCES, paper_name, public_sd, quoted
from bench.reported.address import address, printed_names, reproduce_command, row_name
from bench.reported.number import Number, numbers, own_numbers, sweep_lines
from bench.results.suite_results import SuiteResults
from bench.results.system import NOT_SCORED, RunResults, System, diverged, draws_of
from bench.runs.plan import deviations


def select(suite: SuiteResults, run: str, backbone: str) -> System:
    """The system of a method in a setting (`simcse@official`) on a backbone as printed, or on its
    stand-in."""
    return suite.system(run, backbone, suite.plan.stand_ins.get(backbone, backbone))


def deviations_from_print(result: RunResults, backbone: str, metric: str) -> list[str]:
    """How the experiment of a run differs from the printed one on `backbone`, as clauses."""
    clauses = []
    if result.run.backbone != backbone:
        clauses.append(f"{result.run.backbone} stands in for {backbone}, with its own settings")
    data = result.provenance.data.name
    # A run without scores has no data in its provenance. That is no difference from print.
    if data not in ("senteval", ""):
        clauses.append(f"scored on {data}")
    # Papers print accuracies of the mode `test` (docs/reference/protocol.md#classifier).
    if METRICS[metric].kind == SHARE and result.provenance.mode != "test":
        clauses.append(f"classifiers of mode {result.provenance.mode}")
    return clauses + deviations([result.run])


@dataclass(eq=False)
class Side:
    """Our side of a printed number: the runs that the number is compared with, their scores in
    points, and the verdict."""

    number: Number
    run: str  # text of the runs, such as simcse@official
    backbone: str  # as printed
    operands: list[System]  # the system, and of a printed difference the subtracted one
    verdict: Verdict = field(init=False)  # `judge_numbers` sets it: it depends on the family

    @property
    def results(self) -> list[RunResults]:
        return [*chain(*(system.runs for system in self.operands))]

    @property
    def measured_on(self) -> str:
        """The backbone of our runs; empty without runs."""
        system = self.operands[0]
        return system.first.backbone if system else ""

    @property
    def deterministic(self) -> bool:
        """Whether our runs have no seed."""
        return {result.run.seed for result in self.results} == {None}

    @cached_property
    def sample(self) -> Sample:
        """The scores over seeds; for a difference, over the seeds that both sides have."""
        scores = [system.scores([self.number.cell]) for system in self.operands]
        sample = differences_of(*scores) if self.number.minus else sample_of(*scores)
        # Papers state some quantities with the other sign, such as a gain of uniformity for a fall
        # of its loss.
        return sample.times(self.number.form.sign)

    @property
    def scores(self) -> tuple[float, ...]:
        return self.sample.differences

    @cached_property
    def question(self) -> tuple[Any, ...]:
        """All that the verdict depends on. Papers quote each other: a value that is printed in
        several places and compared with the same scores is one question, and counts once among the
        p values that are corrected together."""
        number = self.number
        sign, problem = number.form.sign, number.reason or number.deviation
        ids = [result.run.id for result in self.results]
        # A suite's own numbers must not move the verdicts on the papers.
        own, count = number.is_own, len(self.operands)
        return number.value, number.cell, sign, problem, own, self.backbone, count, *ids

    @cached_property
    def deviations(self) -> list[str]:
        """How our experiment differs from the printed one, as clauses of the mapping and of the
        first run that differs; empty if they can be compared."""
        number = self.number
        # A configuration states that its own runs are the printed experiment.
        if number.is_own:
            return []
        of_runs = (
            deviations_from_print(result, self.backbone, number.cell.metric)
            for result in self.results
        )
        return [*filter(None, [number.deviation, *next(filter(None, of_runs), [])])]

    @cached_property
    def verdict_without_test(self) -> Verdict | None:
        """The verdict if no statistics are needed, else None. The order of the checks is the order
        of what a reader must know first: no score, then a score that cannot be compared."""
        number, cell = self.number, self.number.cell
        for system in self.operands:
            runs = system.runs
            # A run that diverged has no score either, but a verdict of its own below.
            if not diverged(runs) and all(cell not in result.scores for result in runs):
                default = "this score is not in the suite" if runs else NOT_SCORED
                reasons = (result.reason for result in runs if result.reason)
                return Verdict(kind="not run", reason=number.reason or next(reasons, default))
        ended_badly = diverged(self.results)
        if self.deviations:
            clauses = filter(None, [*self.deviations, ended_badly])
            return Verdict(kind="not comparable", reason="; ".join(clauses))
        # The mean over the seeds that did not diverge would be biased upwards.
        if ended_badly:
            return Verdict(kind="diverged", reason=ended_badly)
        if not self.scores:
            return Verdict(kind="open", reason="the two runs have no seed in common")
        return None

    @property
    def is_pending(self) -> bool:
        """Whether the verdict is settled without a test, although a test was planned: the runs can
        be compared and have seeds, or classifiers with seeds, but no score yet, or diverged."""
        number = self.number
        if not self.verdict_without_test:
            return False
        draws = {draw for result in self.results for draw in draws_of(result.run, [number.cell])}
        # A run whose only draw is None is deterministic, and no test was planned for it.
        if number.reason or self.deviations or draws <= {None}:
            return False
        return all(system.is_planned(number.cell) for system in self.operands)

    def row(self) -> SideRow:
        return SideRow(
            run=self.run,
            measured_on=self.measured_on,
            deterministic=self.deterministic,
            scores=self.scores,
            verdict=self.verdict,
        )

    def verdict_input(self) -> VerdictInput:
        number = self.number
        task, split, metric, _ = number.cell
        sd = None
        # The public seeds are Spearman correlations of a single method over all pairs of a task.
        # For differences and other metrics their standard deviation would be wrong.
        if metric == "spearman" and len(self.operands) == 1:
            sd = public_sd(self.backbone, task, split)
        # The printed form comes first: a bound on uniformity has no tolerance, although the metric
        # has one.
        entry = number.form.tolerance or number.our_metric.tolerance or self._tolerance()
        return VerdictInput(
            number.value,
            self.sample,
            tolerance(entry, task, sd),
            average=task == "Avg",
            above=number.form.bound,
            is_difference=bool(number.minus) and not number.form.bound,
            noun="classifier seed" if self.deterministic else "seed",
        )

    def _tolerance(self) -> Tolerance:
        """The tolerance of a score, which depends on how the run was made."""
        name = "untrained"
        parts = self.results[0].run.parts  # plans of earlier versions have none
        if self.number.our_metric.kind == SHARE:
            name = "transfer" if self.deterministic else "trained, transfer"
        elif not self.deterministic:
            name = "trained" if len(self.operands) == 1 else "difference"
        elif parts:
            # The last step decides: the encoder before a whitening or a flow is untrained here.
            step, _, hyper = parts[-1]
            if step in ("whitening", "flow"):
                name = step
            # Papers fitted on all of SNLI and MNLI, of which our NLI text is a part
            # (docs/reference/methods.md#bert-whitening).
            if step == "whitening" and hyper.get("source") != "target":
                name = "whitening, other text"
        return TOLERANCES[name]


# Our sides of a printed number, by name: "ours" has the runs that the number is compared with. Two
# exist for some numbers alone: "other" has the runs in the other setting of the method, and
# "checkpoint" the published checkpoint that the paper quotes.
Sides = Mapping[str, Side]


def judge_numbers(
    suite: SuiteResults, leaderboards: Iterable[LeaderboardRow], pairs: Sequence[PairRow] = ()
) -> list[Sides]:
    """Our sides of each printed number that measures something, in the order of print. A printed
    difference of averages has the verdict of the claim among the `pairs` whose margin it is."""
    system_of = cache(partial(select, suite))
    # The suite's own come first in tables and page.
    printed = [*own_numbers(suite.plan.printed), *numbers()]
    all_sides = [_sides(number, system_of) for number in printed if number.is_measurement]
    # The further sides look at the same numbers again, so they have families of their own. A
    # question belongs to the paper in which it comes first.
    families: dict[tuple[str, str], list[Side]] = defaultdict(list)
    first_sides: dict[tuple[Any, ...], Side] = {}
    for sides in all_sides:
        for name, side in sides.items():
            if first_sides.setdefault(side.question, side) is side:
                families[side.number.source, name].append(side)
    for family in families.values():
        tested = [side for side in family if not side.verdict_without_test]
        # A family has its planned size from the first look on: otherwise a verdict of the first
        # runs could be lost by the next ones.
        pending = [side.number.task == "Avg" for side in family if side.is_pending]
        verdicts = verdicts_of([side.verdict_input() for side in tested], pending)
        for side, verdict in zip(tested, verdicts, strict=True):
            side.verdict = verdict
    for sides in all_sides:
        for side in sides.values():
            first_side = first_sides[side.question]
            side.verdict = first_side.verdict_without_test or first_side.verdict
    # Last, since the verdict of a claim replaces the verdict that the loops above have given.
    _take_verdicts_of_claims([sides["ours"] for sides in all_sides], leaderboards, pairs)
    return all_sides


def _take_verdicts_of_claims(
    all_ours: Iterable[Side], leaderboards: Iterable[LeaderboardRow], pairs: Iterable[PairRow]
) -> None:
    """Give a printed difference the verdict of the claim whose margin it is: one question must not
    have two verdicts."""
    metrics = {row.name: row.whole.metric for row in leaderboards}
    claims = {}
    for pair in pairs:
        if pair.margin is not None:
            cell = Cell(pair.task, "test", metrics[pair.leaderboard])
            claims[pair.text, pair.baseline, pair.backbone, cell, pair.margin] = pair
    for side in all_ours:
        number = side.number
        # The margin has to be the printed value: a claim with another margin asks another question.
        claim = claims.get((number.run, number.minus, side.backbone, number.cell, number.value))
        # A claim that was decided on another corpus or backbone says nothing of the printed gain.
        if claim and side.verdict.is_comparable:
            side.verdict = Verdict(
                kind=claim.verdict or "open", reason=claim.reason, next_look=claim.next_look
            )


def _sides(number: Number, system_of: Callable[[str, str], System]) -> Sides:
    backbone, other_run = number.our_backbone, _other_setting(number.run)
    operands = [system_of(number.run, backbone)]
    other_operands = [system_of(other_run, backbone)]
    if number.minus:
        subtracted = system_of(number.minus, backbone)
        operands.append(subtracted)
        # A method with a single setting, such as an untrained encoder, is subtracted from both.
        other_operands.append(system_of(_other_setting(number.minus), backbone) or subtracted)
    sides = {"ours": Side(number, number.run, backbone, operands)}
    other = Side(number, other_run, backbone, other_operands)
    if other.scores:
        sides["other"] = other
    if number.checkpoint:
        name = NO_BACKBONE  # a published checkpoint brings its own
        published = [system_of(number.checkpoint, name)]
        sides["checkpoint"] = Side(number, number.checkpoint, name, published)
    return sides


def _other_setting(run: str) -> str:
    method, _, setting = run.partition("@")
    return f"{method}@paper" if setting == "official" else f"{method}@official"


# --- Rows ---


def number_rows(all_sides: Iterable[Sides]) -> list[NumberRow]:
    """A row for each number of `judge_numbers`."""
    places = {number: place for place, number in enumerate(numbers())}
    lines = sweep_lines()
    rows = []
    for sides in all_sides:
        side = sides["ours"]
        number = side.number
        label = row_name(number.method, number.variant)
        # A difference from print only where our scores can be compared with it.
        scores = side.scores if side.verdict.is_comparable else ()
        side_rows: dict[str, Any] = {name: side.row() for name, side in sides.items()}
        rows.append(
            NumberRow(
                **{name: getattr(number, name) for name in PrintedNumber.model_fields},
                place=places.setdefault(number, len(places)),  # own numbers have the last
                address=address(number),
                paper=paper_name(number.source),
                paper_title=SOURCES.get(number.source, number.source),
                row=printed_names().get(number.label, label),
                label=label,
                line=lines.get(number, ""),
                command=reproduce_command(number) if number.run and not number.is_own else "",
                planned=all(system.is_planned(number.cell) for system in side.operands),
                **side_rows,
                published=number.checkpoint,
                difference=fmean(scores) - number.value if scores else None,
                runs=tuple(_run_scores(sides.values())),
            )
        )
    return rows


def setting_rows() -> list[SettingRow]:
    """A row for each printed hyper-parameter, which coverage counts."""
    return [
        SettingRow(
            place=place,
            paper=paper_name(number.source),
            source=number.source,
            table=number.table,
            label=row_name(number.method, number.variant),
            backbone=number.backbone,
            reason=number.reason,
        )
        for place, number in enumerate(numbers())
        if not number.is_measurement
    ]


def quoted_rows(suite: SuiteResults, leaderboards: Iterable[LeaderboardRow]) -> Iterator[QuotedRow]:
    """A row for each quoted row of the leaderboards; ours, if they can be compared."""
    for leaderboard in leaderboards:
        for _, entry in quoted(leaderboard.name).iterrows():
            # These rows have no verdict that could call a run not comparable, so such runs are left
            # out.
            runs = [
                run
                for run in select(suite, entry.run, entry.backbone).runs
                if not deviations_from_print(run, entry.backbone, leaderboard.whole.metric)
            ]
            scores = task_scores(runs, leaderboard.whole)
            n = max(score.n for score in scores)
            yield QuotedRow(
                leaderboard=leaderboard.name,
                backbone=entry.backbone,
                name=entry["name"],
                quoted_from=entry.quoted_from,
                printed={score.task: entry[score.task] for score in scores},
                setting=entry.run.partition("@")[2] if n else "",
                n=n,
                ours=tuple(scores) if n else (),
            )


def _run_scores(sides: Iterable[Side]) -> list[RunScores]:
    """The runs behind a printed number: the compared runs, the subtracted runs, both in the other
    setting, and the published checkpoint."""
    # By name, since a run without a second setting is subtracted on two sides.
    by_name: dict[str, RunScores] = {}
    for side in sides:
        for system in filter(None, side.operands):
            name, backbone = system.first.text, system.first.backbone
            if backbone != NO_BACKBONE:
                name += f" on {backbone}"
            scores = {x.run.id: x.scores.get(side.number.cell) for x in system.runs}
            by_name[name] = RunScores(name=name, runs=(*scores,), scores=(*scores.values(),))
    return [*by_name.values()]
