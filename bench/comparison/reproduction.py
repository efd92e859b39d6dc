"""Printed numbers joined with a suite's own.

`cells` is the only path from scores to verdicts: tables, figures, page and tests all use it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, nan
from statistics import fmean
from typing import Any

import pandas as pd

from bench.comparison.paired import pairs
from bench.comparison.statistics import (
    AT_LEAST,
    FEWEST_SEEDS,
    LEVEL,
    coefficient_of_variation,
    expected_best,
    mean_and_sd,
)
from bench.comparison.verdict import Verdict, VerdictInput, tolerance, verdicts
from bench.datasets.tasks import Board, aggregated, expand_tasks
from bench.registry.backbones import NO_BACKBONE
from bench.reported import BOUND, LABEL, MEASURES, mapped, prior_sd
from bench.results.records import SHARES
from bench.results.suite_results import (
    NOT_SCORED,
    Key,
    RunResults,
    SuiteResults,
    deviations,
    diverged,
)


def select(suite: SuiteResults, run: str, backbone: str) -> list[RunResults]:
    """The planned runs of a method, all of one corpus and recipe.

    Args:
        suite: where to look.
        run: method and setting as in recipes.yaml, such as `simcse@official`.
        backbone: as printed; its stand-in in the suite is used if the backbone itself is not
            planned.

    Returns:
        The runs that are comparable with print if there are any, else those that come first in the
        plan.
    """
    for name in (backbone, suite.stand_ins.get(backbone)):
        matches = [
            result
            for result in suite.runs
            if (result.plan.text, result.plan.backbone) == (run, name)
        ]
        if matches:
            comparable = (run for run in matches if not deviations_from_print(run, backbone))
            first = next(comparable, matches[0])
            return [run for run in matches if run.experiment == first.experiment]
    return []


def deviations_from_print(run: RunResults, backbone: str, metric: str = "") -> list[str]:
    """How a run's experiment differs from a printed one on `backbone`, as clauses; with a metric,
    also how the scoring differs."""
    clauses = []
    if run.plan.backbone != backbone:
        clauses.append(f"{run.plan.backbone} stands in for {backbone}, with its own settings")
    if run.data not in ("senteval", ""):
        clauses.append(f"scored on {run.data}")
    if metric in SHARES and run.provenance.get("mode", "test") != "test":
        clauses.append(f"classifiers of mode {run.provenance['mode']}")
    return clauses + deviations([run.plan])


@dataclass(frozen=True)
class _OurScores:
    """Our side of a printed number."""

    runs: list[RunResults]  # one per seed
    minus: list[RunResults] | None  # for a printed difference, the runs that are subtracted
    key: Key
    sign: int  # 1, or -1 if print states the negated quantity
    backbone: str  # as printed

    @property
    def all_runs(self) -> list[RunResults]:
        return [*self.runs, *(self.minus or ())]

    @property
    def deterministic(self) -> bool:
        return bool(self.all_runs) and all(run.plan.seed is None for run in self.all_runs)

    @cached_property
    def values(self) -> list[float]:
        """Points, one per seed; for a difference, over the seeds that both sides have."""
        scores = self._scores(self.runs)
        if self.minus is None:
            return [self.sign * score for score in scores.values()]
        both = pairs(scores, self._scores(self.minus))
        return [self.sign * (score - subtracted) for score, subtracted in both]

    def _scores(self, runs: list[RunResults]) -> dict[int | None, float]:
        return {run.plan.seed: run.scores[self.key] for run in runs if self.key in run.scores}


def _why_missing(runs: list[RunResults], key: Key) -> str:
    """Why none of the runs has a score; empty if one has, or if one diverged."""
    statuses = {run.status for run in runs}
    if "diverged" in statuses or any(key in run.scores for run in runs):
        return ""
    finished = "finished" in statuses
    default = "this score is not in the suite" if finished else NOT_SCORED
    return next((run.reason for run in runs if run.status != "finished" and run.reason), default)


def _without_test(ours: _OurScores, deviation: str) -> Verdict | None:
    """The verdict if no statistics are needed, else None. `deviation` is that of the recipe."""
    for runs in (ours.runs, ours.minus):
        missing = "" if runs is None else _why_missing(runs, ours.key)
        if missing:
            return Verdict("not run", missing)
    ended_badly = diverged(ours.all_runs)
    clauses: list[str] = []
    for run in ours.all_runs:
        clauses = clauses or deviations_from_print(run, ours.backbone, ours.key[2])
    if clauses or deviation:
        reasons = filter(None, [deviation, *clauses, ended_badly])
        return Verdict("not comparable", "; ".join(reasons))
    # The mean over the seeds that did not diverge would be biased upwards.
    if ended_badly:
        return Verdict("diverged", ended_badly)
    if not ours.values:
        reason = f"the two runs have no seed in common; {AT_LEAST}"
        return Verdict("inconclusive", reason, FEWEST_SEEDS)
    return None


def _tolerance_kind(ours: _OurScores) -> str:
    metric = ours.key[2]
    if metric == "accuracy":
        return "transfer" if ours.deterministic else "trained, transfer"
    if not metric.startswith("spearman"):
        return metric.replace("_", " ")
    if ours.deterministic:
        last = ours.runs[0].plan.method.rpartition("+")[2]
        if last.startswith("whitening") and "source=target" not in last:
            return "whitening, other text"
        kinds = {"whitening": "whitening", "flow": "flow", "published": "checkpoint"}
        return kinds.get(last.partition("[")[0], "untrained")
    return "trained" if ours.minus is None else "difference"


def _verdict_input(number: Mapping[str, Any], ours: _OurScores) -> VerdictInput:
    task, split, metric = ours.key
    # The public seeds are Spearman correlations of a single method, over all pairs of a task, so
    # they are no prior for anything else.
    known = metric == "spearman" and ours.minus is None
    prior = prior_sd(ours.backbone, task, split) if known else None
    return VerdictInput(
        number["value"],
        ours.values,
        tolerance(_tolerance_kind(ours), task, prior),
        ours.deterministic,
        prior,
        average=task == "Avg",
        above=number["metric"].endswith(BOUND),
    )


Question = tuple[Any, ...]


class _Questions:
    """The questions that a suite answers. A printed value that is compared with the same scores is
    one question, wherever it is printed, and belongs to the paper in which it comes first."""

    def __init__(self) -> None:
        self.verdicts: dict[Question, Verdict] = {}
        self.inputs: dict[Question, VerdictInput] = {}  # of those that need a test
        self.families: dict[str, list[Question]] = {}

    def ask(self, family: str, number: Mapping[str, Any], ours: _OurScores) -> Question:
        """Return the name of a question about a row of `mapped`."""
        reason, deviation = number["reason"], number["deviation"]
        ids = tuple(run.plan.id for run in ours.runs)
        minus_ids = tuple(run.plan.id for run in ours.minus or ())
        side = (ids, minus_ids, ours.minus is None, ours.key, ours.sign, ours.backbone)
        question = (number["value"], side, reason, deviation)
        if question not in self.verdicts and question not in self.inputs:
            settled = Verdict("not run", reason) if reason else _without_test(ours, deviation)
            if settled:
                self.verdicts[question] = settled
            else:
                self.inputs[question] = _verdict_input(number, ours)
                self.families.setdefault(family, []).append(question)
        return question

    def answer(self) -> None:
        """Judge each family."""
        for family in self.families.values():
            judged = verdicts([self.inputs[question] for question in family])
            self.verdicts |= zip(family, judged, strict=True)


def key_of(cell: Any) -> Key:
    """The key of our scores of a row of `cells`."""
    return cell.task, cell.ours_split, aggregated(MEASURES[cell.metric][0], cell.aggregation)


def _other_setting(run: str) -> str:
    method, _, setting = run.partition("@")
    return f"{method}@{'paper' if setting == 'official' else 'official'}"


def _judged(verdict: Verdict, judged: VerdictInput | None) -> dict[str, Any]:
    """The columns of `cells` that say how a number was judged."""
    prediction = judged.prediction if judged else None
    level = 2 * LEVEL if verdict.within else LEVEL
    return {
        "tolerance": judged.tolerance if judged else nan,
        "half_width": prediction.half_width() if prediction else nan,
        "mean_half_width": judged.mean_half_width(level) if judged and prediction else nan,
        "verdict": verdict.kind,
        "mark": verdict.mark,
        "reason": verdict.reason,
        "seeds": verdict.seeds,
        "spread_known": bool(judged and judged.spread_known),
        "within": verdict.within,
        "p": verdict.p,
        "p_adjusted": verdict.p_adjusted,
    }


def cells(suite: SuiteResults) -> pd.DataFrame:
    """One row per printed number that measures something, in the order of print.

    Returns:
        Columns, scores in points:

        * `source`, `table`, `method`, `backbone`, `variant`, `task`, `split`, `metric`,
          `quoted_from`: as in `bench.reported.printed`; `note`, `aggregation`: as in
          `bench.reported.mapped`; `printed`, the number;
        * `run`, `minus`: as in recipes.yaml, or empty. `minus` is subtracted from `run`;
        * `ours_split`: split of our scores; `ours`: tuple, one per seed; with a `minus`, paired
          differences. `n`, `mean`, `sd`: number, mean and standard deviation of `ours`;
        * `measured_on`: backbone of our runs; `deterministic`: whether they have no seed;
        * `difference`: mean - printed; `rank`: of print among `ours`, 1 if none is higher;
          `best_of_five`: expected best of five of `ours`; `cv`: CV* of print and `ours` in percent
          (`statistics.coefficient_of_variation`);
        * `other_setting`, `other`, `other_n`, `other_mean`, `other_sd`, `other_verdict`,
          `other_mark`, `other_reason`: the same for the method's other setting, or empty;
        * `tolerance`, if judged; if tested, `half_width` of the 95 % prediction interval, and
          `mean_half_width` of the mean's interval: 90 % if within the tolerance, else 95 %;
        * `verdict` (its kind), `mark`, `reason`, `seeds`, `within`, `p`, `p_adjusted`: as in
          `Verdict`; `spread_known`, whether `seeds` is estimated from a spread;
        * `checkpoint`: the run of the published checkpoint that print quotes, or empty; its
          `checkpoint_mean`, `checkpoint_verdict`, `checkpoint_mark` and `checkpoint_reason`.
    """
    numbers = mapped()
    numbers = numbers[numbers["metric"].isin(MEASURES)]
    rows: list[dict[str, Any]] = []
    asked: list[dict[str, Question]] = []
    questions = _Questions()
    runs_of = cache(lambda run, backbone: select(suite, run, backbone))

    for number in numbers.to_dict("records"):
        source, printed, run = number["source"], number["value"], number["run"]
        minus, checkpoint = number["minus"], number["checkpoint"]
        backbone = number["suite_backbone"] or number["backbone"]
        metric, sign = MEASURES[number["metric"]]
        split = number["suite_split"] or number["split"]
        key = number["task"], split, aggregated(metric, number["aggregation"])
        subtracted = runs_of(minus, backbone) if minus else None
        # A method with a single setting, such as an untrained encoder, is subtracted from both.
        other_subtracted = runs_of(_other_setting(minus), backbone) or subtracted
        ours = _OurScores(runs_of(run, backbone), subtracted, key, sign, backbone)
        other_runs = runs_of(_other_setting(run), backbone)
        other = _OurScores(other_runs, other_subtracted, key, sign, backbone)
        # A published checkpoint brings its own backbone.
        published_runs = runs_of(checkpoint, NO_BACKBONE.name)
        published = _OurScores(published_runs, None, key, sign, NO_BACKBONE.name)
        # The further lines look at the same numbers again, so they have families of their own.
        lines = {"": questions.ask(source, number, ours)}
        if other.values:
            lines["other"] = questions.ask(f"{source} other", number, other)
        if checkpoint:
            lines["checkpoint"] = questions.ask(f"{source} checkpoint", number, published)
        asked.append(lines)
        mean, sd = mean_and_sd(ours.values)
        other_mean, other_sd = mean_and_sd(other.values)
        higher = sum(value > printed for value in ours.values)
        cv = coefficient_of_variation([printed, *ours.values])
        copied = [*LABEL, "task", "split", "metric", "quoted_from", "note", "aggregation"]
        rows.append({name: number[name] for name in copied} | {
            "ours_split": split,
            "printed": printed,
            "run": run,
            "minus": minus,
            "ours": tuple(ours.values),
            "n": len(ours.values),
            "measured_on": ours.runs[0].plan.backbone if ours.runs else "",
            "deterministic": ours.deterministic,
            "mean": mean,
            "sd": sd,
            "difference": mean - printed,
            "rank": 1 + higher if len(ours.values) > 1 else None,
            "best_of_five": expected_best(ours.values, 5),
            "cv": nan if minus else cv,
            "other_setting": _other_setting(run).partition("@")[2] if other.values else "",
            "other": tuple(other.values),
            "other_n": len(other.values),
            "other_mean": other_mean,
            "other_sd": other_sd,
            "checkpoint": checkpoint,
            "checkpoint_mean": mean_and_sd(published.values)[0],
        })  # fmt: skip

    questions.answer()
    for row, lines in zip(rows, asked, strict=True):
        row |= _judged(questions.verdicts[lines[""]], questions.inputs.get(lines[""]))
        for line in ("other", "checkpoint"):
            verdict = questions.verdicts[lines[line]] if line in lines else None
            row[f"{line}_verdict"] = verdict.kind if verdict else ""
            row[f"{line}_mark"] = verdict.mark if verdict else ""
            row[f"{line}_reason"] = verdict.reason if verdict else ""
    frame = pd.DataFrame(rows).astype({"p": float, "p_adjusted": float, "within": object})
    return frame.astype({"seeds": "Int64", "rank": "Int64"})


# Columns that identify a row of a leaderboard, beside the recipe.
_BOARD_GROUP = ("backbone", "label", "method", "setting", "corpus")


def leaderboard(suite: SuiteResults, name: str = "sts") -> pd.DataFrame:
    """One of a suite's own tables: a row per method, setting, backbone, corpus and recipe.

    Backbones are in the order of the plan, with the rows without a backbone last. Within a backbone
    the best average over the planned tasks is first.

    Args:
        suite: the suite.
        name: a key of `suite.boards`.

    Returns:
        Columns: `backbone`, `label`, `method`, `setting`, `corpus`, `n` (finished seeds), `remark`
        (why other seeds have no scores), `run_ids` (tuple, in the order of the plan), `averages`
        (tuple, one per seed: over the planned tasks), and for each
        task and `Avg`: `<task>`, the mean in points, `<task> sd` (NaN with fewer than 2 seeds) and
        `<task> n`, the number of seeds. `Avg` is over all tasks of the board.
    """
    board, planned = suite.boards[name], suite.planned(name)
    groups: dict[tuple[str, ...], list[RunResults]] = {}
    for run in suite.runs:
        if set(board.tasks) & set(expand_tasks(run.plan.tasks)):
            changes = sorted((run.plan.recipe_changes).items())
            group = (*(getattr(run.plan, column) or "" for column in _BOARD_GROUP), str(changes))
            groups.setdefault(group, []).append(run)
    columns = [*_BOARD_GROUP, "n", "remark", "run_ids", "averages"]
    scores = [column for task in (*board.tasks, "Avg") for column in (task, f"{task} sd")]
    counts = [f"{task} n" for task in (*board.tasks, "Avg")]
    rows: list[dict[str, Any]] = []
    for group, runs in groups.items():
        fates = Counter(run.fate for run in runs if run.status != "finished")
        row: dict[str, Any] = dict(zip(_BOARD_GROUP, group[:-1], strict=True)) | {
            "n": len(runs) - fates.total(),
            "remark": "; ".join(f"{count} {fate}" for fate, count in sorted(fates.items())),
            "run_ids": tuple(run.plan.id for run in runs),
            "averages": _points(runs, planned, "Avg"),
        }
        for task in (*board.tasks, "Avg"):
            values = _points(runs, board, task)
            mean, sd = mean_and_sd(values)
            row |= {task: mean, f"{task} sd": sd, f"{task} n": len(values)}
        rows.append(row)
    backbones = dict.fromkeys(group[0] for group in groups)
    order = sorted(backbones, key=lambda backbone: backbone == NO_BACKBONE.name)
    rows.sort(key=lambda row: -fmean(row["averages"] or [-inf]))
    rows.sort(key=lambda row: order.index(row["backbone"]))
    return pd.DataFrame(rows, columns=[*columns, *scores, *counts]).astype(
        dict.fromkeys(scores, float) | dict.fromkeys(counts, int)
    )


def _points(runs: list[RunResults], board: Board, task: str) -> tuple[float, ...]:
    """The points of each run that has all scores for them."""
    points = [run.points(board, task) for run in runs]
    return tuple(value for value in points if value is not None)
