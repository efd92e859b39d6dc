"""Printed numbers joined with a suite's own. `judge` is the only path from scores to verdicts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf, isnan, nan
from statistics import fmean
from typing import Any

import pandas as pd

from bench.datasets.metrics import SHARE, Tolerance, metric_of
from bench.datasets.tasks import Board, Key, expand_tasks
from bench.judge.against_baseline import pairs
from bench.judge.statistics import (
    AT_LEAST,
    FEWEST_SEEDS,
    coefficient_of_variation,
    expected_best,
    mean_and_sd,
)
from bench.judge.verdict import TOLERANCES, Verdict, VerdictInput, tolerance, verdicts
from bench.registry.backbones import NO_BACKBONE
from bench.reported import prior_sd
from bench.reported.number import Number, numbers
from bench.results.suite_results import (
    NOT_SCORED,
    RunResults,
    SuiteResults,
    deviations,
    diverged,
)


def select(suite: SuiteResults, run: str, backbone: str) -> list[RunResults]:
    """The planned runs of a method in a setting (`simcse@official`) on a backbone as printed, or on
    its stand-in: all of one corpus and recipe, comparable with print if any are."""
    for name in (backbone, suite.plan.stand_ins.get(backbone)):
        planned = [
            result
            for result in suite.runs
            if (result.plan.text, result.plan.backbone) == (run, name)
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
    if run.plan.backbone != backbone:
        clauses.append(f"{run.plan.backbone} stands in for {backbone}, with its own settings")
    if run.data not in ("senteval", ""):
        clauses.append(f"scored on {run.data}")
    mode = run.provenance.mode or "test"
    if metric and metric_of(metric).kind == SHARE and mode != "test":
        clauses.append(f"classifiers of mode {mode}")
    return clauses + deviations([run.plan])


@dataclass(eq=False)
class Line:
    """Our side of a printed number: the runs that it is compared with, their scores in points, and
    the verdict on them."""

    number: Number
    text: str  # of the runs, such as simcse@official
    runs: list[RunResults]  # one per seed
    minus: list[RunResults] | None  # for a printed difference, the runs that are subtracted
    backbone: str  # as printed
    verdict: Verdict = field(init=False)

    @property
    def setting(self) -> str:
        return self.text.partition("@")[2]

    @property
    def measured_on(self) -> str:
        """The backbone of our runs; empty without runs."""
        return self.runs[0].plan.backbone if self.runs else ""

    @property
    def n(self) -> int:
        return len(self.scores)

    @cached_property
    def mean(self) -> float:
        """NaN without scores."""
        return mean_and_sd(self.scores)[0]

    @cached_property
    def sd(self) -> float:
        """NaN with fewer than two scores."""
        return mean_and_sd(self.scores)[1]

    @property
    def is_comparable(self) -> bool:
        """Whether it has a verdict beside print: scores that can be compared, or a training that
        diverged."""
        return self.verdict.kind not in ("not comparable", "not run")

    @property
    def all_runs(self) -> list[RunResults]:
        return [*self.runs, *(self.minus or ())]

    @property
    def deterministic(self) -> bool:
        """Whether our runs have no seed."""
        return bool(self.all_runs) and all(run.plan.seed is None for run in self.all_runs)

    @cached_property
    def scores(self) -> tuple[float, ...]:
        """One per seed; for a difference, over the seeds that both sides have."""
        sign, scores = self.number.form.sign, self._by_seed(self.runs)
        if self.minus is None:
            return tuple(sign * score for score in scores.values())
        both = pairs(scores, self._by_seed(self.minus))
        return tuple(sign * (score - subtracted) for score, subtracted in both)

    def _by_seed(self, runs: list[RunResults]) -> dict[int | None, float]:
        key = self.number.key
        return {run.plan.seed: run.scores[key] for run in runs if key in run.scores}

    @cached_property
    def question(self) -> tuple[Any, ...]:
        """What is asked: a printed value that is compared with the same scores is one question,
        wherever it is printed."""
        number = self.number
        ids = tuple(run.plan.id for run in self.runs)
        minus_ids = None if self.minus is None else tuple(run.plan.id for run in self.minus)
        printed = (number.value, number.key, number.form.sign, number.reason, number.deviation)
        return (*printed, ids, minus_ids, self.backbone)

    def verdict_without_test(self) -> Verdict | None:
        """The verdict if no statistics are needed, else None."""
        number = self.number
        if number.reason:
            return Verdict("not run", number.reason)
        for runs in (self.runs, self.minus):
            missing = "" if runs is None else _why_missing(runs, number.key)
            if missing:
                return Verdict("not run", missing)
        ended_badly = diverged(self.all_runs)
        metric = number.key[2]
        clauses = [deviations_from_print(run, self.backbone, metric) for run in self.all_runs]
        first = next(filter(None, clauses), [])
        if first or number.deviation:
            reasons = filter(None, [number.deviation, *first, ended_badly])
            return Verdict("not comparable", "; ".join(reasons))
        # The mean over the seeds that did not diverge would be biased upwards.
        if ended_badly:
            return Verdict("diverged", ended_badly)
        if not self.scores:
            reason = f"the two runs have no seed in common; {AT_LEAST}"
            return Verdict("inconclusive", reason, FEWEST_SEEDS)
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
        planned = [
            {run.plan.seed: 0.0 for run in runs if not run.plan.added}
            for runs in (self.runs, self.minus or self.runs)
        ]
        return VerdictInput(
            number.value,
            self.scores,
            allowed,
            self.deterministic,
            prior,
            first=max(len(pairs(*planned)), FEWEST_SEEDS),
            average=task == "Avg",
            above=number.form.bound,
        )

    def _tolerance(self) -> Tolerance:
        """That of a score, which depends on how the run was made."""
        if self.number.our_metric.kind == SHARE:
            return TOLERANCES["transfer" if self.deterministic else "trained, transfer"]
        if not self.deterministic:
            return TOLERANCES["trained" if self.minus is None else "difference"]
        last = self.runs[0].plan.method.rpartition("+")[2]
        if last.startswith("whitening") and "source=target" not in last:
            return TOLERANCES["whitening, other text"]
        kinds = {"whitening": "whitening", "flow": "flow", "published": "checkpoint"}
        return TOLERANCES[kinds.get(last.partition("[")[0], "untrained")]


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
    """A printed number with our scores. Those of a printed difference are paired differences."""

    number: Number
    ours: Line  # that it is compared with
    other: Line | None = None  # of the method's other setting
    checkpoint: Line | None = None  # of the published checkpoint that print quotes

    @property
    def lines(self) -> list[Line]:
        return [line for line in (self.ours, self.other, self.checkpoint) if line]

    @property
    def scores(self) -> tuple[float, ...]:
        """Ours, as far as they can be compared with print."""
        return self.ours.scores if self.ours.is_comparable else ()

    @property
    def difference(self) -> float:
        """Our mean - print; NaN without scores."""
        return mean_and_sd(self.scores)[0] - self.number.value

    @property
    def rank(self) -> int | None:
        """The rank of print among our scores, 1 if none is higher; None with fewer than two."""
        higher = sum(score > self.number.value for score in self.scores)
        return 1 + higher if len(self.scores) > 1 else None

    @property
    def best_of_five(self) -> float:
        """The expected best of five of our scores; NaN with fewer."""
        return expected_best(self.scores, 5)

    @property
    def cv(self) -> float:
        """CV* of print and our scores in percent; NaN for a difference."""
        if self.number.minus:
            return nan
        return coefficient_of_variation([self.number.value, *self.scores])

    @property
    def is_comparable(self) -> bool:
        """Whether any of its lines is."""
        return any(line.is_comparable for line in self.lines)


def grouped(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> dict[Any, list[Cell]]:
    """Cells by a key, in the order in which keys come first."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


_COPIED = (
    "source", "table", "method", "backbone", "variant", "task", "split", "metric", "quoted_from",
    "note", "aggregation",
)  # fmt: skip
_BASIS = ("seeds", "spread_known", "within", "p", "p_adjusted")


def _row(cell: Cell) -> dict[str, Any]:
    """A cell as a row of cells.csv."""
    number, ours, verdict = cell.number, cell.ours, cell.ours.verdict
    nothing = Line(number, "", [], None, "")
    other, checkpoint = cell.other or nothing, cell.checkpoint or nothing
    row = {name: getattr(number, name) for name in _COPIED} | {
        "ours_split": number.our_split,
        "printed": number.value,
        "run": number.run,
        "minus": number.minus,
        "ours": ours.scores,
        "n": ours.n,
        "measured_on": ours.measured_on,
        "deterministic": ours.deterministic,
        "mean": ours.mean,
        "sd": ours.sd,
        "difference": cell.difference,
        "rank": cell.rank,
        "best_of_five": cell.best_of_five,
        "cv": cell.cv,
        "other_setting": other.setting,
        "other": other.scores,
        "other_n": other.n,
        "other_mean": other.mean,
        "other_sd": other.sd,
        "checkpoint": number.checkpoint,
        "checkpoint_mean": checkpoint.mean,
        "tolerance": verdict.tolerance,
        "half_width": verdict.half_width,
        "mean_half_width": verdict.mean_half_width,
        "verdict": verdict.kind,
        "mark": verdict.mark,
        "reason": verdict.reason,
    }
    row |= {name: getattr(verdict, name) for name in _BASIS}
    for name, line in (("other", cell.other), ("checkpoint", cell.checkpoint)):
        row[f"{name}_verdict"] = line.verdict.kind if line else ""
        row[f"{name}_mark"] = line.verdict.mark if line else ""
        row[f"{name}_reason"] = line.verdict.reason if line else ""
    return row


# Types of columns of which some cells have no value.
_FLOATS = ("tolerance", "half_width", "mean_half_width", "p", "p_adjusted")
_TYPES = dict.fromkeys(_FLOATS, "float") | {"within": "object", "seeds": "Int64", "rank": "Int64"}


def frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """The rows of cells.csv: for files, and for what pandas groups."""
    return pd.DataFrame(map(_row, cells)).astype(_TYPES)


def _other_setting(run: str) -> str:
    method, _, setting = run.partition("@")
    return f"{method}@{'paper' if setting == 'official' else 'official'}"


def judge(suite: SuiteResults) -> list[Cell]:
    """A cell for each printed number that measures something, in the order of print."""
    runs_of = cache(lambda run, backbone: select(suite, run, backbone))
    cells: list[Cell] = []
    # The further lines look at the same numbers again, so they have families of their own. A
    # question belongs to the paper in which it comes first.
    families: dict[tuple[str, str], list[Line]] = defaultdict(list)
    asked: dict[tuple[Any, ...], Line] = {}
    for number in (number for number in numbers() if number.is_measurement):
        backbone, other_text = number.our_backbone, _other_setting(number.run)
        minus = runs_of(number.minus, backbone) if number.minus else None
        lines = {"ours": Line(number, number.run, runs_of(number.run, backbone), minus, backbone)}
        # A method with a single setting, such as an untrained encoder, is subtracted from both.
        minus = runs_of(_other_setting(number.minus), backbone) or minus
        other = Line(number, other_text, runs_of(other_text, backbone), minus, backbone)
        if other.scores:
            lines["other"] = other
        if number.checkpoint:
            name = NO_BACKBONE.name  # a published checkpoint brings its own
            published = runs_of(number.checkpoint, name)
            lines["checkpoint"] = Line(number, number.checkpoint, published, None, name)
        cells.append(Cell(number, **lines))
        for name, line in lines.items():
            if asked.setdefault(line.question, line) is line:
                families[number.source, name].append(line)

    settled: dict[Line, Any] = {}
    for family in families.values():
        settled |= {line: line.verdict_without_test() for line in family}
        tested = [line for line in family if settled[line] is None]
        inputs = [line.verdict_input() for line in tested]
        settled |= zip(tested, verdicts(inputs), strict=True)
    for cell in cells:
        for line in cell.lines:
            line.verdict = settled[asked[line.question]]
    return cells


# Columns that identify a row of a leaderboard, beside the recipe.
_BOARD_GROUP = ("backbone", "label", "method", "setting", "corpus")


def leaderboard(suite: SuiteResults, name: str = "sts") -> pd.DataFrame:
    """One of a suite's own tables: a row per method, setting, backbone, corpus and recipe, the best
    average of a backbone first; then those without a backbone, then those trained with labels.

    Returns:
        The columns `_BOARD_GROUP`; `name` (label and setting), `labelled` (whether it is trained
        with labels), `n` (finished seeds), `remark` (why others have no scores, and how much of the
        test sentences of its tasks stands in the corpus), `seen` (that share in percent, of all),
        `on_unseen` (the mean of `averages`, on the other items),
        `run_ids` and `averages` (tuple, one per seed: over the planned tasks); and for each task
        and `Avg` (of all tasks) `<task>`, the mean in points, `<task> sd`, `<task> n`.
    """
    board, planned = suite.boards[name], suite.planned(name)
    groups: dict[tuple[str, ...], list[RunResults]] = {}
    for run in suite.runs:
        if set(board.tasks) & set(expand_tasks(run.plan.tasks)):
            changes = sorted(run.plan.recipe_changes.items())
            group = (*(getattr(run.plan, column) or "" for column in _BOARD_GROUP), str(changes))
            groups.setdefault(group, []).append(run)
    rows: list[dict[str, Any]] = []
    for group, runs in groups.items():
        fates = Counter(run.fate for run in runs if run.status != "finished")
        remarks = [f"{count} {fate}" for fate, count in sorted(fates.items())]
        scored = next((run for run in runs if run.status == "finished"), runs[0])
        seen = []
        for task in scored.contaminated(planned.tasks):
            mean = _mean_on_unseen(runs, board, task)
            others = "" if isnan(mean) else f" ({mean:.2f} on the other items)"
            seen.append(f"{task} {scored.seen([task]):.0%}{others}")
        if seen:
            remarks.append(f"test sentences in its corpus: {', '.join(seen)}")
        row: dict[str, Any] = dict(zip(_BOARD_GROUP, group[:-1], strict=True)) | {
            "name": runs[0].name,
            "labelled": runs[0].plan.labelled,
            "n": len(runs) - fates.total(),
            "remark": "; ".join(remarks),
            "seen": 100 * scored.seen(planned.tasks),
            "on_unseen": _mean_on_unseen(runs, planned, planned.overall),
            "run_ids": tuple(run.plan.id for run in runs),
            "averages": points(runs, planned, "Avg"),
        }
        for task in (*board.tasks, "Avg"):
            values = points(runs, board, task)
            mean, sd = mean_and_sd(values)
            row |= {task: mean, f"{task} sd": sd, f"{task} n": len(values)}
        rows.append(row)
    backbones = list(dict.fromkeys(group[0] for group in groups if group[0] != NO_BACKBONE.name))
    places = {name: place for place, name in enumerate([*backbones, NO_BACKBONE.name])}
    rows.sort(key=lambda row: (places[row["backbone"]], -fmean(row["averages"] or [-inf])))
    rows.sort(key=lambda row: row["labelled"])
    scores = [f"{task}{suffix}" for task in (*board.tasks, "Avg") for suffix in ("", " sd")]
    counts = [f"{task} n" for task in (*board.tasks, "Avg")]
    columns = [
        *_BOARD_GROUP,
        "name",
        "labelled",
        "n",
        "remark",
        "seen",
        "on_unseen",
        "run_ids",
        "averages",
        *scores,
        *counts,
    ]
    scores_and_shares = [*scores, "seen", "on_unseen"]
    types = dict.fromkeys(scores_and_shares, float) | dict.fromkeys(counts, int)
    return pd.DataFrame(rows, columns=columns).astype(types)


def points(runs: list[RunResults], board: Board, task: str) -> tuple[float, ...]:
    """The points of each run that has all scores for them."""
    values = [run.points(board, task) for run in runs]
    return tuple(value for value in values if value is not None)


def _mean_on_unseen(runs: list[RunResults], board: Board, task: str) -> float:
    """The mean over runs of `RunResults.points_on_unseen`; NaN if none has any."""
    values = [run.points_on_unseen(board, task) for run in runs]
    return mean_and_sd([value for value in values if value is not None])[0]
