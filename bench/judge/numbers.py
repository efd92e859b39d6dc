"""Printed numbers joined with a suite's own. `judge_numbers` is the only path from scores to their
verdicts."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from statistics import fmean
from typing import Any

from bench.datasets.metrics import METRICS, SHARE, Tolerance, metric_of
from bench.datasets.tasks import Key, expand_tasks, scored_cells
from bench.judge.pairs import matched
from bench.judge.statistics import coefficient_of_variation, expected_best
from bench.judge.verdict import TOLERANCES, VerdictInput, tolerance, verdicts
from bench.judged.rows import NumberRow, RunScores, SideRow, Verdict
from bench.judged.words import AT_LEAST, FEWEST_SEEDS
from bench.registry.backbones import NO_BACKBONE
from bench.reported import SOURCES, paper_name, prior_sd
from bench.reported.address import address, printed_names, reproduce_command, row_name
from bench.reported.number import Number, numbers, sweep_lines
from bench.results.suite_results import (
    NOT_SCORED,
    RunResults,
    SuiteResults,
    deviations,
    diverged,
)
from bench.runs.run import PlannedRun


def select(suite: SuiteResults, run: str, backbone: str) -> list[RunResults]:
    """The planned runs of a method in a setting (`simcse@official`) on a backbone as printed, or on
    its stand-in: all of one corpus and recipe, comparable with print if any are."""
    for name in (backbone, suite.plan.stand_ins.get(backbone)):
        planned = [
            result for result in suite.runs if (result.run.text, result.run.backbone) == (run, name)
        ]
        if planned:
            comparable = (run for run in planned if not deviations_from_print(run, backbone))
            first = next(comparable, planned[0])
            return [run for run in planned if run.experiment == first.experiment]
    return []


def deviations_from_print(run: RunResults, backbone: str, metric: str = "") -> list[str]:
    """How a run's experiment differs from a printed one on `backbone`, as clauses; with a metric,
    also how the scoring differs."""
    clauses = []
    if run.run.backbone != backbone:
        clauses.append(f"{run.run.backbone} stands in for {backbone}, with its own settings")
    if run.data not in ("senteval", ""):
        clauses.append(f"scored on {run.data}")
    mode = run.provenance.mode or "test"
    if metric and metric_of(metric).kind == SHARE and mode != "test":
        clauses.append(f"classifiers of mode {mode}")
    return clauses + deviations([run.run])


@dataclass(eq=False)
class Side:
    """Our side of a printed number: the runs that it is compared with, their scores in points, and
    the verdict on them."""

    number: Number
    text: str  # of the runs, such as simcse@official
    runs: list[RunResults]  # one per seed
    minus: list[RunResults] | None  # for a printed difference, the runs that are subtracted
    backbone: str  # as printed
    verdict: Verdict = field(init=False)

    @property
    def all_runs(self) -> list[RunResults]:
        return [*self.runs, *(self.minus or ())]

    @property
    def measured_on(self) -> str:
        """The backbone of our runs; empty without runs."""
        return self.runs[0].run.backbone if self.runs else ""

    @property
    def deterministic(self) -> bool:
        """Whether our runs have no seed."""
        return bool(self.all_runs) and all(run.run.seed is None for run in self.all_runs)

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """One per seed; for a difference, over the seeds that both sides have."""
        sign, scores = self.number.form.sign, self._by_seed(self.runs)
        if self.minus is None:
            return tuple(sign * score for score in scores.values())
        both = matched(scores, self._by_seed(self.minus))
        return tuple(sign * (score - subtracted) for score, subtracted in both)

    def _by_seed(self, runs: list[RunResults]) -> dict[int | None, float]:
        key = self.number.key
        return {run.run.seed: run.scores[key] for run in runs if key in run.scores}

    @property
    def row(self) -> SideRow:
        return SideRow(
            run=self.text,
            measured_on=self.measured_on,
            deterministic=self.deterministic,
            scores=self.scores,
            verdict=self.verdict,
        )

    @cached_property
    def question(self) -> tuple[Any, ...]:
        """The question of the verdict: a printed value that is compared with the same scores is one
        question, wherever it is printed."""
        number = self.number
        ids = tuple(run.run.id for run in self.runs)
        minus_ids = None if self.minus is None else tuple(run.run.id for run in self.minus)
        printed = (number.value, number.key, number.form.sign, number.reason, number.deviation)
        return (*printed, ids, minus_ids, self.backbone)

    def verdict_without_test(self) -> Verdict | None:
        """The verdict if no statistics are needed, else None."""
        number = self.number
        if number.reason:
            return Verdict(kind="not run", reason=number.reason)
        for runs in (self.runs, self.minus):
            missing = "" if runs is None else _why_missing(runs, number.key)
            if missing:
                return Verdict(kind="not run", reason=missing)
        ended_badly = diverged(self.all_runs)
        metric = number.key[2]
        clauses = [deviations_from_print(run, self.backbone, metric) for run in self.all_runs]
        first = next(filter(None, clauses), [])
        if first or number.deviation:
            reasons = filter(None, [number.deviation, *first, ended_badly])
            return Verdict(kind="not comparable", reason="; ".join(reasons))
        # The mean over the seeds that did not diverge would be biased upwards.
        if ended_badly:
            return Verdict(kind="diverged", reason=ended_badly)
        if not self.scores:
            reason = f"the two runs have no seed in common; {AT_LEAST}"
            return Verdict(kind="inconclusive", reason=reason, seeds=FEWEST_SEEDS)
        return None

    def verdict_input(self) -> VerdictInput:
        number = self.number
        task, split, metric = number.key
        # The public seeds are Spearman correlations of a single method, over all pairs of a task,
        # so they are no prior for anything else.
        known = metric == "spearman" and self.minus is None
        prior = prior_sd(self.backbone, task, split) if known else None
        entry = number.form.tolerance or number.our_metric.tolerance or self._tolerance()
        allowed = tolerance(entry, task, prior)
        planned, of_minus = _planned(self.runs), _planned(self.minus or self.runs)
        return VerdictInput(
            number.value,
            self.scores,
            allowed,
            self.deterministic,
            prior,
            first=max(len(matched(planned, of_minus)), FEWEST_SEEDS),
            average=task == "Avg",
            above=number.form.bound,
        )

    def _tolerance(self) -> Tolerance:
        """The tolerance of a score, which depends on how the run was made."""
        if self.number.our_metric.kind == SHARE:
            return TOLERANCES["transfer" if self.deterministic else "trained, transfer"]
        if not self.deterministic:
            return TOLERANCES["trained" if self.minus is None else "difference"]
        parts = self.runs[0].run.parts
        if not parts:  # in plans of before
            return TOLERANCES["untrained"]
        last, _, hyper = parts[-1]
        if last == "whitening" and hyper.get("source") != "target":
            return TOLERANCES["whitening, other text"]
        by_method = {"whitening": "whitening", "flow": "flow", "published": "checkpoint"}
        return TOLERANCES[by_method.get(last, "untrained")]


def _planned(runs: list[RunResults]) -> dict[int | None, float]:
    """The seeds that were planned before a look at the verdicts, without scores."""
    return {run.run.seed: 0.0 for run in runs if not run.run.added}


def _why_missing(runs: list[RunResults], key: Key) -> str:
    """Why none of the runs has a score; empty if one has, or if one diverged."""
    statuses = {run.status for run in runs}
    if "diverged" in statuses or any(key in run.scores for run in runs):
        return ""
    finished = "finished" in statuses
    default = "this score is not in the suite" if finished else NOT_SCORED
    return next((run.reason for run in runs if run.status != "finished" and run.reason), default)


@dataclass(frozen=True)
class Cell:
    """A printed number with our sides of it."""

    number: Number
    ours: Side  # that it is compared with
    other: Side | None = None  # of the method's other setting
    checkpoint: Side | None = None  # of the published checkpoint that print quotes

    @property
    def sides(self) -> list[Side]:
        return [side for side in (self.ours, self.other, self.checkpoint) if side]


def _other_setting(run: str) -> str:
    method, _, setting = run.partition("@")
    return f"{method}@{'paper' if setting == 'official' else 'official'}"


Select = Callable[[str, str], list[RunResults]]  # `select` in a suite


def judge_numbers(suite: SuiteResults) -> list[Cell]:
    """A cell for each printed number that measures something, in the order of print."""
    runs_of = cache(partial(select, suite))
    cells = [_cell(number, runs_of) for number in numbers() if number.is_measurement]
    # The further sides look at the same numbers again, so they have families of their own. A
    # question belongs to the paper in which it comes first.
    families: dict[tuple[str, str], list[Side]] = defaultdict(list)
    asked: dict[tuple[Any, ...], Side] = {}
    for cell in cells:
        for name in ("ours", "other", "checkpoint"):
            side = getattr(cell, name)
            if side and asked.setdefault(side.question, side) is side:
                families[cell.number.source, name].append(side)
    for family in families.values():
        tested = []
        for side in family:
            settled = side.verdict_without_test()
            if settled:
                side.verdict = settled
            else:
                tested.append(side)
        inputs = [side.verdict_input() for side in tested]
        for side, verdict in zip(tested, verdicts(inputs), strict=True):
            side.verdict = verdict
    for cell in cells:
        for side in cell.sides:
            side.verdict = asked[side.question].verdict
    return cells


def _cell(number: Number, runs_of: Select) -> Cell:
    backbone, other_text = number.our_backbone, _other_setting(number.run)
    minus = runs_of(number.minus, backbone) if number.minus else None
    ours = Side(number, number.run, runs_of(number.run, backbone), minus, backbone)
    # A method with a single setting, such as an untrained encoder, is subtracted from both.
    other_minus = runs_of(_other_setting(number.minus), backbone) or minus
    other = Side(number, other_text, runs_of(other_text, backbone), other_minus, backbone)
    checkpoint = None
    if number.checkpoint:
        name = NO_BACKBONE.name  # a published checkpoint brings its own
        published = runs_of(number.checkpoint, name)
        checkpoint = Side(number, number.checkpoint, published, None, name)
    return Cell(number, ours, other if other.scores else None, checkpoint)


# --- Rows ---


def number_rows(suite: SuiteResults, cells: Iterable[Cell]) -> list[NumberRow]:
    """A row for each cell of `judge_numbers`."""
    planned = {run.run.id: planned_scores(run.run) for run in suite.runs}
    places = {number: place for place, number in enumerate(numbers())}
    tasks: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for cell in cells:
        if cell.number.is_score:
            tasks[cell.number.ranked_with].add(cell.number.task)
    lines = sweep_lines()
    rows = []
    for cell in cells:
        number = cell.number
        is_only = len(tasks[number.ranked_with]) == 1
        is_planned = True
        for runs in (cell.ours.runs, cell.ours.minus):
            if runs is not None:
                is_planned &= any(number.key in planned[run.run.id] for run in runs)
        rows.append(
            NumberRow(
                **_printed(number, lines),
                **_beside_print(cell),
                place=places[number],
                ranks=number.is_score and (number.task == "Avg" or is_only),
                planned=is_planned,
                runs=_run_scores(cell),
            )
        )
    return rows


_COPIED = (
    "source", "table", "method", "backbone", "variant", "task", "split", "metric", "aggregation",
    "value", "text", "quoted_from", "note", "reason", "run", "minus", "our_split",
)  # fmt: skip


def _printed(number: Number, lines: dict[Number, str]) -> dict[str, Any]:
    """The fields of a row that print and recipes.yaml give."""
    label = row_name(number.method, number.variant)
    return {name: getattr(number, name) for name in _COPIED} | {
        "address": address(number),
        "paper": paper_name(number.source),
        "paper_title": SOURCES[number.source],
        "label": label,
        "row": printed_names().get(number.label, label),
        "line": lines.get(number, ""),
        "command": reproduce_command(number) if number.run else "",
        "published": number.checkpoint,
    }


def _beside_print(cell: Cell) -> dict[str, Any]:
    """Our sides of a number, and what is said of print beside our scores, as far as they can be
    compared with print."""
    value, ours = cell.number.value, cell.ours
    scores = ours.scores if ours.verdict.is_comparable else ()
    return {
        "ours": ours.row,
        "other": cell.other.row if cell.other else None,
        "checkpoint": cell.checkpoint.row if cell.checkpoint else None,
        "difference": fmean(scores) - value if scores else None,
        "rank": 1 + sum(score > value for score in scores) if len(scores) > 1 else None,
        "best_of_five": expected_best(scores, 5),
        "cv": None if cell.number.minus else coefficient_of_variation([value, *scores]),
    }


def _run_scores(cell: Cell) -> tuple[RunScores, ...]:
    """The runs behind a printed number: those compared, those subtracted, both in the other
    setting, and the published checkpoint."""
    behind: dict[str, RunScores] = {}
    for side in cell.sides:
        for runs in filter(None, (side.runs, side.minus)):
            name, backbone = runs[0].run.text, runs[0].run.backbone
            if backbone != NO_BACKBONE.name:
                name += f" on {backbone}"
            ids = tuple(run.run.id for run in runs)
            scores = tuple(run.scores.get(cell.number.key) for run in runs)
            behind[name] = RunScores(name=name, runs=ids, scores=scores)
    return tuple(behind.values())


def planned_scores(run: PlannedRun) -> set[Key]:
    """The keys of `RunResults.scores` that a planned run will have, given data sets with their
    usual splits."""
    if run.skip:
        return set()
    measured = {*run.analyses} if run.seed is None else {*run.analyses, ""}  # "": the training
    return scored_cells(expand_tasks(run.tasks)) | {
        (*metric.cell, name)
        for name, metric in METRICS.items()
        if metric.value and metric.analysis in measured
    }
